//! What was measured: a row a case, the medians of its runs in the table, all of them in the
//! file. `scripts/bench` reads the file, also those that other revisions write: cases and columns
//! keep their names, which docs/explanation/benchmarks-method.md lists.

use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

/// One measurement: columns and their values, in the table's order.
type Run = Vec<(&'static str, f64)>;

pub struct Figures {
    title: String,
    /// All runs of each case, in the order of their first.
    cases: Vec<(String, Vec<Run>)>,
}

impl Figures {
    pub fn new(title: String) -> Self {
        Self { title, cases: Vec::new() }
    }

    pub fn add(&mut self, case: &str, run: Run) {
        let cells: Vec<String> =
            run.iter().map(|(name, n)| format!("{} {name}", cell(*n))).collect();
        println!("  {case:36} {}", cells.join(", "));
        self.record(case, run);
    }

    /// Adds a run without printing it.
    pub fn record(&mut self, case: &str, run: Run) {
        match self.cases.iter_mut().find(|(name, _)| name == case) {
            Some((_, runs)) => runs.push(run),
            None => self.cases.push((case.to_owned(), vec![run])),
        }
    }

    pub fn print(&self) {
        let runs = self.cases.iter().map(|(_, runs)| runs.len()).max().unwrap_or(0);
        println!("\n{}; medians of {runs}\n", self.title);
        let mut columns: Vec<&str> = Vec::new();
        for (name, _) in self.cases.iter().flat_map(|(_, runs)| &runs[0]) {
            if !columns.contains(name) {
                columns.push(name);
            }
        }
        let heads: Vec<String> = columns.iter().map(|name| format!("{name:>13}")).collect();
        println!("{:36}{}", "", heads.concat());
        for (case, runs) in &self.cases {
            let cells = columns.iter().map(|name| median(runs, name).map_or(String::new(), cell));
            let cells: Vec<String> = cells.map(|cell| format!("{cell:>13}")).collect();
            println!("{case:36}{}", cells.concat());
        }
    }

    pub fn write(&self, file: &Path) {
        let text = serde_json::to_string_pretty(&self.to_json()).expect("plain values are JSON");
        std::fs::write(file, text + "\n").expect("the file is written");
    }

    pub fn to_json(&self) -> Value {
        let object = |run: &Run| -> Value {
            run.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect::<Map<_, _>>().into()
        };
        let cases: Vec<Value> = self
            .cases
            .iter()
            .map(|(case, runs)| {
                let medians =
                    runs[0].iter().map(|(name, _)| (*name, median(runs, name).unwrap_or(0.0)));
                json!({
                    "case": case,
                    "median": object(&medians.collect()),
                    "runs": runs.iter().map(object).collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({
            "bench": env!("CARGO_CRATE_NAME"),
            "title": self.title,
            "environment": environment(),
            "cases": cases,
        })
    }
}

/// What figures depend on besides the code that they measure.
fn environment() -> Value {
    let server = Path::new(env!("CARGO_BIN_EXE_longshore"));
    let profile = server.parent().and_then(Path::file_name).unwrap_or_default();
    json!({
        "processor": processor(),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "revision": revision(),
        "profile": profile.to_string_lossy(),
        "overrides": overrides(),
    })
}

/// What the environment changes of the profile in Cargo.toml: the bench runs in the environment
/// that it was built in.
fn overrides() -> Map<String, Value> {
    let differs = |name: &str| name.starts_with("CARGO_PROFILE_") || name == "RUSTFLAGS";
    std::env::vars()
        .filter(|(name, _)| differs(name))
        .map(|(name, value)| (name, Value::from(value)))
        .collect()
}

/// The processor's model; none where Linux does not name it, as on some arm64 machines.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map(|(_, name)| name.trim().to_owned())
}

/// The commit that is measured; `scripts/bench` names it where the sources are not in a clone.
fn revision() -> Option<String> {
    if let Ok(revision) = std::env::var("BENCH_REVISION") {
        return Some(revision);
    }
    let describe = ["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"];
    let output = Command::new("git").args(describe).output().ok()?;
    let revision = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| revision.trim().to_owned())
}

/// The median of an odd number of runs, or the later of the middle two; none where no run has
/// the column.
fn median(runs: &[Run], column: &str) -> Option<f64> {
    let of_run = |run: &Run| run.iter().find(|(name, _)| *name == column).map(|(_, n)| *n);
    let mut all: Vec<f64> = runs.iter().filter_map(of_run).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

fn cell(n: f64) -> String {
    if n < 100.0 { format!("{n:.2}") } else { format!("{n:.0}") }
}
