//! Estimates an export from a sample and from past exports.

use schemars::JsonSchema;
use serde::Serialize;

use super::sample::{Lines, Sample, Stretch};
use crate::dry_run_rows::PastExport;

/// Users per second if no export of the installation has a measured speed
/// (docs/explanation/sizing.md): for fields with and without purchases and custom events.
const DEFAULT_RATE: f64 = 70_000.0;
const DEFAULT_RATE_WITH_ACTIVITY: f64 = 50_000.0;

/// Users per second that a plan reads to find those of an audience.
const DEFAULT_MATCH_RATE: f64 = 100_000.0;

/// An export that had less than this share of the users says little about the time of this one.
const COMPARABLE: i64 = 10;

/// Standard deviations of the range in which the number of users is with 95% confidence.
const DEVIATIONS: f64 = 1.96;

/// What an estimate is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(super) enum Source {
    AllUsers,
    Sample,
    PastExports,
    Default,
}

/// What an estimate is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "DryRunBasis")]
pub(super) struct Basis {
    /// `all_users`: all users were counted or read. `sample`: some users of all ages.
    /// `past_exports`: exports of the same users and fields, for `seconds` also other exports of the
    /// installation. `default`: measurements of the Longshore project.
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

/// The users of the export, if it started now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "DryRunUsers")]
pub(super) struct Users {
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
pub(super) struct Estimate {
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
    /// Past exports of the same request.
    pub past: &'a [PastExport],
    /// Users and milliseconds of other exports that need the same data of users.
    pub others: &'a [(i64, i64)],
    pub needs_activity: bool,
    /// The users that the plan reads.
    pub searched_users: i64,
}

/// Estimates the seconds from the start to the end of the export.
pub(super) fn seconds(users: i64, speed: &Speed<'_>) -> Estimate {
    let is_comparable = |export: &&PastExport| export.users >= users / COMPARABLE;
    let past: Vec<f64> = speed
        .past
        .iter()
        .filter(is_comparable)
        .map(|export| export.ms as f64 / export.users as f64)
        .collect();
    let count = past.len() as i64;
    let (seconds, based_on) = if let Some(per_user) = median(past) {
        (users as f64 * per_user / 1_000.0, Basis::new(Source::PastExports, count))
    } else {
        let others = speed.others.iter().map(|&(users, ms)| users as f64 * 1_000.0 / ms as f64);
        let (rate, based_on) = match median(others.collect()) {
            // Their number would say something about other workspaces.
            Some(rate) => (rate, Basis { source: Source::PastExports, count: None }),
            None => {
                let is_slow = speed.needs_activity;
                let rate = if is_slow { DEFAULT_RATE_WITH_ACTIVITY } else { DEFAULT_RATE };
                (rate, Basis { source: Source::Default, count: None })
            }
        };
        (users as f64 / rate + speed.searched_users as f64 / DEFAULT_MATCH_RATE, based_on)
    };
    Estimate { estimated: (seconds.ceil() as i64).max(1), based_on }
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
        let one = users(&sample(&[10_000], &[(200, 1)]), true);
        assert_eq!(one.between.unwrap()[0], 1, "the user who was found");
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

    #[test]
    fn seconds_prefer_exports_of_the_same_request() {
        let past = [PastExport { users: 100_000, bytes: 1, ms: 4_000 }];
        let speed = |past, others| Speed { past, others, needs_activity: false, searched_users: 0 };
        let same = seconds(200_000, &speed(&past, &[(1_000, 1_000)]));
        assert_eq!((same.estimated, same.based_on.source), (8, Source::PastExports));
        // It was too small to be compared.
        let other = seconds(2_000_000, &speed(&past, &[(100_000, 1_000)]));
        assert_eq!(other.estimated, 20);
        // How many exports others have is not the customer's business.
        assert_eq!((same.based_on.count, other.based_on.count), (Some(1), None));
        let default = seconds(2_000_000, &speed(&[], &[]));
        assert_eq!(default.based_on.source, Source::Default);
        let searched = Speed { searched_users: 10_000_000, ..speed(&[], &[]) };
        assert_eq!(seconds(2_000_000, &searched).estimated, default.estimated + 100);
        assert_eq!(seconds(0, &speed(&[], &[])).estimated, 1);
    }
}
