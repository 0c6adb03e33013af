//! Users: profiles, identities, activity, import; and audiences of them.
//!
//! | module | is about |
//! |---|---|
//! | [`users`] | profiles, identities, activity; import and generate |
//! | [`audience`] | connected audiences: conditions on users, read and written |

pub mod audience;
pub mod users;
