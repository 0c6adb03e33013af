//! The table and the file.

use std::path::Path;

use crate::figures::Figures;

/// One measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    pub name: String,
    pub seconds: f64,
    /// Bytes of the lines, before compression.
    pub raw_bytes: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// The most memory that the worker had resident meanwhile, in bytes.
    pub resident: Option<u64>,
}

/// The comparisons: each export with the pipe that returns the same records, and with its bound.
const PIPES: [(&str, &str); 2] = [
    ("longshore, document fields", "igzip -1, documents"),
    ("longshore, all fields", "igzip -1, records"),
];

pub struct Report {
    users: usize,
    aged: bool,
    /// All measurements of each, in the order of their first.
    measured: Vec<Vec<Measured>>,
}

impl Report {
    pub fn new(users: usize, aged: bool) -> Self {
        Self { users, aged, measured: Vec::new() }
    }

    pub fn add(&mut self, measured: Measured) {
        println!("  {:32} {:7.2} s", measured.name, measured.seconds);
        match self.measured.iter_mut().find(|all| all[0].name == measured.name) {
            Some(all) => all.push(measured),
            None => self.measured.push(vec![measured]),
        }
    }

    fn find(&self, name: &str) -> Option<&Measured> {
        self.measured.iter().find(|all| all[0].name == name).map(|all| median(all))
    }

    /// Speed next to the pipe: more than 1 is faster than it.
    fn compared_to_pipe(&self, measured: &Measured) -> Option<f64> {
        let (_, pipe) = PIPES.iter().find(|(name, _)| *name == measured.name)?;
        Some(self.find(pipe)?.seconds / measured.seconds)
    }

    /// The part of the time that the bound would have taken: 1 is the bound.
    fn of_bound(&self, measured: &Measured) -> Option<f64> {
        let choice = measured.name.strip_prefix("longshore, ")?;
        Some(self.find(&format!("bound, {choice}"))?.seconds / measured.seconds)
    }

    pub fn print(&self) {
        let runs = self.measured.iter().map(Vec::len).max().unwrap_or(0);
        println!("\n{}; medians of {runs}\n", self.title());
        println!(
            "{:32} {:>9} {:>10} {:>9} {:>7} {:>9} {:>9} {:>9}",
            "", "seconds", "users/s", "MB/s", "ratio", "of bound", "of pipe", "resident"
        );
        for all in &self.measured {
            let it = median(all);
            let factor = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.2}"));
            let resident = it.resident.map_or(String::new(), |bytes| format!("{} MB", bytes >> 20));
            println!(
                "{:32} {:>9.2} {:>10.0} {:>9.0} {:>7.2} {:>9} {:>9} {:>9}",
                it.name,
                it.seconds,
                self.users as f64 / it.seconds,
                it.raw_bytes as f64 / it.seconds / 1e6,
                it.raw_bytes as f64 / it.bytes as f64,
                factor(self.of_bound(it)),
                factor(self.compared_to_pipe(it)),
                resident,
            );
        }
        println!(
            "\nof bound: speed as a part of that of all stages alone on all cores; of pipe: speed\n\
             as a share of that of the igzip pipe over the same records. MB are of lines uncompressed."
        );
    }

    fn title(&self) -> String {
        let aged = if self.aged { ", 10% updated, PostgreSQL restarted" } else { "" };
        format!("{} users{aged}", self.users)
    }

    pub fn write(&self, file: &Path) {
        let mut figures = Figures::new(self.title());
        for measured in self.measured.iter().flatten() {
            let mut run = vec![
                ("seconds", measured.seconds),
                ("line MB", measured.raw_bytes as f64 / 1e6),
                ("file MB", measured.bytes as f64 / 1e6),
            ];
            run.extend(measured.resident.map(|bytes| ("resident MB", (bytes >> 20) as f64)));
            figures.record(&measured.name, run);
        }
        figures.write(file);
    }
}

/// The median of an odd number of measurements, or the later of the middle two.
fn median(measured: &[Measured]) -> &Measured {
    let mut sorted: Vec<&Measured> = measured.iter().collect();
    sorted.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    sorted[sorted.len() / 2]
}
