//! Sign-in with OpenID Connect: the authorization code flow with PKCE
//! (docs/explanation/console.md).
//!
//! | module | is about |
//! |---|---|
//! | [`provider`] | requests to the identity provider: its metadata, its keys, tokens for a code |
//! | [`metadata`] | what the provider publishes about itself, checked |
//! | [`pending`] | a sign-in in progress, sealed in a cookie of the browser |
//! | [`token`], [`keys`] | the checks of an ID token: claims, signatures |
//! | [`refusal`] | why a sign-in is refused, for the person and for the operator |
//! | [`person`] | the dashboard user of a token, and the user's rights at this moment |
//!
//! The routes are in `pages::oidc`.

pub mod keys;
pub mod metadata;
pub mod pending;
pub mod person;
pub mod provider;
pub mod refusal;
pub mod token;
