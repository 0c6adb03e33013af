//! What answers over HTTP mean for a message.

use std::time::Duration;

use reqwest::StatusCode;

use crate::messages::Outcome;
use crate::outbound::{Answered, Unanswered};

/// The longest that a receiver is believed to need.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// The outcome where it depends on the status alone: a receiver that has too much to do, or is
/// not well, is asked again, as late as it wishes; what else it refuses is refused for good.
pub fn outcome(answer: &Answered) -> Outcome {
    let status = answer.status;
    if status.is_success() {
        return Outcome::Sent;
    }
    let is_passing = status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    match is_passing {
        true => Outcome::Later {
            reason: answer.in_words(),
            after: answer.retry_after.map(|wait| wait.min(LONGEST_WAIT)),
        },
        false => Outcome::Failed(answer.in_words()),
    }
}

/// The outcome of a request that nobody answered: it may have been taken, so it goes again under
/// the same id.
pub fn unanswered(unanswered: Unanswered) -> Outcome {
    match unanswered {
        Unanswered::Refused(reason) => Outcome::Failed(reason),
        Unanswered::Failed(reason) => Outcome::Later { reason, after: None },
    }
}
