//! Emails, to a relay that stalls, refuses, takes and drops the line, and is fixed.

use std::time::Duration;

use longshore::messages::{Outcome, Outgoing, channels};
use longshore::workspaces::Channel;
use serde_json::json;

use super::{ADDRESS_HASH, Message, World, reason};
use crate::support::eventually;
use crate::support::process;
use crate::support::scripted_relay::{Action, ScriptedRelay, Step};
use crate::support::stores::{TestStore, on_sqlite};

on_sqlite!(
    an_email_is_whole,
    relay_replies_determine_the_outcome,
    retried_emails_keep_their_message_id,
    a_password_is_not_sent_without_tls,
    connections_are_kept_bounded_and_let_go,
    a_workspace_does_not_delay_the_emails_of_another_to_one_relay,
    a_connection_that_is_gone_costs_no_attempt,
    transactional_emails_do_not_wait_for_bulk_emails,
    invalid_emails_are_not_sent,
);

async fn an_email_is_whole(store: TestStore) {
    let mut world = World::new(store).await;
    let relay = ScriptedRelay::start(&[], []).await;
    world.by_relay(relay.url("", ""));
    let mut message = Message::email("Grüße\r\nBcc: x@y.example");
    message.rendered.object.extend(
        json!({
            "body": "<p>Hello <b>Ann</b></p>\n.\n<p>&copy; Acme</p>",
            "preheader": "5 < 6", "reply_to": "help@acme.example",
            "bcc": "archive@acme.example", "headers": { "X-Order": "17" },
            "extras": { "kept": "not sent" },
        })
        .as_object()
        .unwrap()
        .clone(),
    );
    message.rendered.extras.insert("plan".into(), "gold\r\nBcc: z".into());
    assert_eq!(world.send(&message).await, Outcome::Sent);
    let email = relay.accepted().remove(0);
    assert_eq!(email.from, "hello@acme.example");
    assert_eq!(email.to, ["ann@people.example", "archive@acme.example"]);
    let header =
        |name: &str| email.header(name).unwrap_or_else(|| panic!("{name}: {}", email.text));
    let ids = (message.id.dispatch_id.simple(), message.id.service_id.simple());
    assert_eq!(header("Message-ID"), format!("<{}.{}@acme.example>", ids.0, ids.1));
    assert_eq!(header("From"), "Acme <hello@acme.example>");
    assert_eq!(header("To"), "ann@people.example");
    assert_eq!(header("Reply-To"), "help@acme.example");
    assert_eq!(header("X-Order"), "17");
    assert_eq!(header("X-Message-Extras"), r#"{"plan":"gold\r\nBcc: z"}"#);
    assert!(header("Date").ends_with("+0000"));
    assert!(header("Subject").starts_with("=?utf-8?b?"));
    assert!(email.header("Bcc").is_none() && !email.text.contains("archive@"));
    assert!(!email.text.contains("not sent"));
    // Both bodies, a line that is a dot, and what mailboxes show first; long lines are encoded.
    let text = email.text.replace("=\r\n", "").replace("=3D", "=");
    assert!(text.contains("\r\n.\r\n") && text.contains(">5 &lt; 6</div>"), "{text}");
    assert!(text.contains("Hello Ann\r\n") && text.contains("<b>Ann</b>"), "{text}");
    // One click.
    let link = header("List-Unsubscribe");
    let token = link.strip_prefix("<https://longshore.example.com/api/email/unsubscribe/");
    let token = token.and_then(|token| token.strip_suffix('>')).expect("a link");
    let whose = longshore::messages::unsubscribe_token::read(&world.app().secrets, token);
    let whose = whose.expect("a valid token");
    let user = (world.installation.workspace, message.id.service_id);
    assert_eq!((whose.workspace, whose.user, whose.address), (user.0, user.1, Some(ADDRESS_HASH)));
    assert_eq!(header("List-Unsubscribe-Post"), "List-Unsubscribe=One-Click");
    // Not where there is nothing to unsubscribe from.
    message.is_transactional = true;
    assert_eq!(world.send(&message).await, Outcome::Sent);
    assert!(relay.accepted()[1].header("List-Unsubscribe").is_none());
}

/// The expected outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comes {
    Bounced,
    Failed,
    Later,
    NoResponse,
}

