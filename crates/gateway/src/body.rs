//! A request's body: its size, media type, JSON and fields.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, FromRef, FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

use super::address::client_address;
use super::coding::{self, Coding, INLINE_BYTES, is_json_type};
use super::memory::reserve_slot;
use super::{ApiError, COMPANY, Caller, Code, count_refused, fields, value};
use crate::app::App;
use kit::compute::NO_WORKSPACE;
use kit::json;
use kit::words::{about_field, beginning};
use runtime::fairness::{Holder, Reservation, SLOT_BYTES, SharedMemory};

/// Limits of time and bytes for reading the rest of a rejected body. It is read so that the sender
/// can receive the response.
const LINGER: Duration = Duration::from_secs(2);
const MAX_LINGER_BYTES: usize = 16 << 20;

/// How long a request waits for memory for its body (`gateway.memory_bytes`).
const MEMORY_WAIT: Duration = Duration::from_secs(1);

/// Reserved before a body arrives; the rest is reserved as it arrives, so that slow senders do not
/// hold memory that others need.
const FIRST_BYTES: usize = 64 << 10;

/// The same for an unauthenticated sender. Never less, even if the declared length is shorter: a
/// request uses more memory than its body.
const FIRST_UNAUTHENTICATED_BYTES: usize = 16 << 10;

/// A request's JSON body, as an extractor: too large 413, no memory left 503, another Content-Type
/// 415, not JSON 400 with line and column, duplicate and invalid fields 400 naming the field.
pub struct Json<T>(pub T);

impl<T, S> FromRequest<S> for Json<T>
where
    T: DeserializeOwned,
    App: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        JsonText::from_request(request, state).await?.parse(&[]).map(Self)
    }
}

/// The same for a handler that borrows from the body's text: only its size, Content-Type and
/// encoding are checked.
pub struct JsonText {
    text: String,
    /// The sender's.
    pub(super) workspace: i32,
    /// The memory that it uses; none if it did not come with a request.
    memory: Option<Reservation>,
    /// A slot of the sending workspace, if only the body identifies the workspace.
    held_slot: Option<Reservation>,
}

