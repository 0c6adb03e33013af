//! One message at a time to real, scripted receivers: the outcome of each, and what is on the wire.

mod cards;
mod email;
mod headers;
mod providers;
mod replies;
mod webhooks;

use std::collections::BTreeMap;

use longshore::app::App;
use longshore::config::Config;
use longshore::messages::content::Rendered;
use longshore::messages::{MessageId, Outcome, Outgoing, channels};
use longshore::users::Recipient;
use longshore::users::service_id;
use longshore::workspaces::Channel;
use longshore::workspaces::settings::{self, Email, Secret, Settings};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::installation::Installation;
use crate::support::stores::TestStore;

/// The hash of the recipient's address.
const ADDRESS_HASH: [u8; 32] = [7; 32];

const WORKSPACE: &str = "
workspace: acme
currency: USD
webhooks: {secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwxyz0}
";

/// The bytes behind the secret of the webhooks.
fn webhook_secret() -> Vec<u8> {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwxyz0").unwrap()
}

/// Of providers.
const SECRET: &[u8] = b"secret of the provider";

fn patient(config: &mut Config) {
    config.allow_private = vec!["127.0.0.0/8".parse().unwrap()];
    config.public_url = Some("https://longshore.example.com/api".parse().unwrap());
    config.deliveries.timeout_seconds = 1;
    config.smtp.connect_seconds = 1;
    config.smtp.timeout_seconds = 1;
    config.smtp.accept_seconds = 1;
}

struct World {
    installation: Installation,
    settings: Settings,
}

impl World {
    async fn new(store: TestStore) -> Self {
        Self::with(store, |_| {}).await
    }

    async fn with(store: TestStore, change: impl FnOnce(&mut Config)) -> Self {
        let config = |config: &mut Config| {
            patient(config);
            change(config);
        };
        let installation = Installation::open(store, WORKSPACE, config).await;
        let declared =
            settings::find(&installation.app, installation.workspace).await.expect("settings");
        let webhooks = declared.webhooks.clone();
        Self { installation, settings: Settings { webhooks, ..Settings::default() } }
    }

    fn app(&self) -> &App {
        &self.installation.app
    }

    /// Emails go to the relay at this address.
    fn by_relay(&mut self, url: String) {
        self.settings.email = Some(Email {
            smtp: url.into(),
            from: Some("Acme <hello@acme.example>".into()),
            status_postback: None,
            events_secret: Some(Secret(SECRET.to_vec())),
            bounce_days: 90,
        });
    }

    async fn send(&self, message: &Message) -> Outcome {
        channels::send(self.app(), message.outgoing(self)).await
    }
}

/// A message to a user.
#[derive(Clone)]
struct Message {
    id: MessageId,
    recipient: Recipient,
    rendered: Rendered,
    is_transactional: bool,
}

impl Message {
    fn new(channel: Channel, object: Value, profile: Value) -> Self {
        let service_id = service_id::new(1_700_000_000_000, 1, 7, 42);
        Self::to(service_id, channel, object, profile)
    }

    fn to(service_id: Uuid, channel: Channel, object: Value, profile: Value) -> Self {
        let object = object.as_object().expect("an object").clone();
        Self {
            id: MessageId { dispatch_id: Uuid::now_v7(), service_id, channel },
            recipient: Recipient::read(service_id, &profile.to_string()).expect("a profile"),
            rendered: Rendered { channel, variation_id: None, object, extras: BTreeMap::new() },
            is_transactional: false,
        }
    }

    fn email(text: &str) -> Self {
        let object = json!({ "app_id": "app", "subject": text, "body": "<p>Hi</p>" });
        Self::new(Channel::Email, object, json!({ "email": "ann@people.example" }))
    }

    fn outgoing<'a>(&'a self, world: &'a World) -> Outgoing<'a> {
        Outgoing {
            workspace_id: world.installation.workspace,
            settings: &world.settings,
            id: self.id,
            recipient: &self.recipient,
            rendered: &self.rendered,
            is_transactional: self.is_transactional,
            address: Some(ADDRESS_HASH),
            campaign_id: None,
            send_id: Some("winter"),
            request_id: "request-1",
        }
    }
}

/// The reason of an outcome that has one.
fn reason(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Sent => panic!("it was sent"),
        Outcome::Unreachable(reason)
        | Outcome::Bounced { reason, .. }
        | Outcome::Failed(reason)
        | Outcome::Later { reason, .. }
        | Outcome::NoResponse { reason, .. } => reason,
    }
}
