//! Declarations of the workspace file for templates: content blocks, selections of catalog items,
//! and the servers that `connected_content` may request.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use template::{Source, Sources};
use url::Url;

use crate::workspaces::rules::{self, checked, list, number, one_of, optional, rules, up_to};
use crate::workspaces::settings::{Secret, Settings};
use kit::clock::{format_time, parse_time};
use kit::json::{Tree, TreeObject, compare_numbers};

/// Maximum number of content blocks of a workspace, and of bytes of each and of all together.
pub const MAX_BLOCKS: usize = 1_000;
pub const MAX_BLOCK: usize = 50 << 10;
pub const MAX_BLOCKS_BYTES: usize = 2 << 20;

/// Maximum number of selections of a workspace.
pub const MAX_SELECTIONS: usize = 300;

/// Maximum number of filters of a selection.
pub const MAX_FILTERS: usize = 10;

/// Maximum number of hosts, and of credentials, of `connected_content`.
pub const MAX_HOSTS: usize = 100;

const CONNECTED_CONTENT_OFF: &str =
    "the workspace file does not allow `connected_content`: add connected_content.hosts";

rules! {
    /// The name of a block or of a credential.
    DataName -> String, data_name;
    Host -> String, host;
    Password -> Secret, password;
    HeaderName -> String, header_name;
}

/// A text that other templates include by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentBlock {
    pub name: String,
    pub body: String,
}

/// A named selection of catalog items for templates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogSelection {
    /// 1 to 100 letters, digits, hyphens and underscores; unique among the selections of a catalog.
    #[serde(deserialize_with = "checked::<DataName, _>")]
    pub name: String,
    /// The name of the catalog.
    pub catalog: String,
    /// Conditions that an item must meet, all of them. At most 10.
    #[serde(default)]
    pub filters: Vec<Filter>,
    /// The order of the items. Default: by their ids.
    pub sort: Option<Sort>,
    /// Maximum number of items, 1 to 50.
    #[serde(deserialize_with = "up_to::<50, _>")]
    #[schemars(schema_with = "number")]
    pub limit: u32,
}

/// A condition on a field of an item. An item without the field meets only `does_not_equal` and
/// `does_not_contain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CatalogFilter")]
pub struct Filter {
    /// A field of the catalog, or `id`.
    pub field: String,
    #[schemars(schema_with = "operator")]
    pub operator: Operator,
    /// The value with which the field is compared, of the field's type. Numbers, strings and times
    /// have an order.
    #[schemars(with = "Value")]
    pub value: Tree,
}

store::text_enum! {
    /// The comparison of a field of an item.
    pub enum Operator {
        Equals = "equals",
        DoesNotEqual = "does_not_equal",
        GreaterThan = "greater_than",
        GreaterThanOrEqual = "greater_than_or_equal",
        LessThan = "less_than",
        LessThanOrEqual = "less_than_or_equal",
        Contains = "contains",
        DoesNotContain = "does_not_contain",
    }
}

impl Operator {
    /// Whether it searches for a part of the field.
    pub fn searches_parts(self) -> bool {
        matches!(self, Self::Contains | Self::DoesNotContain)
    }
}

fn operator(_: &mut SchemaGenerator) -> Schema {
    one_of(Operator::ALL.map(Operator::name))
}

/// The order of a selection's items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CatalogSort")]
pub struct Sort {
    /// A field of the catalog, or `id`. Items without it come last.
    pub field: String,
    #[serde(default)]
    pub descending: bool,
}

impl CatalogSelection {
    /// Rewrites the times in filters to the format of stored items, so that comparing texts
    /// compares times. An invalid time becomes null, which equals nothing.
    pub fn with_times(mut self, is_time: impl Fn(&str) -> bool) -> Self {
        let is_compared =
            |filter: &&mut Filter| is_time(&filter.field) && !filter.operator.searches_parts();
        for filter in self.filters.iter_mut().filter(is_compared) {
            let time = filter.value.as_text().and_then(|text| parse_time(text).ok());
            filter.value = time.map_or(Tree::Null, |time| Tree::Text(format_time(time).into()));
        }
        self
    }

    /// Whether the selection contains an item.
    pub fn holds(&self, item: &TreeObject) -> bool {
        self.filters.iter().all(|filter| filter.holds(item))
    }

