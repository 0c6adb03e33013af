//! The frame of the console: who is signed in and what that person may do, and what every page has
//! (docs/explanation/console.md).
//!
//! It knows the people of the console and the workspaces, but no exports and no messages. Their
//! pages are in the crate `console`, which gives its table of routes to [`serve`].
//!
//! | module | is about |
//! |---|---|
//! | [`app`] | the state that every request needs |
//! | [`serve`] | the listener: headers of every response, the sub-path of a proxy |
//! | [`routes`] | tables of routes: what each needs, checked before a handler runs |
//! | [`rights`] | the rights, and the roles that bundle them |
//! | [`session`], [`link`] | who is signed in; links that sign in once |
//! | [`oidc`], [`permissions`] | sign-in with OpenID Connect; the rights of dashboard users |
//! | [`form`] | the fields of a submitted form; the check of where it comes from |
//! | [`page`], [`layout`], [`error`] | a request for a page; the frame around its content; errors as pages |
//! | [`parts`], [`chart`], [`lists`] | parts of pages; values over time, drawn on the server; pages of a list |
//! | [`shared`] | what is read once for all open pages |
//! | [`shell`] | words of the commands that pages show |
//! | [`assets`] | the stylesheet, the scripts and the icons, built in |
//! | [`pages`] | the pages about people: sign-in, sessions, dashboard users, the audit log |
//!
//! It promises:
//!
//! - Only a handler whose rights the signed-in person has runs, in a workspace that the person
//!   sees. Objects of other workspaces do not exist for a page.
//! - A form takes effect only if a page of the console sent it.
//! - A session that was ended is refused at its next request.
//!
//! Start with [`routes`], then read [`page`].

pub mod app;
pub mod assets;
pub mod chart;
pub mod error;
pub mod form;
pub mod layout;
pub mod link;
pub mod lists;
pub mod oidc;
pub mod page;
pub mod pages;
pub mod parts;
pub mod permissions;
pub mod rights;
pub mod routes;
pub mod serve;
pub mod session;
mod session_rows;
pub mod shared;
pub mod shell;

pub use app::App;
pub use error::PageError;
