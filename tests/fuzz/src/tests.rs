use serde_json::Value;

use super::*;

/// Inputs generated from each target's seeds.
const INPUTS: u64 = 5_000;

/// Prints the input at which a target panics.
struct Shown<'a>(&'static str, &'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} at {:?}", self.0, String::from_utf8_lossy(self.1));
        }
    }
}

/// Runs a target on its seeds, on changes of them, and on changes of those.
fn run(name: &str) {
    let target = Target::named(name).unwrap();
    let seeds = target.seeds();
    let mutator = Mutator::new(&seeds);
    let accepted = seeds.iter().filter(|seed| (target.run)(seed).is_some()).count();
    // Refusals alone would exercise little of the parser.
    assert!(accepted > 0, "none of {} seeds of {name} is accepted", seeds.len());
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
    track, track_message, catalog_items, catalog_message, export, export_segment,
    export_ids, user_messages, schedule, schedule_deletion, live_activity,
    messages_send, messages_schedule, messages_recipients, phone_numbers, campaigns_query, headers, template,
    message_objects, scim_user, scim_patch, scim_query, workspace_file, import_line, activity,
}

#[test]
fn each_target_is_tested() {
    assert!(TARGETS.iter().map(|target| target.name).eq(TESTED.iter().copied()));
}

/// A field that a request type gains needs no seed of its own.
#[test]
fn seeds_have_each_field_of_a_request() {
    for target in &TARGETS {
        for source in target.sources {
            let seeds = source.seeds();
            let objects = seeds.iter().filter_map(|seed| serde_json::from_slice(seed).ok());
            let objects: Vec<Value> = objects.collect();
            for field in source.fields() {
                let has = objects.iter().any(|object| object.get(&field).is_some());
                assert!(has, "{}: {field}", target.name);
            }
        }
    }
}