    /// The order of two items; by their ids if the fields are equal.
    pub fn compare(&self, a: &TreeObject, b: &TreeObject) -> Ordering {
        let by_field = self.sort.as_ref().map_or(Ordering::Equal, |sort| {
            let (a, b) = (a.get(&sort.field), b.get(&sort.field));
            let (Some(a), Some(b)) = (a, b) else {
                return b.is_some().cmp(&a.is_some());
            };
            let order = compare(a, b).unwrap_or(Ordering::Equal);
            if sort.descending { order.reverse() } else { order }
        });
        let id = |item: &TreeObject| {
            item.get("id").and_then(Tree::as_text).unwrap_or_default().to_owned()
        };
        by_field.then_with(|| id(a).cmp(&id(b)))
    }
}

impl Filter {
    fn holds(&self, item: &TreeObject) -> bool {
        let Some(field) = item.get(&self.field).filter(|field| !field.is_null()) else {
            return matches!(self.operator, Operator::DoesNotEqual | Operator::DoesNotContain);
        };
        let order = compare(field, &self.value);
        let contains = || match (field, &self.value) {
            (Tree::Text(text), Tree::Text(part)) => text.contains(&**part),
            (Tree::Array(elements), value) => elements.iter().any(|element| equals(element, value)),
            _ => false,
        };
        match self.operator {
            Operator::Equals => equals(field, &self.value),
            Operator::DoesNotEqual => !equals(field, &self.value),
            Operator::GreaterThan => order.is_some_and(Ordering::is_gt),
            Operator::GreaterThanOrEqual => order.is_some_and(Ordering::is_ge),
            Operator::LessThan => order.is_some_and(Ordering::is_lt),
            Operator::LessThanOrEqual => order.is_some_and(Ordering::is_le),
            Operator::Contains => contains(),
            Operator::DoesNotContain => !contains(),
        }
    }
}

/// Compares two values of a type that has an order.
fn compare(a: &Tree, b: &Tree) -> Option<Ordering> {
    match (a, b) {
        (Tree::Number(a), Tree::Number(b)) => Some(compare_numbers(a, b)),
        (Tree::Text(a), Tree::Text(b)) => Some(a.cmp(b)),
        (Tree::Bool(a), Tree::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn equals(a: &Tree, b: &Tree) -> bool {
    compare(a, b).map_or_else(|| a.is_same(b), Ordering::is_eq)
}

/// Servers that templates may request with `connected_content`. Without it, `connected_content` is
/// not available.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectedContent {
    /// Hosts, at least one: such as `api.acme.example`, `*.acme.example` for all subdomains, or
    /// `api.acme.example:8443` for a port other than 80 and 443.
    #[serde(deserialize_with = "list::<Host, _>")]
    pub hosts: Vec<String>,
    /// Maximum number of requests per second of one worker, 1 to 10000. Default: 100.
    #[serde(default = "default_rate", deserialize_with = "up_to::<10_000, _>")]
    #[schemars(schema_with = "number")]
    pub requests_per_second: u32,
    /// Credentials of requests. A template selects one by its name after `:basic_auth`.
    #[serde(default)]
    pub credentials: Vec<ContentCredential>,
}

/// A user name and a password, or a header with a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContentCredential {
    /// 1 to 100 letters, digits, hyphens and underscores.
    #[serde(deserialize_with = "checked::<DataName, _>")]
    pub name: String,
    /// The hosts to which the credential may be sent, at least one, in the format of
    /// `connected_content.hosts`.
    #[serde(deserialize_with = "list::<Host, _>")]
    pub hosts: Vec<String>,
    /// The user name of basic authentication.
    #[serde(default)]
    pub username: Option<String>,
    /// The password of basic authentication.
    #[serde(default, deserialize_with = "rules::secret::<Password, _>")]
    #[schemars(with = "Option<String>")]
    pub password: Option<Secret>,
    /// The name of the header with the token. Default: `Authorization`.
    #[serde(default, deserialize_with = "optional::<HeaderName, _>")]
    pub header: Option<String>,
    /// The complete value of the header, such as `Bearer …`.
    #[serde(default, deserialize_with = "rules::secret::<Password, _>")]
    #[schemars(with = "Option<String>")]
    pub token: Option<Secret>,
}

impl ConnectedContent {
    /// Whether templates may request an address.
    pub fn allows(&self, url: &Url) -> bool {
        matches_any_host(&self.hosts, url)
    }

    /// The credential with that name.
    pub fn credential(&self, name: &str) -> Option<&ContentCredential> {
        self.credentials.iter().find(|credential| credential.name == name)
    }
}

impl ContentCredential {
    /// Whether it may be sent to an address.
    pub fn is_for(&self, url: &Url) -> bool {
        matches_any_host(&self.hosts, url)
    }

    /// Checks its fields together.
    pub fn check(&self) -> Result<(), &'static str> {
        let (is_basic, has_token) = (self.username.is_some(), self.token.is_some());
        match (is_basic, self.password.is_some(), has_token) {
            (true, true, false) | (false, false, true) => Ok(()),
            _ => Err("set username and password, or token"),
        }
    }
}