impl JsonText {
    /// Parses the fields; the errors are those of [`Json`]. In the values of fields that are
    /// `checked_apart`, the caller rejects duplicate fields.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self, checked_apart: &[&str]) -> Result<T, ApiError> {
        parse(&self.text, checked_apart)
    }

    /// Parses the object into a tree of bounded size; the errors are those of [`Json`].
    pub fn object(&self) -> Result<Map<String, Value>, ApiError> {
        value::object(&self.text).map_err(|error| match self.parse::<IgnoredFields>(&[]) {
            Ok(IgnoredFields {}) => match json::unsupported_value(&error) {
                Some(reason) => unsupported_value(&value::error_path(&self.text), reason),
                None => {
                    let text = error.to_string();
                    ApiError::Invalid(format!("The request body {}", without_position(&text)))
                }
            },
            Err(error) => error,
        })
    }

    /// [`object`](Self::object) for bodies of any size: large ones do not block other requests.
    pub fn object_in_place(&self, app: &App) -> Result<Map<String, Value>, ApiError> {
        self.in_place(app, || self.object())
    }

    /// Rejects a body of a request that has no fields, unless it is empty or null, as some clients
    /// send it, or has only fields that limit no request.
    pub fn check_no_fields(&self) -> Result<(), ApiError> {
        if matches!(self.text.trim_ascii(), "" | "null") {
            return Ok(());
        }
        fields::read(&self.object()?).map(|IgnoredFields {}| ())
    }

    /// Does work on the text ([`in_place`]).
    pub(super) fn in_place<T>(&self, app: &App, work: impl FnOnce() -> T) -> T {
        in_place(app, self.workspace, self.bytes(), work)
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Returns the reserved memory. Hold it as long as the content exists, which has about as many
    /// bytes.
    pub(super) fn take_memory(&mut self) -> Option<Reservation> {
        self.memory.take()
    }

    /// Reads a body that itself authenticates the sender. Uses the memory reserved for that
    /// (`gateway.unauthenticated_bytes`) until it is [`authenticated`](Self::authenticated), and is
    /// limited to the share of one sender. All such senders together may use as many request slots
    /// as they leave free, and each an eighth of half of all slots.
    pub async fn unauthenticated(request: Request, app: &App) -> Result<Self, ApiError> {
        let holder = Holder::Source(source(app, request.extensions(), request.headers()));
        let capacity = &app.capacity;
        let sender_slot = capacity.unauthenticated_slots.try_reserve(holder, SLOT_BYTES);
        let shared_slot = capacity.slot_shares.try_reserve(Holder::Unauthenticated, SLOT_BYTES);
        // Both slots are released when the body is read; the memory stays until `authenticated`.
        let (Some(_sender_slot), Some(_shared_slot)) = (sender_slot, shared_slot) else {
            discard_request(request);
            count_refused("unauthenticated");
            return Err(ApiError::Overloaded);
        };
        let limits = ReadLimits {
            memory: &capacity.unauthenticated_body_memory,
            holder,
            max_bytes: app.config.gateway.unauthenticated_body_limit(),
            first_bytes: FIRST_UNAUTHENTICATED_BYTES,
            is_authenticated: false,
        };
        Self::receive(request, app, limits).await
    }

    /// Checks the encoding, the declared length and the media type as
    /// [`unauthenticated`](Self::unauthenticated) does, but does not read the body; call it first.
    pub fn check_head(head: &Parts, body: &Body, app: &App) -> Result<(), ApiError> {
        Coding::from_headers(&head.headers)?;
        let bytes = axum::body::HttpBody::size_hint(body);
        if bytes.lower() > app.config.gateway.unauthenticated_body_limit() as u64 {
            return Err(ApiError::TooLarge);
        }
        if bytes.exact() == Some(0) || is_json_type(head.headers.get(header::CONTENT_TYPE)) {
            Ok(())
        } else {
            Err(ApiError::UnsupportedMediaType)
        }
    }

    /// Moves its memory to the share of the workspace that sent it, which is now known.
    pub async fn authenticated(mut self, app: &App, workspace: i32) -> Result<Self, ApiError> {
        self.workspace = workspace;
        self.held_slot = Some(reserve_slot(app, workspace)?);
        let capacity = &app.capacity;
        let reserved = capacity.body_memory.reserve(Holder::Workspace(workspace), self.bytes());
        let reserved = tokio::time::timeout(MEMORY_WAIT, reserved).await;
        self.memory = Some(reserved.map_err(|_| no_memory("memory"))?);
        Ok(self)
    }

    async fn receive(
        request: Request,
        app: &App,
        limits: ReadLimits<'_>,
    ) -> Result<Self, ApiError> {
        let timeout = Duration::from_secs(app.config.gateway.request_timeout_seconds);
        let (head, body) = request.into_parts();
        let coding = match Coding::from_headers(&head.headers) {
            Ok(coding) => coding,
            Err(error) => {
                discard(&head, body);
                return Err(error);
            }
        };
        let workspace = limits.holder.workspace();
        let (body, mut memory) =
            tokio::time::timeout(timeout, read_or_discard(&head, body, &limits))
                .await
                .map_err(|_| ApiError::TooSlow)??;
        if body.is_empty() {
            let text = String::new();
            return Ok(Self { text, workspace, memory: Some(memory), held_slot: None });
        }
        if !is_json_type(head.headers.get(header::CONTENT_TYPE)) {
            return Err(ApiError::UnsupportedMediaType);
        }
        let body = match coding {
            Coding::Identity => body,
            coding => {
                let limit = limits.decoded_limit(body.len());
                let mut decode =
                    || coding::decode(coding, &body, limit, &mut memory, || limits.no_memory());
                // A small compressed body may be large when decompressed.
                if body.len() > INLINE_BYTES / 8 {
                    app.cores.compute_here(workspace, decode)?
                } else {
                    decode()?
                }
            }
        };
        Ok(Self { text: utf8(body)?, workspace, memory: Some(memory), held_slot: None })
    }
}

/// Runs work of a workspace that reads this many bytes, on the current thread. For large work, the
/// thread's other tasks move away first ([`compute_here`](kit::compute::Cores::compute_here)).
pub(super) fn in_place<T>(app: &App, workspace: i32, bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > INLINE_BYTES { app.cores.compute_here(workspace, work) } else { work() }
}

/// The limits for reading a body.
struct ReadLimits<'a> {
    memory: &'a SharedMemory,
    holder: Holder,
    max_bytes: usize,
    first_bytes: usize,
    /// Whether the sender is authenticated. An unauthenticated request does not wait for memory,
    /// because it would occupy a slot, and reserves the first bytes whatever length it declares.
    is_authenticated: bool,
}

