//! What bounds tracked objects, and the names that they may not set.

use crate::users::profile::Field;

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
    "deprecated_external_ids",
];

/// Names that no property of a purchase may have.
pub const RESERVED_ON_PURCHASES: &[&str] =
    &["time", "product_id", "quantity", "event_name", "price", "currency"];

/// Whether a tracked object has a field of this name, which nothing else may be called.
pub fn is_field(name: &str) -> bool {
    const OTHERS: [&str; 11] = [
        "_update_existing_only",
        "_merge_objects",
        "push_token_import",
        "app_id",
        "name",
        "time",
        "properties",
        "product_id",
        "currency",
        "price",
        "quantity",
    ];
    Field::from_name(name).is_some()
        || [&IDENTIFIERS[..], REFUSED, &OTHERS].iter().any(|names| names.contains(&name))
}

/// Bytes that properties may have where arrays or objects are among them: 50 KB.
pub const MAX_NESTED_BYTES: usize = 51_200;
