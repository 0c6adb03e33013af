//! The share of emails sent within a minute. The goal is 99.9% of the emails that the package
//! covers.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::State;
use super::rows::{self, Email, Hour};
use crate::app::App;
use kit::clock::{hours, millis, serialize_time};
use store::claims;
use store::{StoreError, Tx};

/// Counts the new state of an email, and the time until the relay accepted it.
pub(super) fn count(email: &Email) {
    metrics::counter!("longshore_transactional_emails_total", "state" => email.state.name())
        .increment(1);
    if let (State::Sent, Some(sent_at)) = (email.state, email.sent_at) {
        let seconds = (sent_at - email.received_at).max(0) as f64 / 1e3;
        metrics::histogram!("longshore_transactional_handover_seconds").record(seconds);
    }
}

/// An hour of a campaign, for people to read.
#[derive(Debug, Serialize)]
pub struct SlaHour {
    pub workspace: String,
    pub campaign_id: Uuid,
    #[serde(serialize_with = "serialize_time")]
    pub hour: i64,
    /// Number of emails, and of emails that were sent within a minute.
    pub emails: i64,
    pub within_minute: i64,
    /// The share of emails that were sent within a minute; none without emails.
    pub share: Option<f64>,
    /// Number of emails per hour that the package covers, and number of covered emails; all emails
    /// if the campaign declares no `sla_per_hour`.
    pub sla_per_hour: Option<i64>,
    pub covered: i64,
    pub covered_within_minute: i64,
    pub covered_share: Option<f64>,
    /// Number of emails that are sent without being covered.
    pub beyond: i64,
}

impl From<Hour> for SlaHour {
    fn from(hour: Hour) -> Self {
        let (covered, covered_in_time) = match hour.package {
            Some(_) => (hour.covered, hour.covered_in_time),
            None => (hour.emails, hour.in_time),
        };
        let share = |part: i64, total: i64| (total > 0).then(|| part as f64 / total as f64);
        Self {
            share: share(hour.in_time, hour.emails),
            covered_share: share(covered_in_time, covered),
            beyond: hour.emails - covered,
            workspace: hour.workspace,
            campaign_id: hour.campaign_id,
            hour: hour.hour,
            emails: hour.emails,
            within_minute: hour.in_time,
            sla_per_hour: hour.package,
            covered,
            covered_within_minute: covered_in_time,
        }
    }
}

/// The last hours of campaigns, including the current one, of one workspace or of all.
pub async fn last_hours(
    tx: &mut Tx,
    workspace: Option<&str>,
    count: u32,
) -> Result<Vec<SlaHour>, StoreError> {
    let now = claims::now(tx).await?;
    let hour = millis(hours(1));
    let since = now - now.rem_euclid(hour) - hour * (i64::from(count.max(1)) - 1);
    Ok(rows::hours_since(tx, workspace, since).await?.into_iter().map(SlaHour::from).collect())
}

/// Reports the share of the current hour and the one before it, over all campaigns; NaN if it is
/// unknown.
pub(super) async fn emit_metrics(app: &App) -> Result<(), StoreError> {
    let last_hours = read(app).await;
    let mut shares = BTreeMap::from([("covered", (0, 0)), ("beyond", (0, 0))]);
    for hour in last_hours.iter().flatten() {
        for (coverage, emails, in_time) in [
            ("covered", hour.covered, hour.covered_within_minute),
            ("beyond", hour.beyond, hour.within_minute - hour.covered_within_minute),
        ] {
            let (total, total_in_time) = shares.entry(coverage).or_default();
            *total += emails;
            *total_in_time += in_time;
        }
    }
    for (coverage, (total, in_time)) in shares {
        // NaN without emails.
        metrics::gauge!("longshore_transactional_within_minute_ratio", "coverage" => coverage)
            .set(in_time as f64 / total as f64);
    }
    last_hours.map(drop)
}

async fn read(app: &App) -> Result<Vec<SlaHour>, StoreError> {
    last_hours(&mut app.store.snapshot().await?, None, 2).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(package: Option<i64>) -> Hour {
        Hour {
            workspace: "acme".into(),
            campaign_id: Uuid::nil(),
            hour: 1_598_900_400_000,
            emails: 10,
            in_time: 8,
            covered: 4,
            covered_in_time: 4,
            package,
        }
    }

    #[test]
    fn emails_beyond_the_package_are_reported_separately() {
        let limited = SlaHour::from(hour(Some(4)));
        assert_eq!(
            (limited.share, limited.covered_share, limited.beyond),
            (Some(0.8), Some(1.0), 6)
        );
        let json = serde_json::to_value(&limited).unwrap();
        assert_eq!(json["hour"], "2020-08-31T19:00:00.000Z");
        let unlimited = SlaHour::from(Hour { covered: 0, covered_in_time: 0, ..hour(None) });
        assert_eq!(
            (unlimited.covered, unlimited.covered_share, unlimited.beyond),
            (10, Some(0.8), 0)
        );
        let none = SlaHour::from(Hour { emails: 0, in_time: 0, covered: 0, ..hour(Some(4)) });
        assert_eq!((none.share, none.covered_share), (None, None));
    }
}
