//! One target of `longshore_fuzz`, run by libFuzzer: the one that `LONGSHORE_FUZZ` names. Without
//! it, the names of all. `scripts/fuzz` builds and runs this.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use longshore_fuzz::{Mutator, TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("LONGSHORE_FUZZ").unwrap_or_default();
    Target::named(&name).unwrap_or_else(|| panic!("LONGSHORE_FUZZ: no target is named {name:?}"))
});

static MUTATOR: LazyLock<Mutator> = LazyLock::new(|| Mutator::new(&TARGET.seeds()));

/// Writes the target's seeds to the folder `LONGSHORE_FUZZ_SEEDS`, which libFuzzer then reads.
fn start() {
    if std::env::var_os("LONGSHORE_FUZZ").is_none() {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        std::process::exit(0);
    }
    if let Some(folder) = std::env::var_os("LONGSHORE_FUZZ_SEEDS") {
        for (number, seed) in TARGET.seeds().iter().enumerate() {
            let file = std::path::Path::new(&folder).join(number.to_string());
            std::fs::write(file, seed).expect("the folder of seeds");
        }
    }
}

fuzz_target!(
    init: start(),
    |bytes: &[u8]| {
        (TARGET.run)(bytes);
    }
);

// libFuzzer knows bytes, and Longshore's mutator the words and brackets of what it reads.
fuzz_mutator!(|bytes: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed.is_multiple_of(2) {
        return fuzzer_mutate(bytes, size, max_size);
    }
    let mutated = MUTATOR.mutate(&bytes[..size], seed.into());
    let size = mutated.len().min(max_size);
    bytes[..size].copy_from_slice(&mutated[..size]);
    size
});
