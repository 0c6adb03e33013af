//! The list of exports.

use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use super::{Client, ClientError, Export, read};
use gateway::paging;

/// Maximum number of exports on a page of the API's list.
const MAX_PAGE: usize = paging::MAX_PAGE as usize;

/// What follows an export in the list.
enum Following {
    /// The page with this cursor.
    Page(String),
    Nothing,
}

#[derive(Deserialize)]
struct Page {
    exports: Vec<Value>,
    next_cursor: Option<String>,
}

impl Page {
    /// The index of an export.
    fn position(&self, prefix: &str) -> Option<usize> {
        self.exports.iter().position(|export| export["object_prefix"] == prefix)
    }
}

impl Client {
    /// The latest exports, from as many pages as needed. `filters` are parameters of the list, each
    /// after `&`. Only exports after the one with the object_prefix `after`, which does not need to
    /// match the filters.
    pub async fn list(
        &self,
        filters: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(Export, Value)>, ClientError> {
        let mut cursor = None;
        if let Some(prefix) = after {
            let following = match self.following(filters, prefix).await? {
                // It may match the filters no longer. A cursor is the same for all filters.
                None => self.following("", prefix).await?,
                found => found,
            };
            match following {
                Some(Following::Page(next)) => cursor = Some(next),
                Some(Following::Nothing) => return Ok(Vec::new()),
                None => return Err(ClientError::NotListed(prefix.to_owned())),
            }
        }
        let mut exports = Vec::new();
        while exports.len() < limit {
            let rows = (limit - exports.len()).min(MAX_PAGE);
            let page = self.page(filters, rows, cursor.as_deref()).await?;
            for raw in page.exports {
                exports.push(read(raw)?);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(exports)
    }

    /// What follows an export; none if the list does not have the export.
    async fn following(
        &self,
        filters: &str,
        prefix: &str,
    ) -> Result<Option<Following>, ClientError> {
        let mut cursor: Option<String> = None;
        let mut limit = MAX_PAGE;
        loop {
            let page = self.page(filters, limit, cursor.as_deref()).await?;
            match page.position(prefix) {
                Some(index) if index + 1 == page.exports.len() => {
                    return Ok(Some(page.next_cursor.map_or(Following::Nothing, Following::Page)));
                }
                // Requests the page again, so that it ends with the export.
                Some(index) => limit = index + 1,
                None => {
                    let Some(next) = page.next_cursor else { return Ok(None) };
                    (cursor, limit) = (Some(next), MAX_PAGE);
                }
            }
        }
    }

    /// A page of the list, with at most [`MAX_PAGE`] exports.
    async fn page(
        &self,
        filters: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page, ClientError> {
        let mut path = format!("/users/export?limit={limit}{filters}");
        if let Some(cursor) = cursor {
            path += &format!("&cursor={cursor}");
        }
        let response = self.send(self.authorized(Method::GET, &path)).await?;
        Ok(serde_json::from_slice(&response)?)
    }
}
