//! A user as one line of JSON: the export's user record (docs/reference/api/user-record.md) with
//! the fields that are never exported. `import` reads it, `users show` prints it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::ToSpan as _;
use jiff::civil::Date;
use uuid::Uuid;

use super::activity::{Activity, Summary, WINDOW_DAYS};
use super::profile::{Alias, Field, FieldError, MAX_BYTES, MAX_TEXT, Profile};
use super::tokens::{self, TokenKey};
use super::{address, service_id};
use kit::clock::parse_time;
use kit::json::{self, JsonFields};
use kit::money;
use kit::words::check_short;

/// A line of an import, checked.
#[derive(Clone, Debug)]
pub struct Record {
    /// Has the layout of Longshore, and a time in the past.
    pub service_id: Option<Uuid>,
    /// The same as in `service_id` if both are set.
    pub random_bucket: Option<u16>,
    pub external_id: Option<String>,
    pub aliases: Vec<Alias>,
    /// In the [spelling](address::stored) of rows; compare [`address`](Self::address).
    pub email: Option<String>,
    /// The keys of its push tokens.
    pub push_tokens: Vec<TokenKey>,
    pub profile: Profile,
    pub activity: Activity<'static>,
    /// Unknown fields, which are left out.
    pub ignored: Vec<String>,
}

/// What a line is read with.
#[derive(Clone, Copy, Debug)]
pub struct RecordContext<'a> {
    /// The import's time: later activity is moved to it, and later ids are rejected.
    pub now_ms: i64,
    /// The currency of `total_revenue`.
    pub currency: &'a str,
    /// The workspace's other name for `service_id`.
    pub service_id_alias: Option<&'a str>,
}

/// Why a line is not a user's record; a text for the operator, without values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("not a JSON object: {0}")]
    Json(String),
    /// At least one.
    #[error("{}", reasons(.0))]
    Fields(Vec<FieldError>),
    #[error("Missing user identifier: set external_id, user_alias, service_id or email")]
    MissingIdentifier,
    #[error("the profile is larger than {} KiB", MAX_BYTES >> 10)]
    TooLarge,
}

impl kit::retry::Retry for RecordError {}

/// The text between the reasons of one line.
pub const BETWEEN_REASONS: &str = "; ";

/// Reasons of one line that are listed.
const MAX_REASONS: usize = 20;

fn reasons(errors: &[FieldError]) -> String {
    let mut reasons: Vec<String> =
        errors.iter().take(MAX_REASONS).map(ToString::to_string).collect();
    if errors.len() > MAX_REASONS {
        reasons.push("and more".to_owned());
    }
    reasons.join(BETWEEN_REASONS)
}

impl Record {
    /// Reads a line. The error has every reason for which it is invalid.
    pub fn parse(line: &str, context: &RecordContext<'_>) -> Result<Self, RecordError> {
        let RecordContext { now_ms, currency, service_id_alias } = *context;
        let members: JsonFields<'_> = json::parse(line).map_err(RecordError::Json)?;
        let mut errors = Vec::new();
        if let Some(name) = members.repeated() {
            errors.push(FieldError::new(name, "duplicate field"));
        }
        let mut ignored = Vec::new();
        let mut profile = Profile::with_capacity(members.0.len());
        let mut activity = Activity::default();
        for (name, value) in &members.0 {
            let is_alias = service_id_alias == Some(name.as_ref());
            let name = if is_alias { Field::ServiceId.name() } else { name.as_ref() };
            if is_alias && let Some(service_id) = members.get(name) {
                // An export that requested both names.
                if service_id == value.get() {
                    continue;
                }
                let reason = format!("duplicate field: {name} has another value");
                errors.push(FieldError::new(service_id_alias.unwrap_or_default(), reason));
            }
            match (name, value.get()) {
                (_, "null") => {}
                ("purchases", value) => {
                    entries("purchases", value, now_ms, &mut errors, |name, at, count| {
                        activity.record_purchase(name, at, count, None);
                    });
                }
                ("custom_events", value) => {
                    entries("custom_events", value, now_ms, &mut errors, |name, at, count| {
                        activity.record_event(name, at, count, None);
                    });
                }
                ("total_revenue", value) => match revenue(value) {
                    Ok(revenue) => {
                        activity.record_revenue(currency, revenue);
                    }
                    Err(error) => errors.push(error),
                },
                (name, _) => match Field::from_name(name) {
                    Some(field) => errors.extend(profile.set(field, value, &mut ignored).err()),
                    None => ignored.push(name.to_owned()),
                },
            }
        }
        let (service_id, random_bucket) = Self::check_identity(&profile, now_ms, &mut errors);
        if !errors.is_empty() {
            return Err(RecordError::Fields(errors));
        }
        let record = Self {
            service_id,
            random_bucket,
            external_id: profile.text(Field::ExternalId),
            aliases: profile.aliases(),
            email: profile.text(Field::Email).map(|email| address::stored(&email)),
            push_tokens: profile.get(Field::PushTokens).map(tokens::keys).unwrap_or_default(),
            profile,
            activity,
            ignored,
        };
        let has_identifier = record.service_id.is_some()
            || record.external_id.is_some()
            || record.email.is_some()
            || !record.aliases.is_empty();
        if has_identifier { Ok(record) } else { Err(RecordError::MissingIdentifier) }
    }