impl ReadLimits<'_> {
    /// The bytes of the first reservation for a body of at most `max_bytes`.
    fn first_reservation(&self, max_bytes: usize) -> usize {
        if self.is_authenticated { max_bytes.min(self.first_bytes) } else { self.first_bytes }
    }

    /// Maximum decoded bytes of a body with this many coded bytes. Both are in memory together, and
    /// an unauthenticated sender may use no more than the limit for both.
    fn decoded_limit(&self, coded: usize) -> usize {
        if self.is_authenticated { self.max_bytes } else { self.max_bytes.saturating_sub(coded) }
    }

    fn no_memory(&self) -> ApiError {
        no_memory(match self.holder {
            Holder::Workspace(_) => "memory",
            Holder::Source(_) | Holder::Unauthenticated => "unauthenticated",
        })
    }

    async fn reserve(&self, bytes: usize) -> Option<Reservation> {
        if self.is_authenticated {
            let reserved = self.memory.reserve(self.holder, bytes);
            tokio::time::timeout(MEMORY_WAIT, reserved).await.ok()
        } else {
            self.memory.try_reserve(self.holder, bytes)
        }
    }
}

fn no_memory(reason: &'static str) -> ApiError {
    count_refused(reason);
    ApiError::Unavailable("no memory left for the request's body".into())
}

/// The network of a request's sender, as far as known.
pub fn source(app: &App, extensions: &Extensions, headers: &HeaderMap) -> IpAddr {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let client =
        peer.map(|peer| client_address(peer, headers, &app.config.trusted_proxies).unwrap_or(peer));
    network(client.unwrap_or(Ipv6Addr::UNSPECIFIED.into()))
}

/// The addresses that count as one sender: for IPv6, a /64 network.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

impl<S> FromRequest<S> for JsonText
where
    App: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let app = App::from_ref(state);
        let workspace = request.extensions().get::<Caller>().map(|caller| caller.workspace.id);
        let capacity = &app.capacity;
        let limits = ReadLimits {
            memory: &capacity.body_memory,
            holder: Holder::Workspace(workspace.unwrap_or(COMPANY)),
            max_bytes: app.config.gateway.max_body_bytes,
            first_bytes: FIRST_BYTES,
            is_authenticated: true,
        };
        Self::receive(request, &app, limits).await
    }
}

/// The body of a request that has no fields: empty, null, or an object. A field that limits other
/// requests is rejected, such as `dry_run`.
pub struct NoFields(JsonText);

impl NoFields {
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl<S> FromRequest<S> for NoFields
where
    App: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = JsonText::from_request(request, state).await?;
        body.in_place(&App::from_ref(state), || body.check_no_fields())?;
        Ok(Self(body))
    }
}

impl From<String> for JsonText {
    fn from(text: String) -> Self {
        Self { text, workspace: NO_WORKSPACE, memory: None, held_slot: None }
    }
}

/// Reads a body as memory becomes available. If it is refused, discards the rest.
async fn read_or_discard(
    head: &Parts,
    mut body: Body,
    limits: &ReadLimits<'_>,
) -> Result<(Vec<u8>, Reservation), ApiError> {
    let result = if axum::body::HttpBody::size_hint(&body).lower() > limits.max_bytes as u64 {
        Err(ApiError::TooLarge)
    } else {
        collect(&mut body, limits).await
    };
    if let Err(ApiError::TooLarge | ApiError::Unavailable(_)) = result {
        discard(head, body);
    }
    result
}

async fn collect(
    body: &mut Body,
    limits: &ReadLimits<'_>,
) -> Result<(Vec<u8>, Reservation), ApiError> {
    let declared = axum::body::HttpBody::size_hint(body).exact();
    let max_bytes = declared.map_or(limits.max_bytes, |bytes| bytes as usize);
    let first_bytes = limits.first_reservation(max_bytes);
    let mut memory = limits.reserve(first_bytes).await.ok_or_else(|| limits.no_memory())?;
    let mut bytes = Vec::with_capacity(first_bytes.min(max_bytes));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::Invalid("The request body was cut off".into()))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > limits.max_bytes {
            return Err(ApiError::TooLarge);
        }
        if length > bytes.capacity() {
            let capacity = length.max((2 * bytes.capacity()).min(max_bytes));
            if !memory.try_grow(capacity) {
                return Err(limits.no_memory());
            }
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(&data);
    }
    memory.shrink(bytes.len());
    Ok((bytes, memory))
}

/// Reads the rest of a body in the background and drops it: closing the connection earlier could
/// lose the response. If the sender waits for `100 Continue`, the body is not read.
pub fn discard(head: &Parts, body: Body) {
    let is_read = axum::body::HttpBody::is_end_stream(&body);
    if is_read || head.headers.contains_key(header::EXPECT) {
        return;
    }
    tokio::spawn(async move {
        let mut body = std::pin::pin!(Limited::new(body, MAX_LINGER_BYTES));
        let read = async { while let Some(Ok(_)) = body.frame().await {} };
        // A time-out has the same effect as the end.
        let _ = tokio::time::timeout(LINGER, read).await;
    });
}

