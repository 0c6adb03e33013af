use super::*;

/// Inputs made of each target's seeds.
const INPUTS: u64 = 5_000;

/// Shows the input that a target panics at.
struct Shown<'a>(&'static str, &'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} at {:?}", self.0, String::from_utf8_lossy(self.1));
        }
    }
}

/// Has a target run what its seeds become by some changes, and by changes of that.
fn run(name: &str) {
    let target = Target::named(name).unwrap();
    let seeds = target.seeds();
    let mutator = Mutator::new(&seeds);
    let mut inputs = seeds.clone();
    inputs.push(Vec::new());
    for number in 0..INPUTS + inputs.len() as u64 {
        let input = match inputs.get(number as usize) {
            Some(seed) => seed.clone(),
            None => mutator.mutate(&inputs[number as usize % inputs.len()], number),
        };
        let shown = Shown(target.name, &input);
        (target.run)(&input);
        drop(shown);
    }
}

macro_rules! targets {
    ($($name:ident,)+) => {
        const TESTED: &[&str] = &[$(stringify!($name),)+];
        $(#[test] fn $name() { run(stringify!($name)); })+
    };
}

targets! {
    track, track_message, catalog_items, catalog_message, export, schedule, live_activity,
    messages_send, messages_schedule, phone_numbers, campaigns_query, headers, template,
    message_objects, scim_user, scim_patch, scim_query, workspace_file, import_line, activity,
}

#[test]
fn each_target_is_tested() {
    assert!(TARGETS.iter().map(|target| target.name).eq(TESTED.iter().copied()));
}
