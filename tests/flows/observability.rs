//! What operators see: each expression of dashboards, alerts and scalers against what running
//! processes really show, through a real Prometheus; alerts against the runbook.

mod dashboards;
mod expressions;
mod prometheus;
mod traces;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use expressions::{Expression, Selector};
use longshore::telemetry::metrics;
use prometheus::{Prometheus, promtool};
use serde_json::Value;

use crate::support::files::{project, read};

/// How long it may take until everything that was done is shown.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Series that are there in trouble alone: the metric, what a matcher of it holds (nothing: any),
/// and what would have to happen.
const RARE: &[(&str, &str, &str)] = &[
    ("longshore_http_requests_total", "5..", "a call is answered 5xx"),
    ("longshore_http_refused_total", "", "a gateway has no room for a call"),
    ("longshore_rate_limit_local_fallback_total", "", "the database does not answer a gateway"),
    ("longshore_log_append_seconds_count", "error", "the log takes no message"),
    ("longshore_claims_taken_over_total", "", "a worker is lost"),
    ("longshore_exports_total", "cause!~", "an export fails through no fault of its caller"),
    (
        "longshore_export_part_memory_restarts_total",
        "",
        "a part's users are larger than was thought",
    ),
    ("longshore_export_cleanup_failures_total", "", "a storage does not let files be removed"),
    ("longshore_dispatches_total", "failed", "what a send is of is gone"),
    ("longshore_dispatch_parts_total", "given_up", "a part ends its worker again and again"),
    ("longshore_message_attempts_total", "outcome=\"failed\"", "a channel refuses a message"),
    ("longshore_smtp_connections_total", "failed", "a relay is away"),
    ("longshore_schedules_fired_total", "missed", "no worker ran when a schedule's time came"),
];

/// Metrics of other programs.
const OTHERS: &[(&str, &str)] = &[
    ("up", "Prometheus itself"),
    ("ALERTS", "Prometheus itself"),
    ("container_memory_working_set_bytes", "a cluster's kubelets"),
    ("kube_pod_container_resource_limits", "a cluster's kube-state-metrics"),
];

/// Labels that scraping adds, and that of a histogram's buckets.
const SCRAPED: [&str; 5] = ["namespace", "job", "instance", "pod", "container"];

fn rare(selector: &Selector) -> Option<usize> {
    RARE.iter().position(|(metric, matcher, _)| {
        selector.metric == *metric && selector.matchers.contains(matcher)
    })
}

fn is_of_a_cluster(metric: &str) -> bool {
    metric.starts_with("container_") || metric.starts_with("kube_")
}

/// The labels that a metric is declared with; none where it is not declared.
fn declared(name: &str) -> Option<BTreeSet<&'static str>> {
    let of_histogram = ["_bucket", "_sum", "_count"];
    let has_series = |metric: &&metrics::Metric| {
        metric.name == name
            || (metric.kind == metrics::Kind::Histogram
                && of_histogram.iter().any(|end| name.strip_suffix(end) == Some(metric.name)))
    };
    let metric = metrics::all().find(has_series)?;
    let bucket = name.ends_with("_bucket").then_some("le");
    Some(metric.labels.iter().copied().chain(bucket).chain(SCRAPED).collect())
}

