//! `longshore config`: the settings in effect, and manifests for Kubernetes, checked before they
//! are applied.

mod manifests;
pub mod process;
mod rules;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use self::manifests::Manifests;
use serde_json::{Value, json};

use super::{CommandResult, Error, table};
use crate::config::{Config, ConfigError, Origin, ShownSetting};

/// Show settings, and check manifests before they are applied
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore config show --set
  longshore config check --kubernetes manifests.yaml")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show each setting with its value and where it is set: by default, in the file or in the
    /// environment
    ///
    /// Secrets are never shown, nor values in the query of a URL. The settings are those of this
    /// shell: a service may have others. If some are invalid, the command shows all, and fails.
    #[command(after_help = "Examples:
  longshore config show --set
  longshore config show --config /etc/longshore/longshore.toml --json")]
    Show {
        /// Only settings that the file or the environment sets
        #[arg(long)]
        set: bool,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Check manifests for Kubernetes, and print each problem
    ///
    /// Reads manifests as `kubectl kustomize` or `kubectl get -o yaml` print them. Checks the
    /// settings of each process as the process itself does. Also checks what would stop a process
    /// or its rollout: references to Secrets and ConfigMaps, ports of probes and Services, roles
    /// without a worker, memory limits, termination grace periods, disruption budgets, scalers, and
    /// the Ingress. Opens no connections. Exits with 0 only if there is no problem.
    #[command(after_help = "Example:
  kubectl kustomize deploy/kubernetes/overlays/production |
    longshore config check --kubernetes - --secrets longshore,longshore-tls")]
    Check {
        /// Manifests: a file, a folder of .yaml files, or - for standard input
        #[arg(long, value_name = "FILE|DIR")]
        kubernetes: PathBuf,
        /// Secrets that exist in the cluster and are not among the manifests
        #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
        secrets: Vec<String>,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
}

impl Arguments {
    /// Whether the command shows invalid settings, too.
    pub fn takes_invalid_settings(&self) -> bool {
        matches!(self.command, Command::Show { .. })
    }
}

pub fn run(Arguments { command }: Arguments, file: Option<&Path>) -> CommandResult {
    match command {
        Command::Show { set, json } => show(file, set, json),
        Command::Check { kubernetes, secrets, json } => check(&kubernetes, secrets, json),
    }
}

fn show(file: Option<&Path>, only_set: bool, json: bool) -> CommandResult {
    let (mut settings, problems) = Config::origins(file, std::env::vars_os());
    settings.retain(|setting| !only_set || setting.origin != Origin::Default);
    let headers = ["SETTING", "ORIGIN", "VARIABLE", "VALUE"];
    table::print(json, "settings", headers, &settings, |setting| {
        [
            table::text(&setting.name),
            table::text(setting.origin.name()),
            table::text(&setting.variable),
            table::optional(Some(table::text(value(setting)))),
        ]
    })?;
    if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }.into()) }
}

fn value(setting: &ShownSetting) -> String {
    match &setting.value {
        _ if setting.invalid => "(invalid)".to_owned(),
        _ if setting.hidden => "(not shown)".to_owned(),
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}

fn check(kubernetes: &Path, secrets: Vec<String>, json: bool) -> CommandResult {
    let mut manifests = Manifests::new(secrets);
    for (name, text) in read(kubernetes)? {
        manifests.add(&text).map_err(|error| format!("{name}: {error}"))?;
    }
    let problems = rules::check(&manifests);
    for problem in &problems {
        if json {
            println!("{}", json!({ "problem": problem }));
        } else {
            println!("{problem}");
        }
    }
    match problems.len() {
        0 if json => Ok(()),
        0 => {
            let objects = manifests.all.len();
            println!("Checked {objects} objects: no problems.");
            Ok(())
        }
        1 => Err("1 problem".into()),
        count => Err(format!("{count} problems").into()),
    }
}

/// The texts, each with the name of its file.
fn read(path: &Path) -> CommandResult<Vec<(String, String)>> {
    let name = path.display().to_string();
    if name == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(vec![("standard input".into(), text)]);
    }
    if !path.is_dir() {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        return Ok(vec![(name, text)]);
    }
    if path.join("kustomization.yaml").exists() {
        let hint = format!("kubectl kustomize {name} | longshore config check --kubernetes -");
        return Err(format!("{name} is a kustomization, not its result. Run: {hint}").into());
    }
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            let name = file.display().to_string();
            let text =
                std::fs::read_to_string(&file).map_err(|error| format!("{name}: {error}"))?;
            texts.push((name, text));
        }
    }
    texts.sort();
    if texts.is_empty() { Err(Error::from(format!("{name}: no .yaml files"))) } else { Ok(texts) }
}
