//! The parsers of Longshore, each as a function of any bytes. A target panics if its parser
//! panics or breaks a promise: what is accepted reads back as the same, a refusal has a reason,
//! and no input is an internal error.
//!
//! The tests run each target for a moment. `scripts/fuzz` runs them for longer, with libFuzzer.
//! Seeds come from the API document and the schema of the workspace file ([`Source`]), and from
//! `tests/fuzz/seeds`: formats that no schema describes, and inputs that once broke something.

mod catalogs;
mod messages;
mod mutate;
mod requests;
mod scim;
pub mod seeds;
mod stored;
mod templates;
#[cfg(test)]
mod tests;
mod tracking;

use std::path::Path;

pub use mutate::Mutator;
pub use seeds::Source;

use longshore::gateway::{ApiError, JsonText};

/// The time of every request: milliseconds since the epoch.
const NOW: i64 = 1_795_262_400_000;

/// The most bytes of a refusal's text: it repeats only the beginning of a wrong value.
const LONGEST_REFUSAL: usize = 8_000;

/// The parser accepted an input. If it did not, its refusal was right.
pub struct Accepted;

/// A parser.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]) -> Option<Accepted>,
    /// What describes its inputs.
    pub sources: &'static [Source],
}

const fn target(
    name: &'static str,
    run: fn(&[u8]) -> Option<Accepted>,
    sources: &'static [Source],
) -> Target {
    Target { name, run, sources }
}

/// Every parser, with what reads its output.
pub const TARGETS: [Target; 25] = {
    use Source::{Body, Field, Query, WorkspaceFile};
    [
        target("track", tracking::track, &[Body("track")]),
        target("track_message", tracking::message, &[]),
        target("catalog_items", catalogs::items, &[Body("editItems")]),
        target("catalog_message", catalogs::message, &[]),
        target("export", requests::export, &[Body("requestExport")]),
        target("export_segment", requests::export_segment, &[Body("requestSegmentExport")]),
        target("export_ids", requests::export_ids, &[Body("exportUsers")]),
        target("user_messages", requests::user_messages, &[Body("listUserMessages")]),
        target("schedule", requests::schedule, &[Body("scheduleCanvas")]),
        target("schedule_deletion", requests::schedule_deletion, &[Body("deleteSchedule")]),
        target("live_activity", requests::live_activity, &[Body("startLiveActivity")]),
        target("messages_send", messages::send, &[Body("sendMessages")]),
        target("messages_schedule", messages::schedule, &[Body("scheduleMessages")]),
        target("messages_recipients", messages::to_recipients, &[Body("sendToRecipients")]),
        target("phone_numbers", requests::phone_numbers, &[Body("removeInvalidNumbers")]),
        target("campaigns_query", requests::campaigns_query, &[Query("listCampaigns")]),
        target("headers", requests::headers, &[]),
        target("template", templates::template, &[]),
        target("message_objects", templates::message_objects, &[Field("sendMessages", "messages")]),
        target("scim_user", scim::user, &[Body("createUser")]),
        target("scim_patch", scim::patch, &[Body("patchUser")]),
        target("scim_query", scim::query, &[Body("searchUsers"), Query("listUsers")]),
        target("workspace_file", stored::workspace_file, &[WorkspaceFile]),
        target("import_line", stored::import_line, &[]),
        target("activity", stored::activity, &[]),
    ]
};

impl Target {
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Inputs to start from.
    ///
    /// # Panics
    ///
    /// If there are none, or a file cannot be read.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let mut seeds: Vec<_> = self.sources.iter().flat_map(|source| source.seeds()).collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(self.name);
        if folder.exists() {
            let files = folder.read_dir().expect("the folder").map(|file| file.expect("a file"));
            let mut paths: Vec<_> = files.map(|file| file.path()).collect();
            paths.sort();
            seeds.extend(paths.iter().map(|path| std::fs::read(path).expect("a seed")));
        }
        assert!(!seeds.is_empty(), "{} has no seeds", self.name);
        seeds
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    // A body that is not UTF-8 reaches no parser.
    std::str::from_utf8(bytes).ok()
}

fn body(bytes: &[u8]) -> Option<JsonText> {
    text(bytes).map(|text| JsonText::from(text.to_owned()))
}

fn refused(error: &ApiError) -> Option<Accepted> {
    check_refusal(error);
    None
}

/// Checks that the error is the sender's, and has a reason.
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
