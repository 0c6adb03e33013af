//! What bounds tracked objects, and the names that they may not set.

/// Objects that an array may have.
pub const MOST_OBJECTS: usize = 75;

/// The members that identify a user, the strongest first.
pub(super) const IDENTIFIERS: [&str; 4] = ["external_id", "service_id", "user_alias", "email"];

/// What no attribute object sets: the service's own, and what comes from elsewhere.
pub(super) const REFUSED: &[&str] = &[
    "created_at",
    "random_bucket",
    "purchases",
    "custom_events",
    "total_revenue",
    "apps",
    "devices",
    "uninstalled_at",
    "user_aliases",
];

/// Names that no property of a purchase may have.
pub const RESERVED_ON_PURCHASES: &[&str] =
    &["time", "product_id", "quantity", "event_name", "price", "currency"];

/// Bytes that properties may have where arrays or objects are among them: 50 KB.
pub const MAX_NESTED_BYTES: usize = 51_200;