    /// The email [as it is compared](address::compared).
    pub fn address(&self) -> Option<Cow<'_, str>> {
        self.email.as_deref().map(address::compared)
    }

    /// The service_id and the bucket, if they fit each other.
    fn check_identity(
        profile: &Profile,
        now_ms: i64,
        errors: &mut Vec<FieldError>,
    ) -> (Option<Uuid>, Option<u16>) {
        let given = profile.get(Field::RandomBucket).and_then(|bucket| bucket.parse().ok());
        let service_id = profile.text(Field::ServiceId).and_then(|id| Uuid::parse_str(&id).ok());
        let Some(id) = service_id else { return (None, given) };
        let mut reject =
            |field: Field, reason: &str| errors.push(FieldError::new(field.name(), reason));
        let bucket = service_id::bucket(&id);
        match bucket {
            None => reject(Field::ServiceId, "was not created by Longshore"),
            Some(_) if service_id::millis(&id) > now_ms => {
                reject(Field::ServiceId, "is in the future");
            }
            Some(bucket) if given.is_some_and(|given| given != bucket) => {
                reject(Field::RandomBucket, "does not match the bucket in service_id");
            }
            Some(_) => {}
        }
        (Some(id), bucket)
    }
}

fn revenue(json: &str) -> Result<i64, FieldError> {
    let error = |reason| FieldError::new("total_revenue", reason);
    // Strings, arrays and other types cannot be read as money.
    // A sum can be at the maximum, so that what was exported can be imported.
    match money::parse(json) {
        None => Err(error("expected a number of at most 9,223,372,036,854.775807")),
        Some(amount) if amount < 0 => Err(error("is negative")),
        Some(amount) => Ok(amount),
    }
}

/// Reads `purchases` or `custom_events`. For each entry, one occurrence counts on `first` and the
/// rest on `last`.
fn entries(
    field: &str,
    json: &str,
    now_ms: i64,
    errors: &mut Vec<FieldError>,
    mut record: impl FnMut(&str, i64, u64),
) {
    let objects: Vec<JsonFields<'_>> = match json::parse(json) {
        Ok(objects) => objects,
        Err(reason) => return errors.push(FieldError::new(field, reason)),
    };
    for (index, members) in objects.iter().enumerate() {
        match entry(members) {
            Ok((name, first, last, count)) => {
                record(&name, first.min(now_ms), 1);
                record(&name, last.min(now_ms), count - 1);
            }
            Err((member, reason)) => {
                errors.push(FieldError::new(format!("{field}[{index}].{member}"), reason));
            }
        }
    }
}

/// The name of an entry, its first and last times, and its count.
type Entry<'a> = (Cow<'a, str>, i64, i64, u64);

/// Reads an entry. The error has the name of the invalid field and the reason.
fn entry<'a>(members: &JsonFields<'a>) -> Result<Entry<'a>, (String, String)> {
    let error = |member: &str, reason: &str| (member.to_owned(), reason.to_owned());
    if let Some(name) = members.repeated() {
        return Err(error(name, "duplicate field"));
    }
    let get = |member: &str| members.get(member).ok_or_else(|| error(member, "is missing"));
    let text = |member: &str| json::text(get(member)?).map_err(|reason| error(member, &reason));
    let moment = |member: &str| parse_time(&text(member)?).map_err(|why| error(member, &why));
    let name = text("name")?;
    if name.is_empty() || check_short(&name).is_err() {
        return Err(error("name", &format!("expected 1 to {MAX_TEXT} characters")));
    }
    let (first, last) = (moment("first")?, moment("last")?);
    let count = json::whole_number(get("count")?);
    let count = count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
    if count == 0 {
        return Err(error("count", "expected a whole number from 1"));
    }
    if last < first {
        return Err(error("last", "is before first"));
    }
    if count == 1 && last != first {
        return Err(error("count", "is 1, but first and last are not the same"));
    }
    Ok((name, first, last, count))
}