async fn relay_replies_determine_the_outcome(store: TestStore) {
    let mut world = World::new(store).await;
    let says = Action::Reply;
    for (step, does, comes, words) in [
        (Step::Connect, says(554, "closed today"), Comes::Later, "554 closed today"),
        (Step::Connect, Action::Stall, Comes::Later, "no response within 1s"),
        (Step::Connect, Action::Close, Comes::Later, "connecting"),
        (Step::Hello, says(550, "who?"), Comes::Later, "550 who?"),
        (Step::From, says(553, "not you"), Comes::Failed, "553 not you (MAIL FROM)"),
        (Step::From, says(451, "greylisted"), Comes::Later, "451 greylisted"),
        (Step::From, says(530, "log in"), Comes::Later, "530 log in"),
        (Step::From, Action::Stall, Comes::Later, "MAIL FROM: no response within 1s"),
        (Step::To, says(550, "nobody here"), Comes::Bounced, "550 nobody here (RCPT TO)"),
        (Step::To, says(450, "mailbox busy"), Comes::Later, "450 mailbox busy"),
        (Step::To, Action::Stall, Comes::Later, "RCPT TO: no response"),
        (Step::To, Action::Close, Comes::Later, "RCPT TO"),
        (Step::Data, says(554, "no"), Comes::Bounced, "554 no (DATA)"),
        (Step::Data, says(421, "shutting down"), Comes::Later, "421 shutting down"),
        (Step::End, says(552, "too large"), Comes::Bounced, "552 too large"),
        (Step::End, says(452, "disk full"), Comes::Later, "452 disk full"),
        (Step::End, Action::Stall, Comes::NoResponse, "no response within 1s"),
        (Step::End, Action::Close, Comes::NoResponse, "end of data"),
    ] {
        let relay = ScriptedRelay::start(&[], [(step, does.clone())]).await;
        world.by_relay(relay.url("", ""));
        let outcome = world.send(&Message::email("Hello")).await;
        let came = match &outcome {
            Outcome::Bounced { .. } => Comes::Bounced,
            Outcome::Failed(_) => Comes::Failed,
            Outcome::Later { .. } => Comes::Later,
            Outcome::NoResponse { .. } => Comes::NoResponse,
            other => panic!("{step:?} {does:?}: {other:?}"),
        };
        assert_eq!(came, comes, "{step:?} {does:?}: {outcome:?}");
        assert!(reason(&outcome).contains(words), "{step:?} {does:?}: {outcome:?}");
        // Once fixed, it accepts the next one.
        assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent, "{step:?} {does:?}");
        assert_eq!(relay.accepted().len(), 1);
    }
    // What is refused about one email is no reason for another connection.
    let relay = ScriptedRelay::start(&[], []).await;
    world.by_relay(relay.url("", ""));
    assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
    let opened = relay.opened();
    for step in [Step::From, Step::To, Step::Data, Step::End] {
        relay.script([(step, Action::Reply(550, "no"))]);
        world.send(&Message::email("Hello")).await;
    }
    assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
    assert_eq!(relay.opened(), opened);
    // Nobody there.
    world.by_relay(format!("smtp://127.0.0.1:{}", process::free_port()));
    let outcome = world.send(&Message::email("Hello")).await;
    assert!(
        matches!(&outcome, Outcome::Later { reason, .. } if reason.contains("refused")),
        "{outcome:?}"
    );
}

async fn retried_emails_keep_their_message_id(store: TestStore) {
    let mut world = World::new(store).await;
    let relay = ScriptedRelay::start(&[], [(Step::End, Action::AcceptAndClose)]).await;
    world.by_relay(relay.url("", ""));
    let message = Message::email("Hello");
    assert!(matches!(world.send(&message).await, Outcome::NoResponse { .. }));
    assert_eq!(world.send(&message).await, Outcome::Sent);
    let ids: Vec<_> = relay.accepted().iter().map(|email| email.header("Message-ID")).collect();
    assert!(ids.len() == 2 && ids[0].is_some() && ids[0] == ids[1], "{ids:?}");
}

