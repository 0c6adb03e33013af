//! Brings campaigns and Canvases to what the workspace file says.

use uuid::Uuid;

use crate::campaigns::{Campaign, rows};
use crate::schedules;
use crate::workspace_file::change::Change;
use store::{StoreError, Tx};

/// One thing to do.
#[derive(Debug)]
pub enum Step<'a> {
    /// One that is new, or declared otherwise than before.
    Put(&'a Campaign),
    Remove(Uuid),
}

/// What is to be done, and said of it.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    pub changes: Vec<Change>,
    pub steps: Vec<Step<'a>>,
    pub notes: Vec<String>,
}

impl<'a> Plan<'a> {
    /// Compares what is declared with what there is.
    pub fn make(declared: &'a [Campaign], stored: &[Campaign], prune: bool) -> Self {
        let mut plan = Self::default();
        for new in declared {
            match stored.iter().find(|is| is.id == new.id) {
                Some(is) if is == new => continue,
                Some(is) => plan.change('~', new, difference(is, new)),
                None => plan.change('+', new, new.id.to_string()),
            }
            plan.steps.push(Step::Put(new));
        }
        for gone in stored.iter().filter(|is| !declared.iter().any(|new| new.id == is.id)) {
            if prune {
                plan.change('-', gone, gone.id.to_string());
                plan.steps.push(Step::Remove(gone.id));
            } else {
                let what = what(gone);
                plan.notes.push(format!("{what} is no longer in the file: --prune removes it"));
            }
        }
        plan
    }

    fn change(&mut self, sign: char, campaign: &Campaign, detail: String) {
        self.changes.push(Change { sign, what: what(campaign), detail });
    }
}

fn what(campaign: &Campaign) -> String {
    format!("{} {}", campaign.kind.in_words(), campaign.name)
}

/// The members that differ.
fn difference(is: &Campaign, new: &Campaign) -> String {
    let plain = [
        ("type", is.kind != new.kind),
        ("name", is.name != new.name),
        ("tags", is.tags != new.tags),
        ("archived", is.archived != new.archived),
        ("paused", is.paused != new.paused),
    ];
    let mut names: Vec<&str> =
        plain.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect();
    let content = is.content.keys().filter(|name| !new.content.contains_key(*name));
    let content = content.chain(new.content.keys());
    names.extend(
        content.filter(|name| is.content.get(*name) != new.content.get(*name)).map(String::as_str),
    );
    names.join(", ")
}

/// Does it, at a time in milliseconds since the epoch. What waits to be sent of a Canvas that is
/// gone is cancelled.
pub async fn carry_out(
    tx: &mut Tx,
    workspace: i32,
    steps: &[Step<'_>],
    now: i64,
) -> Result<(), StoreError> {
    if steps.is_empty() {
        return Ok(());
    }
    let last = rows::last_number(tx, workspace).await?;
    for (step, number) in steps.iter().zip(last + 1..) {
        match step {
            Step::Put(campaign) => rows::put(tx, workspace, number, campaign, now).await?,
            Step::Remove(id) => rows::remove(tx, workspace, *id).await?,
        }
    }
    schedules::rows::cancel_orphans(tx, workspace, now).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::campaigns::Kind;

    fn campaign(name: &str) -> Campaign {
        Campaign {
            id: Uuid::from_u128(name.len() as u128),
            kind: Kind::Api,
            name: name.to_owned(),
            tags: vec!["a".into()],
            archived: false,
            paused: false,
            content: Map::from_iter([("messages".to_owned(), json!({ "sms": {} }))]),
        }
    }

    #[test]
    fn what_differs_is_named() {
        let is = campaign("is");
        let mut new = campaign("is");
        assert!(Plan::make(&[new.clone()], std::slice::from_ref(&is), true).steps.is_empty());
        new.paused = true;
        new.tags.clear();
        new.content = Map::from_iter([("conversion_window".to_owned(), json!("3d"))]);
        let declared = [new];
        let plan = Plan::make(&declared, &[is], false);
        let [change] = plan.changes.as_slice() else { panic!("{plan:?}") };
        assert_eq!(change.to_string(), "~ campaign is (tags, paused, messages, conversion_window)");
    }

    #[test]
    fn what_is_gone_is_removed_by_prune_alone() {
        let mut canvas = campaign("gone");
        canvas.kind = Kind::Canvas;
        let stored = [canvas];
        let kept = Plan::make(&[], &stored, false);
        assert!(kept.steps.is_empty() && kept.notes[0].starts_with("canvas gone is no longer"));
        let pruned = Plan::make(&[], &stored, true);
        assert!(matches!(pruned.steps.as_slice(), [Step::Remove(id)] if *id == stored[0].id));
    }
}
