//! Sessions: who is signed in, and until when (docs/explanation/console.md).
//!
//! The browser has a random secret in a cookie, and the database its SHA-256. Each request reads
//! the session by that hash, without a cache: a session that was ended is refused at once, and
//! there are few requests. Sessions are independent of each other: each sign-in begins a new one.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::header::{COOKIE, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::App;
use crate::error::PageError;
use crate::oidc;
use crate::page::{DatabaseTime, Preferences, Theme, Viewer};
use crate::rights::Rights;
use crate::session_rows::{self as rows, ENDED, Found, OLD_LINKS, OLD_SIGN_INS};
use gateway::address::client_address;
use kit::clock::serialize_time;
use kit::retry;
use kit::zones::zone;
use runtime::config::Config;
use runtime::credentials::{hash, random_secret};
use scim::sign_in::Identity;
use store::{StoreError, Tx};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// A session that nobody uses for that long ends.
pub const IDLE_HOURS: i64 = 12;
const IDLE_MS: i64 = IDLE_HOURS * HOUR_MS;

/// Every session ends after that time.
pub const LONGEST_DAYS: i64 = 7;
const LONGEST_MS: i64 = LONGEST_DAYS * 24 * HOUR_MS;

/// Minimum interval between two writes of the time of a session's last use.
const USE_WRITE_MS: i64 = MINUTE_MS;

/// Such writes at the same time.
pub const USE_WRITES: usize = 2;

const SWEEP_INTERVAL: Duration = Duration::from_secs(600);

/// The beginning of every secret, which shows its kind.
const PREFIX: &str = "lsc_";

/// The longest stored `User-Agent`, in characters.
const MAX_AGENT_CHARS: usize = 300;

/// The cookies of [`Preferences`].
pub const THEME_COOKIE: &str = "longshore_theme";
pub const ZONE_COOKIE: &str = "longshore_zone";

const PREFERENCE_SECONDS: i64 = 365 * 24 * 60 * 60;

/// A valid session, without its secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Session {
    pub id: Uuid,
    /// The person's name. That of a dashboard user follows a change of the `userName`.
    pub person: String,
    /// None of its own if it has those of a dashboard user.
    pub rights: Rights,
    /// How the person signed in: `link` or `oidc`.
    pub method: String,
    /// The dashboard user whose rights the session has: they are read with each request.
    pub user_id: Option<Uuid>,
    #[serde(serialize_with = "serialize_time")]
    pub created_at: i64,
    #[serde(serialize_with = "serialize_time")]
    pub last_seen_at: i64,
    #[serde(serialize_with = "serialize_time")]
    pub expires_at: i64,
    /// The network address of the browser at sign-in.
    pub address: String,
    pub user_agent: String,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub person: Option<String>,
    /// Only sessions of this dashboard user.
    pub user_id: Option<Uuid>,
    /// Only sessions that began before this one, the last of the previous page.
    pub before: Option<Uuid>,
    pub limit: i64,
}

/// Who signs in, and how.
pub struct SignIn {
    pub person: String,
    pub method: &'static str,
    pub access: Access,
}

/// What a session may do.
pub enum Access {
    /// These rights, until it ends.
    Rights(Rights),
    /// What the dashboard user may do at the moment.
    DashboardUser(Uuid),
}

/// A session that has just begun, with its secret for the cookie.
pub struct NewSession {
    pub session: Session,
    pub secret: String,
    /// The identity that the sign-in has bound to the dashboard user.
    pub bound: Option<Identity>,
}

/// A person as the actor of changes. Operators choose the names of people with a link, and SCIM
/// those of dashboard users: the same name would be that of two people.
pub fn actor(name: &str, user: Option<Uuid>) -> String {
    let kind = if user.is_some() { "dashboard" } else { "console" };
    format!("{kind}:{name}")
}

/// Where a session is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browser {
    pub address: String,
    pub user_agent: String,
}

