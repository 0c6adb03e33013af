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
use crate::app::App;
use crate::workspaces::channels;
use crate::workspaces::notify::Receiver;
use crate::workspaces::settings::{self, Settings, SigningSecrets};
use kit::retry::Retry as _;
use runtime::outbound::{Failure, check_stored_address, signature};
use store::StoreError;

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
    /// The workspace no longer declares the receiver of a notification.
    Undeclared,
}

impl From<Failure> for Unsent {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Makes one attempt. Returns none if the worker stops before the response. An error: only a newer
/// version can send it.
pub(super) async fn send_until_stopped(
    app: &App,
    emails: &impl EmailSender,
    delivery: &Delivery,
    stop: &CancellationToken,
) -> Result<Option<Result<u16, Unsent>>, StoreError> {
    if stop.is_cancelled() {
        return Ok(None);
    }
    let (settings, receiver) = match read(app, delivery).await {
        Ok(read) => read,
        Err(error) if error.needs_newer_version() => return Err(error),
        Err(error) => {
            let text = format!("cannot read the workspace's settings: {error}");
            return Ok(Some(Err(Failure::no_response(text).into())));
        }
    };
    if receiver.is_none() && is_notification(&delivery.kind) {
        return Ok(Some(Err(Unsent::Undeclared)));
    }
    let sent = async {
        match delivery.kind.as_str() {
            EMAIL_NOTIFICATION => send_email(emails, delivery, &settings).await,
            _ => {
                let (url, headers) = prepare(app, delivery, &settings, receiver.as_ref())?;
                app.sender.post(url, headers, delivery.body.clone(), &app.clock).await
            }
        }
    };
    Ok(tokio::select! {
        result = sent => Some(result.map_err(Unsent::from)),
        () = stop.cancelled() => None,
    })
}

fn is_notification(kind: &str) -> bool {
    matches!(kind, EXPORT_NOTIFICATION | SLACK_NOTIFICATION | EMAIL_NOTIFICATION)
}

/// The workspace's settings, and the receiver of a notification. The receiver does not come from the
/// cache, because the delivery ends without one.
async fn read(
    app: &App,
    delivery: &Delivery,
) -> Result<(Arc<Settings>, Option<Receiver>), StoreError> {
    let settings = settings::find(app, delivery.workspace_id).await?;
    if !is_notification(&delivery.kind) {
        return Ok((settings, None));
    }
    let mut tx = app.store.snapshot().await?;
    let receivers = channels::notified(&mut tx, &app.secrets, delivery.workspace_id).await?;
    tx.commit().await?;
    Ok((settings, receivers.into_iter().find(|receiver| is_at(receiver, &delivery.url))))
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
    receiver: Option<&Receiver>,
) -> Result<(Url, HeaderMap), Failure> {
    let url = receiver.and_then(Receiver::address).map_or(delivery.url.as_str(), |(_, url)| url);
    let url = check_stored_address(url, &app.config)
        .map_err(|error| Failure::no_response(format!("the address {error}")))?;
    if delivery.kind == SLACK_NOTIFICATION {
        let json = HeaderValue::from_static("application/json");
        return Ok((url, HeaderMap::from_iter([(CONTENT_TYPE, json)])));
    }
    let secrets = match receiver.and_then(|receiver| receiver.webhook.as_ref()) {
        Some(webhook) => webhook.secret.clone().into(),
        None => secrets(settings, delivery)?,
    };
    if secrets.secret.is_none() {
        let error = "the workspace has no callbacks.secret yet: run `longshore apply`";
        return Err(Failure::no_response(error));
    }
    let (id, now) = (delivery.message_id(), app.clock.now().as_second());
    let signed = signature::sign_with_each(secrets.each(), id, now, &delivery.body);
    Ok((url, signed.headers()))
}

/// The signing secrets of a postback or a callback.
fn secrets(settings: &Settings, delivery: &Delivery) -> Result<SigningSecrets, Failure> {
    match delivery.kind.as_str() {
        STATUS_POSTBACK => {
            let postback = settings.email.as_ref().and_then(|email| email.status_postback.as_ref());
            let error = "the workspace no longer declares email.status_postback";
            Ok(postback.ok_or_else(|| Failure::no_response(error))?.signing())
        }
        _ => Ok(settings.callbacks.clone()),
    }
}