async fn a_password_is_not_sent_without_tls(store: TestStore) {
    let mut world = World::new(store).await;
    let relay = ScriptedRelay::start(&["AUTH PLAIN LOGIN"], []).await;
    world.by_relay(relay.url("ann:pass-word@", ""));
    let outcome = world.send(&Message::email("Hello")).await;
    let Outcome::Later { reason, .. } = &outcome else { panic!("{outcome:?}") };
    assert!(
        reason.contains("required to send a password") && !reason.contains("pass-word"),
        "{reason}"
    );
    assert!(
        !relay.received_commands().iter().any(|line| line.starts_with("AUTH")),
        "{:?}",
        relay.received_commands()
    );
    // An operator may say that it may.
    world.by_relay(relay.url("ann:pass-word@", "?tls=none"));
    relay.script([(Step::LogIn, Action::Reply(535, "who are you?"))]);
    let outcome = world.send(&Message::email("Hello")).await;
    assert!(matches!(&outcome, Outcome::Later { .. }), "{outcome:?}");
    assert!(self::reason(&outcome).contains("535 who are you? (AUTH)"), "{outcome:?}");
    assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
    // "\0ann\0pass-word".
    assert!(relay.received_commands().contains(&"AUTH PLAIN AGFubgBwYXNzLXdvcmQ=".to_owned()));
    world.by_relay(relay.url("", "?tls=required"));
    let outcome = world.send(&Message::email("Hello")).await;
    assert!(self::reason(&outcome).contains("does not offer STARTTLS"), "{outcome:?}");
}

async fn connections_are_kept_bounded_and_let_go(store: TestStore) {
    let mut world = World::with(store, |config| {
        // One of them is left to other workspaces.
        config.smtp.connections = 3;
        config.smtp.timeout_seconds = 30;
        config.smtp.idle_seconds = 1;
    })
    .await;
    let slow = (Step::End, Action::Delay(Duration::from_millis(10)));
    let relay = ScriptedRelay::start(&[], std::iter::repeat_n(slow, 50)).await;
    world.by_relay(relay.url("", ""));
    let messages: Vec<Message> = (0..50).map(|n| Message::email(&n.to_string())).collect();
    let sent = futures::future::join_all(messages.iter().map(|message| world.send(message))).await;
    assert!(sent.iter().all(|outcome| *outcome == Outcome::Sent), "{sent:?}");
    assert_eq!((relay.accepted().len(), relay.opened(), relay.max_open()), (50, 2, 2));
    // Without a next email.
    eventually("unused connections are closed", || async { relay.open() == 0 }).await;
    assert_eq!(relay.received_commands().iter().filter(|line| *line == "QUIT").count(), 2);
}

async fn a_workspace_does_not_delay_the_emails_of_another_to_one_relay(store: TestStore) {
    const EMAILS: usize = 20;
    let mut world = World::with(store, |config| {
        config.smtp.connections = 2;
        config.smtp.timeout_seconds = 60;
    })
    .await;
    let slow = (Step::End, Action::Delay(Duration::from_millis(100)));
    let relay = ScriptedRelay::start(&[], std::iter::repeat_n(slow, 2 * (EMAILS + 1))).await;
    world.by_relay(relay.url("", ""));
    for is_transactional in [false, true] {
        let before = relay.accepted().len();
        let message = Message { is_transactional, ..Message::email("Hello") };
        let many = futures::future::join_all((0..EMAILS).map(|_| world.send(&message)));
        let other = async {
            eventually("the first email is sent", || async { relay.accepted().len() > before })
                .await;
            let workspace_id = world.installation.workspace + 1;
            let email = Outgoing { workspace_id, ..message.outgoing(&world) };
            (channels::send(world.app(), email).await, relay.accepted().len() - before)
        };
        let (sent, (outcome, accepted)) = tokio::join!(many, other);
        assert!(sent.iter().all(|outcome| *outcome == Outcome::Sent), "{sent:?}");
        assert_eq!(outcome, Outcome::Sent);
        assert!(accepted <= EMAILS / 2, "it waited for {accepted} of {EMAILS} emails");
    }
}

