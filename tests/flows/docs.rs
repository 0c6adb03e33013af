//! The book in docs/: its pages, and the words of its prose.

mod paths;
mod pictures;
mod topics;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use longshore::cli::reference;
use regex::Regex;
use serde_json::Value;

use crate::support::files::{project, read};

/// The Markdown files below a folder of the project, by their path in the project.
fn pages_below(folder: &str) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    files_below(folder, &mut files);
    files.into_iter().filter(|file| file.ends_with(".md")).collect()
}

#[test]
fn generated_pages_are_current() {
    for (name, text) in reference::pages() {
        let stored = read(project(&format!("docs/reference/{name}")));
        assert!(stored == text, "{name}: run `cargo run -- reference docs/reference`");
    }
    let mut sections = 0;
    for page in pages_below("docs/reference/api") {
        let stored = read(project(&page));
        sections += stored.matches("<!-- generated: ").count();
        let renewed = reference::api::renewed(&stored).expect("sections of the API document");
        assert!(stored == renewed, "{page}: run `cargo run -- reference docs/reference`");
    }
    assert!(sections > 20, "{sections}");
}

#[test]
fn every_page_is_in_the_summary_once() {
    let summary = read(project("docs/SUMMARY.md"));
    let link = Regex::new(r"\]\(([^)]+)\)").expect("a regular expression");
    let listed: Vec<String> =
        link.captures_iter(&summary).map(|link| format!("docs/{}", &link[1])).collect();
    let mut pages = pages_below("docs");
    pages.remove("docs/SUMMARY.md");
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), pages);
    assert_eq!(listed.len(), pages.len(), "a page is listed twice");
}

/// `scripts/test` runs no examples of comments.
#[test]
fn examples_in_comments_are_not_rust() {
    let mut files = BTreeSet::new();
    for folder in ["crates", "src"] {
        files_below(folder, &mut files);
    }
    let mut examples = 0;
    for file in files.into_iter().filter(|file| file.ends_with(".rs")) {
        let text = read(project(&file));
        let comments = text.lines().map(str::trim_start);
        let comments = comments
            .filter_map(|line| line.strip_prefix("///").or_else(|| line.strip_prefix("//!")));
        let fences = comments.filter_map(|line| line.trim().strip_prefix("```"));
        for language in fences.step_by(2) {
            assert!(["text", "json", "sql"].contains(&language), "{file}: ```{language}");
            examples += 1;
        }
    }
    assert!(examples > 20, "{examples}");
}

/// `scripts/docs` checks anchors, too.
#[test]
fn links_lead_to_files() {
    let link = Regex::new(r"\]\(([^)#:]+)(?:#[^)]*)?\)").expect("a regular expression");
    let mut pages = pages_below("docs");
    pages.extend(TOP_LEVEL.map(str::to_owned));
    for page in pages {
        let file = project(&page);
        for link in link.captures_iter(&without_code(&read(&file))) {
            let target = file.parent().expect("a folder").join(&link[1]);
            assert!(target.exists(), "{page}: {}", &link[1]);
        }
    }
}

/// Pages next to the book.
const TOP_LEVEL: [&str; 5] = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "deploy/README.md",
    "deploy/kubernetes/README.md",
];

/// Words that neither prose nor the texts and comments of code use, and what they use instead.
const WORDS: &[(&str, &str)] = &[
    (r"anew|afresh", "again, new"),
    (r"mend(s|ed|ing)?", "fix, repair"),
    (r"beside", "next to, in addition to"),
    (r"(become|becomes|became|come|comes|came) of", "status, result, outcome"),
    (r"turn(s|ed)? away", "rejected, refused"),
    (r"pass(es|ed|ing)? (over|by)", "skip, ignore"),
    (r"(is|are|was|were|be) away", "unavailable, down"),
    (r"(is|are|was|were|be) (meant|wanted)", "identifies, is required"),
    (r"tak(e|es|en|ing) in|took in", "accept"),
    (r"tells?|told|telling", "report, show, return"),
    (r"back-ups?", "backup"),
    (r"goes on|go on|went on", "continue"),
    (r"hand(s|ed|ing)? over", "send, pass on"),
    (r"whom", "users that"),
    (r"lifelike", "realistic"),
];

/// Words that only code uses, where they have another meaning: functions are called and have
/// answers, groups have members, and errors say what to do.
const PROSE_WORDS: &[(&str, &str)] = &[
    (r"answer(s|ed|ing)?", "response, return"),
    (r"members?", "field, user"),
    (r"(is|are|was|were|be) made", "create"),
    (r"says?|said|saying", "report, show, return"),
    (r"forgets?|forgot|forgotten", "erase, remove"),
    (r"calls?", "request"),
    (r"wants?", "needs"),
];

