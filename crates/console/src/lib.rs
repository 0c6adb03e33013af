//! The console: pages for people over the domains (docs/explanation/console.md).
//!
//! A page calls the functions of the domains: it has no SQL of its own, and offers nothing that
//! the command line and the API cannot do. Sign-in, rights and the look of all pages are in the
//! crate [`console_frame`].
//!
//! | module | is about |
//! |---|---|
//! | [`app`] | the state: the domains' apps on connections of the console's own |
//! | [`routes`] | every page and action, with the rights that it needs |
//! | `page` | a request for a page |
//! | `fleet` | the state of the whole installation, read once for all open pages |
//! | `pages` | the pages: one file for each |
//!
//! It promises:
//!
//! - Pages work without JavaScript, except for live updates.
//! - The console has its own connections to the database, so open pages take none from the API.
//!
//! Start with [`routes`], then read one of the `pages`.

pub mod app;
mod fleet;
mod page;
mod pages;
pub mod routes;

pub use app::App;
