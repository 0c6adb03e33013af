//! The dashboards as Grafana reads them.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;

use crate::support::files::{project, read};

pub struct Dashboard {
    /// Its file's name.
    pub file: String,
    pub json: Value,
}

impl Dashboard {
    /// Everything but the headings of rows.
    pub fn panels(&self) -> Vec<&Value> {
        let all = self.json["panels"].as_array().expect("panels");
        let inner = all.iter().flat_map(|panel| panel["panels"].as_array().into_iter().flatten());
        all.iter().chain(inner).filter(|panel| panel["type"] != "row").collect()
    }

    fn variables(&self) -> &Vec<Value> {
        self.json["templating"]["list"].as_array().expect("variables")
    }

    /// The queries of variables.
    pub fn queries(&self) -> Vec<String> {
        let queries = self.variables().iter().filter(|variable| variable["type"] == "query");
        queries
            .map(|variable| variable["query"]["query"].as_str().expect("a query").into())
            .collect()
    }
}

pub fn all() -> Vec<Dashboard> {
    let entries = std::fs::read_dir(project("deploy/grafana")).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<Dashboard> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let text = read(&path);
            let json = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let file = path.file_name().expect("a name").to_string_lossy().into_owned();
            Dashboard { file, json }
        })
        .collect();
    all.sort_by(|a, b| a.file.cmp(&b.file));
    all
}

#[test]
fn dashboards_have_unique_ids_and_links() {
    let all = all();
    let uids: BTreeSet<&str> =
        all.iter().map(|dashboard| dashboard.json["uid"].as_str().expect("a uid")).collect();
    let expected = ["deliveries", "exports", "fleet", "ingestion", "messages"]
        .map(|name| format!("longshore-{name}"));
    assert!(uids.iter().eq(expected.iter()), "{uids:?}");
    for dashboard in &all {
        let (file, json) = (&dashboard.file, &dashboard.json);
        assert_eq!(json["id"], Value::Null, "{file}: ids are a database's");
        assert_eq!(json["uid"], format!("longshore-{}", file.trim_end_matches(".json")));
        assert_eq!(json["tags"], serde_json::json!(["longshore"]), "{file}");
        let links = json["links"].as_array().expect("links");
        let to_others = |link: &Value| link["type"] == "dashboards" && link["tags"] == json["tags"];
        assert!(links.iter().any(to_others), "{file}: no links to the others");
        let names: Vec<&str> = dashboard
            .variables()
            .iter()
            .map(|variable| variable["name"].as_str().unwrap())
            .collect();
        assert!(names.starts_with(&["datasource", "namespace"]), "{file}: {names:?}");
    }
}

