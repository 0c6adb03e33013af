//! Estimates an export from a sample and from past exports.

use schemars::JsonSchema;
use serde::Serialize;

use super::sample::{Lines, Sample, Stretch};
use crate::dry_run_rows::PastExport;
use proof::fields::{ACTIVITY_FIELDS, FieldSet};

/// Milliseconds of an export on two processors that do nothing else (docs/explanation/sizing.md):
/// for its start and end, for each user, for each field of its document, for its purchases and
/// custom events, and for each user that the plan checks against a condition.
const START_MS: f64 = 100.0;
const USER_MS: f64 = 0.0078;
const FIELD_MS: f64 = 0.0002;
const ACTIVITY_MS: f64 = 0.0078;
const CHECK_MS: f64 = 0.0059;

/// The most fields of a document that count: single custom attributes cost no more than all.
const MAX_FIELDS: usize = 24;

/// A past export says little about the time of this one if less than this share of it is expected,
/// and too little to measure a speed.
const COMPARABLE: f64 = 0.1;
const MEASURABLE_MS: f64 = 500.0;

/// Standard deviations of the range in which the number of users is with 95% confidence.
const DEVIATIONS: f64 = 1.96;

/// What an estimate is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Source {
    AllUsers,
    Sample,
    PastExports,
    Default,
}

/// What an estimate is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "DryRunBasis")]
pub struct Basis {
    /// `all_users`: all users were counted or read. `sample`: some users of all ages.
    /// `past_exports`: exports of the same users and fields, for `seconds` also other exports of
    /// the installation. `default`: measurements of the Longshore project.
    source: Source,
    /// The number of users in the sample, or of past exports of the same users and fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    count: Option<i64>,
}

impl Basis {
    fn new(source: Source, count: i64) -> Self {
        Self { source, count: Some(count) }
    }
}

/// The number of users, as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "DryRunUsers")]
pub struct Users {
    #[schemars(range(min = 0))]
    pub estimated: i64,
    /// Whether the number was counted.
    pub exact: bool,
    /// The lowest and the highest number, with 95% confidence. Absent if the number is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between: Option<[i64; 2]>,
    based_on: Basis,
}

/// An estimated number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "DryRunEstimate")]
pub struct Estimate {
    #[schemars(range(min = 0))]
    pub estimated: i64,
    based_on: Basis,
}

/// Estimates the users. Without a condition, all users of the slices are in the export.
pub(super) fn users(sample: &Sample, has_condition: bool) -> Users {
    let counts = &sample.counts;
    if !has_condition {
        let between = (!counts.is_exact).then(|| {
            // Each user is in a random slice.
            let counted: i64 = counts.slices.iter().map(|(_, users)| users).sum();
            let deviation = counts.users as f64 / (counted.max(1) as f64).sqrt();
            range(counts.users as f64, DEVIATIONS * deviation, counted, i64::MAX)
        });
        let all = Basis { source: Source::AllUsers, count: None };
        let counted = counts.slices.iter().map(|(_, users)| users).sum();
        let based_on = if counts.is_exact { all } else { Basis::new(Source::Sample, counted) };
        return Users { estimated: counts.users, exact: counts.is_exact, between, based_on };
    }
    let (read, matched) = total(&sample.stretches);
    if counts.is_exact && read == counts.users {
        let based_on = Basis { source: Source::AllUsers, count: None };
        return Users { estimated: matched, exact: true, between: None, based_on };
    }
    let based_on = Basis::new(Source::Sample, read);
    let (share, error) = share(&sample.stretches, counts.users);
    let estimated = share * counts.users as f64;
    let highest = counts.users - if counts.is_exact { read - matched } else { 0 };
    let between = range(estimated, error * counts.users as f64, matched, highest);
    Users { estimated: estimated.round() as i64, exact: false, between: Some(between), based_on }
}

fn range(estimated: f64, error: f64, lowest: i64, highest: i64) -> [i64; 2] {
    let low = (estimated - error).floor() as i64;
    let high = (estimated + error).ceil() as i64;
    [low.max(lowest).min(highest), high.min(highest)]
}

fn total(stretches: &[Stretch]) -> (i64, i64) {
    stretches
        .iter()
        .fold((0, 0), |(read, matched), stretch| (read + stretch.read, matched + stretch.matched))
}

