use proptest::prelude::*;

use super::*;

const SECONDS: u32 = 60;

fn limit(requests: u32) -> Limit {
    Limit { requests, seconds: SECONDS }
}

/// The row of a budget, and the gateways that count in it.
struct Fleet {
    used: i64,
    gateways: Vec<BudgetWindow>,
    queries: usize,
}

impl Fleet {
    fn new(limit: Limit, gateways: usize) -> Self {
        let gateways = (0..gateways).map(|_| BudgetWindow::new(limit)).collect();
        Self { used: 0, gateways, queries: 0 }
    }

    /// A gateway queries the database if needed.
    fn query(&mut self, gateway: usize, now: i64) {
        let window = &mut self.gateways[gateway];
        if let Some(requests) = window.to_reserve() {
            self.used += requests;
            self.queries += 1;
            let counted = Counted { ends_at: 60_000, used: self.used, now };
            window.apply_response(now, requests, &counted);
        }
    }

    /// Whether a request is accepted.
    fn accepts(&mut self, gateway: usize, now: i64) -> bool {
        let window = &mut self.gateways[gateway];
        window.roll_over(now);
        let budget_status = window.take(now).unwrap_or_else(|| {
            self.gateways[gateway].waiting += 1;
            self.query(gateway, now);
            let window = &mut self.gateways[gateway];
            let budget_status = window.take(now).expect("the database was queried");
            window.waiting -= 1;
            budget_status
        });
        self.query(gateway, now);
        budget_status.retry_after.is_none()
    }
}

proptest! {
    #[test]
    fn the_limit_is_met_but_for_a_hundredth(
        requests in 1..20_000_u32,
        busy in 0..4_usize,
        share in 0.0..1.0_f64,
        others in prop::collection::vec((0..4_usize, 0.0..1.0_f64), 100),
    ) {
        let limit = limit(requests);
        let mut fleet = Fleet::new(limit, 4);
        let mut accepted = 0;
        // At first requests reach any gateway, and at the end only one.
        for number in 0..3 * requests as usize {
            let (other, chance) = others[number % others.len()];
            let is_other = number < requests as usize && chance > share;
            accepted += u32::from(fleet.accepts(if is_other { other } else { busy }, 1_000));
        }
        prop_assert!(accepted <= requests);
        prop_assert!(accepted + (requests / 100).max(2) >= requests, "{accepted} of {requests}");
        prop_assert!(fleet.queries <= (requests as usize).min(1_700) + 4, "{} queries", fleet.queries);
    }
}

proptest! {
    /// Whatever happens to the database and its row.
    #[test]
    fn the_remainder_is_at_most_the_limit(
        requests in 1..3_000_u32,
        events in prop::collection::vec(0..100_u8, 1..400),
    ) {
        let mut fleet = Fleet::new(limit(requests), 2);
        for (number, event) in events.iter().enumerate() {
            let gateway = number % 2;
            match event {
                0 => fleet.used = 0,
                1..3 => fleet.gateways[gateway].count_locally(),
                3..8 => {
                    fleet.gateways[gateway].failed_at = None;
                    fleet.query(gateway, 1_000);
                }
                _ => drop(fleet.accepts(gateway, 1_000)),
            }
            let remaining = fleet.gateways[gateway].status(None).remaining;
            prop_assert!((0..=i64::from(requests)).contains(&remaining), "{remaining}");
        }
    }
}

#[test]
fn requests_counted_locally_are_reported_later() {
    let limit = limit(100);
    let mut fleet = Fleet::new(limit, 2);
    for _ in 0..10 {
        assert!(fleet.accepts(0, 1_000));
    }
    fleet.gateways[1].roll_over(1_000);
    fleet.gateways[1].count_locally();
    fleet.gateways[1].failed_at = Some(Instant::now());
    let statuses: Vec<BudgetStatus> =
        (0..101).map(|_| fleet.gateways[1].take(1_000).expect("no query")).collect();
    assert_eq!(statuses[0].remaining, 99);
    assert_eq!(statuses[99].retry_after, None);
    assert_eq!(statuses[100].retry_after, Some(59));
    assert_eq!(fleet.gateways[1].to_reserve(), None, "it failed just now");
    fleet.gateways[1].failed_at = None;
    fleet.query(1, 1_000);
    assert_eq!(fleet.used, 110);
    assert!(!fleet.accepts(0, 1_000) && !fleet.accepts(1, 1_000));
    // Unreported requests beyond the limit end with the window.
    assert_eq!(fleet.gateways[1].unreported, 10);
    fleet.gateways[1].roll_over(60_000);
    assert_eq!(fleet.gateways[1].to_reserve(), None);
}

#[test]
fn a_window_of_the_database_that_is_ahead_is_waited_for() {
    let limit = limit(1);
    let mut window = BudgetWindow::new(limit);
    window.roll_over(59_990);
    let counted = Counted { ends_at: 120_000, used: 1, now: 59_995 };
    window.apply_response(59_990, 1, &counted);
    window.roll_over(59_991);
    assert_eq!(window.take(59_991).unwrap().reset, 120);
    let refused = window.take(59_992).unwrap();
    assert_eq!((refused.remaining, refused.retry_after), (0, Some(61)));
    // A clock that is set back starts a new window.
    window.roll_over(-60_000);
    assert_eq!(window.take(-60_000), None);
}

#[test]
fn a_failure_is_believed_for_a_while() {
    let mut window = BudgetWindow::new(limit(10));
    assert!(!window.has_no_database());
    window.failed_at = Some(Instant::now());
    assert!(window.has_no_database());
    window.failed_at = Instant::now().checked_sub(LOST);
    assert!(!window.has_no_database(), "the database is queried");
    window.is_querying = true;
    assert!(window.has_no_database(), "it still does not answer");
}
