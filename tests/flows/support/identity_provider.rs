//! An identity provider on this machine: it checks what the console sends, and lies if a test says
//! so.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::{Url, form_urlencoded};

use super::console::{Browser, PageResponse};
use super::process;

pub const CLIENT_ID: &str = "console of acme";
pub const CLIENT_SECRET: &str = "secret:of/the console";

/// The ids of the keys, by algorithm.
const RSA_KEY: &str = "rsa-1";
const EC_KEY: &str = "ec-1";

/// What the provider does at the next sign-ins.
#[derive(Clone, Debug)]
pub struct Script {
    /// In the header of tokens; `none` and `HS256` are lies.
    pub algorithm: &'static str,
    /// Claims of tokens in addition to the right ones, or instead of them; null removes one.
    pub claims: Value,
    /// Claims of the user info.
    pub user_info: Value,
    /// The key id of tokens, instead of that of the key.
    pub key_id: Option<&'static str>,
    pub breaks_signatures: bool,
    /// Whether a code works again.
    pub repeats_codes: bool,
    /// Whether the published keys have other ids than before.
    pub has_new_keys: bool,
    /// Whether ES256 has another key than before, with the same id.
    pub replaces_key: bool,
    /// Whether neither the published keys nor the tokens have key ids.
    pub omits_key_ids: bool,
    /// Whether none of the published keys is for signatures that the console accepts.
    pub has_no_keys: bool,
    /// The issuer in the discovery document, instead of the right one.
    pub issuer: Option<&'static str>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            algorithm: "RS256",
            claims: json!({}),
            user_info: json!({}),
            key_id: None,
            breaks_signatures: false,
            repeats_codes: false,
            has_new_keys: false,
            replaces_key: false,
            omits_key_ids: false,
            has_no_keys: false,
            issuer: None,
        }
    }
}

/// Listens until it is dropped.
pub struct IdentityProvider {
    pub issuer: String,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

struct Shared {
    issuer: String,
    rsa: RsaKeyPair,
    /// A key, and the one that replaces it.
    ec: [EcdsaKeyPair; 2],
    state: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    script: Script,
    codes: HashMap<String, Authorization>,
    next_code: u32,
    key_reads: u32,
    token_requests: u32,
}

/// What the browser was sent with.
#[derive(Clone)]
struct Authorization {
    redirect_uri: String,
    nonce: String,
    challenge: String,
}

impl IdentityProvider {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let issuer = format!("http://{}/tenant", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            issuer: issuer.clone(),
            rsa: rsa_key().await,
            ec: [ec_key(), ec_key()],
            state: Mutex::default(),
        });
        let router = Router::new()
            .route("/tenant/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .route("/userinfo", get(user_info))
            .with_state(shared.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            axum::serve(listener, router).with_graceful_shutdown(stopped).await.expect("serves");
        });
        Self { issuer, shared, stop }
    }

    /// The settings of a console that uses it.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LONGSHORE_CONSOLE_OIDC_ISSUER", self.issuer.clone()),
            ("LONGSHORE_CONSOLE_OIDC_CLIENT_ID", CLIENT_ID.to_owned()),
            ("LONGSHORE_CONSOLE_OIDC_CLIENT_SECRET", CLIENT_SECRET.to_owned()),
        ]
    }

    pub fn script(&self, script: Script) {
        self.shared.state().script = script;
    }

    /// How often the keys were read.
    pub fn key_reads(&self) -> u32 {
        self.shared.state().key_reads
    }

    /// How often a code was to be exchanged.
    pub fn token_requests(&self) -> u32 {
        self.shared.state().token_requests
    }

    /// Signs in: from the console to the provider and back. Returns the response of the callback.
    pub async fn sign_in(&self, browser: &Browser) -> PageResponse {
        let callback = self.authorize(&browser.get("/sign-in/oidc").await);
        browser.get(&callback).await
    }

    /// What the provider does with a browser that the console sends: the person is known, and
    /// agrees. Returns the path and the query of the callback.
    pub fn authorize(&self, sent: &PageResponse) -> String {
        assert_eq!(sent.status, 303, "{sent:?}");
        let url = Url::parse(sent.location()).expect("a URL");
        let query: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let value = |name: &str| query.get(name).unwrap_or_else(|| panic!("{name}: {url}")).clone();
        assert_eq!(url.path(), "/authorize");
        assert_eq!((value("response_type"), value("client_id")), ("code".into(), CLIENT_ID.into()));
        assert_eq!(value("code_challenge_method"), "S256");
        assert!(value("scope").split(' ').any(|scope| scope == "openid"), "{url}");
        let redirect_uri = value("redirect_uri");
        let mut state = self.shared.state();
        state.next_code += 1;
        let code = format!("code {}", state.next_code);
        let authorization = Authorization {
            redirect_uri: redirect_uri.clone(),
            nonce: value("nonce"),
            challenge: value("code_challenge"),
        };
        state.codes.insert(code.clone(), authorization);
        let mut callback = Url::parse(&redirect_uri).expect("a URL");
        callback
            .query_pairs_mut()
            .append_pair("code", &code)
            .append_pair("state", &value("state"))
            .append_pair("iss", &self.issuer);
        format!("{}?{}", callback.path(), callback.query().unwrap_or_default())
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Sessions> {
        self.state.lock().expect("no test panics here")
    }

    /// A token with the claims of the script.
    fn id_token(&self, script: &Script, nonce: &str) -> String {
        let now = Timestamp::now().as_second();
        let mut claims = json!({
            "iss": self.issuer, "aud": CLIENT_ID, "sub": "subject-1", "nonce": nonce, "iat": now,
            "exp": now + 300, "email": "ann@acme.example", "email_verified": true,
        });
        for (name, value) in script.claims.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        let fields = claims.as_object_mut().expect("an object");
        fields.retain(|_, value| !value.is_null());
        let algorithm = script.algorithm;
        let key_id = script.key_id.map_or_else(|| key_id(script, algorithm), Value::from);
        let mut header = json!({ "alg": algorithm, "kid": key_id, "typ": "JWT" });
        header.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        let encoded = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encoded(&header), encoded(&claims));
        let mut signature = self.signature(script, signed.as_bytes());
        if script.breaks_signatures {
            signature[7] ^= 1;
        }
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    /// The key of ES256.
    fn ec(&self, script: &Script) -> &EcdsaKeyPair {
        &self.ec[usize::from(script.replaces_key)]
    }

    fn signature(&self, script: &Script, signed: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let ec = self.ec(script);
        match script.algorithm {
            "RS256" => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                let done = self.rsa.sign(&RSA_PKCS1_SHA256, &random, signed, &mut signature);
                done.expect("a signature");
                signature
            }
            "ES256" => ec.sign(&random, signed).expect("a signature").as_ref().to_vec(),
            // As those who take a public key for a shared secret are deceived.
            "HS256" => {
                use hmac::{Hmac, KeyInit as _, Mac as _};
                let mut mac =
                    <Hmac<Sha256>>::new_from_slice(ec.public_key().as_ref()).expect("any key");
                mac.update(signed);
                mac.finalize().into_bytes().to_vec()
            }
            _ => Vec::new(),
        }
    }
}

