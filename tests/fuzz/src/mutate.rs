//! Mutates texts by their tokens: words, numbers, quotes and brackets.

use std::collections::BTreeSet;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Tokens that may have an effect in any text.
const ODD: [&str; 24] = [
    "null",
    "true",
    "0",
    "-1",
    "1e400",
    "1e-400",
    "1.10",
    "9223372036854775808",
    "-0",
    "18446744073709551616",
    "\"\"",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\"\u{1f600}\"",
    "é",
    "{}",
    "[]",
    "\\",
    "\"",
    "2026-11-21T10:00:00.5+05:30",
    "\"9999-12-31T23:59:60Z\"",
    " ",
    "\n",
    "%00",
];

/// Maximum bytes of a mutated text.
const MAX: usize = 64 << 10;

/// Maximum number of changes of one text.
const CHANGES: usize = 6;

/// Mutates texts with known words.
pub struct Mutator {
    words: Vec<Vec<u8>>,
}

impl Mutator {
    /// A mutator with the words of some texts.
    pub fn new(texts: &[Vec<u8>]) -> Self {
        let of_texts = texts.iter().flat_map(|text| pieces(text)).filter(|piece| piece.len() > 1);
        let odd = ODD.iter().map(|word| word.as_bytes());
        let words: BTreeSet<&[u8]> = of_texts.chain(odd).collect();
        Self { words: words.into_iter().map(<[u8]>::to_vec).collect() }
    }

    /// Mutates the text; the same seed gives the same result.
    pub fn mutate(&self, text: &[u8], seed: u64) -> Vec<u8> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut text: Vec<Vec<u8>> = pieces(text).map(<[u8]>::to_vec).collect();
        for _ in 0..random.random_range(1..=CHANGES) {
            self.change(&mut text, &mut random);
        }
        let mut text = text.concat();
        text.truncate(MAX);
        text
    }

    fn change(&self, text: &mut Vec<Vec<u8>>, random: &mut ChaCha8Rng) {
        let word = self.words[random.random_range(0..self.words.len())].clone();
        let at = random.random_range(0..=text.len());
        let to = (at + random.random_range(1..=8)).min(text.len());
        match random.random_range(0..8) {
            0 => text.insert(at, word),
            1 if at < text.len() => text[at] = word,
            2 => drop(text.drain(at..to)),
            3 => {
                let target = random.random_range(0..=text.len());
                let copy = text[at..to].to_vec();
                text.splice(target..target, copy);
            }
            4 if at < text.len() => {
                let other = random.random_range(0..text.len());
                text.swap(at, other);
            }
            5 => {
                let bytes: usize = text[at..to].iter().map(Vec::len).sum();
                let max_times = (1 << random.random_range(1..=12)).min(MAX / bytes.max(1));
                let times = random.random_range(0..=max_times);
                let copies = std::iter::repeat_n(text[at..to].to_vec(), times).flatten();
                text.splice(to..to, copies.collect::<Vec<_>>());
            }
            6 => text.truncate(at),
            _ => {
                if let Some(byte) = text.get_mut(at).and_then(|piece| piece.first_mut()) {
                    *byte = random.random();
                }
            }
        }
    }
}

/// The words of a text, and every other byte separately.
fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | 128..);
    text.chunk_by(move |a, b| in_word(a) && in_word(b))
}
