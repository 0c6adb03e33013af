//! A real Prometheus on this machine, which `scripts/prometheus` installs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

use crate::support::eventually;
use crate::support::files::project;
use crate::support::process::{self, Process, free_port};

/// A program of the package: `prometheus` or `promtool`.
async fn program(name: &str) -> PathBuf {
    let mut command = Command::new(project("scripts/prometheus"));
    command.stderr(Stdio::inherit());
    let output = process::output(command).await;
    assert!(output.status.success(), "scripts/prometheus: {}", output.status);
    Path::new(String::from_utf8(output.stdout).expect("a path").trim()).join(name)
}

/// Runs promtool in `deploy/prometheus`.
pub async fn promtool(arguments: &[&str]) -> Output {
    let mut command = Command::new(program("promtool").await);
    command.args(arguments).current_dir(project("deploy/prometheus"));
    process::output(command).await
}

/// Scrapes until it is dropped, twice a second, and judges the alerts.
pub struct Prometheus {
    /// It ends before its directory goes: fields are dropped in their order.
    _process: Process,
    _directory: TempDir,
    base: Url,
}

impl Prometheus {
    /// `installations` are the addresses of processes, by the namespace that they are in.
    pub async fn start(installations: &BTreeMap<&str, Vec<String>>) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let targets: Vec<Value> = installations
            .iter()
            .map(|(name, addresses)| json!({ "targets": addresses, "labels": { "namespace": name } }))
            .collect();
        // JSON is YAML.
        let config = json!({
            "global": { "scrape_interval": "500ms", "scrape_timeout": "500ms",
                        "evaluation_interval": "1s" },
            "rule_files": [project("deploy/prometheus/alerts.yaml")],
            "scrape_configs": [{ "job_name": "longshore", "static_configs": targets }],
        });
        let config_file = directory.path().join("prometheus.yaml");
        std::fs::write(&config_file, config.to_string()).expect("the file is written");
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = Command::new(program("prometheus").await);
        command
            .arg(format!("--config.file={}", config_file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--enable-feature=exemplar-storage")
            .arg("--log.level=warn")
            .stdin(Stdio::null());
        let mut process = Process::start("prometheus", directory.path(), command);
        let base: Url = format!("http://{address}").parse().expect("an address");
        let ready = base.join("-/ready").expect("an address");
        eventually("Prometheus is ready", || {
            assert!(process.is_running(), "Prometheus has ended\n{}", process.tail());
            let ready = ready.clone();
            async { reqwest::get(ready).await.is_ok_and(|answer| answer.status() == 200) }
        })
        .await;
        Self { _process: process, _directory: directory, base }
    }

    /// The data of a response, or why there is none.
    async fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let mut address = self.base.join(path).expect("an address");
        address.query_pairs_mut().extend_pairs(parameters);
        let answer = reqwest::get(address).await.expect("Prometheus answers");
        let mut body: Value = answer.json().await.expect("JSON");
        match body["status"].as_str() {
            Some("success") => Ok(body["data"].take()),
            _ => Err(body["error"].as_str().unwrap_or_default().to_owned()),
        }
    }

    /// What an expression comes to now; or why it is none.
    pub async fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let data = self.get("api/v1/query", &[("query", expression)]).await?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// How many series a selector has.
    pub async fn series(&self, selector: &str) -> usize {
        let data = self.get("api/v1/series", &[("match[]", selector)]).await;
        let data = data.unwrap_or_else(|error| panic!("{selector}: {error}"));
        data.as_array().map_or(0, Vec::len)
    }

    /// The ids of the traces that the series of a selector refer to.
    pub async fn traces(&self, selector: &str) -> BTreeSet<String> {
        let parameters = [("query", selector), ("start", "0"), ("end", "9999999999")];
        let found = self.get("api/v1/query_exemplars", &parameters).await;
        let found = found.unwrap_or_else(|error| panic!("{selector}: {error}"));
        let series = found.as_array().expect("series");
        let exemplars =
            series.iter().flat_map(|entry| entry["exemplars"].as_array().expect("exemplars"));
        exemplars
            .map(|exemplar| exemplar["labels"]["trace_id"].as_str().expect("an id").to_owned())
            .collect()
    }

    /// Each alert as Prometheus has read it.
    pub async fn alerts(&self) -> Vec<Value> {
        let data = self.get("api/v1/rules", &[("type", "alert")]).await.expect("rules");
        let groups = data["groups"].as_array().expect("groups");
        groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
    }
}