/// What an expression names that nothing declares.
fn undeclared(expression: &Expression) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut known: BTreeSet<&str> = SCRAPED.into();
    for selector in expressions::selectors(&expression.text) {
        if OTHERS.iter().any(|(metric, _)| selector.metric == *metric) {
            continue;
        }
        let Some(labels) = declared(&selector.metric) else {
            wrong.push(format!("{}: no metric {}", expression.location, selector.metric));
            continue;
        };
        let unknown = expressions::matched(&selector);
        let unknown = unknown.iter().filter(|label| !labels.contains(label.as_str()));
        wrong.extend(unknown.map(|label| {
            format!("{}: {} has no label {label}", expression.location, selector.metric)
        }));
        known.extend(labels);
    }
    let unknown = expressions::grouped_by(&expression.text);
    let unknown = unknown.into_iter().filter(|label| !known.contains(label.as_str()));
    wrong.extend(
        unknown.map(|label| format!("{}: nothing has a label {label}", expression.location)),
    );
    wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_exposes_the_metrics_of_dashboards_and_alerts() {
    let world = world::World::start().await;
    let prometheus = Prometheus::start(&world.installations()).await;
    let expressions = expressions::all(&prometheus).await;
    let wrong: Vec<String> = expressions.iter().flat_map(undeclared).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let listed: BTreeSet<usize> = expressions
        .iter()
        .flat_map(|expression| expressions::selectors(&expression.text))
        .filter_map(|selector| rare(&selector))
        .collect();
    for (index, (metric, matcher, _)) in RARE.iter().enumerate() {
        assert!(listed.contains(&index), "nobody asks for {metric} with {matcher:?}");
    }

    world.work().await;
    let wanted: BTreeSet<String> = expressions
        .iter()
        .flat_map(|expression| expressions::selectors(&expression.text))
        .filter(|selector| rare(selector).is_none() && !is_of_a_cluster(&selector.metric))
        .map(|selector| selector.text())
        .collect();
    let since = Instant::now();
    loop {
        let mut missing = Vec::new();
        for selector in &wanted {
            if prometheus.series(selector).await == 0 {
                missing.push(selector.as_str());
            }
        }
        if missing.is_empty() {
            break;
        }
        assert!(since.elapsed() < TIMEOUT, "nothing shows\n{}", missing.join("\n"));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    // Rates need two looks at what came last.
    let mut wrong = Vec::new();
    for expression in
        expressions.iter().filter(|expression| !expression.location.contains("a variable"))
    {
        let must_show = !expression.is_alert
            && expressions::selectors(&expression.text).iter().all(|it| rare(it).is_none());
        let since = Instant::now();
        loop {
            match prometheus.query(&expression.text).await {
                Err(error) => wrong.push(format!("{}: {error}", expression.location)),
                Ok(result) if result.is_empty() && must_show => {
                    if since.elapsed() < Duration::from_secs(5) {
                        tokio::time::sleep(Duration::from_millis(200)).await;
                        continue;
                    }
                    wrong.push(format!("{}: nothing by {}", expression.location, expression.text));
                }
                Ok(_) => {}
            }
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    only_expected_alerts_fire(&prometheus).await;
    world.close().await;
}

/// A fleet that starts and works wakes nobody.
async fn only_expected_alerts_fire(prometheus: &Prometheus) {
    let mut names = BTreeSet::new();
    for alert in prometheus.query(r#"ALERTS{alertstate="firing"}"#).await.expect("alerts") {
        names.insert(alert["metric"]["alertname"].as_str().expect("a name").to_owned());
    }
    let on_purpose = ["LongshoreDeadLetters", "LongshoreDeliveriesGivenUp"];
    assert!(names.contains(on_purpose[0]), "{names:?}");
    assert!(names.iter().all(|name| on_purpose.contains(&name.as_str())), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_alert_fires_when_it_should_and_only_then() {
    for arguments in [["check", "config", "prometheus.yaml"], ["test", "rules", "alerts.test.yaml"]]
    {
        let output = promtool(&arguments).await;
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}\n{}", String::from_utf8_lossy(&text));
    }
}

/// The alerts by name.
fn alerts() -> BTreeMap<String, Value> {
    let text = read(project("deploy/prometheus/alerts.yaml"));
    let rules: Value = serde_saphyr::from_str(&text).expect("YAML");
    let groups = rules["groups"].as_array().expect("groups").clone();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone());
    let named = rules.map(|rule| (rule["alert"].as_str().expect("an alert").to_owned(), rule));
    named.collect()
}

#[test]
fn each_alert_has_a_summary_and_a_runbook() {
    let tests = read(project("deploy/prometheus/alerts.test.yaml"));
    let index = read(project("docs/runbooks/alerts/index.md"));
    for (name, rule) in &alerts() {
        let severity = rule["labels"]["severity"].as_str().expect("a severity");
        assert!(["critical", "warning"].contains(&severity), "{name}: {severity}");
        let text = |part: &str| rule["annotations"][part].as_str().unwrap_or_default().to_owned();
        assert!(text("summary").ends_with('.') && text("description").ends_with('.'), "{name}");
        assert_eq!(text("runbook_url"), format!("docs/runbooks/alerts/{name}.md"));
        let dashboard = text("dashboard_url");
        let dashboard = dashboard.strip_prefix("/d/longshore-").and_then(|rest| {
            rest.strip_suffix("?var-namespace={{ $labels.namespace }}").map(str::to_owned)
        });
        let dashboard = dashboard.unwrap_or_else(|| panic!("{name} has no dashboard_url"));
        assert!(project(&format!("deploy/grafana/{dashboard}.json")).is_file(), "{name}");
        let page = read(project(&text("runbook_url")));
        assert!(page.starts_with(&format!("# {name}: ")), "{name}");
        assert!(page.contains(&format!("\nSeverity: `{severity}`.\n")), "{name}: {severity}");
        for heading in ["Meaning", "Impact", "Diagnosis", "Mitigation"] {
            assert!(page.contains(&format!("\n## {heading}\n")), "{name} has no {heading}");
        }
        let line = format!("| [{name}]({name}.md) | {severity} | ");
        assert_eq!(index.matches(&line).count(), 1, "the list of alerts has not one line {line}");
        let fires = format!("alertname=\"{name}\"");
        let is_tested = tests.contains(&fires) || tests.contains(&format!("alertname: {name}\n"));
        assert!(is_tested, "no case in which {name} fires");
    }
    let pages = std::fs::read_dir(project("docs/runbooks/alerts")).expect("the pages").count();
    assert_eq!(pages, alerts().len() + 1, "a page without an alert");
}
