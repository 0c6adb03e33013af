//! The pages: a file for each, or for several that belong together.

pub mod audit_log;
pub mod catalogs;
pub mod dashboard_users;
pub mod dead_letters;
pub mod deliveries;
pub mod developer;
pub mod export;
pub mod export_request;
pub mod exports;
pub mod history;
mod keyed;
pub mod keys;
pub mod oidc;
pub mod overview;
pub mod people;
pub mod products;
pub mod schedules;
pub mod segments;
pub mod sends;
pub mod sign_in;
pub mod sms_numbers;
pub mod system;
pub mod users;

pub use self::exports::ExportLists;
pub use self::keys::NewSecrets;
pub use self::overview::OverviewReads;
pub use self::sends::SendReads;
pub use self::system::SystemReads;

/// The first rows of a list that was read with one row more than a page has, and whether others
/// follow.
fn first_rows<T>(mut rows: Vec<T>, max_rows: usize) -> (Vec<T>, bool) {
    let has_more = rows.len() > max_rows;
    rows.truncate(max_rows);
    (rows, has_more)
}
