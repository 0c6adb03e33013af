//! Log lines on their way to standard error. Logging puts a line into memory and returns; one
//! thread writes. If the reader is slow or gone, lines are lost, but no work is delayed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write};
use std::os::fd::AsFd as _;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Bytes of lines that wait for the reader. Further lines are dropped.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Bytes that are written together, unless a line is longer: the atomic size of a pipe, so that
/// lines of several processes do not mix (`PIPE_BUF`).
const PIECE: usize = 4_096;

/// How long lines wait for others, so that many lines need few writes, and each does not wake the
/// thread.
const GATHER: Duration = Duration::from_millis(5);

/// How long the end of a process waits for a reader that reads nothing.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The total wait, also for a reader that reads slowly.
const MAX_FLUSH_WAIT: Duration = Duration::from_secs(5);

/// Pause before a blocked terminal or pipe is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// The lines of this process, once it logs.
static STARTED: OnceLock<Lines> = OnceLock::new();

/// Lines that wait to be written.
#[derive(Default)]
pub struct Lines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<u8>,
    /// How many wait for all lines to be written.
    flushing: usize,
    /// Whether a piece that is no longer in `waiting` is being written.
    is_writing: bool,
    /// Pieces that were written, or could not be.
    written: u64,
    dropped: u64,
}

/// Starts the thread that writes this process's log lines; later calls return the same instance.
pub(super) fn start() -> io::Result<&'static Lines> {
    // Not `io::stderr()`: a blocked writer would hold its lock forever.
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    if STARTED.set(Lines::default()).is_ok() {
        let lines = STARTED.wait();
        thread::Builder::new().name("log".into()).spawn(|| lines.write_to(stderr))?;
    }
    Ok(STARTED.wait())
}

/// How many lines this process dropped.
pub fn dropped() -> u64 {
    STARTED.get().map_or(0, |lines| lines.state.lock().dropped)
}

/// Writes a line after all others, however many wait. A process that logs waits for the reader as
/// at its end.
pub fn write_line(text: &str) {
    match STARTED.get() {
        Some(lines) => {
            lines.add_last(text);
            lines.flush_with(TIMEOUT, MAX_FLUSH_WAIT);
        }
        // There is no other place for an error of standard error.
        None => drop(writeln!(io::stderr(), "{text}")),
    }
}

/// Waits until everything is written, unless the reader has stopped.
pub fn flush() {
    if let Some(lines) = STARTED.get() {
        lines.flush_with(TIMEOUT, MAX_FLUSH_WAIT);
    }
}

/// Flushes when it is dropped, also where a panic ends the process.
pub struct FlushAtEnd;

impl Drop for FlushAtEnd {
    fn drop(&mut self) {
        flush();
    }
}

/// Every call is one event: a line, or several that belong together.
impl Write for &Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        if state.waiting.len() + event.len() > MAX_WAITING_BYTES {
            state.dropped += 1;
        } else {
            let before = state.waiting.len();
            state.waiting.extend(event);
            if before == 0 || (before < PIECE && state.is_due()) {
                self.changed.notify_all();
            }
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl State {
    /// Whether the lines do not wait for others.
    fn is_due(&self) -> bool {
        self.waiting.len() >= PIECE || self.flushing > 0
    }
}

impl Lines {
    /// Adds a line that is never dropped; a process has few of these.
    fn add_last(&self, text: &str) {
        let mut state = self.state.lock();
        state.waiting.extend(text.as_bytes());
        state.waiting.push_back(b'\n');
        drop(state);
        self.changed.notify_all();
    }

    /// Writes all lines as they arrive; never returns.
    fn write_to(&self, mut to: impl Write) {
        let mut reported = 0;
        loop {
            let piece = self.next_piece();
            let lines = piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            let is_written = write_to_end(&mut to, &piece).is_ok();
            let mut state = self.state.lock();
            state.is_writing = false;
            state.written += 1;
            state.dropped += if is_written { 0 } else { lines };
            let (dropped, is_drained) = (state.dropped, state.waiting.is_empty());
            drop(state);
            self.changed.notify_all();
            if is_drained && is_written && dropped > reported {
                tracing::warn!(
                    lines = dropped - reported,
                    "log lines dropped: standard error was not read"
                );
                reported = dropped;
            }
        }
    }

    /// Removes whole lines from the queue, up to the size that is written together.
    fn next_piece(&self) -> Vec<u8> {
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            self.changed.wait(&mut state);
        }
        self.changed.wait_while_for(&mut state, |state| !state.is_due(), GATHER);
        let is_end = |byte: &u8| *byte == b'\n';
        let limit = state.waiting.len().min(PIECE);
        let last_end = state.waiting.range(..limit).rposition(is_end);
        let end = last_end.or_else(|| state.waiting.iter().position(is_end));
        let end = end.map_or(state.waiting.len(), |at| at + 1);
        state.is_writing = true;
        // Not `drain`, which would copy byte by byte while callers wait for the lock.
        let mut piece = vec![0; end];
        // Never fails: there are as many bytes.
        let _ = state.waiting.read_exact(&mut piece);
        piece
    }

    /// Waits until everything is written, for at most `max_wait`; gives up earlier if nothing is
    /// written for `timeout`.
    fn flush_with(&self, timeout: Duration, max_wait: Duration) {
        let began = Instant::now();
        let mut state = self.state.lock();
        state.flushing += 1;
        self.changed.notify_all();
        while !state.waiting.is_empty() || state.is_writing {
            let written = state.written;
            let timeout = timeout.min(max_wait.saturating_sub(began.elapsed()));
            let is_busy = |state: &mut State| {
                state.written == written && (!state.waiting.is_empty() || state.is_writing)
            };
            let waited = self.changed.wait_while_for(&mut state, is_busy, timeout);
            if waited.timed_out() || began.elapsed() >= max_wait {
                break;
            }
        }
        state.flushing -= 1;
    }
}

