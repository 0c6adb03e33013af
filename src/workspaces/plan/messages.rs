//! What campaigns and Canvases send: looked at once it is known what the workspace sends by.

use serde_json::{Map, Value};

use super::super::file::{Declaration, FileError, Place, Problem};
use crate::campaigns::{Campaign, Kind};
use crate::messages::content::{self, Content};
use crate::messages::settings::Settings;
use crate::messages::transactional::contents;

/// Says everything that is wrong at once.
pub(super) fn check(declared: &Declaration, settings: &Settings) -> Result<(), FileError> {
    let all = declared.campaigns.iter().zip(&declared.contents);
    let mut problems: Vec<Problem> =
        all.flat_map(|(campaign, place)| check_one(campaign, place, settings)).collect();
    if problems.is_empty() {
        return Ok(());
    }
    problems.sort();
    Err(FileError { problems })
}

fn check_one(campaign: &Campaign, place: &Place, settings: &Settings) -> Vec<Problem> {
    let wrong = match (campaign.kind, campaign.email(), campaign.messages()) {
        (Kind::Transactional, Some(email), _) => {
            contents::read(email, settings).err().unwrap_or_default()
        }
        (Kind::Api | Kind::Triggered | Kind::Canvas, _, Some(messages)) => {
            let (_, _, mut wrong) = Content::read(messages, content::Place::File, settings);
            wrong.extend(unknown_variations(campaign, messages));
            wrong
        }
        _ => Vec::new(),
    };
    let problem = |wrong: content::Problem| {
        // Its member of the file is the email itself.
        let path = match campaign.kind {
            Kind::Transactional => wrong.path.trim_start_matches("messages."),
            Kind::Api | Kind::Triggered | Kind::Canvas => &wrong.path,
        };
        Problem { line: place.line, path: format!("{}.{path}", place.path), text: wrong.text }
    };
    wrong.into_iter().map(problem).collect()
}

/// Messages of a campaign that declares variations are of one of them.
fn unknown_variations(campaign: &Campaign, messages: &Map<String, Value>) -> Vec<content::Problem> {
    let declared = campaign.content.get("variations").and_then(Value::as_array);
    let Some(declared) = declared else { return Vec::new() };
    let named = messages.iter().filter_map(|(name, message)| {
        let id = message.get("message_variation_id")?.as_str()?;
        let has_id = |variation: &Value| {
            let declared = variation.get("id").and_then(Value::as_str);
            declared.is_some_and(|declared| declared.eq_ignore_ascii_case(id))
        };
        let path = format!("messages.{name}.message_variation_id");
        let text = format!("{id:?}: the campaign has no such variation");
        let problem = content::Problem { path, text, is_fatal: false };
        (!declared.iter().any(has_id)).then_some(problem)
    });
    named.collect()
}