/// The share of users who match, and how far the true share may be from it. Users of a stretch
/// were created together and may be alike, so the error is that of a sample of stretches. It is at
/// least that of a random sample (Wilson), which is above zero even if no user matches.
fn share(stretches: &[Stretch], users: i64) -> (f64, f64) {
    let (read, matched) = total(stretches);
    if read == 0 {
        return (0.0, 1.0);
    }
    let n = read as f64;
    let share = matched as f64 / n;
    let stretch_count = stretches.len() as f64;
    let squares: f64 = stretches
        .iter()
        .map(|stretch| (stretch.matched as f64 - share * stretch.read as f64).powi(2))
        .sum();
    let variance = if stretches.len() > 1 {
        squares / (n * n) * stretch_count / (stretch_count - 1.0)
    } else {
        0.0
    };
    let z = DEVIATIONS * DEVIATIONS;
    let center = (share + z / (2.0 * n)) / (1.0 + z / n);
    let half = DEVIATIONS / (1.0 + z / n) * (share * (1.0 - share) / n + z / (4.0 * n * n)).sqrt();
    let wilson = half + (center - share).abs();
    // Users who were read are known.
    let unread = (1.0 - n / users.max(read) as f64).sqrt();
    (share, unread * wilson.max(DEVIATIONS * variance.sqrt()))
}

/// The number of files.
pub(super) fn files(users: i64, users_per_file: u32) -> i64 {
    users.unsigned_abs().div_ceil(users_per_file.max(1).into()) as i64
}

/// Estimates the bytes of all files.
pub(super) fn bytes(users: i64, files: i64, past: &[PastExport], lines: &Lines) -> Estimate {
    let (past_users, past_bytes) = past
        .iter()
        .fold((0, 0), |(users, bytes), export| (users + export.users, bytes + export.bytes));
    let (estimated, based_on) = if past_users > 0 {
        let per_user = past_bytes as f64 / past_users as f64;
        (users as f64 * per_user, Basis::new(Source::PastExports, past.len() as i64))
    } else {
        let data = (lines.bytes - lines.files * lines.empty_file).max(0) as f64;
        let data = users as f64 * data / lines.users.max(1) as f64;
        let headers = files as f64 * lines.empty_file as f64;
        (data + headers, Basis::new(Source::Sample, lines.users))
    };
    Estimate { estimated: estimated.round() as i64, based_on }
}

/// What is known about the speed of an export.
pub(super) struct Speed<'a> {
    pub fields: &'a FieldSet,
    /// The users that the plan checks.
    pub checked_users: i64,
    /// Past exports of the same request.
    pub past: &'a [PastExport],
    /// Other exports, whose plans checked no users.
    pub others: &'a [Measured],
}

/// The milliseconds of a past export: by the constants, and in truth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub expected: f64,
    pub ms: i64,
}

impl Measured {
    fn factor(&self) -> f64 {
        self.ms as f64 / self.expected
    }
}

/// The milliseconds of an export whose plan checks no users.
pub(super) fn expected_ms(users: i64, fields: &FieldSet) -> f64 {
    let of_document = fields.members().filter(|member| !ACTIVITY_FIELDS.contains(member)).count();
    let field_count = (of_document + fields.attributes().len()).min(MAX_FIELDS);
    let activity = if fields.needs_activity() { ACTIVITY_MS } else { 0.0 };
    START_MS + users as f64 * (USER_MS + FIELD_MS * field_count as f64 + activity)
}

