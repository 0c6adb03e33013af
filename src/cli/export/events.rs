//! Reads server-sent events, as the HTML standard defines them.

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};

/// Maximum size of an event. A status has a few kilobytes.
const MAX_BYTES: usize = 1 << 20;

/// An event with data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub data: String,
}

/// A stream of events.
pub struct Events {
    chunks: BoxStream<'static, reqwest::Result<Bytes>>,
    parser: Parser,
}

impl Events {
    pub fn new(response: reqwest::Response) -> Self {
        Self { chunks: response.bytes_stream().boxed(), parser: Parser::default() }
    }

    /// The next event; none at the end of the stream, whatever ended it.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.parser.next() {
                return Some(event);
            }
            let chunk = self.chunks.next().await?.ok()?;
            if !self.parser.push(&chunk) {
                return None;
            }
        }
    }
}

/// Splits a stream into events, wherever its chunks end.
#[derive(Default)]
struct Parser {
    buffer: Vec<u8>,
    event: Event,
}

impl Parser {
    /// Adds a part of the stream; `false` if an event is too large.
    fn push(&mut self, chunk: &[u8]) -> bool {
        self.buffer.extend_from_slice(chunk);
        self.buffer.len() + self.event.data.len() <= MAX_BYTES
    }

    /// The next complete event.
    fn next(&mut self) -> Option<Event> {
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if !line.is_empty() {
                self.read(line);
                continue;
            }
            let event = std::mem::take(&mut self.event);
            if !event.data.is_empty() {
                return Some(event);
            }
        }
        None
    }

    /// Reads a line of an event. Comments, and fields that are not needed, have no effect.
    fn read(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.name = value.to_owned(),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = "retry: 2000\nevent: status\ndata: {\"é\":1}\n\n: \n\nevent:end\r\n\
                          data: a\r\ndata:b\r\n\r\nevent: none\n\ndata: cut";

    fn events(chunks: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            assert!(parser.push(chunk));
            events.extend(std::iter::from_fn(|| parser.next()));
        }
        events
    }

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into() }
    }

    #[test]
    fn events_without_data_and_cut_ones_are_ignored() {
        let expected = [event("status", "{\"é\":1}"), event("end", "a\nb")];
        assert_eq!(events(&[STREAM.as_bytes()]), expected);
        assert_eq!(events(&[b"\n\n:\n\ndata\n\n"]), []);
        assert!(!Parser::default().push(&vec![b'a'; MAX_BYTES + 1]));
    }

    proptest! {
        #[test]
        fn chunks_can_end_anywhere(sizes in prop::collection::vec(1_usize..9, 1..40)) {
            let mut rest = STREAM.as_bytes();
            let mut chunks = Vec::new();
            for size in sizes {
                let (chunk, others) = rest.split_at(size.min(rest.len()));
                chunks.push(chunk);
                rest = others;
            }
            chunks.push(rest);
            prop_assert_eq!(events(&chunks), events(&[STREAM.as_bytes()]));
        }
    }
}
