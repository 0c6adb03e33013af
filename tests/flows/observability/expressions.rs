//! Expressions of PromQL: where they are in the project, and what series they name.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::dashboards;
use super::prometheus::Prometheus;
use crate::support::files::{project, read};

/// An expression, and where it is.
pub struct Expression {
    pub location: String,
    pub text: String,
    /// Alerts come to nothing as long as all is well.
    pub is_alert: bool,
}

/// A series that an expression names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    pub metric: String,
    /// With the braces; empty without any.
    pub matchers: String,
}

impl Selector {
    pub fn text(&self) -> String {
        format!("{}{}", self.metric, self.matchers)
    }
}

/// Every expression of dashboards, alerts, and scalers of deploy/kubernetes.
pub async fn all(prometheus: &Prometheus) -> Vec<Expression> {
    let mut all = Vec::new();
    for dashboard in dashboards::all() {
        for panel in dashboard.panels() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let location = format!("{}: {}", dashboard.file, panel["title"]);
                let text = target["expr"].as_str().expect("an expression");
                all.push(Expression { location, text: with_variables(text), is_alert: false });
            }
        }
        for variable in dashboard.queries() {
            let location = format!("{}: a variable", dashboard.file);
            all.push(Expression { location, text: with_variables(&variable), is_alert: false });
        }
    }
    for alert in prometheus.alerts().await {
        let location = format!("alert {}", alert["name"]);
        let text = alert["query"].as_str().expect("an expression").to_owned();
        all.push(Expression { location, text, is_alert: true });
    }
    scalers(&project("deploy/kubernetes"), &mut all);
    all
}

/// What Grafana would ask for when all is looked at.
fn with_variables(text: &str) -> String {
    text.replace("$__rate_interval", "20s").replace("$namespace", ".*").replace("$instance", ".*")
}

/// The queries of scalers: what has a `query` and a `threshold`.
fn scalers(directory: &Path, all: &mut Vec<Expression>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            scalers(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = read(&path);
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            documents.iter().for_each(|document| queries(&path, document, all));
        }
    }
}

fn queries(path: &Path, value: &Value, all: &mut Vec<Expression>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| queries(path, value, all)),
        Value::Object(members) => {
            if let (Some(Value::String(text)), Some(_)) =
                (members.get("query"), members.get("threshold"))
            {
                let location = path.display().to_string();
                all.push(Expression { location, text: text.clone(), is_alert: false });
            }
            members.values().for_each(|value| queries(path, value, all));
        }
        _ => {}
    }
}

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

static GROUPING: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\(([^)]*)\)"));
static BRACES: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"([a-zA-Z_:][\w:]*)\s*(\{(?:"[^"]*"|[^}"])*\})"#));
static WINDOW: LazyLock<Regex> = LazyLock::new(|| regex(r"\[[^\]]*\]|\boffset\s+\w+"));
static WORD: LazyLock<Regex> = LazyLock::new(|| regex(r#""[^"]*"|\b[a-zA-Z_:][\w:]*\b\s*\(?"#));
static MATCHER: LazyLock<Regex> = LazyLock::new(|| regex(r#"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*""#));

/// The series that an expression names.
pub fn selectors(text: &str) -> BTreeSet<Selector> {
    let mut selectors: BTreeSet<Selector> = BRACES
        .captures_iter(text)
        .map(|found| Selector { metric: found[1].to_owned(), matchers: found[2].to_owned() })
        .collect();
    let rest = GROUPING.replace_all(text, " ");
    let rest = BRACES.replace_all(&rest, " ");
    let rest = WINDOW.replace_all(&rest, " ");
    let words = WORD.find_iter(&rest).map(|word| word.as_str().trim());
    let bare = words.filter(|word| {
        let is_name = !word.starts_with('"') && !word.ends_with('(');
        is_name && !["and", "or", "unless", "bool", "namespace", "instance"].contains(word)
    });
    selectors.extend(bare.map(|word| Selector { metric: word.into(), matchers: String::new() }));
    selectors
}

/// The labels that an expression groups or joins by.
pub fn grouped_by(text: &str) -> BTreeSet<String> {
    let labels = GROUPING.captures_iter(text).flat_map(|found| {
        found[1].split(',').map(|label| label.trim().to_owned()).collect::<Vec<_>>()
    });
    labels.filter(|label| !label.is_empty()).collect()
}

/// The labels that a selector looks at.
pub fn matched(selector: &Selector) -> BTreeSet<String> {
    MATCHER.captures_iter(&selector.matchers).map(|found| found[1].to_owned()).collect()
}

#[test]
fn selectors_of_an_expression_are_found() {
    let text = r#"sum by (namespace, path) (rate(a_total{path="/c/{n}",x!~"}"}[5m] offset 1h))
        / on (namespace) group_left (version) max_over_time(max by (le) (b:c)[1h:1m]) > 14.4e3
        and vector(0) unless d or label_values(e, instance)"#;
    let found: Vec<String> = selectors(text).iter().map(Selector::text).collect();
    assert_eq!(found, [r#"a_total{path="/c/{n}",x!~"}"}"#, "b:c", "d", "e"]);
    assert_eq!(
        grouped_by(text).into_iter().collect::<Vec<_>>(),
        ["le", "namespace", "path", "version"]
    );
    let selector = selectors(text).into_iter().next().expect("one");
    assert_eq!(matched(&selector).into_iter().collect::<Vec<_>>(), ["path", "x"]);
}
