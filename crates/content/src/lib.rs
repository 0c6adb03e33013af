//! Campaigns, catalogs and phone numbers, as declared and edited.
//!
//! | module | is about |
//! |---|---|
//! | [`app`] | the state of this layer: caches of catalogs and campaigns |
//! | [`campaigns`] | campaigns and Canvases, as declared; the list of campaigns |
//! | [`catalogs`] | items that are declared, loaded and edited, from the request to the row |
//! | [`sms`] | phone numbers that are known to be invalid |
//!
//! It promises: an edit of catalog items gets its response once it is durable in the log; edits of
//! one item are applied in the order of their responses, each once. A rejected request changes
//! nothing. All other requests have taken effect when they get their response.
//!
//! Start with [`catalogs::api`], then [`catalogs::apply`].

pub mod app;
pub mod campaigns;
pub mod catalogs;
pub mod sms;
