//! The console: pages for people over the domains (docs/explanation/console.md).
//!
//! A page calls the functions of the domains: it has no SQL of its own, and offers nothing that
//! the command line and the API cannot do.
//!
//! | module | is about |
//! |---|---|
//! | [`app`] | the state: the domains' apps on connections of the console's own |
//! | [`serve`] | the listener: headers of every response, the sub-path of a proxy |
//! | [`routes`] | every page and action, with the right that it needs; checked before a handler runs |
//! | [`rights`] | the rights, and the roles that bundle them |
//! | [`session`], [`link`] | who is signed in; links that sign in once |
//! | `oidc`, [`permissions`] | sign-in with OpenID Connect; the rights of dashboard users |
//! | `form` | the fields of a submitted form; the check of where it comes from |
//! | [`page`], `layout`, `parts`, `error` | what every page has; its frame; parts of pages; errors as pages |
//! | `chart` | values over time, drawn on the server |
//! | `shared`, `fleet` | what is read once for all open pages; the state of the whole installation |
//! | `shell` | words of the commands that pages show |
//! | `assets` | the stylesheet, the scripts and the icons, built in |
//! | `pages` | the pages: one file for each |
//!
//! It promises:
//!
//! - Only a handler whose right the signed-in person has runs, in a workspace that the person sees.
//!   Objects of other workspaces do not exist for a page.
//! - A form takes effect only if a page of the console sent it.
//! - Pages work without JavaScript, except for live updates.
//! - The console has its own connections to the database, so open pages take none from the API.
//!
//! Start with [`routes`], then read one of the `pages`.

pub mod app;
mod assets;
mod chart;
mod error;
mod fleet;
mod form;
mod layout;
pub mod link;
mod oidc;
pub mod page;
mod pages;
mod parts;
pub mod permissions;
pub mod rights;
pub mod routes;
pub mod serve;
pub mod session;
mod session_rows;
mod shared;
mod shell;

pub use app::App;
pub use error::PageError;
