//! The pages: a file for each, or for several that belong together.

pub mod catalogs;
pub mod dead_letters;
pub mod deliveries;
pub mod developer;
pub mod export;
pub mod export_request;
pub mod exports;
pub mod history;
pub mod keys;
mod labels;
pub mod overview;
pub mod products;
pub mod schedules;
pub mod segments;
pub mod sends;
pub mod sms_numbers;
pub mod system;
pub mod users;

pub use self::exports::ExportLists;
pub use self::keys::NewSecrets;
pub use self::overview::OverviewReads;
pub use self::sends::SendReads;
pub use self::system::SystemReads;
