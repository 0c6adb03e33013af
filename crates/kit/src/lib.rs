//! What every layer above stands on, and what knows nothing of the product.
//!
//! | module | is about |
//! |---|---|
//! | [`clock`] | the time of day, as something that a test can set |
//! | [`compute`] | processors and memory, shared out within a process |
//! | [`faults`] | places where a test can end or stop the process |
//! | [`json`] | JSON as text: compact, bounded, without repeated names |
//! | [`money`] | amounts as millionths, and currencies |
//! | [`names`] | enums whose values have names |
//! | [`panics`] | the text of a caught panic |
//! | [`private`] | files and folders that are their owner's alone |
//! | [`retry`] | whether an error may pass, and the pauses between tries |
//! | [`secrets`] | encryption, derived keys and signatures under one secret key |
//! | [`words`] | texts that people read: counts, cut texts, the nearest known name |

pub mod clock;
pub mod compute;
pub mod faults;
pub mod json;
pub mod money;
pub mod names;
pub mod panics;
pub mod private;
pub mod retry;
pub mod secrets;
pub mod words;
