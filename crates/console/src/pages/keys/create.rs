//! Creates a key, and shows its secret: once, in the response to the form.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use ipnet::IpNet;
use maud::{Markup, html};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::form::{self, Errors, NAME, Values};
use super::{apply_text, permissions};
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::form::Form;
use console_frame::parts::{self, Tone};
use console_frame::shell;
use gateway::ApiError;
use gateway::idempotency::{self, Begun, IdempotencyKey, StoredResponse};
use gateway::workspaces::keys::{self, KeyError, NewKey};
use runtime::config::network::networks;

const TITLE: &str = "Create an API key";

/// How long the second request of a double click gets the secret, too.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Secrets that are kept at the same time.
const MAX_KEPT: usize = 32;

/// The secrets of keys that were just created. Browsers show the response to the last click:
/// without them, the person who clicked twice would never see the secret.
#[derive(Default)]
pub struct NewSecrets(Arc<Mutex<VecDeque<NewSecret>>>);

struct NewSecret {
    session: Uuid,
    request_key: Uuid,
    secret: SecretString,
    since: Instant,
}

impl NewSecret {
    fn is_kept(&self) -> bool {
        self.since.elapsed() < KEPT_FOR
    }
}

impl NewSecrets {
    fn keep(&self, page: &Page, request_key: Uuid, secret: SecretString) {
        let session = page.viewer.session_id;
        let mut kept = self.0.lock();
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(NewSecret { session, request_key, secret, since: Instant::now() });
        drop(kept);
        let kept = self.0.clone();
        tokio::spawn(async move {
            tokio::time::sleep(KEPT_FOR).await;
            kept.lock().retain(NewSecret::is_kept);
        });
    }

    /// The secret that a form of this session created.
    fn find(&self, page: &Page, request_key: Uuid) -> Option<SecretString> {
        let kept = self.0.lock();
        let is_own = |secret: &&NewSecret| {
            secret.is_kept()
                && secret.session == page.viewer.session_id
                && secret.request_key == request_key
        };
        kept.iter().find(is_own).map(|secret| secret.secret.clone())
    }
}

/// `GET /w/{workspace}/keys/new`.
pub async fn show(page: Page) -> Result<Response, PageError> {
    Ok(rendered(&page, &Values::first(), &Errors::new()))
}

/// `POST /w/{workspace}/keys/new`. An invalid form is shown again (422).
pub async fn submit(page: Page, form: Form) -> Result<Response, PageError> {
    let values = Values::read(&form);
    let refused = |errors: &Errors| {
        (StatusCode::UNPROCESSABLE_ENTITY, rendered(&page, &values, errors)).into_response()
    };
    let allow = match values.check() {
        Ok(allow) => allow,
        Err(errors) => return Ok(refused(&errors)),
    };
    match create(&page, &values, &allow).await? {
        Outcome::Created(created) => {
            Ok(page.html("API key created", created_content(&page, &values, &allow, &created)))
        }
        Outcome::Taken => {
            let text = "A key has this name: revoke it first, or choose another name";
            Ok(refused(&Errors::from([(NAME.to_owned(), text.to_owned())])))
        }
    }
}

/// The effect of a valid form.
enum Outcome {
    Created(Created),
    /// An active key has the name.
    Taken,
}

/// A created key, also by a former request with the same form.
struct Created {
    id: Uuid,
    /// None if only an earlier response has it.
    secret: Option<SecretString>,
}

/// The stored response. The secret is not in it.
#[derive(Serialize, Deserialize)]
struct CreatedId {
    id: Uuid,
}

/// Creates the key, once for each form and its values.
async fn create(page: &Page, values: &Values, allow: &[IpNet]) -> Result<Outcome, PageError> {
    let app = &page.app;
    let workspace = page.workspace()?.id;
    let body = values.json();
    // A form that was changed after it was sent is another request.
    let endpoint = "POST console/keys/new".to_owned();
    let key = IdempotencyKey::new(workspace, endpoint, &values.request_key.to_string())?
        .within(&hex::encode(Sha256::digest(&body)));
    let mut turn = match idempotency::begin_change(app, Some(key), body.as_bytes()).await? {
        Begun::Turn(turn) => turn,
        Begun::Replay(response) => {
            let CreatedId { id } = serde_json::from_str(&response.body).map_err(|error| {
                ApiError::Internal(format!("the stored response of a created key: {error}"))
            })?;
            let secret = app.new_secrets.find(page, values.request_key);
            return Ok(Outcome::Created(Created { id, secret }));
        }
    };
    let permissions = values.permissions();
    let new =
        NewKey { workspace, name: &values.name, permissions: &permissions, allow, declared: false };
    let created = match keys::create(&mut turn.tx, &app.clock, new).await {
        Ok(created) => created,
        Err(KeyError::Taken(_)) => return Ok(Outcome::Taken),
        Err(KeyError::Store(error)) => return Err(error.into()),
        Err(error) => return Err(PageError::Invalid(error.to_string())),
    };
    page.record(&mut turn.tx, new.change(created.id)).await?;
    // Before the second request can find the claim.
    app.new_secrets.keep(page, values.request_key, created.secret.clone());
    let response = StoredResponse::json(StatusCode::CREATED, &CreatedId { id: created.id })?;
    turn.commit(response).await?;
    Ok(Outcome::Created(Created { id: created.id, secret: Some(created.secret) }))
}

