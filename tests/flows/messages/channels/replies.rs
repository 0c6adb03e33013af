//! Replies that no relay should send, and relays that defer what one connection brings them.

use longshore::messages::Outcome;

use super::{Message, World, reason};
use crate::support::scripted_relay::{Action, ScriptedRelay, Step};
use crate::support::stores::{TestStore, on_sqlite};

on_sqlite!(
    the_code_of_a_reply_decides_whatever_its_text,
    rejections_are_final_whatever_their_text,
    nothing_sent_before_tls_is_used,
    an_additional_reply_is_not_taken_for_the_next_one,
    endless_replies_end_the_connection,
    the_code_of_a_reply_that_is_too_long_decides,
    a_deferring_connection_is_replaced,
    repeated_deferrals_end_a_connection,
);

/// Replies of success at a step, in forms that some relays use.
fn replies(step: Step) -> [&'static [u8]; 6] {
    match step {
        Step::Data => [
            b"354 f\xfcr Sie\r\n",
            b"354 \xc7\xeb\xca\xe4\xc8\xeb\r\n",
            b"354\r\n",
            b"354\tok\r\n",
            b"354-go\r\n354 on\xff\r\n",
            b"354 ok\n",
        ],
        Step::Connect => [
            b"220 f\xfcr Sie\r\n",
            b"220 \xc7\xeb\xca\xe4\xc8\xeb\r\n",
            b"220\r\n",
            b"220\tok\r\n",
            b"220-a\r\n220 b\xff\r\n",
            b"220 ok\n",
        ],
        _ => [
            b"250 angenommen f\xfcr Sie\r\n",
            b"250 \xc7\xeb\xca\xe4\xc8\xeb\r\n",
            b"250\r\n",
            b"250\tok\r\n",
            b"250-a\r\n250 b\xff\r\n",
            b"250 ok\n",
        ],
    }
}

async fn the_code_of_a_reply_decides_whatever_its_text(store: TestStore) {
    let mut world = World::new(store).await;
    for step in [Step::Connect, Step::Hello, Step::From, Step::To, Step::Data, Step::End] {
        for bytes in replies(step) {
            let relay = ScriptedRelay::start(&[], [(step, Action::SendBytes(bytes))]).await;
            world.by_relay(relay.url("", ""));
            let outcome = world.send(&Message::email("Hello")).await;
            assert_eq!(outcome, Outcome::Sent, "{step:?} {}", bytes.escape_ascii());
            // Exactly once, and the connection is kept.
            assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
            assert_eq!((relay.accepted().len(), relay.opened()), (2, 1), "{step:?}");
        }
    }
}

async fn rejections_are_final_whatever_their_text(store: TestStore) {
    let mut world = World::new(store).await;
    for (bytes, words) in [
        (&b"550 unbekannt: f\xfcr Sie\r\n"[..], "550 unbekannt: f\u{fffd}r Sie (RCPT TO)"),
        (b"550\r\n", "550 (RCPT TO)"),
        (b"550\tno\r\n", "550 no (RCPT TO)"),
        (b"550-no\r\n550 \xd3\xca\r\n", "550 no \u{fffd}\u{fffd} (RCPT TO)"),
    ] {
        let relay = ScriptedRelay::start(&[], [(Step::To, Action::SendBytes(bytes))]).await;
        world.by_relay(relay.url("", ""));
        let outcome = world.send(&Message::email("Hello")).await;
        assert_eq!(outcome, Outcome::Bounced { reason: words.into(), address: None });
    }
    // It is unknown what an unreadable reply means; the reason shows it.
    let relay =
        ScriptedRelay::start(&[], [(Step::End, Action::SendBytes(b"f\xfcr Sie\r\n"))]).await;
    world.by_relay(relay.url("", ""));
    let outcome = world.send(&Message::email("Hello")).await;
    assert!(matches!(outcome, Outcome::NoResponse { .. }), "{outcome:?}");
    let words = "end of data: the relay replied without an SMTP code: \"f\u{fffd}r Sie\"";
    assert_eq!(reason(&outcome), words);
}

async fn nothing_sent_before_tls_is_used(store: TestStore) {
    let mut world = World::new(store).await;
    let injected =
        Action::SendBytes(b"220 ready\r\n250 mine\r\n250 OK\r\n250 OK\r\n354 go on\r\n250 OK\r\n");
    let relay = ScriptedRelay::start(&["STARTTLS"], [(Step::Tls, injected)]).await;
    world.by_relay(relay.url("", "?tls=required"));
    let outcome = world.send(&Message::email("Hello")).await;
    assert!(matches!(outcome, Outcome::Later { .. }), "{outcome:?}");
    let words = "STARTTLS: the relay sent a reply that was not requested";
    assert_eq!(reason(&outcome), words);
    // TLS has not begun.
    let commands = relay.received_commands();
    assert_eq!(commands.last().map(String::as_str), Some("STARTTLS"), "{commands:?}");
    assert!(relay.accepted().is_empty());
}

async fn an_additional_reply_is_not_taken_for_the_next_one(store: TestStore) {
    let mut world = World::new(store).await;
    let twice = (Step::From, Action::SendBytes(b"250 OK\r\n250 OK\r\n"));
    let relay = ScriptedRelay::start(&[], [twice, (Step::To, Action::Reply(550, "nobody"))]).await;
    world.by_relay(relay.url("", ""));
    let outcome = world.send(&Message::email("Hello")).await;
    assert!(matches!(outcome, Outcome::Later { .. }), "{outcome:?}");
    let outcome = world.send(&Message::email("Hello")).await;
    assert!(matches!(outcome, Outcome::Bounced { .. }), "{outcome:?}");
    // DATA is not accepted by a reply that means something else.
    relay.script([(Step::Data, Action::Reply(250, "OK"))]);
    let outcome = world.send(&Message::email("Hello")).await;
    assert!(reason(&outcome).contains("unexpected reply 250 OK"), "{outcome:?}");
    assert!(relay.accepted().is_empty());
}