/// A regular expression of a static: to compile it takes longer than to search most texts.
fn expression(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

/// Prose without blocks of code, code and the targets of links.
fn without_code(text: &str) -> String {
    static CODE: LazyLock<Regex> =
        LazyLock::new(|| expression(r"(?s)```.*?```|``[^\n]+?``|`[^`\n]*`"));
    CODE.replace_all(text, "").into_owned()
}

/// Finds the words of some lists.
struct Finder(Vec<(Regex, &'static str)>);

impl Finder {
    fn new(lists: &[&[(&str, &'static str)]]) -> Self {
        let words = lists.iter().copied().flatten().map(|(words, instead)| {
            (Regex::new(&format!(r"(?i)\b({words})\b")).expect("a regular expression"), *instead)
        });
        Self(words.collect())
    }

    fn problems(&self, page: &str, text: &str) -> Vec<String> {
        static TARGET: LazyLock<Regex> =
            LazyLock::new(|| expression(r"\]\([^)]*\)|<!--.*?-->|https?://\S+"));
        let text = TARGET.replace_all(&without_code(text), "]").into_owned();
        let found = self.0.iter().flat_map(|(words, instead)| {
            let lines = text.lines().filter_map(|line| Some((words.find(line)?, line)));
            let shown = |(word, line): (regex::Match<'_>, &str)| {
                format!("{page}: \"{}\", write {instead}: {line}", word.as_str())
            };
            lines.map(shown).collect::<Vec<_>>()
        });
        found.collect()
    }
}

/// Texts that people read in JSON or YAML, by the names of their fields.
fn texts(value: &Value, names: &[&str], found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| texts(value, names, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if names.contains(&name.as_str()) => {
                        found.push(text.clone());
                    }
                    _ => texts(value, names, found),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn prose_uses_the_words_of_the_project() {
    let generated: BTreeSet<String> =
        reference::pages().iter().map(|(name, _)| format!("docs/reference/{name}")).collect();
    let mut pages = pages_below("docs");
    pages.extend(TOP_LEVEL.map(str::to_owned));
    pages.insert("crates/runtime/src/topics.md".into());
    let finder = Finder::new(&[WORDS, PROSE_WORDS]);
    let mut found = Vec::new();
    let sections =
        Regex::new(r"(?s)<!-- generated: .*?<!-- end of generated -->").expect("an expression");
    for page in pages.difference(&generated) {
        let text = read(project(page));
        found.extend(finder.problems(page, &sections.replace_all(&text, "")));
    }
    let mut annotations = Vec::new();
    let alerts: Value =
        serde_saphyr::from_str(&read(project("deploy/prometheus/alerts.yaml"))).expect("YAML");
    texts(&alerts, &["summary", "description"], &mut annotations);
    for file in std::fs::read_dir(project("deploy/grafana")).expect("the dashboards") {
        let file = file.expect("an entry").path();
        if file.extension().is_some_and(|end| end == "json") {
            let dashboard: Value = serde_json::from_str(&read(&file)).expect("JSON");
            texts(&dashboard, &["title", "description", "legendFormat"], &mut annotations);
        }
    }
    assert!(annotations.len() > 100, "{}", annotations.len());
    for text in annotations {
        found.extend(finder.problems("alerts and dashboards", &text));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Texts of code that have such words for a reason: the name of a column or of generated data.
const EXCEPTIONS: &[&str] = &["WITH RECURSIVE told (id)"];

/// The comments of Rust code, each run of lines as one text, and its strings of three words or
/// more. A string's escaped line breaks are removed.
fn texts_of_code(code: &str) -> (String, Vec<String>) {
    static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
        let comment = r"(?s)//(?P<comment>[^\n]*)|/\*.*?\*/";
        let raw = r###"b?r##".*?"##|b?r#".*?"#|b?r"[^"]*""###;
        let string = r#""(?P<string>(?:\\.|[^"\\])*)"|'(?:\\[^']*|[^'\\\n])'"#;
        expression(&format!("{comment}|{raw}|{string}"))
    });
    static CONTINUED: LazyLock<Regex> = LazyLock::new(|| expression(r"\\\n\s*"));
    static WORD: LazyLock<Regex> = LazyLock::new(|| expression(r"[A-Za-z]{2,}"));
    let (mut comments, mut strings) = (String::new(), Vec::new());
    for found in TOKEN.captures_iter(code) {
        if let Some(comment) = found.name("comment") {
            comments.push_str(comment.as_str().trim_start_matches(['/', '!']));
            comments.push('\n');
        } else if let Some(string) = found.name("string") {
            let string = CONTINUED.replace_all(string.as_str(), "").into_owned();
            if WORD.find_iter(&string).count() >= 3 {
                strings.push(string);
            }
        }
    }
    (comments, strings)
}

fn code_below(folder: &str) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    files_below(folder, &mut files);
    files.into_iter().filter(|file| file.ends_with(".rs")).collect()
}

#[test]
fn texts_of_code_are_found() {
    let code =
        "//! One\n/// two `told`\nlet a = \"three \\\n    more words\"; // four\nlet b = '\"';";
    let (comments, strings) = texts_of_code(code);
    assert_eq!(comments, " One\n two `told`\n four\n");
    assert_eq!(strings, ["three more words"]);
    let finder = Finder::new(&[WORDS]);
    assert!(finder.problems("here", &comments).is_empty());
    assert_eq!(finder.problems("here", "The operator is told of it").len(), 1);
}

/// Comments everywhere; strings only of the program, as tests have data of all kinds.
#[test]
fn code_uses_the_words_of_the_project() {
    let finder = Finder::new(&[WORDS]);
    let mut found = Vec::new();
    for folder in ["src", "crates", "benches", "tests/flows"] {
        for file in code_below(folder) {
            let (comments, strings) = texts_of_code(&read(project(&file)));
            found.extend(finder.problems(&file, &comments));
            if folder == "src" || folder == "crates" && !file.contains("/tests/") {
                for text in
                    strings.iter().filter(|text| !EXCEPTIONS.iter().any(|part| text.contains(part)))
                {
                    found.extend(finder.problems(&file, text));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Comments and texts of scripts, manifests and the programs of tests.
#[test]
fn scripts_use_the_words_of_the_project() {
    let mut files = BTreeSet::new();
    for folder in ["scripts", "deploy", "tests/cluster", "tests/conformance"] {
        files_below(folder, &mut files);
    }
    let is_text = |file: &String| {
        let name = file.rsplit('/').next().unwrap_or_default();
        let is_script = file.starts_with("scripts/") && !name.contains('.');
        is_script || [".py", ".sh", ".yaml", ".service"].iter().any(|end| name.ends_with(end))
    };
    // Such a file has a comment where a line or its end begins with #.
    let comment = Regex::new(r"(?m)(?:^|\s)#\s(?P<text>.*)$").expect("a regular expression");
    let finder = Finder::new(&[WORDS]);
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_text(file)) {
        let text = read(project(file));
        let comments: Vec<&str> = comment
            .captures_iter(&text)
            .map(|found| found.name("text").unwrap().as_str())
            .collect();
        found.extend(finder.problems(file, &comments.join("\n")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn files_below(folder: &str, files: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(project(folder)).expect("the folder") {
        let entry = entry.expect("an entry");
        let path = format!("{folder}/{}", entry.file_name().to_str().expect("UTF-8"));
        if entry.path().is_dir() {
            files_below(&path, files);
        } else {
            files.insert(path);
        }
    }
}

/// Every crate that a manifest of the project names, with the licence that the crate declares.
#[test]
fn the_page_about_dependencies_lists_each_one() {
    let run = |program: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(program);
        let output = command.args(arguments).current_dir(project("")).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    // A build downloads only the crates for this platform.
    let host = run("rustc", &["--print", "host-tuple"]);
    let platform = ["--offline", "--filter-platform", host.trim()];
    let metadata = run(
        env!("CARGO"),
        &[&["metadata", "--locked", "--format-version=1"], &platform[..]].concat(),
    );
    let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let members: BTreeSet<&str> = (metadata["workspace_members"].as_array().expect("members"))
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        packages.iter().partition(|package| members.contains(package["id"].as_str().unwrap()));
    let names: BTreeSet<String> = own.iter().map(|package| text(&package["name"])).collect();
    let direct: BTreeSet<String> = own
        .iter()
        .flat_map(|package| package["dependencies"].as_array().expect("dependencies"))
        .map(|dependency| text(&dependency["name"]))
        .filter(|name| !names.contains(name))
        .collect();
    let locked = read(project("Cargo.lock")).matches("[[package]]\n").count();
    let page = read(project("docs/explanation/dependencies.md"));
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let listed: BTreeSet<String> =
        rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    assert_eq!(listed, direct);
    assert!(page.contains(&format!("depends directly on {} crates", direct.len())));
    assert!(page.contains(&format!("has {locked} now")));
    for row in rows {
        let name = row[0].trim_matches('`');
        assert!(!row[1].is_empty(), "{name}: what is it for?");
        let is_it = |package: &&&Value| package["name"] == name;
        let licences: Vec<String> =
            others.iter().filter(is_it).map(|package| text(&package["license"])).collect();
        // Cargo has no manifest of what no feature of the tests enables.
        let is_known = licences.iter().any(|licence| licence == row[3]);
        assert!(is_known || name == "libfuzzer-sys", "{name}: {licences:?}, not {}", row[3]);
    }
}
