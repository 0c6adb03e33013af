//! How pages name exports, their states and their marks.

use std::collections::HashMap;

use maud::{Markup, html};
use uuid::Uuid;

use console_frame::parts::{self, Look, Tone};
use exports::overview::Mark;
use exports::{Audience, Job, State};
use gateway::workspaces::segments;
use store::{StoreError, Tx};

/// The names of segments of a workspace.
pub struct AudienceNames(HashMap<Uuid, String>);

impl AudienceNames {
    /// Reads the names of the segments with these ids.
    pub async fn read(tx: &mut Tx, workspace: i32, ids: &[Uuid]) -> Result<Self, StoreError> {
        Ok(Self(segments::names_of(tx, workspace, ids).await?))
    }

    /// What people call the users of an export. `planned` is the segment's name at its plan, which
    /// outlives the segment.
    pub fn title(&self, job: &Job, planned: Option<&str>) -> String {
        match job.audience {
            Audience::ControlGroup => "Global control group".to_owned(),
            Audience::Segment => {
                match self.0.get(&job.segment_id).map(String::as_str).or(planned) {
                    Some(name) => format!("Segment {name}"),
                    None => "Removed segment".to_owned(),
                }
            }
            Audience::Connected(_) => "Audience of the request".to_owned(),
        }
    }
}

/// How a state is shown.
pub fn look(state: State) -> Look {
    match state {
        State::Queued => Look::new(Tone::Neutral, "clock", "Queued"),
        State::Planning => Look::running("Planning"),
        State::Running => Look::running("Running"),
        State::Finishing => Look::running("Finishing"),
        State::Done => Look::good("Done"),
        State::Failed => Look::bad("Failed"),
        State::Cancelled => Look::ended("Cancelled"),
    }
}

/// Why an export has a mark, as the end of a sentence.
pub fn mark_reason(mark: Mark) -> &'static str {
    match mark {
        Mark::Stalled => "no worker works on it",
        Mark::Slow => "its speed is less than a quarter of the speed of the latest exports",
        Mark::Late => "it takes longer than the workspace allows (export_late_after)",
    }
}

pub fn marks(marks: &[Mark]) -> Markup {
    html! {
        @if !marks.is_empty() {
            div.marks {
                @for mark in marks {
                    @let (tone, icon) = match mark {
                        Mark::Stalled => (Tone::Bad, "circle-alert"),
                        Mark::Slow => (Tone::Warning, "triangle-alert"),
                        Mark::Late => (Tone::Warning, "clock"),
                    };
                    (parts::mark(tone, icon, mark.name()))
                }
            }
        }
    }
}

/// The tone of the bar that shows how far an export is.
pub fn tone(state: State, marks: &[Mark]) -> Tone {
    match state {
        State::Done | State::Failed | State::Cancelled => look(state).tone,
        _ if marks.contains(&Mark::Stalled) => Tone::Bad,
        _ if !marks.is_empty() => Tone::Warning,
        _ => Tone::Running,
    }
}

/// How long an export took or takes, in milliseconds, without the time in the queue.
pub fn duration(started_at: Option<i64>, finished_at: Option<i64>, now: i64) -> Option<i64> {
    started_at.map(|started_at| finished_at.unwrap_or(now).saturating_sub(started_at).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_in_progress_takes_until_now() {
        assert_eq!(duration(None, None, 9), None);
        assert_eq!(duration(Some(2), None, 9), Some(7));
        assert_eq!(duration(Some(2), Some(5), 9), Some(3));
        // A clock was set back.
        assert_eq!(duration(Some(12), None, 9), Some(0));
    }
}
