//! The time of day of each process, which can be set while it runs.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::python;

/// Dropped with the directory that its files are in.
pub struct Clocks {
    library: PathBuf,
    directory: PathBuf,
    files: BTreeMap<String, PathBuf>,
}

impl Clocks {
    /// Builds what moves them.
    pub fn build(directory: &Path) -> Self {
        let library = directory.join("clock.so");
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]);
        compile.arg(&library).arg(python::file("chaos/clock.c"));
        let status = compile.status().expect("a C compiler: on Debian, apt-get install gcc");
        assert!(status.success(), "clock.c is compiled");
        Self { library, directory: directory.to_owned(), files: BTreeMap::new() }
    }

    /// Variables of a process whose clock can be set.
    pub fn variables(&mut self, name: &str) -> [(&'static str, String); 2] {
        let file = self.directory.join(format!("{name}.clock"));
        std::fs::write(&file, 0_i64.to_ne_bytes()).expect("a file");
        let variables = [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("CLOCK_FILE", file.display().to_string()),
        ];
        self.files.insert(name.to_owned(), file);
        variables
    }

    /// Puts a process's clock so many seconds before or behind the machine's.
    pub fn set(&self, name: &str, seconds: i64) {
        let file = std::fs::File::options().write(true).open(&self.files[name]);
        let written = file.and_then(|file| file.write_all_at(&(seconds * 1_000).to_ne_bytes(), 0));
        written.expect("the file is written");
    }
}
