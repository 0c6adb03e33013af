//! Documents in columns: JSON that other versions of the program read, because programs of two
//! versions run side by side while a fleet is upgraded, and an upgrade can be rolled back.
//!
//! These rules hold for all data that goes from one process to another, in rows and in the log:
//!
//! * Fields are added, and never renamed, removed or given another type or meaning. Readers ignore
//!   unknown fields, and have a default for those that a previous version did not write.
//! * A change that a reader must not ignore, or must not drop as it rewrites the document, gets
//!   another version: a JSON object that begins with `{"v":2,`. Without that field it is version 1.
//!   For a name (a state, a kind, a channel), the new version is a new name; for a claim, it is a
//!   new kind.
//! * A program writes only what the release before it can read: what a release learns to read, the
//!   next one may write. So an upgrade can be rolled back.
//! * Data that a program still does not know waits for a newer one
//!   ([`Retry::needs_newer_version`](kit::retry::Retry::needs_newer_version)): a partition waits
//!   and reports it, a claim is offered again without counting the attempt, a request gets 503. It
//!   is never a dead letter, it fails no work, and it is never dropped.
//!
//! `tests/upgrade` has data of each release; it must stay readable forever.
//!
//! | documents | how they are read |
//! |---|---|
//! | `workspaces.*`, `api_keys.*`, `scim_tokens.allow`, `control_groups.slices`, `apps.activity_types`, `campaigns.tags` and `content`, `segments.audience`, `catalogs.fields`, `catalog_selections.definition`, `dashboard_users.doc`, `email_templates.content`, `export_jobs.fields`, `audience` and `plan`, `dispatches.segment`, `dispatches.kept`, `dispatch_waves.wave`, `dispatch_parts.wave` and `named`, `transactional_emails.recipient`, `console_log.record`, `console_sessions.rights` | [`parsed`] |
//! | `dispatches.order_json`, `schedules.request` | [`parsed_up_to`] |
//! | `storages.config`, `channels.config` | the same, once they are unsealed |
//! | `activity.body` | its first byte is the version (`users::activity`) |
//! | `users.doc`, `catalog_items.doc`, `transactional_emails.trigger_properties` | fields are those of users and callers; unknown ones stay |
//! | `transactional_emails.attributes`, `dead_letters.payload` | as messages of the log |
//! | `deliveries.body`, `content_cards.card`, `idempotency_claims.answer` | not read, but passed on unchanged |
//! | `claims.kind` | a program claims no rows of unknown kinds |

use std::fmt::Display;

use serde::Deserialize;

use super::StoreError;

/// The version of the documents that this program writes and reads. It also reads later versions of
/// orders.
pub const VERSION: u32 = 1;

/// Reads a column that holds JSON.
pub fn parsed<'a, T: Deserialize<'a>>(
    column: &str,
    row: impl Display,
    text: &'a str,
) -> Result<T, StoreError> {
    parsed_up_to(VERSION, column, row, text)
}

/// Like [`parsed`], for a column that may have later versions, up to `newest`.
pub fn parsed_up_to<'a, T: Deserialize<'a>>(
    newest: u32,
    column: &str,
    row: impl Display,
    text: &'a str,
) -> Result<T, StoreError> {
    match version_of(text) {
        version if (VERSION..=newest).contains(&version) => {
            serde_json::from_str(text).map_err(|error| {
                let text = format!("{column} of {row}: {error}");
                let is_newer = is_unknown_word(&error);
                if is_newer { StoreError::Newer(text) } else { StoreError::Corrupt(text) }
            })
        }
        other => Err(StoreError::Newer(format!("{column} of {row} has version {other}"))),
    }
}

/// The same while a row is read.
pub fn column<'a, T: Deserialize<'a>>(
    column: &str,
    row: &impl Display,
    text: &'a str,
) -> Result<T, sqlx::Error> {
    parsed(column, row, text).map_err(|error| match error {
        StoreError::Newer(_) => {
            sqlx::Error::ColumnDecode { index: column.to_owned(), source: error.into() }
        }
        error => sqlx::Error::Decode(error.into()),
    })
}

/// Whether JSON was unreadable because of a name that this program does not know, such as a kind
/// from another release. serde reports it only in its text, which the tests below check.
pub fn is_unknown_word(error: &serde_json::Error) -> bool {
    error.is_data() && error.to_string().starts_with("unknown variant ")
}

/// Like [`parsed`], for secrets: the error repeats nothing of the value.
pub fn parsed_secret<'a, T: Deserialize<'a>>(
    column: &str,
    row: impl Display,
    text: &'a [u8],
) -> Result<T, StoreError> {
    let corrupt = || StoreError::Corrupt(format!("{column} of {row}: unknown format"));
    let text = std::str::from_utf8(text).map_err(|_| corrupt())?;
    match parsed(column, &row, text) {
        Err(StoreError::Corrupt(_)) => Err(corrupt()),
        read => read,
    }
}

/// The error for a name in a column that this program does not know.
pub fn unknown(column: &str, row: impl Display, word: &str) -> StoreError {
    StoreError::Newer(format!("{column} of {row} is {word:?}"))
}

/// A column with JSON as PostgreSQL's type `json`, in SQL. A caller's text may contain `\u0000`.
/// The type stores it, but reading a field of such a document fails, so it becomes `\u0001`.
pub fn as_postgres_json(column: &str) -> String {
    format!(r"replace({column}, '\u0000', '\u0001')::json")
}

fn version_of(text: &str) -> u32 {
    let Some(rest) = text.strip_prefix("{\"v\":") else { return VERSION };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().unwrap_or(VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::retry::Retry as _;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Document {
        a: u8,
    }

    fn read(text: &str) -> Result<Document, StoreError> {
        parsed("table.column", 7, text)
    }

    #[test]
    fn members_may_be_added_and_another_version_waits() {
        for text in [r#"{"a":1}"#, r#"{"a":1,"b":{"v":2}}"#, r#"{"v":1,"a":1}"#] {
            assert_eq!(read(text).unwrap(), Document { a: 1 }, "{text}");
        }
        for text in [r#"{"v":2,"a":1}"#, r#"{"v":20}"#, r#"{"v":2"#] {
            let error = read(text).unwrap_err();
            assert!(error.needs_newer_version() && error.can_retry(), "{text}: {error}");
            assert!(error.to_string().starts_with("table.column of 7 has version 2"), "{error}");
        }
        for text in ["", "{", r#"{"a":"x"}"#, r#"{"v":-1}"#, r#"{"v":}"#] {
            let error = read(text).unwrap_err();
            assert!(!error.needs_newer_version() && !error.can_retry(), "{text}: {error}");
        }
    }

    #[test]
    fn unknown_states_wait() {
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Word {
            Known,
        }
        assert!(matches!(parsed::<Vec<Word>>("t.c", 7, r#"["known"]"#).unwrap()[0], Word::Known));
        assert!(parsed::<Vec<Word>>("t.c", 7, r#"["new"]"#).unwrap_err().needs_newer_version());
        assert!(!parsed::<Vec<Word>>("t.c", 7, "[7]").unwrap_err().needs_newer_version());
    }

    #[test]
    fn an_error_repeats_no_secret() {
        let read = |text: &str| parsed_secret::<Document>("t.c", 7, text.as_bytes()).unwrap_err();
        assert!(!read(r#"{"a":"secret"}"#).to_string().contains("secret"));
        assert!(read(r#"{"v":2,"a":"x"}"#).needs_newer_version());
    }
}
