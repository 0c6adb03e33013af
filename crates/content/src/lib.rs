//! Campaigns, catalogs and phone numbers, as declared and edited.
//!
//! | module | is about |
//! |---|---|
//! | [`campaigns`] | campaigns and Canvases, as declared; the list of campaigns |
//! | [`catalogs`] | items that are declared, loaded and edited, from the request to the row |
//! | [`sms`] | phone numbers that are known to be invalid |

pub mod app;
pub mod campaigns;
pub mod catalogs;
pub mod sms;
