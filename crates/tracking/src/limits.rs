//! Limits of tracked objects, and the names that they cannot set.

use people::users::profile::Field;

/// Maximum number of objects in an array.
pub const MAX_OBJECTS: usize = 75;

/// The fields that identify a user, the strongest first.
pub(super) const IDENTIFIERS: [&str; 4] = ["external_id", "service_id", "user_alias", "email"];

/// Fields that attribute objects cannot set: the service's own, and those from other sources.
pub(super) const READ_ONLY: &[&str] = &[
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

/// Names that properties of a purchase must not have.
pub const RESERVED_ON_PURCHASES: &[&str] =
    &["time", "product_id", "quantity", "event_name", "price", "currency"];

/// Whether tracked objects have a field of this name, so that nothing else can have the name.
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
        || [&IDENTIFIERS[..], READ_ONLY, &OTHERS].iter().any(|names| names.contains(&name))
}

/// Maximum bytes of properties that contain arrays or objects: 50 KB.
pub const MAX_NESTED_BYTES: usize = 51_200;