async fn a_connection_that_is_gone_costs_no_attempt(store: TestStore) {
    let mut world = World::new(store).await;
    let relay = ScriptedRelay::start(&[], []).await;
    world.by_relay(relay.url("", ""));
    for gone in [Action::Close, Action::Reply(421, "you were silent for too long")] {
        assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
        relay.script([(Step::From, gone)]);
        let opened = relay.opened();
        assert_eq!(world.send(&Message::email("Hello")).await, Outcome::Sent);
        assert_eq!(relay.opened(), opened + 1);
    }
    assert_eq!(relay.accepted().len(), 4);
}

async fn transactional_emails_do_not_wait_for_bulk_emails(store: TestStore) {
    let mut world = World::with(store, |config| {
        config.smtp.connections = 1;
        config.smtp.timeout_seconds = 60;
        config.smtp.accept_seconds = 60;
    })
    .await;
    let relay = ScriptedRelay::start(&[], [(Step::End, Action::Stall)]).await;
    world.by_relay(relay.url("", ""));
    let bulk = Message::email("bulk");
    let mut urgent = Message::email("urgent");
    urgent.is_transactional = true;
    let others = async {
        tokio::join!(world.send(&bulk), world.send(&bulk));
    };
    let sent = async {
        eventually("the one stalls", || async {
            relay.received_commands().iter().any(|line| line == "DATA")
        })
        .await;
        world.send(&urgent).await
    };
    tokio::select! {
        () = others => panic!("the relay stalls"),
        outcome = sent => assert_eq!(outcome, Outcome::Sent),
    }
}

async fn invalid_emails_are_not_sent(store: TestStore) {
    let mut world = World::new(store).await;
    let relay = ScriptedRelay::start(&[], []).await;
    world.by_relay(relay.url("", ""));
    for profile in [json!({}), json!({ "email": "" }), json!({ "email": "ann" })] {
        let object = json!({ "body": "x" });
        let outcome = world.send(&Message::new(Channel::Email, object, profile)).await;
        assert!(matches!(&outcome, Outcome::Unreachable(_)), "{outcome:?}");
    }
    for (object, text) in [
        (json!({ "body": " " }), "the body"),
        (json!({ "body": "x", "from": "nobody" }), "from"),
        (json!({ "body": "x", "from": "A <a@b.example>\r\nBcc: c@d.example" }), "from"),
        (json!({ "body": "x", "reply_to": "nobody" }), "reply_to"),
        (json!({ "body": "x", "headers": { "Bcc": "c@d.example" } }), "headers.Bcc"),
        (json!({ "body": "x", "headers": { "X-A": "b\nBcc: c@d.example" } }), "headers.X-A"),
    ] {
        let profile = json!({ "email": "ann@people.example" });
        let outcome = world.send(&Message::new(Channel::Email, object, profile)).await;
        assert!(matches!(&outcome, Outcome::Failed(why) if why.starts_with(text)), "{outcome:?}");
    }
    // The user is not at fault if the relay does not support the message.
    for (member, value) in [("from", "änn@acme.example"), ("bcc", "änn@acme.example")] {
        let profile = json!({ "email": "ann@people.example" });
        let object = json!({ "body": "x", member: value });
        let outcome = world.send(&Message::new(Channel::Email, object, profile)).await;
        let Outcome::Failed(why) = &outcome else { panic!("{member}: {outcome:?}") };
        assert!(why.starts_with(member) && why.contains("SMTPUTF8"), "{why}");
    }
    let profile = json!({ "email": "ann@people.example" });
    let object = json!({ "body": "x", "reply_to": "änn@acme.example" });
    let outcome = world.send(&Message::new(Channel::Email, object, profile)).await;
    assert!(matches!(&outcome, Outcome::Failed(why) if why.contains("8BITMIME")), "{outcome:?}");
    // An address that the relay does not support.
    let profile = json!({ "email": "änn@people.example" });
    let message = Message::new(Channel::Email, json!({ "body": "x" }), profile);
    assert!(matches!(world.send(&message).await, Outcome::Unreachable(_)));
    assert!(relay.accepted().is_empty());
    let relay = ScriptedRelay::start(&["SMTPUTF8", "8BITMIME"], []).await;
    world.by_relay(relay.url("", ""));
    assert_eq!(world.send(&message).await, Outcome::Sent);
    assert_eq!(relay.accepted()[0].to, ["änn@people.example"]);
    world.settings.email = None;
    assert!(matches!(world.send(&message).await, Outcome::Failed(_)));
}
