//! Users change while they are exported.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::seat;
use crate::support::api::ALL_FIELDS;
use crate::support::checker::{self, ExpectedExport, Outcome};
use crate::support::fleet::{Backend, Fleet};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::storage::TestStorage;
use crate::support::user_records;
use crate::support::workspace::WorkspaceFile;

/// Users that nobody touches while the export runs.
const UNTOUCHED: usize = 600;

/// Users that a round changes, deletes, creates.
const ROUND: usize = 10;

/// Rounds before the request and, at most, while the export runs.
const BEFORE: usize = 2;

const DURING: usize = 15;

/// What happened to the users of one round, and what the export may say of them.
fn outcomes_of_round(round: usize, when: When, outcomes: &mut BTreeMap<String, Outcome>) {
    let [changed, deleted, created] = users_of_round(round);
    let mut expect = |number: usize, versions: &[usize], may_be_absent: bool| {
        let versions = versions.iter().map(|version| user_records::simple(number, *version));
        let versions: Vec<Value> =
            versions.map(|text| serde_json::from_str(&text).expect("JSON")).collect();
        let Some(first) = versions.first() else { return };
        outcomes.insert(checker::identity(first), Outcome { versions, may_be_absent });
    };
    for number in changed {
        match when {
            When::Before => expect(number, &[2], false),
            When::During => expect(number, &[1, 2], false),
            When::After => expect(number, &[1], false),
        }
    }
    for number in deleted {
        match when {
            When::Before => expect(number, &[], false),
            When::During => expect(number, &[1], true),
            When::After => expect(number, &[1], false),
        }
    }
    for number in created {
        match when {
            When::Before => expect(number, &[1], false),
            When::During => expect(number, &[1], true),
            When::After => expect(number, &[], false),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    During,
    After,
}

/// The numbers of the users that a round changes, deletes and creates.
fn users_of_round(round: usize) -> [std::ops::Range<usize>; 3] {
    let start = UNTOUCHED + round * 3 * ROUND;
    [0, 1, 2].map(|which| start + which * ROUND..start + (which + 1) * ROUND)
}

async fn round(fleet: &Fleet, round: usize) {
    let [changed, deleted, created] = users_of_round(round);
    let changes = changed.map(|number| user_records::simple(number, 2));
    let records: Vec<String> =
        changes.chain(created.map(|number| user_records::simple(number, 1))).collect();
    fleet.import("acme", &records).await;
    let ids: Vec<String> = deleted.map(|number| format!("user-{number:06}")).collect();
    let mut arguments = vec!["users", "delete", "--workspace", "acme"];
    arguments.extend(ids.iter().map(String::as_str));
    fleet.run(&arguments).await;
}

/// Users are changed, deleted and created while an export runs: who was touched before the
/// request is exported as after it, who is touched meanwhile as before or after, and nobody
/// twice.
async fn while_users_change(backend: Backend) {
    let _seat = seat().await;
    let storage = TestStorage::s3().await;
    let proxy = Proxy::to(storage.endpoint()).await;
    let settings = [
        ("LONGSHORE_EXPORTS__USERS_PER_FILE", "40".to_owned()),
        ("LONGSHORE_EXPORTS__PARTS_IN_FLIGHT", "1".to_owned()),
    ];
    let fleet = Fleet::start(backend, &settings).await;
    let workspace = WorkspaceFile::new("acme").with_storage(&storage.at(&proxy.endpoint()));
    let api = fleet.apply(&[workspace]).await.remove(0);
    // Everybody but those that rounds create.
    let mut records: Vec<String> =
        (0..UNTOUCHED).map(|number| user_records::simple(number, 1)).collect();
    for round in 0..BEFORE + DURING {
        let [changed, deleted, _] = users_of_round(round);
        records.extend(changed.chain(deleted).map(|number| user_records::simple(number, 1)));
    }
    fleet.import("acme", &records).await;
    for number in 0..BEFORE {
        round(&fleet, number).await;
    }

    // So slow at first that rounds come in between however long they take.
    proxy.set(ProxyMode::Slow(Duration::from_secs(2)));
    let accepted = api.export_all().await;
    let mut rounds = BEFORE;
    while rounds < BEFORE + DURING && api.status(&accepted.prefix).await["state"] != "done" {
        round(&fleet, rounds).await;
        rounds += 1;
        if rounds == BEFORE + 3 {
            proxy.set(ProxyMode::Slow(Duration::from_millis(150)));
        }
    }
    proxy.set(ProxyMode::Open);
    assert!(rounds >= BEFORE + 3, "the export was over before much could change");
    // Those deleted meanwhile were planned, and may be missing.
    let status = api.ended(&accepted.prefix).await;
    assert_eq!(status["state"], "done", "{status}");

    let mut outcomes = checker::exactly(&records[..UNTOUCHED]);
    for number in 0..BEFORE + DURING {
        let when = match number {
            before if before < BEFORE => When::Before,
            during if during < rounds => When::During,
            _ => When::After,
        };
        outcomes_of_round(number, when, &mut outcomes);
    }
    let wanted = ExpectedExport {
        fields: &ALL_FIELDS,
        days: checker::export_days(&status),
        prefix: &accepted.prefix,
    };
    let segment = fleet.segment_id("acme").await;
    let files = checker::own_files(&storage, &segment, "zip", &wanted).await;
    let users = checker::lines(&files, &wanted);
    checker::check(&users, outcomes, &wanted);
    checker::check_order(&users);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_change_while_standalone_exports() {
    while_users_change(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_change_while_a_fleet_exports() {
    while_users_change(Backend::Fleet(2)).await;
}
