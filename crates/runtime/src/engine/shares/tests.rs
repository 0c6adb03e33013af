use super::*;

fn options() -> Options {
    Options {
        in_flight: 1,
        per_workspace: usize::MAX,
        per_receiver: u32::MAX,
        attempts: 1,
        pause: Duration::from_secs(1),
        lease: Duration::from_secs(30),
        poll: Duration::from_secs(1),
        drain: Duration::from_secs(1),
    }
}

#[tokio::test]
async fn a_workspace_leaves_room_for_others() {
    let (options, mut tasks) = (options().with_workspace_limit(4), Tasks::default());
    // Each workspace takes what it gets, and never ends.
    let mut taken = Vec::new();
    for workspace in 1..=4 {
        let before = tasks.running.len();
        loop {
            let Capacity { rows, full } = tasks.capacity(options);
            if rows == 0 || full.contains(&workspace) {
                break;
            }
            (0..rows).for_each(|_| tasks.spawn(workspace, std::future::pending()));
        }
        taken.push(tasks.running.len() - before);
    }
    assert_eq!(taken, [4, 2, 1, 1]);
    assert_eq!(tasks.capacity(options).rows, 1);
}

#[tokio::test]
async fn few_rows_are_shared_too() {
    for (per_workspace, expected) in [(1, [1, 1, 1]), (2, [2, 1, 1]), (3, [3, 2, 1])] {
        let options = options().with_workspace_limit(per_workspace);
        let mut tasks = Tasks::default();
        let taken = [1, 2, 3].map(|workspace| {
            let before = tasks.running.len();
            loop {
                let Capacity { rows, full } = tasks.capacity(options);
                if rows == 0 || full.contains(&workspace) {
                    break tasks.running.len() - before;
                }
                tasks.spawn(workspace, std::future::pending());
            }
        });
        assert_eq!(taken, expected);
    }
}

#[test]
fn an_idle_loop_sleeps_until_the_next_row_is_due_and_not_for_too_long() {
    let seconds = Duration::from_secs;
    let options = options();
    let within =
        |pause: Duration, longest: Duration| pause <= longest && pause >= longest.mul_f64(0.8);
    for (next, is_woken, longest) in [
        (None, true, 10),
        (None, false, 1),
        (Some(seconds(60)), true, 10),
        (Some(seconds(60)), false, 1),
        // It is due, but not for this worker now.
        (Some(Duration::ZERO), true, 1),
    ] {
        let pause = idle_pause(next, options, is_woken);
        assert!(within(pause, seconds(longest)), "{next:?} {is_woken}: {pause:?}");
    }
    assert_eq!(idle_pause(Some(seconds(7)), options, true), seconds(7));
    // A lease that began after the query must not expire before the next one.
    let brief = Options { lease: seconds(3), ..options };
    assert!(within(idle_pause(None, brief, true), seconds(3)));
}
