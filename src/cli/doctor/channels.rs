//! Checks the relays and providers of workspaces. Sends no message: for a relay it only logs in,
//! and to a URL it sends only a HEAD request, unsigned, so that any response shows that a server is
//! there.

use futures::future::join_all;
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};

use super::{Finding, TIMEOUT, bounded, declared};
use crate::config::Config;
use crate::messages::channels::email::{Connector, SmtpError, Step, Timeouts};
use crate::outbound::address::NameLookups;
use crate::outbound::{Request, RequestError, ResponseBody, Sender, check_stored_address};
use crate::setup::migrations::MIGRATIONS;
use crate::workspaces::relay::{Relay, Tls};
use crate::workspaces::settings::Settings;
use crate::workspaces::{self, StorageError};
use kit::clock::Clock;
use kit::secrets::SecretKey;
use store::StoreError;

/// How to make links in emails lead to the API.
const FIX_LINKS: &str = "set LONGSHORE_PUBLIC_URL to the https address of the API";

/// The relay and providers of each workspace. Fails if the database cannot list them.
pub async fn channels(config: &Config, secrets: &SecretKey) -> Result<Vec<Finding>, Finding> {
    let all = match declared(settings(config.clone(), secrets.clone())).await {
        Ok(all) => all,
        Err(StorageError::Store(error @ StoreError::Corrupt(_))) => {
            let fix = "apply the workspace file that declares this email or provider";
            return Ok(vec![Finding::fail("channels", error, fix)]);
        }
        Err(error) => return Err(Finding::fail("channels", error, "")),
    };
    let tried = all.iter().map(|(workspace, settings)| async move {
        let email = async {
            match &settings.email {
                Some(email) => {
                    let subject = format!("email of {workspace}");
                    let check = try_relay(subject.clone(), email.relay(), config.clone());
                    bounded(&subject, async move { vec![check.await] }).await
                }
                None => Vec::new(),
            }
        };
        let addresses = addresses(settings).into_iter().map(|(path, url)| async move {
            let subject = format!("{path} of {workspace}");
            let check = try_address(subject.clone(), url.to_owned(), config.clone());
            bounded(&subject, async move { vec![check.await] }).await
        });
        let (email, addresses) = tokio::join!(email, join_all(addresses));
        [email, addresses.concat()].concat()
    });
    let mut findings = join_all(tried).await.concat();
    if all.iter().any(|(_, settings)| settings.email.is_some())
        && let Some(warning) = workspaces::channels::unsubscribe_warning(config)
    {
        let note = format!("note: {warning}");
        findings
            .push(Finding { fix: Some(FIX_LINKS.into()), ..Finding::ok("links in emails", note) });
    }
    Ok(findings)
}

/// By workspace name.
async fn settings(
    config: Config,
    secrets: SecretKey,
) -> Result<Vec<(String, Settings)>, StorageError> {
    let store = crate::app::connect(&config).await?;
    let mut all = Vec::new();
    if !MIGRATIONS.is_new_directory(&store).await? {
        let mut tx = store.snapshot().await?;
        for workspace in workspaces::list(&mut tx).await? {
            let settings =
                workspaces::channels::settings(&mut tx, &secrets, &config, workspace.id).await?;
            all.push((workspace.name, settings));
        }
        tx.commit().await?;
    }
    store.close().await;
    Ok(all)
}

fn addresses(settings: &Settings) -> Vec<(&'static str, &str)> {
    let Settings { email, push, sms, whats_app, .. } = settings;
    let postback = email.as_ref().and_then(|email| email.status_postback.as_ref());
    let postback = postback.map(|postback| ("email.status_postback", postback.url.as_str()));
    let providers =
        [("providers.push", push), ("providers.sms", sms), ("providers.whats_app", whats_app)];
    let providers = providers
        .into_iter()
        .filter_map(|(path, provider)| Some((path, provider.as_ref()?.url.as_str())));
    postback.into_iter().chain(providers).collect()
}

