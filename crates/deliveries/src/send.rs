//! One attempt at a delivery: what is sent, by its kind.

use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    Delivery, EMAIL_NOTIFICATION, EXPORT_NOTIFICATION, MAILTO, SLACK_NOTIFICATION, STATUS_POSTBACK,
};
use gateway::app::App;
use gateway::workspaces::channels;
use gateway::workspaces::notify::Receiver;
use gateway::workspaces::settings::{self, Settings, SignedAddress, SigningSecrets};
use kit::retry::Retry as _;
use runtime::outbound::{Failure, check_stored_address, signature};
use store::StoreError;
use store::claims::{self, Claim, ClaimError};

/// Sends the emails of deliveries: the layer that knows the relays implements it.
pub trait EmailSender: Sync {
    /// Returns the relay's status. An attempt that is repeated sends the same Message-ID.
    fn send_email(
        &self,
        email: &NotificationEmail<'_>,
    ) -> impl Future<Output = Result<u16, Failure>> + Send;
}

/// An email to one address.
pub struct NotificationEmail<'a> {
    /// The workspace's relay and sender.
    pub settings: &'a settings::Email,
    pub to: &'a str,
    /// The part of the Message-ID before the domain.
    pub id: String,
    pub content: EmailContent,
}

/// The stored body of a delivery that is an email.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmailContent {
    pub subject: String,
    pub text: String,
}

/// Why an attempt delivered nothing.
pub(super) enum Unsent {
    /// It is retried.
    Failed(Failure),
    /// The workspace file no longer declares the receiver, at this path.
    Undeclared(&'static str),
}

impl From<Failure> for Unsent {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Makes one attempt. Returns none if the worker stops before the response. An error: only a newer
/// version can send it, or another worker has its claim.
pub(super) async fn send_until_stopped(
    app: &App,
    emails: &impl EmailSender,
    claim: &Claim,
    delivery: &Delivery,
    stop: &CancellationToken,
) -> Result<Option<Result<u16, Unsent>>, ClaimError> {
    if stop.is_cancelled() {
        return Ok(None);
    }
    let (settings, target) = match read(app, delivery).await {
        Ok(read) => read,
        Err(error) if error.needs_newer_version() => return Err(error.into()),
        Err(error) => {
            let text = format!("cannot read the workspace's settings: {error}");
            return Ok(Some(Err(Failure::no_response(text).into())));
        }
    };
    let target = match target {
        Ok(target) => target,
        Err(path) => return Ok(Some(Err(Unsent::Undeclared(path)))),
    };
    claims::check_held(&app.store, claim, claim.asked_at).await?;
    let sent = async {
        match delivery.kind.as_str() {
            EMAIL_NOTIFICATION => send_email(emails, delivery, &settings).await,
            _ => {
                let (url, headers) = prepare(app, delivery, &settings, &target)?;
                app.sender.post(url, headers, delivery.body.clone(), &app.clock).await
            }
        }
    };
    Ok(tokio::select! {
        result = sent => Some(result.map_err(Unsent::from)),
        () = stop.cancelled() => None,
    })
}

/// Where a delivery goes.
enum Target {
    /// The URL of the delivery, which a request named.
    Requested,
    /// The one receiver of the workspace's postbacks: its URL may have changed since the delivery
    /// was stored.
    Postback(SignedAddress),
    /// The receiver of a notification.
    Notification(Receiver),
}

/// The workspace's settings, and the target or the path at which the file no longer declares it.
/// The target does not come from the cache, because the delivery ends without one.
async fn read(
    app: &App,
    delivery: &Delivery,
) -> Result<(Arc<Settings>, Result<Target, &'static str>), StoreError> {
    let settings = settings::find(app, delivery.workspace_id).await?;
    let mut tx = app.store.snapshot().await?;
    let target = match delivery.kind.as_str() {
        STATUS_POSTBACK => channels::status_postback(&mut tx, &app.secrets, delivery.workspace_id)
            .await?
            .map(Target::Postback)
            .ok_or("email.status_postback"),
        EXPORT_NOTIFICATION | SLACK_NOTIFICATION | EMAIL_NOTIFICATION => {
            channels::notified(&mut tx, &app.secrets, delivery.workspace_id)
                .await?
                .into_iter()
                .find(|receiver| is_at(receiver, &delivery.url))
                .map(Target::Notification)
                .ok_or("notify")
        }
        _ => Ok(Target::Requested),
    };
    tx.commit().await?;
    Ok((settings, target))
}

/// Whether the `url` of a delivery refers to the receiver.
fn is_at(receiver: &Receiver, url: &str) -> bool {
    match url.strip_prefix(MAILTO) {
        Some(address) => receiver.email.iter().any(|email| email.to.iter().any(|to| to == address)),
        None => receiver.reference().as_deref() == Some(url),
    }
}

async fn send_email(
    emails: &impl EmailSender,
    delivery: &Delivery,
    settings: &Settings,
) -> Result<u16, Failure> {
    let Some(relay) = &settings.email else {
        return Err(Failure::no_response("the workspace no longer declares email"));
    };
    let content = serde_json::from_str(&delivery.body)
        .map_err(|error| Failure::no_response(format!("cannot read the stored email: {error}")))?;
    let to = delivery.url.strip_prefix(MAILTO).unwrap_or(&delivery.url);
    let email = NotificationEmail { settings: relay, to, id: delivery.message_id(), content };
    emails.send_email(&email).await
}

/// The destination and the headers. Checks the URL again, because the allowed networks may have
/// changed since the delivery was created.
fn prepare(
    app: &App,
    delivery: &Delivery,
    settings: &Settings,
    target: &Target,
) -> Result<(Url, HeaderMap), Failure> {
    let declared = match target {
        Target::Requested => None,
        Target::Postback(postback) => Some(postback.url.as_str()),
        Target::Notification(receiver) => receiver.address().map(|(_, url)| url),
    };
    let url = declared.unwrap_or(&delivery.url);
    let url = check_stored_address(url, &app.config)
        .map_err(|error| Failure::no_response(format!("the address {error}")))?;
    if delivery.kind == SLACK_NOTIFICATION {
        let json = HeaderValue::from_static("application/json");
        return Ok((url, HeaderMap::from_iter([(CONTENT_TYPE, json)])));
    }
    let secrets: SigningSecrets = match target {
        Target::Notification(Receiver { webhook: Some(webhook), .. }) => {
            webhook.secret.clone().into()
        }
        Target::Postback(postback) => postback.signing(),
        Target::Requested | Target::Notification(_) => settings.callbacks.clone(),
    };
    if secrets.secret.is_none() {
        let error = "the workspace has no callbacks.secret yet: run `longshore apply`";
        return Err(Failure::no_response(error));
    }
    let (id, now) = (delivery.message_id(), app.clock.now().as_second());
    let signed = signature::sign_with_each(secrets.each(), id, now, &delivery.body);
    Ok((url, signed.headers()))
}