fn rendered(page: &Page, values: &Values, errors: &Errors) -> Response {
    let content = html! {
        div.head {
            div.head-title {
                (crumbs(page))
                h1 { (TITLE) }
                p.muted {
                    "A key can do what its permissions allow, also read personal data and send \
                     messages, whatever your own rights are. "
                    "The secret is shown once, on the next page."
                }
            }
        }
        (form::content(page, values, errors))
        (terminal(page, values))
    };
    page.html(TITLE, content)
}

fn crumbs(page: &Page) -> Markup {
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            a href=(page.workspace_link("/keys")) { "API keys" }
        }
    }
}

fn created_content(page: &Page, values: &Values, allow: &[IpNet], created: &Created) -> Markup {
    let rows = [
        ("Allowed from", html! { (parts::cut(&networks(allow))) }),
        ("Workspace file", html! { (apply_text(false)) }),
    ];
    html! {
        div.head {
            div.head-title {
                (crumbs(page))
                h1 { "Key " (parts::name(&values.name)) " created" }
            }
        }
        @match &created.secret {
            Some(secret) => (secret_notice(secret.expose_secret())),
            None => (secret_unavailable(page, created.id)),
        }
        div.columns.two {
            section.panel aria-label="Permissions" {
                div.panel-head { h2 { "Permissions" } }
                div.panel-body { (permissions::list(&values.permissions())) }
            }
            section.panel aria-label="About the key" {
                div.panel-head { h2 { "About the key" } }
                div.panel-body { (parts::facts(&rows)) }
            }
        }
        div.actions {
            a.button.primary href=(page.workspace_link("/keys")) { "All keys" }
            a.button href=(page.workspace_link(&format!("/keys/{}", created.id))) { "This key" }
        }
        (terminal(page, values))
    }
}

fn secret_notice(secret: &str) -> Markup {
    parts::notice(
        Tone::Good,
        "Copy the secret now",
        html! {
            p { "It is not stored, and not shown again. The key works already." }
            div.field.full {
                label for="secret" { "Secret" }
                // A click or Ctrl+A selects all of it.
                input.input.secret id="secret" value=(secret) readonly autocomplete="off"
                    spellcheck="false" aria-describedby="secret-hint";
                p.hint id="secret-hint" {
                    "The program sends it as " code { "Authorization: Bearer SECRET" } "."
                }
            }
        },
    )
}

fn secret_unavailable(page: &Page, id: Uuid) -> Markup {
    let revoke = page.workspace_link(&format!("/keys/{id}/revoke"));
    parts::notice(
        Tone::Warning,
        "The secret is not available",
        html! {
            p {
                "This form was sent more than once, and has created one key. Only the first response has \
                 the secret: your browser may never have shown it. If nobody has it, revoke this key and \
                 create another."
            }
            div.actions { a.button.danger href=(revoke) { "Revoke this key" } }
        },
    )
}

/// The same as a command.
fn terminal(page: &Page, values: &Values) -> Markup {
    let workspace = page.workspace_if_any().map_or("", |workspace| &workspace.name);
    parts::terminal("", &command(workspace, values))
}

fn command(workspace: &str, values: &Values) -> String {
    let name = if values.name.is_empty() { "NAME" } else { &values.name };
    let permissions = values.permissions();
    let options = permissions.iter().map(|name| ("permission", name.as_str()));
    let options = options.chain(values.allow_words().map(|network| ("allow", network)));
    let mut command =
        shell::command("key create", &[("workspace", workspace), ("name", name)], &[]);
    for (option, value) in options {
        command += &format!(" \\\n  {}", shell::option(option, value));
    }
    if permissions.is_empty() {
        command += " \\\n  --permission=PERMISSION";
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_has_the_values_of_the_form() {
        let values = |form: &str| Values::read(&Form::parse(form.as_bytes()));
        let filled = values("name=it's&permission=users.track&allow=10.0.0.0/8%0A%0A$(rm)");
        assert_eq!(
            command("acme", &filled),
            "longshore key create --workspace=acme --name='it'\\''s' \\\n  \
             --permission=users.track \\\n  --allow=10.0.0.0/8 \\\n  --allow='$(rm)'"
        );
        assert_eq!(
            command("acme", &values("")),
            "longshore key create --workspace=acme --name=NAME \\\n  --permission=PERMISSION"
        );
    }
}