async fn try_relay(subject: String, relay: Result<Relay, String>, config: Config) -> Finding {
    let relay = match relay {
        Ok(relay) => relay,
        Err(error) => return Finding::fail(&subject, error, "fix email.smtp, and apply the file"),
    };
    let address = relay.address();
    let timeouts = Timeouts { connect: TIMEOUT, reply: TIMEOUT, accept: TIMEOUT };
    let lookups = NameLookups::for_operators();
    let connector = Connector::new(relay.clone(), &config, timeouts, lookups);
    let mut connection = match connector.connect().await {
        Ok(connection) => connection,
        Err(trouble) => {
            let (error, fix) = describe_failure(&relay, trouble);
            return Finding::fail(&subject, format!("{address}: {error}"), fix);
        }
    };
    let is_alive = connection.is_alive().await;
    let security = match (connection.is_encrypted(), relay.login.is_some()) {
        (true, true) => "over TLS, with the login",
        (true, false) => "over TLS",
        (false, true) => "with the login, without TLS",
        (false, false) => "without TLS",
    };
    connection.quit().await;
    if is_alive {
        Finding::ok(&subject, format!("{address} accepts emails, {security}"))
    } else {
        let text = format!("{address}: the relay closed the connection");
        Finding::fail(&subject, text, "check the relay's log")
    }
}

/// The problem of a relay, and how to fix it.
fn describe_failure(relay: &Relay, trouble: SmtpError) -> (String, String) {
    let (step, error) = match trouble {
        SmtpError::Rejected { step, code, text } => (step, format!("it responded {code} {text}")),
        SmtpError::Lost { step, text, .. } => (step, text),
        SmtpError::UnsupportedAddress(text) | SmtpError::Unsupported(text) => {
            (Step::Connect, text.to_owned())
        }
    };
    let host = &relay.host;
    match (step, relay.tls) {
        (Step::Connect, Tls::Wrapped) => {
            let fix = format!(
                "check host and port of email.smtp, that the certificate is valid for {host}, and \
                 that the port expects TLS from the first byte. If it uses STARTTLS, write smtp://"
            );
            (error, fix)
        }
        (Step::Connect, _) => {
            let fix = "check that the relay is running, host and port of email.smtp, and the \
                        firewall. If the port expects TLS from the first byte, write smtps://";
            (error, fix.into())
        }
        (Step::Tls, _) => {
            let otherwise = match relay.login {
                Some(_) => "add ?tls=none, which sends the password unencrypted",
                None => "remove ?tls=required",
            };
            let fix = format!(
                "configure STARTTLS on it with a certificate for {host}, or \
                                {otherwise}"
            );
            (format!("STARTTLS: {error}"), fix)
        }
        _ => {
            let fix = "fix the user and password in email.smtp, and apply the file";
            (format!("login: {error}"), fix.into())
        }
    }
}

async fn try_address(subject: String, url: String, config: Config) -> Finding {
    const ALLOW: &str = "allow its network with LONGSHORE_ALLOW_PRIVATE, here and for workers";
    let subject = subject.as_str();
    let url = match check_stored_address(&url, &config) {
        Ok(url) => url,
        Err(error) => return Finding::fail(subject, format!("the address {error}"), ALLOW),
    };
    let host = url.host_str().unwrap_or_default().to_owned();
    let (headers, body) = (HeaderMap::new(), String::new());
    let (method, response) = (Method::HEAD, ResponseBody::ErrorText);
    let request = Request { method, url, headers, body, timeout: None, response };
    let clock = Clock::system();
    let result = Sender::new(&config).showing_addresses().request(request, &clock).await;
    match result {
        Ok(response) => judge(subject, &host, response.status),
        Err(RequestError::NotSent(error) | RequestError::NoResponse(error)) => {
            let fix = "start it, or fix its URL in the workspace file and apply the file";
            Finding::fail(subject, format!("{host}: {error}"), format!("{fix}, or {ALLOW}"))
        }
    }
}

/// A server that accepts only POST rejects HEAD: any response is fine if it does not report a
/// server error.
fn judge(subject: &str, host: &str, status: StatusCode) -> Finding {
    let code = status.as_u16();
    if status.is_redirection() {
        let fix = "redirects are not followed: declare the URL that it redirects to";
        return Finding::fail(subject, format!("{host}: redirects ({code})"), fix);
    }
    if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED {
        Finding::fail(subject, format!("{host}: responds {code}"), "check the relay's log")
    } else {
        Finding::ok(subject, format!("{host} responds (HEAD, status {code})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_other_than_redirects_and_outages_pass() {
        for (code, ok) in
            [(200, true), (401, true), (404, true), (405, true), (501, true), (301, false)]
        {
            let finding = judge("x", "h", StatusCode::from_u16(code).unwrap());
            assert_eq!(finding.ok, ok, "{code}");
        }
        assert!(!judge("x", "h", StatusCode::BAD_GATEWAY).ok);
    }
}
