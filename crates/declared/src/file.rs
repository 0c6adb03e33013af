//! Parses the workspace file and checks everything together, so that one run reports all errors,
//! each with its line and the path of the field.

use std::collections::HashSet;
use std::fmt;
use std::panic::resume_unwind;
use std::thread;

use serde::de::DeserializeOwned;

use crate::document::Declaration;
use crate::document::company::Company;
use kit::retry::Retry;

mod check;
mod mistakes;
mod node;

use node::{Found, Node, NodeError, Reader};

/// Maximum number of reported problems of a document: for each one, the document is read again.
const MAX_PROBLEMS: usize = 100;

/// The checked declarations of a file: the workspaces in their order, and the company.
pub struct Declared {
    pub workspaces: Vec<Declaration>,
    pub company: Option<Company>,
}

/// Everything that is wrong with a file. No text repeats a secret.
#[derive(Debug, thiserror::Error)]
pub struct FileError {
    pub problems: Vec<Problem>,
}

/// A problem and where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// From 1; 0 if it is not known.
    pub line: u64,
    /// Such as `keys[0].permissions[1]`; empty if a document as a whole cannot be read.
    pub path: String,
    pub text: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the workspace file is invalid:")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.text)
    }
}

impl Retry for FileError {}

impl FileError {
    /// An error of the file, not of a field in it.
    fn without_path(line: u64, text: impl Into<String>) -> Self {
        Self { problems: vec![Problem { line, path: String::new(), text: text.into() }] }
    }
}

/// The values of `${NAME}`.
type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

/// Stack size for the deepest file that the YAML reader accepts.
const STACK: usize = 16 << 20;

/// Reads the documents of a file, one for each workspace and at most one for the company.
pub fn read(text: &str, environment: Environment<'_>) -> Result<Declared, FileError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK);
        let reading = thread.spawn_scoped(scope, || read_here(text, environment));
        let reading = reading.map_err(|error| {
            FileError::without_path(0, format!("cannot start a thread: {error}"))
        })?;
        reading.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn read_here(text: &str, environment: Environment<'_>) -> Result<Declared, FileError> {
    let mut declared = Declared { workspaces: Vec::new(), company: None };
    let (mut names, mut problems) = (HashSet::new(), Vec::new());
    let roots = parse(text)?;
    if roots.is_empty() {
        problems.extend(FileError::without_path(0, "the file declares no workspace").problems);
    }
    for root in roots {
        let mut document = Document { root, source: text, environment, problems: Vec::new() };
        if document.root.first_field() == Some("company") {
            if declared.company.is_some() {
                document
                    .report(&steps!["company"], "an earlier document already declares the company");
            }
            declared.company = document.read(check::company);
        } else if let Some(mut workspace) = document.read(check::workspace) {
            if !names.insert(workspace.name.clone()) {
                document.report(
                    &steps!["workspace"],
                    "an earlier document already declares this workspace",
                );
            }
            workspace.message_locations = document.message_locations(&workspace);
            workspace.email_template_locations = document.email_template_locations(&workspace);
            declared.workspaces.push(workspace);
        }
        problems.append(&mut document.problems);
    }
    if !problems.is_empty() {
        problems.sort();
        return Err(FileError { problems });
    }
    if let Some(company) = &mut declared.company {
        company.same_file = names.into_iter().collect();
    }
    Ok(declared)
}

fn parse(text: &str) -> Result<Vec<Node>, FileError> {
    let options = serde_saphyr::options! {
        // Without the source lines around it: they may hold credentials.
        with_snippet: false,
        // As in YAML 1.2: `no` and `on` are texts.
        strict_booleans: true,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(0, |location| location.line());
        FileError::without_path(line, mistakes::explain(&error))
    })
}

/// A parsed document, and its errors.
struct Document<'a> {
    root: Node,
    source: &'a str,
    environment: Environment<'a>,
    problems: Vec<Problem>,
}

/// The steps to a value: names of fields, and positions of elements.
macro_rules! steps {
    ($($step:expr),+) => { [$($step.to_string()),+] };
}
use steps;

impl Document<'_> {
    /// Reads it as a type whose fields check themselves, and checks them together. Removes invalid
    /// values and reads the rest again, so that all errors are reported.
    fn read<T: DeserializeOwned>(&mut self, check: impl FnOnce(&T, &mut Self)) -> Option<T> {
        loop {
            let Self { root, source, environment, .. } = self;
            match T::deserialize(Reader { node: root, source, environment: *environment }) {
                Ok(read) => {
                    check(&read, self);
                    return Some(read);
                }
                Err(NodeError { mut path, text, is_missing, is_about_name }) => {
                    path.reverse();
                    let Found { line, name_line, path: shown, has_rejected } =
                        self.root.find(&path);
                    // A field that is missing only because it was removed as invalid is not
                    // reported.
                    if !(is_missing && has_rejected) {
                        let line = if is_about_name { name_line } else { line };
                        self.problems.push(Problem { line, path: shown, text });
                    }
                    self.root.reject(&path);
                    if path.is_empty() || self.problems.len() >= MAX_PROBLEMS {
                        return None;
                    }
                }
            }
        }
    }

    /// Records an error at a path, unless a value there was already removed: then there is nothing
    /// to compare.
    fn report(&mut self, path: &[String], text: impl fmt::Display) {
        self.report_within(path, "", text);
    }

    /// The same inside of a value that is kept as written.
    fn report_within(&mut self, path: &[String], inside: &str, text: impl fmt::Display) {
        let found = self.root.find(path);
        if found.has_rejected {
            return;
        }
        let dot = if inside.is_empty() { "" } else { "." };
        let path = format!("{}{dot}{inside}", found.path);
        self.problems.push(Problem { line: found.line, path, text: text.to_string() });
    }
}

#[cfg(test)]
mod tests;
