//! Requests of template tags. The caller resolves them between two renderings.

use kit::json::Tree;

/// Maximum number of items that one tag can name.
pub const MAX_ITEMS: usize = 50;

/// Maximum bytes of the id of an item.
pub const MAX_ID_BYTES: usize = 250;

/// Data that a template asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// `{% catalog_items catalog id … %}`
    Items { catalog: String, ids: Vec<String> },
    /// `{% catalog_selection_items catalog name %}`
    Selection { catalog: String, name: String },
    /// `{% connected_content … %}`
    Content(ContentRequest),
}

/// An HTTP request of `connected_content`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContentRequest {
    pub url: String,
    pub is_post: bool,
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub content_type: Option<String>,
    /// The name of the credential in `basic_auth` or `auth_credentials`.
    pub credential: Option<String>,
    /// How long the response may be cached, in seconds.
    pub max_age: Option<u32>,
    /// Whether the message is retried later if the request fails.
    pub retries: bool,
}

impl Request {
    /// Approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Items { catalog, ids } => {
                catalog.len() + ids.iter().map(|id| size_of::<String>() + id.len()).sum::<usize>()
            }
            Self::Selection { catalog, name } => catalog.len() + name.len(),
            Self::Content(request) => request.bytes(),
        }
    }
}

impl ContentRequest {
    /// Approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        let texts = [&self.content_type, &self.credential].into_iter().flatten();
        let optional = texts.map(String::len).chain(headers).sum::<usize>();
        self.url.len() + self.body.len() + optional
    }
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Nothing,
    Json(Tree),
    Text(String),
}
