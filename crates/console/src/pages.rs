//! The pages: a file for each, or for several that belong together.

pub mod audit_log;
pub mod export;
pub mod export_request;
pub mod exports;
pub mod overview;
pub mod people;
pub mod sign_in;

/// The first rows of a list that was read with one row more than a page has, and whether others
/// follow.
fn first_rows<T>(mut rows: Vec<T>, max_rows: usize) -> (Vec<T>, bool) {
    let has_more = rows.len() > max_rows;
    rows.truncate(max_rows);
    (rows, has_more)
}
