//! Requests to the identity provider.
//!
//! They have the limits of every outgoing request: no redirects, no proxy, a time limit, a maximum
//! size. But they may reach private networks: only the operator chooses the issuer, and providers
//! of companies are often there.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;
use url::{Url, form_urlencoded};

use super::keys::{self, Key};
use super::metadata::Metadata;
use super::pending::Pending;
use super::refusal::Refusal;
use super::token::{self, Claims, Expected, TokenError};
use kit::clock::Clock;
use runtime::config::Config;
use runtime::config::console::oidc::OidcClient;
use runtime::fairness::{Holder, Reservation, SLOT_BYTES, SharedMemory};
use runtime::outbound::{HttpResponse, Request, ResponseBody, Sender, stored_text};

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum bytes of a response.
const MAX_BYTES: usize = 256 << 10;

/// How long metadata and keys are used before they are read again.
const MAX_AGE: Duration = Duration::from_secs(3_600);

/// Minimum interval between two reads of the keys because of an unknown one, and between two reads
/// after a failure: whoever signs in could otherwise make this process flood the provider.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// Sign-ins that wait for the provider at the same time. Strangers can begin one, so a network gets
/// at most as many as it leaves free.
const AT_ONCE: usize = 8;

/// Codes that are exchanged within [`EXCHANGE_WINDOW`]. A network gets at most as many as it leaves
/// free: whoever begins sign-ins could otherwise make this process flood the provider.
const EXCHANGES: usize = 120;
const EXCHANGE_WINDOW: Duration = Duration::from_secs(60);

/// Codes of a network that the provider may refuse within [`BACK_OFF`]. Then its sign-ins wait.
const REFUSED_CODES: usize = 8;
const BACK_OFF: Duration = Duration::from_secs(600);

/// The identity provider of the settings.
pub struct Provider {
    pub client: OidcClient,
    redirect_uri: String,
    sender: Sender,
    metadata: Mutex<Cached<Metadata>>,
    keys: Mutex<Cached<Vec<Key>>>,
    slots: SharedMemory,
    exchanges: SharedMemory,
    refused_codes: SharedMemory,
}

/// A turn of a network to exchange a code.
pub struct ExchangeTurn {
    _turn: Reservation,
    refused_code: Reservation,
}

impl ExchangeTurn {
    /// The provider refused the code, so the network has one less for a while.
    fn back_off(self) {
        release_after(BACK_OFF, self.refused_code);
    }
}

/// A part of a limit that counts for some time after its use.
fn release_after(pause: Duration, reservation: Reservation) {
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        drop(reservation);
    });
}

/// A value that was read from the provider.
struct Cached<T> {
    value: Option<(Instant, Arc<T>)>,
    failed: Option<(Instant, Refusal)>,
    /// The last read because the value lacked something.
    renewed: Option<Instant>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { value: None, failed: None, renewed: None }
    }
}

impl<T> Cached<T> {
    /// The value, or the failure of a moment ago. None if it must be read.
    fn current(&self) -> Option<Result<Arc<T>, Refusal>> {
        let is_recent = |at: &Instant, age| at.elapsed() < age;
        if let Some((_, refusal)) =
            self.failed.as_ref().filter(|(at, _)| is_recent(at, MIN_INTERVAL))
        {
            return Some(Err(refusal.clone()));
        }
        let (_, value) = self.value.as_ref().filter(|(at, _)| is_recent(at, MAX_AGE))?;
        Some(Ok(value.clone()))
    }

    fn store(&mut self, read: Result<T, Refusal>) -> Result<Arc<T>, Refusal> {
        match read {
            Ok(value) => {
                let value = Arc::new(value);
                (self.value, self.failed) = (Some((Instant::now(), value.clone())), None);
                Ok(value)
            }
            Err(refusal) => {
                self.failed = Some((Instant::now(), refusal.clone()));
                Err(refusal)
            }
        }
    }
}

/// The response to a code.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: Option<String>,
}

/// The error of a token endpoint, or of an address that a browser was sent to.
#[derive(Deserialize)]
struct OauthError {
    error: String,
    error_description: Option<String>,
}

impl Provider {
    /// The provider, if the settings have one.
    pub fn from_config(config: &Config) -> Option<Self> {
        let base = config.console_url();
        Some(Self {
            client: config.console.oidc.client()?,
            redirect_uri: format!("{}/sign-in/oidc/callback", base.as_str().trim_end_matches('/')),
            sender: Sender::for_operator(config),
            metadata: Mutex::default(),
            keys: Mutex::default(),
            slots: SharedMemory::halves(AT_ONCE * SLOT_BYTES),
            exchanges: SharedMemory::halves(EXCHANGES * SLOT_BYTES),
            refused_codes: SharedMemory::each(REFUSED_CODES * SLOT_BYTES),
        })
    }

    /// A turn of a network to wait for the provider.
    pub fn turn(&self, network: IpAddr) -> Result<Reservation, Refusal> {
        self.slots.try_reserve(Holder::Source(network), SLOT_BYTES).ok_or(Refusal::Busy)
    }