fn key_id(script: &Script, algorithm: &str) -> Value {
    let id = if algorithm == "ES256" { EC_KEY } else { RSA_KEY };
    match script {
        Script { omits_key_ids: true, .. } => Value::Null,
        Script { has_new_keys: true, .. } => format!("{id}-new").into(),
        _ => id.into(),
    }
}

async fn discovery(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let issuer = shared.state().script.issuer.map_or(shared.issuer.clone(), str::to_owned);
    let base = shared.issuer.strip_suffix("/tenant").expect("the path");
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "jwks_uri": format!("{base}/keys"),
        "userinfo_endpoint": format!("{base}/userinfo"),
        "authorization_response_iss_parameter_supported": true,
    }))
}

async fn keys(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let script = {
        let mut state = shared.state();
        state.key_reads += 1;
        state.script.clone()
    };
    let encoded = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let RsaPublicKeyComponents::<Vec<u8>> { n, e } = shared.rsa.public_key().into();
    // After a byte that says that it is not compressed.
    let point = &shared.ec(&script).public_key().as_ref()[1..];
    let (x, y) = point.split_at(32);
    let other = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "other", "x": "AA" });
    if script.has_no_keys {
        return Json(json!({ "keys": [other] }));
    }
    Json(json!({ "keys": [
        { "kty": "RSA", "use": "sig", "kid": key_id(&script, "RS256"), "n": encoded(&n),
          "e": encoded(&e) },
        { "kty": "EC", "crv": "P-256", "alg": "ES256", "kid": key_id(&script, "ES256"),
          "x": encoded(x), "y": encoded(y) },
        other,
    ]}))
}

async fn token(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Json<Value>) {
    shared.state().token_requests += 1;
    let form: HashMap<String, String> = form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let refuse = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error })));
    let encoded =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let credentials = format!("{}:{}", encoded(CLIENT_ID), encoded(CLIENT_SECRET));
    let expected = format!("Basic {}", BASE64_STANDARD.encode(credentials));
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if sent != Some(&expected) {
        return refuse("invalid_client");
    }
    let mut state = shared.state();
    let code = field("code");
    let found = if state.script.repeats_codes {
        state.codes.get(code).cloned()
    } else {
        state.codes.remove(code)
    };
    let Some(authorization) = found else { return refuse("invalid_grant") };
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier")));
    let is_same = field("grant_type") == "authorization_code"
        && field("redirect_uri") == authorization.redirect_uri
        && challenge == authorization.challenge;
    if !is_same {
        return refuse("invalid_grant");
    }
    let id_token = shared.id_token(&state.script, &authorization.nonce);
    let tokens = json!({ "id_token": id_token, "access_token": "access", "token_type": "Bearer" });
    (StatusCode::OK, Json(tokens))
}

async fn user_info(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
) -> (StatusCode, Json<Value>) {
    let is_known = headers.get(header::AUTHORIZATION).is_some_and(|value| value == "Bearer access");
    let status = if is_known { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    (status, Json(shared.state().script.user_info.clone()))
}

fn ec_key() -> EcdsaKeyPair {
    let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("a key")
}

/// A new RSA key; ring cannot create one.
async fn rsa_key() -> RsaKeyPair {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("key.der");
    let mut command = Command::new("openssl");
    command.args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
    command.args(["-outform", "DER", "-out"]).arg(&path);
    let output = process::output(command).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let key = std::fs::read(path).expect("a key");
    // Releases of OpenSSL differ in the format.
    RsaKeyPair::from_pkcs8(&key).or_else(|_| RsaKeyPair::from_der(&key)).expect("a key")
}
