//! Pages of lists.
//!
//! In a list in the order of a text, a search selects the entries that begin with a text, and a
//! page begins at an entry. So each page is one range of an index ([`KeyedView`]). Other lists
//! read one row more than a page has ([`first_rows`]).

use maud::{Markup, html};
use url::form_urlencoded;

use crate::parts::{self, icon};

/// The longest text of a search.
const MAX_SEARCH_CHARS: usize = 255;

/// The first rows of a list that was read with one row more than a page has, and whether others
/// follow.
pub fn first_rows<T>(mut rows: Vec<T>, max_rows: usize) -> (Vec<T>, bool) {
    let has_more = rows.len() > max_rows;
    rows.truncate(max_rows);
    (rows, has_more)
}

/// Which part of a list in the order of a text a page shows.
///
/// The order must be that of the bytes: in PostgreSQL, the column has `COLLATE "C"`. Otherwise the
/// entries that a search finds do not follow each other, and [`page`](Self::page) ends too early.
/// A list in another order must be shown without a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyedView {
    /// Only keys that begin with this.
    pub search: String,
    /// The first key of the page; empty for the beginning of the list.
    pub from: String,
}

impl KeyedView {
    /// Reads the parameters of an address. Ignores unknown ones.
    pub fn read(query: &str) -> Self {
        let mut view = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "search" => view.search = value.trim().to_owned(),
                "from" => view.from = value.into_owned(),
                _ => {}
            }
        }
        view
    }

    /// The key at which the page begins.
    pub fn start(&self) -> &str {
        if self.from.starts_with(&self.search) { &self.from } else { &self.search }
    }

    /// Whether the page is the first one.
    pub fn is_first(&self) -> bool {
        self.start() == self.search
    }

    /// The entries of the page, of those that were read from its [start](Self::start), one more
    /// than a page has; and the key at which the next page begins.
    pub fn page<T>(
        &self,
        entries: Vec<T>,
        max_entries: usize,
        key: impl Fn(&T) -> &str,
    ) -> (Vec<T>, Option<String>) {
        let is_found = |entry: &T| key(entry).starts_with(&self.search);
        let mut entries: Vec<T> = entries.into_iter().take_while(is_found).collect();
        let next = entries.get(max_entries).map(|entry| key(entry).to_owned());
        entries.truncate(max_entries);
        (entries, next)
    }

    /// The address of the list at `path`, with the same search, from a key on.
    fn address(&self, path: &str, from: Option<&str>) -> String {
        let parameters = [("search", Some(self.search.as_str())), ("from", from)];
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in parameters {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                query.append_pair(name, value);
            }
        }
        let query = query.finish();
        let question = if query.is_empty() { "" } else { "?" };
        format!("{path}{question}{query}")
    }

    /// The form of the search, for the list at `path`.
    pub fn search_form(&self, path: &str, label: &str) -> Markup {
        html! {
            form.filters method="get" action=(path) role="search" {
                div.field {
                    label.hint for="search" { (label) }
                    input.input id="search" name="search" value=(self.search) autocomplete="off"
                        autocapitalize="off" spellcheck="false" dir="auto"
                        maxlength=(MAX_SEARCH_CHARS);
                }
                button.button type="submit" { (icon("search")) "Search" }
            }
        }
    }

    /// The links to other pages of the list at `path`. `order` names its order.
    pub fn pager(&self, path: &str, order: &str, next: Option<&str>) -> Markup {
        let first = (!self.is_first()).then(|| self.address(path, None));
        let next = next.map(|next| self.address(path, Some(next)));
        parts::key_pager(order, first.as_deref(), next.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str, all: &[&str]) -> (Vec<String>, Option<String>) {
        let view = KeyedView::read(query);
        let read = all.iter().filter(|key| **key >= view.start()).take(3);
        view.page(read.map(|key| (*key).to_owned()).collect(), 2, |key| key)
    }

    #[test]
    fn every_entry_is_on_one_page() {
        let all = ["a", "b", "ba", "bb", "c"];
        assert_eq!(page("", &all), (vec!["a".into(), "b".into()], Some("ba".into())));
        assert_eq!(page("from=ba", &all), (vec!["ba".into(), "bb".into()], Some("c".into())));
        assert_eq!(page("from=c", &all), (vec!["c".into()], None));
        assert_eq!(page("search=b", &all), (vec!["b".into(), "ba".into()], Some("bb".into())));
        assert_eq!(page("search=+b&from=bb", &all), (vec!["bb".into()], None));
        // Not a page of this search.
        assert_eq!(page("search=b&from=c", &all).0, ["b", "ba"]);
        assert_eq!(page("search=x", &all), (Vec::new(), None));
        assert_eq!(page("", &[]), (Vec::new(), None));
    }

    #[test]
    fn an_address_leads_back_to_its_page() {
        let view = KeyedView { search: "<b> &".into(), from: String::new() };
        let address = view.address("/p", Some("<b> &1"));
        let (path, query) = address.split_once('?').unwrap();
        assert_eq!(path, "/p");
        assert_eq!(KeyedView::read(query), KeyedView { from: "<b> &1".into(), ..view });
        assert_eq!(KeyedView::default().address("/p", None), "/p");
    }
}