impl Browser {
    pub fn from_request(config: &Config, head: &Parts) -> Self {
        let agent = head.headers.get(USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
        let agent = String::from_utf8_lossy(agent);
        let is_shown = |c: &char| !c.is_control();
        Self {
            address: address(config, head),
            user_agent: agent.chars().filter(is_shown).take(MAX_AGENT_CHARS).collect(),
        }
    }
}

/// The network address of the browser, for the audit log.
fn address(config: &Config, head: &Parts) -> String {
    let peer = head.extensions.get::<ConnectInfo<SocketAddr>>();
    let address = peer.and_then(|ConnectInfo(peer)| {
        client_address(peer.ip(), &head.headers, &config.trusted_proxies)
    });
    address.map_or_else(|| "unknown".to_owned(), |address| address.to_string())
}

/// Begins a session.
pub async fn begin(
    tx: &mut Tx,
    now: i64,
    SignIn { person, method, access }: SignIn,
    Browser { address, user_agent }: Browser,
) -> Result<NewSession, StoreError> {
    let secret = random_secret(PREFIX);
    let (rights, user_id) = match access {
        Access::Rights(rights) => (rights, None),
        Access::DashboardUser(id) => (Rights::default(), Some(id)),
    };
    let session = Session {
        id: Uuid::now_v7(),
        person,
        rights,
        method: method.to_owned(),
        user_id,
        created_at: now,
        last_seen_at: now,
        expires_at: now + LONGEST_MS,
        address,
        user_agent,
    };
    rows::insert(tx, &hash(&secret), &session).await?;
    Ok(NewSession { session, secret, bound: None })
}

/// The valid sessions that match, the latest first.
pub async fn list(tx: &mut Tx, now: i64, filter: &Filter) -> Result<Vec<Session>, StoreError> {
    rows::list(tx, now, now - IDLE_MS, filter).await
}

/// Ends a session; if `viewer` is given, only one of the viewer's own. Returns its person, or none
/// if the session does not exist.
pub async fn end(
    tx: &mut Tx,
    id: Uuid,
    viewer: Option<&Viewer>,
) -> Result<Option<String>, StoreError> {
    let (person, user) = viewer.map_or((None, None), Viewer::owner);
    rows::end(tx, id, person, user).await
}

/// Ends the sessions of a person, or of everybody, and withdraws the links that nobody has used;
/// returns how many sessions that were.
pub async fn end_all(tx: &mut Tx, person: Option<&str>) -> Result<u64, StoreError> {
    rows::withdraw_links(tx, person).await?;
    rows::end_all(tx, person).await
}

/// Ends all sessions of a restored SQLite database: some may have been ended after the backup.
pub async fn end_restored(tx: &mut Tx) -> Result<(), StoreError> {
    if rows::exist_in_sqlite(tx).await? {
        end_all(tx, None).await?;
    }
    Ok(())
}

/// The secret that a request has for a session; it may be invalid.
pub fn secret<'a>(app: &App, head: &'a Parts) -> Option<&'a str> {
    let name = cookie_name(&app.config);
    // Sessions of earlier releases, whose name had no tag, continue.
    let former = name.rsplit_once('.').map_or(&*name, |(former, _)| former);
    cookie(&head.headers, &name).or_else(|| cookie(&head.headers, former))
}

/// The person who sent a request, if its session is valid.
pub async fn viewer(app: &App, head: &Parts) -> Result<Option<Viewer>, PageError> {
    let Some(secret) = secret(app, head) else { return Ok(None) };
    let mut tx = app.request_queue.snapshot().await?;
    let viewer = find(app, &mut tx, head, secret).await?;
    tx.commit().await?;
    Ok(viewer)
}

/// The person whose session has `secret`, if it is valid.
pub async fn find(
    app: &App,
    tx: &mut Tx,
    head: &Parts,
    secret: &str,
) -> Result<Option<Viewer>, StoreError> {
    let found = rows::find(tx, &hash(secret)).await?;
    let Some(Found { session, now }) = found else { return Ok(None) };
    let now = app.clock.moved(now);
    if session.expires_at <= now || session.last_seen_at <= now - IDLE_MS {
        return Ok(None);
    }
    let (name, rights) = match session.user_id {
        // Nobody vouches for the person any more.
        Some(_) if app.oidc.is_none() => return Ok(None),
        Some(user) => match oidc::person::current(app, tx, user).await? {
            Some(current) => current,
            None => return Ok(None),
        },
        None => (session.person, session.rights),
    };
    // Not with the secret key: while it is replaced, the processes that serve forms and those that
    // accept them may have different ones.
    let form_token = hash(&format!("form of the console: {secret}"));
    Ok(Some(Viewer {
        session_id: session.id,
        user_id: session.user_id,
        last_seen_at: session.last_seen_at,
        time: DatabaseTime::new(now),
        name,
        rights,
        address: address(&app.config, head),
        form_token: BASE64_URL_SAFE_NO_PAD.encode(form_token),
        preferences: preferences(&head.headers),
    }))
}

/// Stores in the background that a session is used now, unless it was a moment ago. If that fails,
/// or others do it, a later request repeats it.
pub fn note_use(app: &App, viewer: &Viewer) {
    let (id, now) = (viewer.session_id, viewer.time.now_ms());
    if now - viewer.last_seen_at < USE_WRITE_MS {
        return;
    }
    let Ok(permit) = app.use_writes.clone().try_acquire_owned() else { return };
    let store = app.store.clone();
    tokio::spawn(async move {
        let _permit = permit;
        let written = async {
            let mut tx = store.write().await?;
            rows::seen(&mut tx, id, now).await?;
            tx.commit().await
        };
        if let Err(error) = written.await {
            tracing::warn!(%id, %error, "cannot store when a session was last used");
        }
    });
}

/// Deletes ended sessions and old links until `shutdown`. All of them are invalid already.
pub async fn sweep_old(app: &App, shutdown: &CancellationToken) {
    let pass = || async {
        let now = app.database_now(&mut app.store.snapshot().await?).await?;
        ENDED.delete(&app.store, &[now, now - IDLE_MS], shutdown).await?;
        OLD_LINKS.delete(&app.store, &[now], shutdown).await?;
        OLD_SIGN_INS.delete(&app.store, &[now], shutdown).await
    };
    let failed = "cannot delete old sessions of the console; retrying";
    retry::repeat(SWEEP_INTERVAL, shutdown, failed, pass).await;
}