async fn endless_replies_end_the_connection(store: TestStore) {
    // The time limits are not what ends them.
    let mut world = World::with(store, |config| {
        config.smtp.connect_seconds = 600;
        config.smtp.timeout_seconds = 600;
        config.smtp.accept_seconds = 600;
    })
    .await;
    for step in [Step::Connect, Step::Hello, Step::From, Step::To, Step::Data, Step::End] {
        let relay = ScriptedRelay::start(&[], [(step, Action::Flood)]).await;
        world.by_relay(relay.url("", ""));
        let outcome = world.send(&Message::email("Hello")).await;
        let is_unknown = matches!(outcome, Outcome::NoResponse { .. });
        assert_eq!(is_unknown, step == Step::End, "{step:?}: {outcome:?}");
        assert!(reason(&outcome).contains("a line of more than 8192 bytes"), "{outcome:?}");
        // At most what fits into the buffers of the sockets.
        assert!(relay.flooded() < 32 << 20, "{step:?}: {}", relay.flooded());
    }
    let many: &[u8] = "250-a\r\n".repeat(200).leak().as_bytes();
    let relay = ScriptedRelay::start(&[], [(Step::Hello, Action::SendBytes(many))]).await;
    world.by_relay(relay.url("", ""));
    let outcome = world.send(&Message::email("Hello")).await;
    assert!(reason(&outcome).contains("more than 100 lines"), "{outcome:?}");
}

/// Replies with this code that are not read to their end.
fn too_long(code: u16) -> [&'static [u8]; 3] {
    let line = format!("{code} {}\r\n", "x".repeat(9_000));
    let later_line = format!("{code}-a\r\n{line}");
    let lines = format!("{}{code} b\r\n", format!("{code}-a\r\n").repeat(150));
    [line, later_line, lines].map(|reply| -> &'static [u8] { reply.leak().as_bytes() })
}

async fn the_code_of_a_reply_that_is_too_long_decides(store: TestStore) {
    let mut world = World::new(store).await;
    for bytes in too_long(250) {
        let relay = ScriptedRelay::start(&[], [(Step::End, Action::SendBytes(bytes))]).await;
        world.by_relay(relay.url("", ""));
        assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
        // What is left of the reply is not taken for that to the next email.
        assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
        assert_eq!((relay.accepted().len(), relay.opened()), (2, 2));
    }
    for step in [Step::From, Step::To, Step::End] {
        for bytes in too_long(550) {
            let relay = ScriptedRelay::start(&[], [(step, Action::SendBytes(bytes))]).await;
            world.by_relay(relay.url("", ""));
            let outcome = world.send(&Message::email("Hello")).await;
            let is_final = match step {
                Step::From => matches!(outcome, Outcome::Failed(_)),
                _ => matches!(outcome, Outcome::Bounced { .. }),
            };
            assert!(is_final && reason(&outcome).starts_with("550 "), "{step:?}: {outcome:?}");
            assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
            assert_eq!((relay.accepted().len(), relay.opened()), (1, 2), "{step:?}");
        }
    }
    for bytes in too_long(450) {
        let relay = ScriptedRelay::start(&[], [(Step::End, Action::SendBytes(bytes))]).await;
        world.by_relay(relay.url("", ""));
        let outcome = world.send(&Message::email("Hello")).await;
        assert!(matches!(outcome, Outcome::Later { .. }), "{outcome:?}");
        assert!(reason(&outcome).starts_with("450 "), "{outcome:?}");
    }
}

async fn a_deferring_connection_is_replaced(store: TestStore) {
    let mut world = World::new(store).await;
    let relay = ScriptedRelay::start(&[], []).await;
    world.by_relay(relay.url("", ""));
    // It has had its emails of one connection.
    for code in [452, 451, 530] {
        assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
        relay.script([(Step::From, Action::Reply(code, "too many emails on this connection"))]);
        let opened = relay.opened();
        assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent, "{code}");
        assert_eq!(relay.opened(), opened + 1, "{code}");
    }
    // A new connection that is deferred too is not asked again either.
    relay.script(std::iter::repeat_n((Step::From, Action::Reply(452, "not now")), 2));
    let opened = relay.opened();
    let outcome = world.send(&Message::email("Hello")).await;
    assert!(matches!(outcome, Outcome::Later { .. }), "{outcome:?}");
    assert_eq!(reason(&outcome), "452 not now (MAIL FROM)");
    assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
    assert_eq!(relay.opened(), opened + 2);
}

async fn repeated_deferrals_end_a_connection(store: TestStore) {
    let mut world = World::new(store).await;
    let relay = ScriptedRelay::start(&[], []).await;
    world.by_relay(relay.url("", ""));
    for step in [Step::To, Step::Data, Step::End] {
        assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
        let opened = relay.opened();
        // One recipient that is deferred is no reason for another connection.
        relay.script([(step, Action::Reply(450, "busy"))]);
        assert!(matches!(world.send(&Message::email("Hello")).await, Outcome::Later { .. }));
        assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
        assert_eq!(relay.opened(), opened);
        relay.script(std::iter::repeat_n((step, Action::Reply(450, "busy")), 2));
        for _ in 0..2 {
            assert!(matches!(world.send(&Message::email("Hello")).await, Outcome::Later { .. }));
        }
        assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
        assert_eq!(relay.opened(), opened + 1, "{step:?}");
    }
}
