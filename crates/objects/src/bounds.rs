//! Bounds of what a store sends. A workspace names the server of its storage, so it may be hostile
//! or broken: no response, no list and no wait is without end.

use std::fmt::Display;
use std::time::Duration;

use super::{ObjectError, Reason};

/// Maximum bytes of the response to a request that failed: its code and its message.
pub(super) const MAX_ERROR_BYTES: usize = 64 << 10;

/// Maximum bytes of any other response that is not an object. A page of a list has at most 1,000
/// names of at most 1,024 bytes.
pub(super) const MAX_RESPONSE_BYTES: usize = 2 << 20;

/// Maximum pages of a list: a store may return pages without entries.
const MAX_PAGES: u32 = 10_000;

/// Maximum memory of a list, with [`ENTRY_BYTES`] for each entry in addition to its name.
const MAX_LIST_BYTES: usize = 128 << 20;
const ENTRY_BYTES: usize = 48;

/// Time limit of all pages of a list, and of the deletion of all that it has.
const MAX_TIME: Duration = Duration::from_secs(10 * 60);

/// Why a response is rejected.
pub(super) const TOO_LONG: &str = "the response is too long for an object storage: check that the \
                                   endpoint is one";

/// The maximum of a response that is not an object.
pub(super) fn max_bytes(is_success: bool) -> usize {
    if is_success { MAX_RESPONSE_BYTES } else { MAX_ERROR_BYTES }
}

/// Whether a response was longer than its limit.
#[cfg(any(feature = "s3", feature = "azure"))]
pub(super) fn is_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    kit::errors::causes(error).any(|cause| cause.is::<http_body_util::LengthLimitError>())
}

/// The pages of one list so far.
#[derive(Default)]
pub(super) struct Pages {
    count: u32,
    bytes: usize,
    last_token: Option<String>,
}

impl Pages {
    /// Counts an entry.
    pub fn count_entry(&mut self, name: &str) {
        self.bytes = self.bytes.saturating_add(name.len() + ENTRY_BYTES);
    }

    /// Ends a page. Rejects the next one, of `token`, if the list is too long or begins again.
    pub fn end_page(
        &mut self,
        location: &impl Display,
        token: Option<&str>,
    ) -> Result<(), ObjectError> {
        self.count += 1;
        let refused = |text: &str| Err(ObjectError::Refused(Reason::at(location, text)));
        if self.bytes > MAX_LIST_BYTES {
            return refused("the store lists too many objects");
        }
        let Some(token) = token else { return Ok(()) };
        if self.count >= MAX_PAGES {
            return refused("the store's list has too many pages");
        }
        if self.last_token.as_deref() == Some(token) {
            return refused("the store's list begins again: its page refers to itself");
        }
        self.last_token = Some(token.to_owned());
        Ok(())
    }
}

/// Runs `work` to its end, within the time of all its requests. `what` names it in the error.
pub(super) async fn in_time<T>(
    location: &impl Display,
    what: &str,
    work: impl Future<Output = Result<T, ObjectError>>,
) -> Result<T, ObjectError> {
    tokio::time::timeout(MAX_TIME, work).await.unwrap_or_else(|_| {
        let minutes = MAX_TIME.as_secs() / 60;
        Err(ObjectError::Unavailable(
            format!("{location}: {what} did not end within {minutes} minutes").into(),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(token: impl Fn(u32) -> Option<String>, entry: &str) -> (u32, Option<String>) {
        let mut pages = Pages::default();
        for number in 1.. {
            for _ in 0..1_000 {
                pages.count_entry(entry);
            }
            let token = token(number);
            match pages.end_page(&"s3://b", token.as_deref()) {
                Err(error) => return (number, Some(error.to_string())),
                Ok(()) if token.is_none() => return (number, None),
                Ok(()) => {}
            }
        }
        unreachable!()
    }

    #[test]
    fn lists_end() {
        let (count, error) = pages(|number| Some(number.to_string()), "");
        assert!(count < MAX_PAGES && error.unwrap().contains("too many objects"));
        let (count, error) = pages(|_| Some("again".into()), "");
        assert!(count == 2 && error.unwrap().contains("begins again"));
        // The files of the largest export, with their proofs.
        let name = "x".repeat(200);
        let last = |number: u32| (number < 401).then(|| number.to_string());
        assert_eq!(pages(last, &name), (401, None));
        let mut empty = Pages::default();
        let mut ends = (0..).map(|number| empty.end_page(&"s3://b", Some(&format!("{number}"))));
        assert!(ends.any(|ended| ended.is_err_and(|e| e.to_string().contains("too many pages"))));
    }
}
