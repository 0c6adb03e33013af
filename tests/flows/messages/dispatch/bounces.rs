//! Bounces of a dispatch: their end, and what decides about them while it runs.

use longshore::users::suppressions::{self, Address};

use super::world::APP;
use super::*;
use crate::support::scripted_relay::{Action, Step};

on_both_stores!(World =>
    a_bounce_ends_after_its_period,
    the_end_of_a_dispatch_decides_about_its_relay,
    an_earlier_bounce_outlasts_a_fault_of_the_relay,
);

impl World {
    fn email(&self) -> Order {
        let email = json!({
            "app_id": APP, "from": "hello@acme.example", "subject": "Hi", "body": "<p>Hi</p>",
        });
        Order { messages: json!({ "email": email }).as_object().unwrap().clone(), ..self.order() }
    }

    async fn addressees(&self, users: usize) {
        let record = |number: usize| {
            let email = format!("u{number}@people.example");
            json!({ "external_id": format!("u{number}"), "email": email })
        };
        self.import(&(0..users).map(record).collect::<Vec<_>>()).await;
    }

    fn reject(&self, emails: usize) {
        let unknown = (Step::To, Action::Reply(550, "5.1.1 no such user"));
        self.relay.script(std::iter::repeat_n(unknown, emails));
    }

    /// The users whose addresses are suppressed.
    async fn suppressed(&self, users: usize) -> Vec<usize> {
        let mut tx = self.installation.app.store.snapshot().await.unwrap();
        let mut suppressed = Vec::new();
        for number in 0..users {
            let address = Address::Email(format!("u{number}@people.example").into());
            let known = suppressions::check(&mut tx, self.installation.workspace, &address).await;
            suppressed.extend((!known.unwrap().is_empty()).then_some(number));
        }
        suppressed
    }

    async fn sql(&self, sql: &'static str) {
        on_pool!(&self.installation.app.store, pool => {
            sqlx::query(sql).execute(pool).await.unwrap();
        });
    }
}

async fn a_bounce_ends_after_its_period(world: World) {
    world.addressees(1).await;
    world.reject(1);
    world.send(&world.email()).await;
    world.send(&world.email()).await;
    assert_eq!(world.suppressed(1).await, [0]);
    assert_eq!(world.relay.accepted().len(), 0);
    world.sql("UPDATE suppressions SET until = decided_at").await;
    assert_eq!(world.suppressed(1).await, [0; 0]);
    world.send(&world.email()).await;
    assert_eq!(world.relay.accepted().len(), 1);
    // The next one begins again.
    world.reject(1);
    world.send(&world.email()).await;
    assert_eq!(world.suppressed(1).await, [0]);
    world.sql("UPDATE suppressions SET until = decided_at").await;
    let app = &world.installation.app;
    dispatch::sweep::sweep(app, &tokio_util::sync::CancellationToken::new()).await.unwrap();
    let rows: i64 = on_pool!(&app.store, pool => {
        sqlx::query_scalar("SELECT count(*) FROM suppressions").fetch_one(pool).await
    })
    .unwrap();
    assert_eq!(rows, 0);
    world.close().await;
}

/// The first emails fail, so that most of the emails until then failed alike.
async fn the_end_of_a_dispatch_decides_about_its_relay(world: World) {
    world.addressees(41).await;
    world.reject(2);
    let shown = world.send(&world.email()).await;
    assert_eq!((shown.messages.sent, shown.messages.bounced, shown.note), (39, 2, None));
    let suppressed = world.suppressed(41).await;
    assert_eq!(suppressed.len(), 2);
    // The others, of which more fail.
    world.reject(2);
    let shown = world.send(&world.email()).await;
    assert_eq!((shown.messages.sent, shown.messages.bounced), (37, 2), "{shown:?}");
    assert!(shown.note.is_some_and(|note| note.contains("5.1.1")));
    assert_eq!(world.suppressed(41).await, suppressed);
    world.close().await;
}

async fn an_earlier_bounce_outlasts_a_fault_of_the_relay(world: World) {
    world.addressees(2).await;
    let named_users = |user: &str| to_users(vec![named(external(user), "x")]);
    let first = Order { target: named_users("u0"), ..world.email() };
    // Both emails of the second one are underway.
    let both = Order {
        target: to_users(vec![named(external("u0"), "x"), named(external("u1"), "x")]),
        ..world.email()
    };
    world.send(&both).await;
    world.reject(1);
    world.send(&first).await;
    assert_eq!(world.suppressed(2).await, [0]);
    let bounced = |reason: &str| Report::Bounced {
        reason: reason.to_owned(),
        address: Some((kit::smtp::AddressBounce::NoMailbox, DAY_MS)),
    };
    let mut reports = Vec::new();
    for user in ["u0", "u1"] {
        let service_id = world.service_id(user).await;
        let id = MessageId { dispatch_id: both.dispatch_id, service_id, channel: Channel::Email };
        reports.push((id, bounced("5.1.1")));
    }
    reports.sort_by_key(|(id, _)| *id);
    let mut tx = world.installation.app.store.write().await.unwrap();
    let stored = dispatch::store_reports(&mut tx, world.installation.workspace, &reports).await;
    assert_eq!(stored.unwrap(), 2);
    tx.commit().await.unwrap();
    assert_eq!(world.suppressed(2).await, [0]);
    world.close().await;
}
