//! The remaining limits of one rendering.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::Stop;

/// Maximum steps of one rendering: each element, lookup, comparison and loop iteration is one, and
/// so is each [`BYTES_A_STEP`] of text that is read or created.
pub const MAX_STEPS: u64 = 500_000;

/// Maximum bytes of one rendering's output.
pub const MAX_OUTPUT: usize = 1 << 20;

/// Maximum bytes that the filters, captures and loops of one rendering create in total, including
/// those already released.
pub const MAX_CREATED: usize = 16 << 20;

/// Maximum processor time of one rendering. Not wall-clock time, so that a process that is paused
/// for a while fails no message.
pub const MAX_TIME: Duration = Duration::from_secs(1);

/// Maximum bytes of the names and values of `message_extras`.
pub const MAX_EXTRAS: usize = 1_000;

const BYTES_A_STEP: usize = 64;

/// Steps between two checks of the clock: short templates never check it.
const STEPS_A_CHECK: u64 = 4_096;

/// Counted size of a value in an array.
const BYTES_A_VALUE: usize = 32;

/// What is left of the limits of one rendering, of a text or of all texts of a message.
#[derive(Debug)]
pub struct RenderBudget {
    /// The current time: milliseconds since the epoch.
    pub(super) now: i64,
    steps: u64,
    creatable: usize,
    output: usize,
    extras: BTreeMap<String, String>,
    check_at: u64,
    /// Processor time of this thread at the first check of the clock.
    began: Option<Duration>,
}

impl RenderBudget {
    pub fn new(now: i64) -> Self {
        Self {
            now,
            steps: MAX_STEPS,
            creatable: MAX_CREATED,
            output: MAX_OUTPUT,
            extras: BTreeMap::new(),
            check_at: MAX_STEPS - STEPS_A_CHECK,
            began: None,
        }
    }

    /// Counts steps.
    pub(super) fn step(&mut self, steps: u64) -> Result<(), Stop> {
        match self.steps.checked_sub(steps) {
            Some(remaining) => self.steps = remaining,
            None => return Err(failed("takes more than {} steps", MAX_STEPS)),
        }
        if self.steps < self.check_at { self.check_time() } else { Ok(()) }
    }

    /// Counts text that is read through.
    pub(super) fn read(&mut self, bytes: usize) -> Result<(), Stop> {
        self.step(1 + (bytes / BYTES_A_STEP) as u64)
    }

    /// Counts text before it is created.
    pub(super) fn make(&mut self, bytes: usize) -> Result<(), Stop> {
        match self.creatable.checked_sub(bytes) {
            Some(remaining) => self.creatable = remaining,
            None => return Err(failed("creates more than {} bytes", MAX_CREATED as u64)),
        }
        self.read(bytes)
    }

    /// Counts an array before it is created.
    pub(super) fn hold(&mut self, values: usize) -> Result<(), Stop> {
        self.make(values.saturating_mul(BYTES_A_VALUE))
    }

    /// Counts text before it is printed.
    pub(super) fn print(&mut self, bytes: usize) -> Result<(), Stop> {
        match self.output.checked_sub(bytes) {
            Some(remaining) => self.output = remaining,
            None => return Err(failed("prints more than {} bytes", MAX_OUTPUT as u64)),
        }
        self.read(bytes)
    }

    /// Adds data that goes with the message, in addition to its text.
    pub(super) fn extra(&mut self, key: &str, value: &str) -> Result<(), Stop> {
        let bytes = |(key, value): (&String, &String)| key.len() + value.len();
        let used: usize = self.extras.iter().map(bytes).sum();
        if used + key.len() + value.len() > MAX_EXTRAS {
            return Err(failed("adds more than {} bytes of message extras", MAX_EXTRAS as u64));
        }
        self.extras.insert(key.to_owned(), value.to_owned());
        self.step(1)
    }

    /// The names and values from `message_extras`.
    pub fn into_extras(self) -> BTreeMap<String, String> {
        self.extras
    }

    fn check_time(&mut self) -> Result<(), Stop> {
        self.check_at = self.steps.saturating_sub(STEPS_A_CHECK);
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let used = Duration::new(
            u64::try_from(time.tv_sec).unwrap_or_default(),
            u32::try_from(time.tv_nsec).unwrap_or_default(),
        );
        let began = *self.began.get_or_insert(used);
        if used.saturating_sub(began) > MAX_TIME {
            Err(failed("takes more than {} ms", MAX_TIME.as_millis() as u64))
        } else {
            Ok(())
        }
    }
}

fn failed(text: &str, bound: u64) -> Stop {
    Stop::Failed(format!("the template {}", text.replace("{}", &bound.to_string())))
}