    /// A turn of a network to exchange a code. It counts for a minute, and longer if the provider
    /// refuses the code.
    pub fn exchange_turn(&self, network: IpAddr) -> Result<ExchangeTurn, Refusal> {
        let slot = |limit: &SharedMemory| {
            let slot = limit.try_reserve(Holder::Source(network), SLOT_BYTES);
            slot.ok_or(Refusal::TooMany)
        };
        let turn = self.turn(network)?;
        let refused_code = slot(&self.refused_codes)?;
        release_after(EXCHANGE_WINDOW, slot(&self.exchanges)?);
        Ok(ExchangeTurn { _turn: turn, refused_code })
    }

    pub async fn metadata(&self, clock: &Clock) -> Result<Arc<Metadata>, Refusal> {
        let mut cached = self.metadata.lock().await;
        if let Some(current) = cached.current() {
            return current;
        }
        let read = self.read_metadata(clock).await;
        cached.store(read)
    }

    async fn read_metadata(&self, clock: &Clock) -> Result<Metadata, Refusal> {
        let issuer = self.client.issuer.trim_end_matches('/');
        let url = Url::parse(&format!("{issuer}/.well-known/openid-configuration"))
            .map_err(|error| unavailable("the discovery document", &error.to_string()))?;
        let metadata: Metadata = self.read("the discovery document", url, None, clock).await?;
        let checked = metadata.check(&self.client.issuer);
        checked.map_err(|text| unavailable("the discovery document", &text))?;
        Ok(metadata)
    }

    /// Checks what a sign-in reads before it can trust a token: the metadata, and that a key can
    /// verify signatures.
    pub async fn check(&self, clock: &Clock) -> Result<(), Refusal> {
        let metadata = self.metadata(clock).await?;
        let keys = self.read_keys(&metadata, clock).await?;
        if keys.is_empty() {
            return Err(unavailable("the keys", "none is a key for signatures of RS256 or ES256"));
        }
        Ok(())
    }

    /// Where the browser is sent to begin a sign-in.
    pub fn authorization_url(&self, metadata: &Metadata, pending: &Pending) -> Url {
        let mut url = metadata.authorization_endpoint.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.client_id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", &self.client.scopes)
            .append_pair("state", &pending.state)
            .append_pair("nonce", &pending.nonce)
            .append_pair("code_challenge", &pending.challenge())
            .append_pair("code_challenge_method", "S256");
        url
    }

    /// The person that a code signs in, after all checks. `issuer` is what the browser's address
    /// says about who sent it (RFC 9207).
    pub async fn claims(
        &self,
        turn: ExchangeTurn,
        pending: &Pending,
        code: &str,
        issuer: Option<&str>,
        clock: &Clock,
    ) -> Result<Claims, Refusal> {
        let metadata = self.metadata(clock).await?;
        let is_required = metadata.authorization_response_iss_parameter_supported;
        let is_other = issuer.map_or(is_required, |issuer| issuer != self.client.issuer);
        if is_other {
            return Err(Refusal::InvalidToken("the address has another issuer (iss)".into()));
        }
        let tokens = self.exchange(turn, &metadata, pending, code, clock).await?;
        let claims = self.verified(&metadata, pending, &tokens.id_token, clock).await?;
        if claims.contains_key(&self.client.claim)
            && token::says_verified(&claims, &self.client.claim)
        {
            return Ok(claims);
        }
        self.with_user_info(&metadata, claims, tokens.access_token, clock).await
    }

    /// The tokens for a code.
    async fn exchange(
        &self,
        turn: ExchangeTurn,
        metadata: &Metadata,
        pending: &Pending,
        code: &str,
        clock: &Clock,
    ) -> Result<Tokens, Refusal> {
        let endpoint = "the token endpoint";
        let request = self.token_request(metadata, pending, code)?;
        let response = self.send(endpoint, request, clock).await?;
        if response.status.is_success() {
            return parsed(endpoint, &response);
        }
        Err(match serde_json::from_slice::<OauthError>(&response.body) {
            // Some providers report a code that is none of theirs as an invalid request.
            Ok(error) if matches!(&*error.error, "invalid_grant" | "invalid_request") => {
                turn.back_off();
                Refusal::Expired(format!("{endpoint} refused the code: {}", error.text()))
            }
            Ok(error) => unavailable(endpoint, &error.text()),
            Err(_) => unavailable(endpoint, &format!("it responded {}", response.status)),
        })
    }

