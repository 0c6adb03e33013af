//! The pages about people: how they sign in, where they are signed in, what they may do, and what
//! they did.

pub mod audit_log;
pub mod dashboard_users;
pub mod oidc;
pub mod people;
pub mod sign_in;
