//! The times of a partition's messages, in the order of their offsets.

/// The largest step back of a partition's time that changes no order, in milliseconds. The clocks
/// of brokers differ, so the time can go back when another broker leads the partition. After a
/// larger step a clock was wrong: the times from then on must not stay wrong for as long, because
/// they are also compared with those of other partitions.
const MAX_STEP_BACK_MS: i64 = 10_000;

/// The time of the last message of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PartitionClock {
    /// The time that the log gave it.
    pub appended_at: i64,
    /// The time by which it is ordered.
    pub log_time: i64,
}

impl PartitionClock {
    /// The time by which the next message is ordered. Messages of one time stay so: they were
    /// appended together.
    pub fn next(&mut self, appended_at: i64) -> i64 {
        let step_back = self.log_time - appended_at;
        if appended_at != self.appended_at {
            self.log_time = if (0..=MAX_STEP_BACK_MS).contains(&step_back) {
                self.log_time + 1
            } else {
                appended_at
            };
            self.appended_at = appended_at;
        }
        self.log_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_step_back_changes_no_order() {
        let mut clock = PartitionClock::default();
        for (appended_at, log_time) in [
            (50_000, 50_000),
            (50_000, 50_000),
            (50_001, 50_001),
            // Another broker.
            (45_000, 50_002),
            (45_000, 50_002),
            (45_003, 50_003),
            (50_003, 50_004),
            (50_010, 50_010),
            // A clock was wrong by more.
            (60_000_000, 60_000_000),
            (51_000, 51_000),
            (51_001, 51_001),
        ] {
            assert_eq!(clock.next(appended_at), log_time, "{appended_at}");
        }
    }
}
