//! The parsers of what others send, each as a function of any bytes. A target panics where
//! its parser does, and where the parser breaks a promise: what is taken is read again as the
//! same, what is refused is refused with a reason, and nothing is the program's own fault.
//!
//! `scripts/fuzz` runs them for as long as one likes, guided by what of the program is
//! reached; the tests run each for a moment. Both begin with the seeds in `tests/fuzz/seeds`.

mod catalogs;
mod messages;
mod mutate;
mod requests;
mod scim;
mod stored;
mod templates;
#[cfg(test)]
mod tests;
mod tracking;

use std::path::Path;

pub use mutate::Mutator;

use crate::gateway::{ApiError, JsonText};

/// When everything here is sent: milliseconds since the epoch.
const NOW: i64 = 1_795_262_400_000;

/// The most bytes of a refusal's text: it repeats no more than the beginning of what is wrong.
const LONGEST_REFUSAL: usize = 8_000;

/// A parser.
pub struct Target {
    /// Its folder of seeds.
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// Every parser, with what reads its output.
pub const TARGETS: [Target; 20] = [
    Target { name: "track", run: tracking::track },
    Target { name: "track_message", run: tracking::message },
    Target { name: "catalog_items", run: catalogs::items },
    Target { name: "catalog_message", run: catalogs::message },
    Target { name: "export", run: requests::export },
    Target { name: "schedule", run: requests::schedule },
    Target { name: "live_activity", run: requests::live_activity },
    Target { name: "messages_send", run: messages::send },
    Target { name: "messages_schedule", run: messages::schedule },
    Target { name: "phone_numbers", run: requests::phone_numbers },
    Target { name: "campaigns_query", run: requests::campaigns_query },
    Target { name: "headers", run: requests::headers },
    Target { name: "template", run: templates::template },
    Target { name: "message_objects", run: templates::message_objects },
    Target { name: "scim_user", run: scim::user },
    Target { name: "scim_patch", run: scim::patch },
    Target { name: "scim_query", run: scim::query },
    Target { name: "workspace_file", run: stored::workspace_file },
    Target { name: "import_line", run: stored::import_line },
    Target { name: "activity", run: stored::activity },
];

impl Target {
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// What its folder holds, by the names of the files.
    ///
    /// # Panics
    ///
    /// Where the folder cannot be read, or is empty.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/seeds").join(self.name);
        let files =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        paths.sort();
        assert!(!paths.is_empty(), "{folder:?} is empty");
        paths.iter().map(|path| std::fs::read(path).expect("a seed")).collect()
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    // A body that is no UTF-8 comes to no parser.
    std::str::from_utf8(bytes).ok()
}

fn body(bytes: &[u8]) -> Option<JsonText> {
    text(bytes).map(|text| JsonText::from(text.to_owned()))
}

/// Checks that it is the sender's fault, and told.
fn check_refusal(error: &ApiError) {
    match error {
        ApiError::Invalid(text) | ApiError::Field(_, text) => check_reason(text),
        ApiError::InvalidMany(text, errors) => {
            check_reason(text);
            errors.iter().for_each(|error| assert!(error.is_object(), "{error}"));
        }
        ApiError::TooLarge => {}
        error => panic!("{error:?}"),
    }
}

fn check_reason(text: &str) {
    assert!(!text.is_empty() && text.len() <= LONGEST_REFUSAL, "{} bytes: {text:.200}", text.len());
}