/// Writes the whole piece, even if the destination is non-blocking.
fn write_to_end(to: &mut impl Write, mut piece: &[u8]) -> io::Result<()> {
    while !piece.is_empty() {
        match to.write(piece) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => piece = &piece[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, pipe};
    use std::sync::Arc;

    use super::*;

    fn started(to: impl Write + Send + 'static) -> Arc<Lines> {
        let lines = Arc::new(Lines::default());
        let written = lines.clone();
        thread::spawn(move || written.write_to(to));
        lines
    }

    fn log(mut lines: &Lines, text: &str) {
        lines.write_all(format!("{text}\n").as_bytes()).unwrap();
    }

    #[test]
    fn logging_never_blocks_and_dropped_lines_are_counted() {
        let (reader, writer) = pipe().unwrap();
        let lines = started(writer);
        let text = "x".repeat(999);
        for number in 0..5_000 {
            log(&lines, &format!("{number} {text}"));
        }
        let dropped = lines.state.lock().dropped;
        assert!(dropped > 3_000, "{dropped}");
        // Without a reader, the end still comes.
        lines.flush_with(Duration::from_millis(1), MAX_FLUSH_WAIT);
        // The last line is not dropped.
        lines.add_last("last");
        // Lines that were not dropped are complete and in order.
        let mut read = BufReader::new(reader).lines();
        let mut last = -1;
        for _ in 0..5_000 - dropped {
            let line = read.next().unwrap().unwrap();
            let number = line.strip_suffix(&text).unwrap().trim().parse().unwrap();
            assert!(number > last, "{number} after {last}");
            last = number;
        }
        assert_eq!(read.next().unwrap().unwrap(), "last");
        lines.flush_with(TIMEOUT, MAX_FLUSH_WAIT);
        log(&lines, "after all");
        assert_eq!(read.next().unwrap().unwrap(), "after all");
    }

    #[test]
    fn all_is_written_at_the_end() {
        let (reader, writer) = pipe().unwrap();
        let lines = started(writer);
        let long = "y".repeat(3 * PIECE);
        for text in ["short", &long, "last"] {
            log(&lines, text);
        }
        let read = thread::spawn(move || {
            BufReader::new(reader).lines().take(3).map(Result::unwrap).collect::<Vec<_>>()
        });
        lines.flush_with(TIMEOUT, MAX_FLUSH_WAIT);
        assert!(lines.state.lock().waiting.is_empty());
        assert_eq!(read.join().unwrap(), ["short", &long, "last"]);
    }

    #[test]
    fn a_closed_pipe_only_drops_lines() {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let lines = started(writer);
        log(&lines, "one");
        lines.flush_with(TIMEOUT, MAX_FLUSH_WAIT);
        assert_eq!(lines.state.lock().dropped, 1);
    }

    /// Every piece that is written brings another line.
    struct Endless(Arc<Lines>);

    impl Write for Endless {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            log(&self.0, "one more");
            thread::sleep(Duration::from_millis(1));
            Ok(piece.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_without_end_do_not_keep_a_process_from_ending() {
        let lines = Arc::new(Lines::default());
        let written = lines.clone();
        thread::spawn(move || written.write_to(Endless(written.clone())));
        log(&lines, "first");
        lines.flush_with(TIMEOUT, Duration::from_millis(100));
        assert!(lines.state.lock().written > 0);
    }
}