/// The record of a stored user as of `today`, with the fields that are never exported; compact
/// JSON. `rates` has the value of other currencies in millionths of `currency`.
pub fn show(
    document: &str,
    activity: &Activity<'_>,
    today: Date,
    currency: &str,
    rates: &BTreeMap<String, i64>,
) -> String {
    let first_day = today.saturating_sub((WINDOW_DAYS - 1).days());
    let mut out = document.strip_suffix('}').unwrap_or(document).to_owned();
    let mut member = |name: &str, value: &str| {
        let comma = if out.ends_with('{') { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(out, "{comma}\"{name}\":{value}");
    };
    if let Some(purchases) = summaries(activity.purchases(first_day, today)) {
        member("purchases", &purchases);
    }
    if let Some(events) = summaries(activity.events(first_day, today)) {
        member("custom_events", &events);
    }
    if let Some(revenue) = activity.total_revenue(currency, rates) {
        member("total_revenue", &money::format(revenue.millionths));
    }
    out.push('}');
    out
}

fn summaries<'a>(summaries: impl Iterator<Item = Summary<'a>>) -> Option<String> {
    let summaries: Vec<_> = summaries.collect();
    // Names, times and numbers can always be written as JSON.
    (!summaries.is_empty()).then(|| serde_json::to_string(&summaries).unwrap_or_default())
}