fn cookie_name(config: &Config) -> String {
    cookie_name_of(config, "console")
}

/// The name of a cookie of this console.
///
/// Browsers accept a cookie whose name begins with `__Host-` only over TLS, without a domain, and
/// for all paths: no other host, and no page without TLS, can set it. They refuse it over plain
/// http, so there it has another name. A tag of the console's URL is at its end, because consoles
/// on other ports and paths of a host have the same cookies.
pub fn cookie_name_of(config: &Config, purpose: &str) -> String {
    let url = config.console_url();
    let tag: String = hash(url.as_str().trim_end_matches('/'))[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = match (is_secure(config), purpose) {
        (true, "console") => "__Host-longshore".to_owned(),
        (true, _) => format!("__Host-longshore-{purpose}"),
        (false, _) => format!("longshore_{purpose}"),
    };
    format!("{name}.{tag}")
}

pub fn is_secure(config: &Config) -> bool {
    config.console_url().scheme() == "https"
}

/// `Set-Cookie` with the secret of a session. `SameSite=Lax`, so that a link in a chat opens a page
/// of a person who is signed in; forms of other sites are never sent with it.
pub fn session_cookie(config: &Config, secret: &str) -> HeaderValue {
    set_cookie(config, &cookie_name(config), secret, LONGEST_MS / 1_000)
}

/// `Set-Cookie` that removes the session from the browser.
pub fn no_session_cookie(config: &Config) -> HeaderValue {
    set_cookie(config, &cookie_name(config), "", 0)
}

/// `Set-Cookie` of a preference.
pub fn preference_cookie(config: &Config, name: &str, value: &str) -> HeaderValue {
    set_cookie(config, name, value, PREFERENCE_SECONDS)
}

/// `Set-Cookie` that scripts cannot read.
pub fn set_cookie(config: &Config, name: &str, value: &str, seconds: i64) -> HeaderValue {
    let secure = if is_secure(config) { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::from_str(&cookie).expect("names of zones and secrets are printable ASCII")
}

/// The value of a cookie; of several with the same name, the first.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    cookies(headers).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The names and values of all cookies.
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim(), value.trim()))
}

/// The preferences in the cookies of a request.
pub fn preferences(headers: &HeaderMap) -> Preferences {
    let default = Preferences::default();
    Preferences {
        theme: cookie(headers, THEME_COOKIE).and_then(Theme::from_name).unwrap_or(default.theme),
        zone: cookie(headers, ZONE_COOKIE).and_then(zone).unwrap_or(default.zone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn headers(cookies: &[&str]) -> HeaderMap {
        cookies.iter().map(|line| (COOKIE, line.parse().unwrap())).collect()
    }

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let headers = headers(&["a=1; longshore_console=s1 ;b", "longshore_console=s2; x=y=z"]);
        assert_eq!(cookie(&headers, "longshore_console"), Some("s1"));
        assert_eq!(cookie(&headers, "x"), Some("y=z"));
        assert_eq!(cookie(&headers, "console"), None);
        assert_eq!(cookie(&headers, "b"), None);
    }

    #[test]
    fn unknown_preferences_are_those_of_the_default() {
        let read = preferences(&headers(&["longshore_theme=dark; longshore_zone=Europe/Berlin"]));
        assert_eq!(read.theme, Theme::Dark);
        assert_eq!(read.zone.iana_name(), Some("Europe/Berlin"));
        let read = preferences(&headers(&["longshore_theme=<x>; longshore_zone=Mars/Olympus"]));
        assert_eq!((read.theme, read.zone), (Theme::System, TimeZone::UTC));
    }

    #[test]
    fn the_session_cookie_is_bound_to_the_host_over_tls() {
        let cookie = |url: &str| {
            let mut config = Config::default();
            config.console.public_url = Some(url.parse().unwrap());
            session_cookie(&config, "s").to_str().unwrap().to_owned()
        };
        let name = |cookie: &str| cookie.split('=').next().unwrap().to_owned();
        let secure = cookie("https://console.example.com/sub");
        assert!(secure.starts_with("__Host-longshore."), "{secure}");
        assert!(secure.contains("=s; Path=/; "), "{secure}");
        for part in ["; HttpOnly", "; SameSite=Lax", "; Secure"] {
            assert!(secure.contains(part), "{secure}");
        }
        let plain = cookie("http://127.0.0.1:8081");
        assert!(plain.starts_with("longshore_console.") && plain.contains("=s; Path=/; "));
        // Consoles on one host do not share it.
        let others = ["https://console.example.com/other", "https://console.example.com:8443/sub"];
        assert!(others.iter().all(|other| name(&cookie(other)) != name(&secure)));
        assert_eq!(name(&cookie("https://console.example.com/sub/")), name(&secure));
        assert_ne!(name(&cookie("http://127.0.0.1:8082")), name(&plain));
        assert!(plain.contains("; HttpOnly; SameSite=Lax") && !plain.contains("Secure"), "{plain}");
    }
}
