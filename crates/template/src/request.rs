//! Requests of template tags. The caller resolves them between two renderings.

use kit::json::Tree;

/// Maximum number of items that one tag can name.
pub const MAX_ITEMS: usize = 50;

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

/// The response to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Nothing,
    Json(Tree),
    Text(String),
}