/// Indents a record for a person to read.
pub fn pretty(record: &str) -> String {
    json::pretty(record)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn parse(line: &str) -> Result<Record, String> {
        let context =
            RecordContext { now_ms: NOW, currency: "USD", service_id_alias: Some("their_id") };
        Record::parse(line, &context).map_err(|error| error.to_string())
    }

    #[test]
    fn every_field_of_a_record_is_read() {
        let id = service_id::new(NOW - 5, 1, 77, 9);
        let record = parse(&format!(
            r#"{{"service_id":"{id}","external_id":"e","email":"Ann@Acme.example","x":1,
                "user_aliases":{{"alias_name":"n","alias_label":"l"}},"total_revenue":12.345,
                "purchases":[{{"name":"shoes","first":"2023-11-01T10:00:00Z","last":"2023-11-03","count":3}}],
                "custom_events":[{{"name":"seen","first":"2999-01-01","last":"2999-01-01","count":1}}]}}"#
        ))
        .unwrap();
        assert_eq!((record.service_id, record.random_bucket), (Some(id), Some(77)));
        assert_eq!(record.email.as_deref(), Some("ann@acme.example"));
        assert_eq!(record.aliases[0].key(), "l\u{1f}n");
        assert_eq!(record.ignored, ["x"]);
        let today = kit::clock::utc_date(kit::clock::from_ms(NOW));
        let shown = show("{}", &record.activity, today, "USD", &BTreeMap::new());
        assert_eq!(
            shown,
            r#"{"purchases":[{"name":"shoes","first":"2023-11-01T10:00:00.000Z","last":"2023-11-03T00:00:00.000Z","count":3}],"custom_events":[{"name":"seen","first":"2023-11-14T22:13:20.000Z","last":"2023-11-14T22:13:20.000Z","count":1}],"total_revenue":12.345}"#
        );
    }

    #[test]
    fn whole_numbers_may_have_the_form_of_decimals() {
        let record = parse(
            r#"{"email":"a@b","random_bucket":77.0,"apps":[{"sessions":5.0},{"sessions":6}],"purchases":[{"name":"a","first":"2023-11-01","last":"2023-11-02","count":5.0}]}"#,
        )
        .unwrap();
        assert_eq!(record.random_bucket, Some(77));
        assert_eq!(record.profile.get(Field::RandomBucket), Some("77"));
        assert_eq!(record.profile.get(Field::Apps), Some(r#"[{"sessions":"5"},{"sessions":"6"}]"#));
        let day = |day| Date::constant(2023, 11, day);
        let purchases: Vec<_> = record.activity.purchases(day(1), day(2)).collect();
        assert_eq!(serde_json::to_value(&purchases).unwrap()[0]["count"], 5);
    }

    #[test]
    fn service_id_has_the_other_name_of_the_workspace() {
        let id = service_id::new(NOW - 5, 1, 77, 9);
        let record = parse(&format!(r#"{{"their_id":"{id}"}}"#)).unwrap();
        assert_eq!((record.service_id, record.random_bucket), (Some(id), Some(77)));
        assert_eq!(record.ignored, Vec::<String>::new());
        let other = service_id::new(NOW - 5, 1, 77, 8);
        let both = |service_id| format!(r#"{{"their_id":"{id}","service_id":"{service_id}"}}"#);
        assert_eq!(parse(&both(id)).unwrap().service_id, Some(id));
        assert!(parse(&both(other)).unwrap_err().starts_with("their_id: duplicate field"));
    }

    #[test]
    fn all_reasons_of_a_line_are_named() {
        let error = parse(
            r#"{"gender":"x","country":"ZZ","purchases":[{"name":"a"},{"first":1}],"total_revenue":-1,"random_bucket":10000}"#,
        )
        .unwrap_err();
        let reasons: Vec<&str> = error.split(BETWEEN_REASONS).collect();
        for (reason, field) in reasons.iter().zip([
            "gender",
            "country",
            "purchases[0].first",
            "purchases[1].name",
            "total_revenue",
            "random_bucket",
        ]) {
            assert!(reason.starts_with(field), "{error}");
        }
        assert_eq!(reasons.len(), 6, "{error}");
        let many = vec!["{}"; 100].join(",");
        let error = parse(&format!(r#"{{"purchases":[{many}]}}"#)).unwrap_err();
        assert!(error.ends_with("; and more") && error.len() < 2_000, "{error}");
    }

    #[test]
    fn invalid_lines_are_rejected_with_a_reason() {
        let future = service_id::new(NOW + 1, 0, 1, 0);
        let past = service_id::new(NOW, 0, 1, 0);
        let foreign = Uuid::from_u128(0x1234);
        let entry = |rest: &str| format!(r#"{{"email":"a@b","purchases":[{{{rest}}}]}}"#);
        for (line, reason) in [
            ("[]".to_owned(), "not a JSON object"),
            ("{\"a\":".to_owned(), "not a JSON object"),
            ("{}".to_owned(), "Missing user identifier"),
            (r#"{"first_name":"Ann","random_bucket":5}"#.to_owned(), "Missing user identifier"),
            (r#"{"email":"a@b","email":"a@b"}"#.to_owned(), "email: duplicate field"),
            (format!(r#"{{"service_id":"{future}"}}"#), "service_id is in the future"),
            (format!(r#"{{"service_id":"{foreign}"}}"#), "service_id: was not created"),
            (format!(r#"{{"service_id":"{past}","random_bucket":2}}"#), "random_bucket: "),
            (r#"{"email":"a@b","total_revenue":-1}"#.to_owned(), "total_revenue is negative"),
            (r#"{"email":"a@b","total_revenue":"1"}"#.to_owned(), "total_revenue: "),
            (entry(r#""first":"2021-01-01","last":"2021-01-01","count":1"#), "purchases[0].name"),
            (
                entry(r#""name":"a","first":"x","last":"2021-01-01","count":1"#),
                "purchases[0].first",
            ),
            (
                entry(r#""name":"a","first":"2021-01-02","last":"2021-01-01","count":2"#),
                "purchases[0].last",
            ),
            (
                entry(r#""name":"a","first":"2021-01-01","last":"2021-01-02","count":1"#),
                "purchases[0].count",
            ),
            (
                entry(r#""name":"a","first":"2021-01-01","last":"2021-01-02","count":0"#),
                "purchases[0].count",
            ),
            (
                entry(r#""name":"a","first":"2021-01-01","last":"2021-01-02","count":1.5"#),
                "purchases[0].count",
            ),
        ] {
            let error = parse(&line).unwrap_err();
            assert!(error.starts_with(reason), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_rejected(
            line in ".{0,60}",
            field in prop::sample::select(Field::ALL.to_vec()),
            value in "[-0-9a-z\"\\[\\]{}:,.\\\\ ]{0,20}",
        ) {
            let _ = parse(&line);
            let _ = parse(&format!("{{\"{}\":{value}}}", field.name()));
            let _ = parse(&format!("{{\"purchases\":{value},\"total_revenue\":{value}}}"));
        }
    }
}
