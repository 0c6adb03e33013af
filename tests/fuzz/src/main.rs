//! One target of [`longshore::fuzzing`] in the hands of libFuzzer: the one that
//! `LONGSHORE_FUZZ` names. `scripts/fuzz` builds and runs it.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use longshore::fuzzing::{Mutator, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("LONGSHORE_FUZZ").unwrap_or_default();
    Target::named(&name).unwrap_or_else(|| panic!("LONGSHORE_FUZZ: {name:?} is no target"))
});

static MUTATOR: LazyLock<Mutator> = LazyLock::new(|| Mutator::new(&TARGET.seeds()));

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));

// libFuzzer knows bytes, and Longshore's mutator the words and brackets of what it reads.
fuzz_mutator!(|bytes: &mut [u8], size: usize, most: usize, seed: u32| {
    if seed % 2 == 0 {
        return fuzzer_mutate(bytes, size, most);
    }
    let mutated = MUTATOR.mutate(&bytes[..size], seed.into());
    let size = mutated.len().min(most);
    bytes[..size].copy_from_slice(&mutated[..size]);
    size
});
