//! Tracked objects and edits of catalogs.

use super::{Group, Metric, counter};

pub const GROUP: Group = Group { title: "Ingestion and catalogs", metrics: METRICS };

const METRICS: &[Metric] = &[
    counter(
        "longshore_track_objects_total",
        &["array"],
        "Objects of POST /users/track that were taken, by array (attributes, events, purchases)",
    ),
    counter(
        "longshore_track_refused_total",
        &["array", "reason"],
        "Objects of POST /users/track that were left out, by array and reason: the member that \
         is wrong, identifier where nobody is named, object where it cannot be read at all",
    ),
    counter(
        "longshore_track_applied_total",
        &["array"],
        "Objects of POST /users/track that were applied, by array (attributes, events, purchases); \
         changes of identities count as attributes",
    ),
    counter(
        "longshore_track_dropped_total",
        &["array", "reason"],
        "Objects that came to nothing, by array and reason: unknown_user, erased (since they were \
         taken), too_large (the profile with them), conflict (an identifier is another user's)",
    ),
    counter("longshore_track_users_created_total", &[], "Users made by what was tracked of them"),
    counter(
        "longshore_track_changes_ignored_total",
        &[],
        "Changes of custom attributes (inc, add, remove) that did not fit the value there was",
    ),
    counter(
        "longshore_track_names_forgotten_total",
        &[],
        "Names of products and events that went from a user's activity, which has too many",
    ),
    counter(
        "longshore_track_products_unlisted_total",
        &[],
        "Purchases of products that their workspace does not list, having as many as it may",
    ),
    counter(
        "longshore_track_revenue_outside_windows_total",
        &[],
        "Purchases that lie within no conversion window, and are no revenue",
    ),
    counter(
        "longshore_track_revenue_without_rate_total",
        &["currency"],
        "Purchases that total_revenue leaves out for want of an exchange rate, by currency (ISO \
         4217)",
    ),
    counter(
        "longshore_track_sends_triggered_total",
        &[],
        "Sends of triggered campaigns that purchases began, each for up to 500 users",
    ),
    counter(
        "longshore_track_stale_triggers_total",
        &[],
        "Total number of purchases that match a campaign's trigger and start nothing, since they \
         are older than its max_age",
    ),
    counter(
        "longshore_catalog_items_total",
        &[],
        "Items of PATCH /catalogs/{catalog_name}/items that were taken",
    ),
    counter(
        "longshore_catalog_refused_total",
        &["code"],
        "Calls of PATCH /catalogs/{catalog_name}/items that were refused, by code; one that is \
         refused for several codes counts in each",
    ),
    counter(
        "longshore_catalog_items_applied_total",
        &[],
        "Items of PATCH /catalogs/{catalog_name}/items whose edit was applied",
    ),
    counter(
        "longshore_catalog_items_unknown_total",
        &[],
        "Items of taken edits that their catalog does not have: nothing was made of them",
    ),
];
