//! Tracked objects and edits of catalogs.

use super::{Group, Metric, counter};

pub const GROUP: Group = Group { title: "Ingestion and catalogs", metrics: METRICS };

const METRICS: &[Metric] = &[
    counter(
        "longshore_track_objects_total",
        &["array"],
        "Total number of objects of POST /users/track that were accepted, by array (attributes, \
         events, purchases)",
    ),
    counter(
        "longshore_track_refused_total",
        &["array", "reason"],
        "Total number of objects of POST /users/track that were rejected, by array and reason: \
         the invalid field, identifier (no user identifier), object (not readable)",
    ),
    counter(
        "longshore_track_applied_total",
        &["array"],
        "Total number of objects of POST /users/track that were applied, by array (attributes, \
         events, purchases); changes of identities count as attributes",
    ),
    counter(
        "longshore_track_dropped_total",
        &["array", "reason"],
        "Total number of accepted objects that had no effect, by array and reason: unknown_user, \
         erased (after they were accepted), too_large (the profile with them), conflict (an \
         identifier is another user's)",
    ),
    counter(
        "longshore_track_users_created_total",
        &[],
        "Total number of users created by tracked objects",
    ),
    counter(
        "longshore_track_changes_ignored_total",
        &[],
        "Total number of changes of custom attributes (inc, add, remove) that did not match the \
         type of the stored value",
    ),
    counter(
        "longshore_track_activity_names_evicted_total",
        &[],
        "Total number of product and event names that were removed from users' activity because a \
         user had too many",
    ),
    counter(
        "longshore_track_purchases_over_product_limit_total",
        &[],
        "Total number of purchases of products that are not listed because their workspace has \
         the maximum number",
    ),
    counter(
        "longshore_track_revenue_at_maximum_total",
        &[],
        "Total number of purchases whose revenue counts only up to the maximum of a user's revenue \
         in one currency, 9223372036854.775807",
    ),
    counter(
        "longshore_track_revenue_outside_windows_total",
        &[],
        "Total number of purchases outside of every conversion window, which do not count as \
         revenue",
    ),
    counter(
        "longshore_track_revenue_without_rate_total",
        &["currency"],
        "Total number of purchases not included in total_revenue because the exchange rate is \
         missing, by currency (ISO 4217)",
    ),
    counter(
        "longshore_track_sends_triggered_total",
        &[],
        "Total number of sends of triggered campaigns that purchases started, each for up to 500 \
         users",
    ),
    counter(
        "longshore_track_stale_triggers_total",
        &[],
        "Total number of purchases that match a campaign's trigger but are older than its max_age",
    ),
    counter(
        "longshore_catalog_items_total",
        &[],
        "Total number of items of PATCH /catalogs/{catalog_name}/items that were accepted",
    ),
    counter(
        "longshore_catalog_refused_total",
        &["code"],
        "Total number of requests to PATCH /catalogs/{catalog_name}/items that were rejected, by \
         code; a request with several codes counts in each",
    ),
    counter(
        "longshore_catalog_items_applied_total",
        &[],
        "Total number of items of PATCH /catalogs/{catalog_name}/items whose edit was applied",
    ),
    counter(
        "longshore_catalog_items_unknown_total",
        &[],
        "Total number of items of accepted edits that do not exist in their catalog and were \
         ignored",
    ),
];
