//! Users: their profiles, identities and activity, their import, and audiences of them.
//!
//! | module | is about |
//! |---|---|
//! | [`users`] | profiles, identities, activity; import and generate |
//! | [`audience`] | connected audiences: conditions on users, read and written |
//!
//! It promises: a profile keeps checked values unchanged, and fields of a newer version. An import
//! that is repeated creates no user twice, and never ends an `unsubscribed`. Erasing a user deletes
//! every row of theirs in these tables.
//!
//! Start with [`users`], then [`users::rows`].

pub mod audience;
pub mod users;
