//! The base of every other layer. It knows nothing of the product.
//!
//! | module | is about |
//! |---|---|
//! | [`clock`] | the time of day, which a test can set |
//! | [`compute`] | the processors that all work of a process shares |
//! | [`derived_ids`] | UUIDs that are derived from content |
//! | [`email_address`] | the spellings of an email address |
//! | [`errors`] | the causes of an error |
//! | [`html`] | HTML as plain text |
//! | [`faults`] | places where a test can end or stop the process |
//! | [`json`] | JSON as text: compact, bounded, without duplicate fields |
//! | [`log_limit`] | limits log lines that an outage would repeat |
//! | [`moment`] | a clock that counts the time in which the machine is suspended |
//! | [`money`] | amounts as millionths, and currencies |
//! | [`names`] | enums whose values have names |
//! | [`openapi30`] | OpenAPI 3.1 as 3.0, for code generators |
//! | [`panics`] | the text of a caught panic |
//! | [`pattern`] | regular expressions of customers, with a budget of steps |
//! | [`phone`] | phone numbers, as people write them |
//! | [`private`] | files and folders that only their owner can read |
//! | [`retry`] | whether a retry can help, and the pauses between attempts |
//! | [`secrets`] | encryption, derived keys and signatures under one secret key |
//! | [`smtp`] | replies of relays, and rejections because of the address |
//! | [`sshsig`] | signatures that `ssh-keygen` checks, and the keys that may sign |
//! | [`words`] | texts that people read: counts, cut texts, the nearest known name |
//! | [`zones`] | time zones by their names |
//!
//! It depends on no other crate of the workspace.
//!
//! Start with [`retry`], because every layer classifies its errors with [`retry::Retry`].

pub mod clock;
pub mod compute;
pub mod derived_ids;
pub mod email_address;
pub mod errors;
pub mod faults;
pub mod html;
pub mod json;
pub mod lists;
pub mod log_limit;
pub mod moment;
pub mod money;
pub mod names;
pub mod openapi30;
pub mod panics;
pub mod pattern;
pub mod phone;
pub mod private;
pub mod retry;
pub mod secrets;
pub mod smtp;
pub mod sshsig;
pub mod words;
pub mod zones;