fn matches_any_host(hosts: &[String], url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    hosts.iter().any(|allowed| {
        // An IPv6 address has brackets.
        let port = allowed.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let (name, port) = match port {
            Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
            _ => (allowed.as_str(), None),
        };
        let is_port = match (port, url.port()) {
            (None, port) => matches!(port, None | Some(80 | 443)),
            (Some(allowed), _) => {
                url.port_or_known_default().is_some_and(|port| port.to_string() == allowed)
            }
        };
        let is_host = match name.strip_prefix('*') {
            Some(domain) => host.len() > domain.len() && host.ends_with(domain),
            None => host == name,
        };
        is_port && is_host
    })
}

impl Sources for Settings {
    fn check(&self, source: Source<'_>) -> Result<(), String> {
        match source {
            Source::Catalog(name) if self.catalogs.contains(name) => Ok(()),
            Source::Catalog(name) => Err(format!("the workspace has no catalog `{name}`")),
            Source::Selection { catalog, name } => match self.selection(catalog, name) {
                Some(_) => Ok(()),
                None => {
                    Err(format!("the workspace has no selection `{name}` of catalog `{catalog}`"))
                }
            },
            Source::Address { beginning, is_whole } => {
                let Some(allowed) = &self.connected_content else {
                    return Err(CONNECTED_CONTENT_OFF.into());
                };
                let host = beginning.split_once("://").map_or("", |(_, after)| after);
                let has_host = is_whole || host.contains(['/', '?', '#']);
                match Url::parse(beginning) {
                    Ok(url) if has_host && !allowed.allows(&url) => Err(format!(
                        "`{}` is not in connected_content.hosts of the workspace file",
                        url.host_str().unwrap_or_default()
                    )),
                    Err(_) if is_whole => Err("expected an http or https URL".into()),
                    _ => Ok(()),
                }
            }
            Source::Credential(name) => {
                let allowed = self.connected_content.as_ref();
                match allowed.and_then(|allowed| allowed.credential(name)) {
                    Some(_) => Ok(()),
                    None => Err(format!(
                        "`{name}` is not in connected_content.credentials of the workspace file"
                    )),
                }
            }
        }
    }
}

impl Settings {
    /// The selection of a catalog, by its name.
    pub fn selection(&self, catalog: &str, name: &str) -> Option<&CatalogSelection> {
        self.selections
            .iter()
            .find(|selection| selection.catalog == catalog && selection.name == name)
    }
}

/// Content blocks by their names.
pub fn by_name(blocks: impl IntoIterator<Item = ContentBlock>) -> BTreeMap<String, String> {
    blocks.into_iter().map(|block| (block.name, block.body)).collect()
}

pub fn data_name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if (1..=100).contains(&text.len()) && text.bytes().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 100 letters, digits, hyphens and underscores".into())
    }
}

/// A host as in a URL, with or without a port or `*.`.
fn host(text: &str) -> Result<String, String> {
    let wrong = || {
        format!("{text:?}: expected a host, such as api.acme.example, *.acme.example or host:8443")
    };
    let parent_domain = text.strip_prefix("*.");
    let url =
        Url::parse(&format!("http://{}/", parent_domain.unwrap_or(text))).map_err(|_| wrong())?;
    let authority = match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => return Err(wrong()),
    };
    let is_plain = url.path() == "/" && url.query().is_none() && url.username().is_empty();
    if !is_plain || authority.contains('*') || text.contains(['/', '@', '#']) {
        return Err(wrong());
    }
    Ok(if parent_domain.is_some() { format!("*.{authority}") } else { authority })
}

fn default_rate() -> u32 {
    100
}

/// A value that is sent in a header. The error does not repeat it.
fn password(text: &str) -> Result<Secret, String> {
    if (1..=4_096).contains(&text.len()) && !text.contains(char::is_control) {
        Ok(Secret(text.into()))
    } else {
        Err("a credential must have 1 to 4096 bytes, without control characters".into())
    }
}

fn header_name(text: &str) -> Result<String, String> {
    match reqwest::header::HeaderName::from_bytes(text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("Invalid header name".into()),
    }
}

#[cfg(test)]
mod tests;
