//! Pages by key: a page begins after the entry whose key its cursor has. So entries that are added
//! or removed between two requests move no other entry to another page.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::Operation;
use crate::query::parameter;

/// Default and maximum number of entries on a page.
pub const PAGE: i64 = 20;
pub const MAX_PAGE: i64 = 100;

/// What a wrong cursor must be.
pub const CURSOR: &str = "a next_cursor of this list";

/// The parameters `limit` and `cursor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging<Key> {
    pub limit: i64,
    /// The key of the last entry of the page before.
    pub after: Option<Key>,
}

impl<Key: Serialize + DeserializeOwned> Paging<Key> {
    /// Reads the parameters; the error names the invalid one.
    pub fn read(query: &str) -> Result<Self, String> {
        let after = parameter(query, "cursor", CURSOR, read_cursor)?;
        Ok(Self { limit: limit(query)?, after })
    }
}

/// The parameter `limit`.
pub fn limit(query: &str) -> Result<i64, String> {
    let expected = format!("a whole number from 1 to {MAX_PAGE}");
    let limit = parameter(query, "limit", &expected, |text| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let limit = text.parse().ok().filter(|_| is_number);
        limit.filter(|limit| (1..=MAX_PAGE).contains(limit))
    })?;
    Ok(limit.unwrap_or(PAGE))
}

/// A page of at most `limit` entries, of those that were read with one more than a page has; and
/// the last one's key if others follow.
pub fn page_of<Entry, Key>(
    mut entries: Vec<Entry>,
    limit: i64,
    key: impl Fn(&Entry) -> Key,
) -> (Vec<Entry>, Option<Key>) {
    let has_more = entries.len() as i64 > limit;
    entries.truncate(limit as usize);
    let next = entries.last().filter(|_| has_more).map(key);
    (entries, next)
}

/// The cursor of the entry with this key.
pub fn cursor(key: &impl Serialize) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(json!(key).to_string())
}

/// The key in a cursor.
pub fn read_cursor<Key: DeserializeOwned>(text: &str) -> Option<Key> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}

impl Operation {
    /// Adds the parameters of [`Paging`]; a page has `entries`.
    pub fn takes_cursor(self, entries: &str) -> Self {
        let limit = json!({
            "type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": PAGE,
        });
        self.in_query("limit", &format!("Maximum number of {entries} per page."), limit)
            .in_query(
                "cursor",
                "The `next_cursor` of the previous page.",
                json!({ "type": "string", "minLength": 1 }),
            )
            .refuses_some(
                ["limit=0"].map(Paging::<(i64, uuid::Uuid)>::read),
                "A parameter is invalid or repeated",
            )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    type Key = (i64, Uuid);

    proptest! {
        #[test]
        fn cursors_survive_a_round_trip(at in any::<i64>(), id in any::<u128>()) {
            let key: Key = (at, Uuid::from_u128(id));
            let query = format!("limit=7&cursor={}", cursor(&key));
            prop_assert_eq!(Paging::read(&query), Ok(Paging { limit: 7, after: Some(key) }));
        }

        #[test]
        fn never_panics(query in "(limit|cursor|[=&%0-9a-zA-Z_-]|\\PC)*") {
            let _ = Paging::<Key>::read(&query);
        }
    }

    #[test]
    fn only_a_page_before_another_has_a_key() {
        let page = |entries: &[i64]| page_of(entries.to_vec(), 2, |entry| entry * 10);
        assert_eq!(page(&[]), (vec![], None));
        assert_eq!(page(&[1, 2]), (vec![1, 2], None));
        assert_eq!(page(&[1, 2, 3]), (vec![1, 2], Some(20)));
    }

    #[test]
    fn errors_name_the_invalid_parameter() {
        assert_eq!(Paging::<Key>::read(""), Ok(Paging { limit: PAGE, after: None }));
        for query in ["limit=0", "limit=101", "limit=", "limit=+1", "limit=1&limit=1"] {
            assert!(Paging::<Key>::read(query).unwrap_err().starts_with("limit "), "{query}");
        }
        let other = cursor(&"another list's");
        for text in ["", "!", "MTI", &other] {
            let error = Paging::<Key>::read(&format!("cursor={text}")).unwrap_err();
            assert!(error.starts_with("cursor "), "{text}: {error}");
        }
    }
}