#[test]
fn each_panel_has_a_description() {
    let link = Regex::new(r"\(\$\{runbook\}/([\w/-]+)\.html\)").expect("a regular expression");
    for dashboard in all() {
        let (mut ids, mut titles) = (BTreeSet::new(), BTreeSet::new());
        let of_source = |value: &Value| value["datasource"]["uid"] == "${datasource}";
        for panel in dashboard.panels() {
            let location = format!("{}: {}", dashboard.file, panel["title"]);
            let text = |name: &str| panel[name].as_str().unwrap_or_default().to_owned();
            assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{location}: its id");
            assert!(
                !text("title").is_empty() && titles.insert(text("title")),
                "{location}: its title"
            );
            let unit = panel["fieldConfig"]["defaults"]["unit"].as_str();
            assert!(unit.is_some_and(|unit| !unit.is_empty()), "{location} has no unit");
            assert!(panel["fieldConfig"]["defaults"]["thresholds"].is_object(), "{location}");
            let targets = panel["targets"].as_array().expect("targets");
            assert!(
                of_source(panel) && targets.iter().all(of_source),
                "{location}: its data source"
            );
            assert!(!targets.is_empty(), "{location} asks for nothing");
            for target in targets {
                let text = target["expr"].as_str().expect("an expression");
                assert!(text.contains(r#"namespace=~"$namespace""#), "{location}: {text}");
            }
            let description = text("description");
            let says = description.to_lowercase().contains("normal");
            assert!(says, "{location} does not say what is normal: {description}");
            let page = link.captures(&description);
            let page = page.unwrap_or_else(|| panic!("{location}: {description}"))[1].to_owned();
            assert!(project(&format!("docs/{page}.md")).is_file(), "{location}: no page {page}");
        }
    }
}

/// Limits of alerts, and the panels that show them: the alert, the dashboard, the panel and the
/// limit as both write it.
const LIMITS: &[(&str, &str, &str, &str)] = &[
    ("LongshoreBackupOld", "fleet", "Age of the last backup", "93600"),
    ("LongshoreRequestsFailing", "fleet", "Requests with 5xx", "0.02"),
    ("LongshoreGatewaysOverloaded", "fleet", "Requests rejected at capacity", "0.1"),
    ("LongshoreAppendsSlow", "fleet", "Time to append", "1"),
    ("LongshoreIngestionLate", "fleet", "Age of the oldest message not applied", "300"),
    ("LongshoreWorkNotClaimed", "fleet", "Oldest that is ready", "300"),
    ("LongshoreWorkLate", "fleet", "Oldest that is ready", "14400"),
    ("LongshoreFileDescriptorsLow", "fleet", "File descriptors", "0.8"),
    ("LongshorePoolExhausted", "fleet", "Database connections in use", "0.95"),
    ("LongshoreExportsWaiting", "exports", "Oldest in its state", "900"),
    ("LongshoreExportSlow", "exports", "Oldest in its state", "21600"),
    ("LongshoreWorkNotClaimed", "exports", "Oldest part that is ready", "300"),
    ("LongshoreIngestionLate", "ingestion", "Age of the oldest not applied", "300"),
    ("LongshoreIngestionFarBehind", "ingestion", "Furthest behind", "3600"),
    ("LongshoreSendsWaiting", "messages", "Oldest work that is ready", "120"),
    ("LongshoreSendsNotStarted", "messages", "Sends not started", "60"),
    ("LongshoreChannelRejecting", "messages", "Share not accepted", "0.1"),
    ("LongshoreTransactionalShareLow", "messages", "Within a minute, covered", "0.999"),
    ("LongshoreDeliveriesLate", "deliveries", "Oldest pending", "14400"),
    ("LongshoreWorkNotClaimed", "deliveries", "Oldest that is ready", "300"),
];

#[test]
fn panels_show_the_limits_of_alerts() {
    let alerts = read(project("deploy/prometheus/alerts.yaml"));
    let all = all();
    for (alert, dashboard, title, limit) in LIMITS {
        let rule = alerts.split("- alert: ").find(|rule| rule.starts_with(&format!("{alert}\n")));
        let rule = rule.unwrap_or_else(|| panic!("no alert {alert}"));
        let compared = rule
            .lines()
            .any(|line| ["> ", "< "].iter().any(|sign| line.ends_with(&format!("{sign}{limit}"))));
        assert!(compared, "{alert} has another limit than {limit}");
        let found = all
            .iter()
            .find(|dashboard_file| dashboard_file.file == format!("{dashboard}.json"))
            .unwrap();
        let panel = found.panels().into_iter().find(|panel| panel["title"] == *title);
        let defaults =
            &panel.unwrap_or_else(|| panic!("no panel {title}"))["fieldConfig"]["defaults"];
        let steps = defaults["thresholds"]["steps"].as_array().expect("steps");
        let limit: f64 = limit.parse().unwrap();
        assert!(steps.iter().any(|step| step["value"].as_f64() == Some(limit)), "{title}: {limit}");
        // A limit that is not drawn shows nobody anything.
        assert_ne!(defaults["custom"]["thresholdsStyle"]["mode"], "off", "{title}");
    }
}