/// An object with any fields.
#[derive(Deserialize)]
struct IgnoredFields {}

/// Like [`discard`], for a whole request.
pub(super) fn discard_request(request: Request) {
    let (head, body) = request.into_parts();
    discard(&head, body);
}

fn utf8(body: Vec<u8>) -> Result<String, ApiError> {
    String::from_utf8(body).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        let text = format!("The request body is not valid UTF-8 at byte {position}");
        ApiError::Field(Code::InvalidJson, text)
    })
}

/// Parses the fields of a JSON object. A syntax error takes precedence over duplicate fields, and
/// these over other errors of the fields.
fn parse<'a, T: Deserialize<'a>>(text: &'a str, checked_apart: &[&str]) -> Result<T, ApiError> {
    let is_object = text.trim_ascii_start().starts_with('{');
    if is_object && let Ok(value) = serde_json::from_str(text) {
        check_unique(text, checked_apart)?;
        return Ok(value);
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| not_json(&error))?;
    if !is_object {
        let text = "The request body must be a JSON object".into();
        return Err(ApiError::Field(Code::InvalidJson, text));
    }
    check_unique(text, checked_apart)?;
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        match json::unsupported_value(&cause) {
            Some(reason) => unsupported_value(&path, reason),
            None => wrong_field(&path, &cause),
        }
    })
}

/// Checks that no field of a valid object occurs twice, at any depth outside of the fields that are
/// `checked_apart`.
fn check_unique(text: &str, checked_apart: &[&str]) -> Result<(), ApiError> {
    let name = json::duplicate_name_outside(text, checked_apart);
    name.map_or(Ok(()), |name| Err(ApiError::Field(Code::DuplicateField, json::duplicate(&name))))
}

/// The errors of a body before its fields are checked, and their descriptions.
pub(super) fn refusals() -> Vec<(ApiError, &'static str)> {
    let mut refusals = vec![
        (ApiError::UnsupportedEncoding, "The Content-Encoding is not gzip, zstd or deflate"),
        (ApiError::TooSlow, "The body was not received in time"),
        (ApiError::TooLarge, "The body is too large"),
        (ApiError::UnsupportedMediaType, "The Content-Type is missing or not JSON"),
    ];
    for (body, when) in [
        ("{", "The body is not valid JSON"),
        ("[]", "The body is not a JSON object"),
        (r#"{"a":1,"a":2}"#, "A field occurs more than once"),
    ] {
        refusals.extend(parse::<IgnoredAny>(body, &[]).err().map(|error| (error, when)));
    }
    refusals
}

/// The error's own text ends with its line and column.
fn not_json(error: &serde_json::Error) -> ApiError {
    ApiError::Field(Code::InvalidJson, format!("The request body is not valid JSON: {error}"))
}

/// An error of serde_json without its line and column.
fn without_position(text: &str) -> &str {
    text.rsplit_once(" at line ").map_or(text, |(message, _)| message)
}

/// The error of a value that is valid JSON but cannot be held. Its path may be long.
fn unsupported_value(path: &str, reason: &str) -> ApiError {
    const MAX_PATH: usize = 100;
    let path = if path == "." { "The request body" } else { path };
    ApiError::Field(Code::InvalidField, about_field(&beginning(path, MAX_PATH), reason))
}

/// The error of the field at a path; the root is a dot. Does not repeat the value, which may be
/// long.
fn wrong_field(path: &str, error: &serde_json::Error) -> ApiError {
    let text = error.to_string();
    let text = match without_position(&text).rsplit_once(", expected ") {
        Some((actual, expected)) => match kind_of(actual) {
            Some(actual_type) => format!("must be {expected}, not {actual_type}"),
            None => format!("must be {expected}"),
        },
        None => without_position(&text).to_owned(),
    };
    ApiError::Field(Code::InvalidField, if path == "." { text } else { format!("{path} {text}") })
}

/// The JSON type that an error of serde_json names; it may quote the value, too.
fn kind_of(error: &str) -> Option<&'static str> {
    match error.strip_prefix("invalid type: ")?.split(' ').next()? {
        "map" => Some("an object"),
        "sequence" => Some("an array"),
        "string" => Some("a string"),
        "integer" | "floating" | "number" => Some("a number"),
        "boolean" => Some("a boolean"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