    fn token_request(
        &self,
        metadata: &Metadata,
        pending: &Pending,
        code: &str,
    ) -> Result<Request, Refusal> {
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form);
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("code_verifier", &pending.verifier);
        let client_id = &self.client.client_id;
        // If a provider does not say how clients authenticate, it is in the header.
        let methods = metadata.token_endpoint_auth_methods_supported.as_deref();
        let takes_basic = methods.is_none_or(|methods| {
            let has = |name: &str| methods.iter().any(|method| method == name);
            has("client_secret_basic") || !has("client_secret_post")
        });
        match self.client.secret() {
            Some(secret) if takes_basic => {
                headers.insert(AUTHORIZATION, basic(client_id, secret)?);
            }
            Some(secret) => {
                body.append_pair("client_id", client_id).append_pair("client_secret", secret);
            }
            None => {
                body.append_pair("client_id", client_id);
            }
        }
        Ok(request(Method::POST, metadata.token_endpoint.clone(), headers, body.finish()))
    }

    /// The claims of a token. Reads the keys again if none of them verifies it: the provider may have
    /// replaced one, also under the same key id.
    async fn verified(
        &self,
        metadata: &Metadata,
        pending: &Pending,
        id_token: &str,
        clock: &Clock,
    ) -> Result<Claims, Refusal> {
        let expected = Expected {
            issuer: &self.client.issuer,
            client_id: &self.client.client_id,
            nonce: &pending.nonce,
            began_at: pending.began_at / 1_000,
            now: clock.now_ms() / 1_000,
        };
        let mut cached = self.keys.lock().await;
        let keys = match cached.current() {
            Some(current) => current?,
            None => {
                let read = self.read_keys(metadata, clock).await;
                cached.store(read)?
            }
        };
        let mut verified = token::verify(id_token, &keys, expected);
        let can_renew = cached.renewed.is_none_or(|at| at.elapsed() >= MIN_INTERVAL);
        let is_of_other_key =
            matches!(verified, Err(TokenError::UnknownKey | TokenError::Signature));
        if is_of_other_key && can_renew {
            cached.renewed = Some(Instant::now());
            let read = self.read_keys(metadata, clock).await;
            let keys = cached.store(read)?;
            verified = token::verify(id_token, &keys, expected);
        }
        verified.map_err(|error| Refusal::InvalidToken(format!("the ID token: {error}")))
    }

    async fn read_keys(&self, metadata: &Metadata, clock: &Clock) -> Result<Vec<Key>, Refusal> {
        let set: Value = self.read("the keys", metadata.jwks_uri.clone(), None, clock).await?;
        keys::read_set(&set).ok_or_else(|| unavailable("the keys", "not a JSON Web Key Set"))
    }

    /// The claims with those of the user info: some providers have the address, or whether it is
    /// verified, only there. The subject must be the same.
    async fn with_user_info(
        &self,
        metadata: &Metadata,
        claims: Claims,
        access_token: Option<String>,
        clock: &Clock,
    ) -> Result<Claims, Refusal> {
        let (Some(endpoint), Some(token)) = (&metadata.userinfo_endpoint, access_token) else {
            return Ok(claims);
        };
        let bearer = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| unavailable("the token endpoint", "its access token is not ASCII"))?;
        let user_info: Claims =
            self.read("the user info", endpoint.clone(), Some(bearer), clock).await?;
        if user_info.get("sub") != claims.get("sub") {
            return Err(Refusal::InvalidToken("the user info is about another subject".into()));
        }
        Ok(token::with_user_info(claims, user_info))
    }

    /// A JSON document of the provider.
    async fn read<T: DeserializeOwned>(
        &self,
        document: &str,
        url: Url,
        authorization: Option<HeaderValue>,
        clock: &Clock,
    ) -> Result<T, Refusal> {
        let mut headers = HeaderMap::new();
        headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
        let request = request(Method::GET, url, headers, String::new());
        let response = self.send(document, request, clock).await?;
        if !response.status.is_success() {
            return Err(unavailable(document, &format!("it responded {}", response.status)));
        }
        parsed(document, &response)
    }

    async fn send(
        &self,
        document: &str,
        request: Request,
        clock: &Clock,
    ) -> Result<HttpResponse, Refusal> {
        let response = self.sender.request(request, clock).await;
        let response = response.map_err(|error| unavailable(document, &error.into_text()))?;
        if !response.is_complete {
            return Err(unavailable(document, "it is too large, or came too slowly"));
        }
        Ok(response)
    }
}

impl OauthError {
    fn text(&self) -> String {
        let description = self.error_description.as_deref().unwrap_or_default();
        stored_text(&format!("{} {description}", self.error))
    }
}

fn request(method: Method, url: Url, mut headers: HeaderMap, body: String) -> Request {
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let response = ResponseBody::Bytes(MAX_BYTES);
    Request { method, url, headers, body, timeout: Some(TIMEOUT), response }
}

fn parsed<T: DeserializeOwned>(document: &str, response: &HttpResponse) -> Result<T, Refusal> {
    // The text of the error would have a part of the response, which may be a token.
    serde_json::from_slice(&response.body).map_err(|error| {
        let position = format!("line {}, column {}", error.line(), error.column());
        unavailable(document, &format!("it is not the expected JSON ({position})"))
    })
}

/// The client's credentials in a header (RFC 6749, section 2.3.1).
fn basic(client_id: &str, secret: &str) -> Result<HeaderValue, Refusal> {
    let encoded =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let pair = format!("{}:{}", encoded(client_id), encoded(secret));
    HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair)))
        .map_err(|error| unavailable("the token endpoint", &error.to_string()))
}

fn unavailable(document: &str, text: &str) -> Refusal {
    Refusal::ProviderUnavailable(stored_text(&format!("{document}: {text}")))
}