/// Estimates the seconds from the start to the end of the export: those of two processors, times
/// the factor by which past exports were slower. The check of users does not get faster with more
/// processors, so only exports of the same request, which did it, say how long it takes.
pub(super) fn seconds(users: i64, speed: &Speed<'_>) -> Estimate {
    let checks = speed.checked_users as f64 * CHECK_MS;
    let rest = expected_ms(users, speed.fields);
    let threshold = (COMPARABLE * (checks + rest)).min(MEASURABLE_MS);
    let factors = |exports: Vec<Measured>| -> Vec<f64> {
        let comparable = exports.iter().filter(|export| export.expected >= threshold);
        comparable.map(Measured::factor).collect()
    };
    let past = speed.past.iter().map(|export| Measured {
        expected: checks + expected_ms(export.users, speed.fields),
        ms: export.ms,
    });
    let past = factors(past.collect());
    let count = past.len() as i64;
    let (ms, based_on) = if let Some(factor) = median(past) {
        ((checks + rest) * factor, Basis::new(Source::PastExports, count))
    } else if let Some(factor) = median(factors(speed.others.to_vec())) {
        // Their number would say something about other workspaces.
        (checks + rest * factor, Basis { source: Source::PastExports, count: None })
    } else {
        (checks + rest, Basis { source: Source::Default, count: None })
    };
    Estimate { estimated: ((ms / 1_000.0).round() as i64).max(1), based_on }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use people::users::sample::SliceCounts;

    fn sample(slices: &[i64], stretches: &[(i64, i64)]) -> Sample {
        let counts = SliceCounts {
            slices: (0..).zip(slices.iter().copied()).collect(),
            users: slices.iter().sum(),
            is_exact: true,
        };
        let stretches =
            stretches.iter().map(|&(read, matched)| Stretch { read, matched }).collect();
        Sample { counts, stretches, ..Sample::default() }
    }

    #[test]
    fn counted_users_are_exact() {
        let counted = users(&sample(&[10, 12], &[]), false);
        assert_eq!((counted.estimated, counted.exact, counted.between), (22, true, None));
        let read = users(&sample(&[10, 12], &[(10, 3), (12, 4)]), true);
        assert_eq!((read.estimated, read.exact, read.between), (7, true, None));
        assert_eq!(read.based_on.source, Source::AllUsers);
        let nobody = users(&sample(&[], &[]), true);
        assert_eq!((nobody.estimated, nobody.exact), (0, true));
    }

    #[test]
    fn a_late_count_is_an_estimate() {
        let mut late = sample(&[1_000, 1_000], &[]);
        late.counts.is_exact = false;
        late.counts.users = 100_000;
        let counted = users(&late, false);
        assert!(!counted.exact && counted.estimated == 100_000);
        let [low, high] = counted.between.unwrap();
        assert!((90_000..100_000).contains(&low) && (100_001..110_000).contains(&high));
    }

    #[test]
    fn a_sample_is_scaled_with_its_range() {
        let slices = [10_000; 100];
        let even = users(&sample(&slices, &[(200, 60); 100]), true);
        assert_eq!(even.estimated, 300_000);
        let [low, high] = even.between.unwrap();
        assert!((290_000..300_000).contains(&low) && (300_001..310_000).contains(&high));
        assert_eq!(even.based_on, Basis::new(Source::Sample, 20_000));
        // Users who are alike within a stretch say less.
        let mut stretches = [(200, 0); 100];
        stretches[..30].fill((200, 200));
        let uneven = users(&sample(&slices, &stretches), true);
        assert_eq!(uneven.estimated, 300_000);
        let [wider_low, wider_high] = uneven.between.unwrap();
        assert!(wider_low < low && wider_high > high);
    }

    #[test]
    fn a_rare_segment_has_a_range_above_zero() {
        let none = users(&sample(&[10_000; 100], &[(200, 0); 100]), true);
        assert_eq!(none.estimated, 0);
        let [low, high] = none.between.unwrap();
        assert!(low == 0 && (100..1_000).contains(&high), "{high}");
        let single = users(&sample(&[10_000], &[(200, 1)]), true);
        assert_eq!(single.between.unwrap()[0], 1, "the user who was found");
    }

    #[test]
    fn files_are_rounded_up() {
        for (users, per_file, expected) in
            [(0, 5_000, 0), (1, 5_000, 1), (5_000, 5_000, 1), (5_001, 5_000, 2), (3, 1, 3)]
        {
            assert_eq!(files(users, per_file), expected);
        }
    }

    #[test]
    fn bytes_come_from_past_exports_or_lines() {
        let lines = Lines { users: 100, files: 2, bytes: 1_400, empty_file: 200 };
        // Ten bytes for each user, and 200 for each file.
        let sampled = bytes(1_000, 5, &[], &lines);
        assert_eq!((sampled.estimated, sampled.based_on.count), (11_000, Some(100)));
        let past = [
            PastExport { users: 100, bytes: 3_000, ms: 1 },
            PastExport { users: 300, bytes: 5_000, ms: 1 },
        ];
        let learned = bytes(1_000, 5, &past, &lines);
        assert_eq!((learned.estimated, learned.based_on.source), (20_000, Source::PastExports));
        assert_eq!(bytes(0, 0, &[], &Lines::default()).estimated, 0);
    }

    fn fields(names: &[&str]) -> FieldSet {
        FieldSet::parse(&names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    fn speed(fields: &FieldSet) -> Speed<'_> {
        Speed { fields, checked_users: 0, past: &[], others: &[] }
    }

    /// The measured exports, on two processors.
    #[test]
    fn the_defaults_are_near_the_measured_exports() {
        let all: Vec<&str> = proof::fields::record().collect();
        let document = proof::fields::record().filter(|name| !ACTIVITY_FIELDS.contains(name));
        let document: Vec<&str> = document.collect();
        for (users, checked_users, names, measured) in [
            (3_000_000, 0, &all[..], 61.5),
            (3_000_000, 0, &document[..], 38.1),
            (3_000_000, 0, &document[..5], 26.4),
            (3_000, 300_000, &all[..], 2.06),
            (30_000, 3_000_000, &all[..], 18.1),
            (1_800_000, 3_000_000, &all[..], 54.9),
        ] {
            let fields = fields(names);
            let estimate = seconds(users, &Speed { checked_users, ..speed(&fields) });
            assert_eq!(estimate.based_on.source, Source::Default);
            let difference = (estimate.estimated as f64 - measured).abs() / measured;
            assert!(difference < 0.1, "{} instead of {measured} for {names:?}", estimate.estimated);
        }
        assert_eq!(seconds(0, &speed(&fields(&["email"]))).estimated, 1);
    }

    #[test]
    fn seconds_prefer_exports_of_the_same_request() {
        let email = fields(&["email"]);
        let other = |users, ms| Measured { expected: expected_ms(users, &email), ms };
        let past = [PastExport { users: 200_000, bytes: 1, ms: 40_000 }];
        let (fast, slow) = ([other(200_000, 1_000)], [other(400_000, 9_000)]);
        let with = |past, others| Speed { past, others, ..speed(&email) };
        let same = seconds(200_000, &with(&past, &fast));
        assert_eq!((same.estimated, same.based_on.source), (40, Source::PastExports));
        // Its start takes as long as that of a larger one.
        let larger = seconds(400_000, &with(&past, &[])).estimated;
        assert!((75..80).contains(&larger), "{larger}");
        // How many exports others have is not the customer's business.
        let learned = seconds(400_000, &with(&[], &slow));
        assert_eq!((learned.estimated, learned.based_on.source), (9, Source::PastExports));
        assert_eq!((same.based_on.count, learned.based_on.count), (Some(1), None));
    }

    /// Most of the time of a small export is that of its start.
    #[test]
    fn small_exports_say_nothing_about_large_ones() {
        let email = fields(&["email"]);
        let past = [PastExport { users: 1_000, bytes: 1, ms: 900 }];
        let others = [Measured { expected: expected_ms(1_000, &email), ms: 900 }];
        let large = seconds(3_000_000, &Speed { past: &past, others: &others, ..speed(&email) });
        assert_eq!(large.based_on.source, Source::Default);
        let small = seconds(2_000, &Speed { past: &past, ..speed(&email) });
        assert_eq!((small.estimated, small.based_on.count), (1, Some(1)));
    }

    #[test]
    fn other_fields_and_other_segments_have_another_speed() {
        let (email, all) = (fields(&["email"]), fields(&["email", "purchases"]));
        // Twice as slow as two processors, whatever the fields.
        let ms = 2.0 * expected_ms(1_000_000, &email);
        let others = [Measured { expected: ms / 2.0, ms: ms as i64 }];
        let estimate = seconds(1_000_000, &Speed { others: &others, ..speed(&all) });
        let expected = 2.0 * expected_ms(1_000_000, &all) / 1_000.0;
        assert!((estimate.estimated as f64 - expected).abs() <= 1.0, "{estimate:?} {expected}");
        // Of a segment that became ten times as large, the plan checks as many users as before.
        let past = [PastExport { users: 3_000, bytes: 1, ms: 18_000 }];
        let segment = Speed { checked_users: 3_000_000, past: &past, ..speed(&email) };
        let grown = seconds(30_000, &segment);
        assert!((18..20).contains(&grown.estimated), "{grown:?}");
        // An installation with more processors checks them no faster.
        let fast = [Measured { expected: 50_000.0, ms: 5_000 }];
        let checked = seconds(30_000, &Speed { past: &[], others: &fast, ..segment });
        assert!((17..20).contains(&checked.estimated), "{checked:?}");
    }
}
