//! Regular expressions of customers, with a budget of steps.
//!
//! Most searches take one step for each byte of the text: they remember which states the pattern
//! can be in after each text so far. For a pattern such as `[01]*1[01]{2000}a`, this takes too much
//! memory. Each byte then takes a step for each state of the pattern. Such a search is done only if
//! the [`Budget`] allows its steps, so that a text takes milliseconds, whatever the pattern is.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use regex_automata::Input;
use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, Compiler, NFA, State, WhichCaptures};
use regex_automata::util::syntax;

/// Maximum bytes of a compiled pattern.
const MAX_COMPILED_BYTES: usize = 256 << 10;

/// Maximum bytes that a pattern remembers of its searches.
const REMEMBERED_BYTES: usize = 1 << 20;

/// Maximum steps of the searches for one item, such as a user: some 30 milliseconds.
const ITEM_STEPS: u64 = 10_000_000;

/// Maximum steps of all searches: so many, and so many more for each item.
const ALL_STEPS: u64 = 1_000_000_000;
const STEPS_PER_ITEM: u64 = 100_000;

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    TooLarge,
    /// With the reason.
    Invalid(String),
}

/// The searches for an item, or all searches, take more steps than they may.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "The regular expression {pattern:?} takes too long on the texts of users. Use fewer and \
     smaller repetitions, such as {{1,20}}"
)]
pub struct TooCostly {
    /// The pattern whose search was not done.
    pub pattern: String,
}

/// Counts the steps of searches that take more than a step for each byte.
#[derive(Debug, Default)]
pub struct Budget {
    items: AtomicU64,
    spent: AtomicU64,
}

impl Budget {
    /// The budget of one more item.
    pub fn item(&self) -> ItemBudget<'_> {
        self.items.fetch_add(1, Ordering::Relaxed);
        ItemBudget { all: self, spent: Cell::new(0) }
    }
}

/// The part of a [`Budget`] for the searches of one item.
#[derive(Debug)]
pub struct ItemBudget<'b> {
    all: &'b Budget,
    spent: Cell<u64>,
}

impl ItemBudget<'_> {
    /// Whether the budget allows so many more steps, which then count.
    fn spend(&self, steps: u64) -> bool {
        let spent = self.spent.get().saturating_add(steps);
        if spent > ITEM_STEPS {
            return false;
        }
        self.spent.set(spent);
        let items = self.all.items.load(Ordering::Relaxed);
        let allowed = ALL_STEPS.saturating_add(items.saturating_mul(STEPS_PER_ITEM));
        self.all.spent.fetch_add(steps, Ordering::Relaxed).saturating_add(steps) <= allowed
    }
}

/// A compiled pattern, in the syntax of the crate `regex`.
#[derive(Debug)]
pub struct Pattern {
    text: String,
    dfa: DFA,
    /// For texts on which `dfa` gives up: if it would need too many states, or if a condition on
    /// the ends of words meets a character outside ASCII.
    nfa: PikeVM,
    /// The steps of `nfa`, at most.
    steps_per_byte: u64,
    caches: Mutex<Caches>,
}

#[derive(Debug)]
struct Caches {
    dfa: dfa::Cache,
    nfa: Option<pikevm::Cache>,
}

impl Pattern {
    /// Compiles a pattern, which takes milliseconds.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let nfa = compile(pattern)?;
        let steps_per_byte = nfa.states().iter().map(steps).sum::<usize>().max(1);
        let config = DFA::config()
            .cache_capacity(REMEMBERED_BYTES)
            .skip_cache_capacity_check(true)
            // It gives up if its memory is full, unless each new state served as many bytes as it
            // took steps.
            .minimum_cache_clear_count(Some(0))
            .minimum_bytes_per_state(Some(steps_per_byte.max(10)))
            .unicode_word_boundary(true);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa.clone());
        let dfa = dfa.map_err(|_| PatternError::TooLarge)?;
        let nfa = PikeVM::new_from_nfa(nfa).map_err(|_| PatternError::TooLarge)?;
        let caches = Mutex::new(Caches { dfa: dfa.create_cache(), nfa: None });
        let steps_per_byte = steps_per_byte as u64;
        Ok(Self { text: pattern.to_owned(), dfa, nfa, steps_per_byte, caches })
    }

    /// Checks that a pattern can be compiled.
    pub fn check(pattern: &str) -> Result<(), PatternError> {
        compile(pattern).map(|_| ())
    }

    /// Whether the pattern matches any part of the text.
    pub fn is_match(&self, text: &str, budget: &ItemBudget<'_>) -> Result<bool, TooCostly> {
        let mut caches = self.caches.lock();
        let input = Input::new(text).earliest(true);
        if let Ok(found) = self.dfa.try_search_fwd(&mut caches.dfa, &input) {
            return Ok(found.is_some());
        }
        if !budget.spend(self.steps_per_byte.saturating_mul(text.len() as u64)) {
            return Err(TooCostly { pattern: self.text.clone() });
        }
        let cache = caches.nfa.get_or_insert_with(|| self.nfa.create_cache());
        Ok(self.nfa.is_match(cache, input))
    }
}

