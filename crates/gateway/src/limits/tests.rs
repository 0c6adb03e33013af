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
    asked: usize,
}

impl Fleet {
    fn new(limit: Limit, gateways: usize) -> Self {
        let gateways = (0..gateways).map(|_| BudgetWindow::new(limit)).collect();
        Self { used: 0, gateways, asked: 0 }
    }

    /// A gateway queries the database if needed.
    fn ask(&mut self, gateway: usize, now: i64) {
        let account = &mut self.gateways[gateway];
        if let Some(asked) = account.wanted() {
            self.used += asked;
            self.asked += 1;
            let counted = Counted { ends_at: 60_000, used: self.used, now };
            account.apply_response(now, asked, &counted);
        }
    }

    /// Whether a request is accepted.
    fn call(&mut self, gateway: usize, now: i64) -> bool {
        let account = &mut self.gateways[gateway];
        account.enter(now);
        let budget_status = account.take(now).unwrap_or_else(|| {
            self.gateways[gateway].waiting += 1;
            self.ask(gateway, now);
            let account = &mut self.gateways[gateway];
            let budget_status = account.take(now).expect("the database was asked");
            account.waiting -= 1;
            budget_status
        });
        self.ask(gateway, now);
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
            accepted += u32::from(fleet.call(if is_other { other } else { busy }, 1_000));
        }
        prop_assert!(accepted <= requests);
        prop_assert!(accepted + (requests / 100).max(2) >= requests, "{accepted} of {requests}");
        prop_assert!(fleet.asked <= (requests as usize).min(1_700) + 4, "{} look-ups", fleet.asked);
    }
}

#[test]
fn requests_counted_locally_are_reported_later() {
    let limit = limit(100);
    let mut fleet = Fleet::new(limit, 2);
    for _ in 0..10 {
        assert!(fleet.call(0, 1_000));
    }
    fleet.gateways[1].enter(1_000);
    fleet.gateways[1].go_alone();
    fleet.gateways[1].failed = Some(Instant::now());
    let taken: Vec<BudgetStatus> =
        (0..101).map(|_| fleet.gateways[1].take(1_000).expect("it asks nobody")).collect();
    assert_eq!(taken[0].remaining, 99);
    assert_eq!(taken[99].retry_after, None);
    assert_eq!(taken[100].retry_after, Some(59));
    assert_eq!(fleet.gateways[1].wanted(), None, "it failed just now");
    fleet.gateways[1].failed = None;
    fleet.ask(1, 1_000);
    assert_eq!(fleet.used, 110);
    assert!(!fleet.call(0, 1_000) && !fleet.call(1, 1_000));
    // Requests owed beyond the limit end with the window.
    assert_eq!(fleet.gateways[1].owed, 10);
    fleet.gateways[1].enter(60_000);
    assert_eq!(fleet.gateways[1].wanted(), None);
}

#[test]
fn a_window_of_the_database_that_is_ahead_is_waited_for() {
    let limit = limit(1);
    let mut account = BudgetWindow::new(limit);
    account.enter(59_990);
    let counted = Counted { ends_at: 120_000, used: 1, now: 59_995 };
    account.apply_response(59_990, 1, &counted);
    account.enter(59_991);
    assert_eq!(account.take(59_991).unwrap().reset, 120);
    let refused = account.take(59_992).unwrap();
    assert_eq!((refused.remaining, refused.retry_after), (0, Some(61)));
    // A clock that is set back starts a new window.
    account.enter(-60_000);
    assert_eq!(account.take(-60_000), None);
}

#[test]
fn a_failure_is_believed_for_a_while() {
    let mut account = BudgetWindow::new(limit(10));
    assert!(!account.is_away());
    account.failed = Some(Instant::now());
    assert!(account.is_away());
    account.failed = Instant::now().checked_sub(LOST);
    assert!(!account.is_away(), "the database is asked");
    account.is_asking = true;
    assert!(account.is_away(), "it still does not answer");
}