/// The steps of a slow search at a state: a union has one for each of its alternatives, even if they
/// are the same.
fn steps(state: &State) -> usize {
    match state {
        State::Union { alternates } => 1 + alternates.len(),
        State::BinaryUnion { .. } => 3,
        _ => 1,
    }
}

fn compile(pattern: &str) -> Result<NFA, PatternError> {
    let parsed = syntax::parse(pattern).map_err(|error| {
        // The error's text shows the pattern on several lines; the last line is the reason.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim();
        PatternError::Invalid(reason.trim_start_matches("error: ").to_owned())
    })?;
    let config = thompson::Config::new()
        .nfa_size_limit(Some(MAX_COMPILED_BYTES))
        .which_captures(WhichCaptures::None);
    let mut compiler = Compiler::new();
    compiler.configure(config).build_from_hir(&parsed).map_err(|_| PatternError::TooLarge)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    /// Needs a state for each set of positions of `1` in the last 2,000 characters.
    const HOSTILE: &str = "[01]*1[01]{2000}a";

    /// Zeros and ones without a period.
    fn bits(count: usize) -> String {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if state >> 40 & 1 == 1 { '1' } else { '0' }
        };
        (0..count).map(|_| next()).collect()
    }

    fn search(pattern: &str, text: &str) -> Result<bool, TooCostly> {
        Pattern::new(pattern).unwrap().is_match(text, &Budget::default().item())
    }

    #[test]
    fn each_alternative_counts_even_if_it_is_empty() {
        let pattern = format!(r"(?:a{}){{30}}\b~", "|".repeat(230));
        assert!(search(&pattern, &"ж".repeat(8 << 10)).is_err());
    }

    #[test]
    fn a_pattern_with_many_states_is_refused_on_long_texts() {
        let error = search(HOSTILE, &bits(16 << 10)).unwrap_err();
        assert_eq!(error.pattern, HOSTILE);
        assert!(
            error.to_string().starts_with("The regular expression \"[01]*1[01]{2000}a\" takes")
        );
        assert_eq!(search(HOSTILE, &bits(2_100)), Ok(false));
        assert_eq!(search(HOSTILE, &format!("1{}a", bits(2_000))), Ok(true));
    }

    #[test]
    fn usual_patterns_take_no_steps_of_the_budget() {
        let budget = Budget::default();
        let text = "Kari Nordmann <kari@example.com>, +47 99 99 99 99, ".repeat(300);
        for (pattern, expected) in [
            (r"^\w+@\w+\.\w+$", false),
            (r"(?i)\w+@EXAMPLE\.(com|org)", true),
            (r".*,.*,.*@.*@", true),
            (r"\bNordmann\b", true),
            (r"(foo).{0,100}(bar)", false),
            (r"^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$", false),
        ] {
            let matched = Pattern::new(pattern).unwrap().is_match(&text, &budget.item());
            assert_eq!(matched, Ok(expected), "{pattern}");
        }
        assert_eq!(budget.spent.into_inner(), 0);
    }

    #[test]
    fn the_ends_of_words_are_those_of_all_languages() {
        assert_eq!(search(r"\bgrønn\b", "en grønn bil"), Ok(true));
        assert_eq!(search(r"\bgr\b", "en grønn bil"), Ok(false));
    }

    #[test]
    fn the_searches_of_an_item_and_all_searches_are_limited() {
        let budget = Budget::default();
        let item = budget.item();
        assert!(item.spend(ITEM_STEPS) && !item.spend(1));
        assert!(budget.item().spend(ITEM_STEPS), "each item has its own budget");
        let allowed = (0..1_000).take_while(|_| budget.item().spend(ITEM_STEPS)).count() as u64;
        let expected = ALL_STEPS / (ITEM_STEPS - STEPS_PER_ITEM);
        assert!(allowed.abs_diff(expected) < 5, "{allowed}, not {expected}");
        let others = Budget::default();
        assert!((0..20_000).all(|_| others.item().spend(STEPS_PER_ITEM)), "they earn it");
    }

    #[test]
    fn patterns_that_cannot_be_compiled_are_refused() {
        let error = |pattern| Pattern::new(pattern).unwrap_err();
        assert_eq!(error("((a{255}){255}){255}"), PatternError::TooLarge);
        assert_eq!(error("("), PatternError::Invalid("unclosed group".into()));
        assert_eq!(Pattern::check("("), Err(error("(")));
    }

    proptest! {
        #[test]
        fn matches_are_those_of_the_crate_regex(
            pattern in r"(\^?([ab1é.]|\[ab\]|\\b|\\B|\\w|\(a\|bé?\))([*+?]|\{1,3\})?){1,5}\$?",
            texts in prop::collection::vec("[ab1é \n]{0,12}", 1..4),
        ) {
            let Ok(regex) = Regex::new(&pattern) else { return Ok(()) };
            let (ours, budget) = (Pattern::new(&pattern).unwrap(), Budget::default());
            for text in texts {
                prop_assert_eq!(ours.is_match(&text, &budget.item()), Ok(regex.is_match(&text)));
            }
        }
    }
}
