//! The SQL of workspaces and their parts, except keys.

use std::collections::HashMap;

use uuid::Uuid;

use super::groups::KnownGroup;
use super::{ControlGroup, DeclaredApp, Workspace, to_json};
use store::{StoreError, Tx, execute, from_row, on};

from_row! {
    Workspace {
        name, id, currency, time_zone, export_users_limit, export_bytes_limit, export_late_ms,
        s3_storage, azure_storage, azure_is_default,
    } json { exchange_rates, ip_allowlist, rate_limits, frequency_capping, aliases }
}

macro_rules! workspaces {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, currency, exchange_rates, time_zone, ip_allowlist, rate_limits,
                    frequency_capping, aliases, export_users_limit, export_bytes_limit,
                    export_late_ms, s3_storage, azure_storage, azure_is_default
             FROM workspaces ",
            $rest
        )
    };
}

pub async fn by_id(tx: &mut Tx, id: i32) -> Result<Option<Workspace>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(workspaces!("WHERE id = $1")).bind(id).fetch_optional(c).await?))
}

pub async fn by_name(tx: &mut Tx, name: &str) -> Result<Option<Workspace>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(workspaces!("WHERE name = $1"))
        .bind(name).fetch_optional(c).await?))
}

/// The ids of all workspaces, by their names.
pub async fn ids(tx: &mut Tx) -> Result<HashMap<String, i32>, StoreError> {
    let ids: Vec<(String, i32)> = on!(tx, c => sqlx::query_as("SELECT name, id FROM workspaces")
        .fetch_all(c).await?);
    Ok(ids.into_iter().collect())
}

/// All workspaces, by name.
pub async fn list(tx: &mut Tx) -> Result<Vec<Workspace>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(workspaces!("ORDER BY name")).fetch_all(c).await?))
}

/// Creates an empty workspace, for [`update`] to fill; returns the id, or none if another process
/// has just created one with that name.
pub async fn insert(tx: &mut Tx, name: &str, now: i64) -> Result<Option<i32>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "INSERT INTO workspaces
             (name, currency, exchange_rates, time_zone, ip_allowlist, export_users_limit,
              export_bytes_limit, azure_is_default, callback_secret, created_at)
         VALUES ($1, 'USD', '{}', 'UTC', '[]', 1, 1, FALSE, $2, $3)
         ON CONFLICT (name) DO NOTHING
         RETURNING id",
    )
    .bind(name).bind(&[] as &[u8]).bind(now).fetch_optional(c).await?))
}

/// Writes a workspace, except its storage, which is [set separately](set_storage).
pub async fn update(tx: &mut Tx, workspace: &Workspace) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query(
        "UPDATE workspaces SET
             currency = $2, exchange_rates = $3, time_zone = $4, ip_allowlist = $5,
             export_users_limit = $6, export_bytes_limit = $7, azure_is_default = $8,
             rate_limits = $9, frequency_capping = $10, aliases = $11, export_late_ms = $12
         WHERE id = $1",
    )
    .bind(workspace.id).bind(&workspace.currency).bind(to_json(&workspace.exchange_rates))
    .bind(&workspace.time_zone).bind(to_json(&workspace.ip_allowlist))
    .bind(workspace.export_users_limit).bind(workspace.export_bytes_limit)
    .bind(workspace.azure_is_default).bind(to_json(&workspace.rate_limits))
    .bind(to_json(&workspace.frequency_capping)).bind(to_json(&workspace.aliases))
    .bind(workspace.export_late_ms)
    .execute(c).await?.rows_affected());
    Ok(())
}

/// Sets or removes the storage of a kind to which exports go.
pub async fn set_storage(
    tx: &mut Tx,
    workspace: i32,
    kind: &str,
    id: Option<Uuid>,
) -> Result<(), StoreError> {
    let sql = match kind {
        "azure" => "UPDATE workspaces SET azure_storage = $2 WHERE id = $1",
        _ => "UPDATE workspaces SET s3_storage = $2 WHERE id = $1",
    };
    on!(tx, c => sqlx::query(sql).bind(workspace).bind(id).execute(c).await?.rows_affected());
    Ok(())
}

/// The named storages of a workspace: their names and the ids of their settings, by name.
pub async fn named_storages(
    tx: &mut Tx,
    workspace: i32,
) -> Result<Vec<(String, Uuid)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT name, storage_id FROM named_storages WHERE workspace_id = $1 ORDER BY name",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// Sets the settings to which a name refers. Exports in progress keep those that they were
/// requested with.
pub async fn put_named_storage(
    tx: &mut Tx,
    workspace: i32,
    name: &str,
    id: Uuid,
) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query(
        "INSERT INTO named_storages (workspace_id, name, storage_id) VALUES ($1, $2, $3)
         ON CONFLICT (workspace_id, name) DO UPDATE SET storage_id = excluded.storage_id",
    )
    .bind(workspace).bind(name).bind(id).execute(c).await?.rows_affected());
    Ok(())
}

/// Removes a name. Its settings stay, for exports in progress.
pub async fn delete_named_storage(
    tx: &mut Tx,
    workspace: i32,
    name: &str,
) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query("DELETE FROM named_storages WHERE workspace_id = $1 AND name = $2")
        .bind(workspace).bind(name).execute(c).await?.rows_affected());
    Ok(())
}

/// Locks the workspace until the end of this transaction.
pub async fn lock(tx: &mut Tx, workspace: i32) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query("UPDATE workspaces SET name = name WHERE id = $1")
        .bind(workspace).execute(c).await?.rows_affected());
    Ok(())
}

/// The encrypted callback secret; empty if there is none.
pub(crate) async fn callback_secret(
    tx: &mut Tx,
    workspace: i32,
) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT callback_secret FROM workspaces WHERE id = $1")
        .bind(workspace).fetch_optional(c).await?))
}

pub(crate) async fn set_callback_secret(
    tx: &mut Tx,
    workspace: i32,
    sealed: &[u8],
) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query("UPDATE workspaces SET callback_secret = $2 WHERE id = $1")
        .bind(workspace).bind(sealed).execute(c).await?.rows_affected());
    Ok(())
}

/// A storage's kind and its sealed settings.
pub(crate) async fn storage(
    tx: &mut Tx,
    id: Uuid,
) -> Result<Option<(String, Vec<u8>)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as("SELECT kind, config FROM storages WHERE id = $1")
        .bind(id).fetch_optional(c).await?))
}

/// The sealed settings of every storage.
pub(crate) async fn storages(tx: &mut Tx) -> Result<Vec<(Uuid, Vec<u8>)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as("SELECT id, config FROM storages ORDER BY id")
        .fetch_all(c).await?))
}

/// Writes the same settings, encrypted again.
pub(crate) async fn reseal_storage(tx: &mut Tx, id: Uuid, sealed: &[u8]) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query("UPDATE storages SET config = $2 WHERE id = $1")
        .bind(id).bind(sealed).execute(c).await?.rows_affected());
    Ok(())
}

pub(crate) async fn insert_storage(
    tx: &mut Tx,
    id: Uuid,
    workspace: i32,
    kind: &str,
    sealed: &[u8],
    now: i64,
) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query(
        "INSERT INTO storages (id, workspace_id, kind, config, created_at)
         VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(id).bind(workspace).bind(kind).bind(sealed).bind(now)
    .execute(c).await?.rows_affected());
    Ok(())
}

from_row! { ControlGroup { segment_id, percent } json { slices } }

/// The active control group of a workspace.
pub async fn control_group(
    tx: &mut Tx,
    workspace: i32,
) -> Result<Option<ControlGroup>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT segment_id, percent, slices FROM control_groups WHERE workspace_id = $1 AND active",
    )
    .bind(workspace).fetch_optional(c).await?))
}

/// Makes `group` the only active group of the workspace.
pub(crate) async fn activate(
    tx: &mut Tx,
    workspace: i32,
    group: &ControlGroup,
    now: i64,
) -> Result<(), StoreError> {
    on!(&mut *tx, c => sqlx::query(
        "UPDATE control_groups SET active = FALSE WHERE workspace_id = $1 AND active",
    )
    .bind(workspace).execute(c).await?.rows_affected());
    on!(tx, c => sqlx::query(
        "INSERT INTO control_groups (segment_id, workspace_id, percent, slices, active, created_at)
         VALUES ($1, $2, $3, $4, TRUE, $5)",
    )
    .bind(group.segment_id).bind(workspace).bind(group.percent).bind(to_json(&group.slices))
    .bind(now)
    .execute(c).await?.rows_affected());
    Ok(())
}

/// Makes a former group of the workspace its only active one.
pub(crate) async fn activate_again(
    tx: &mut Tx,
    workspace: i32,
    segment_id: Uuid,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("UPDATE control_groups SET active = FALSE WHERE workspace_id = $1 AND active")
            .bind(workspace)
    );
    execute!(
        tx,
        sqlx::query(
            "UPDATE control_groups SET active = TRUE WHERE workspace_id = $1 AND segment_id = $2"
        )
        .bind(workspace)
        .bind(segment_id)
    );
    Ok(())
}

from_row! { KnownGroup { segment_id, percent, active, created_at } }

/// The groups of a workspace, the latest first.
pub async fn known_groups(tx: &mut Tx, workspace: i32) -> Result<Vec<KnownGroup>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT segment_id, percent, active, created_at FROM control_groups
         WHERE workspace_id = $1 ORDER BY created_at DESC, segment_id",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// The number of users in a slice.
pub(crate) async fn users_in_slice(
    tx: &mut Tx,
    workspace: i32,
    slice: i16,
) -> Result<i64, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT count(*) FROM users WHERE slice = $1 AND workspace_id = $2",
    )
    .bind(slice).bind(workspace).fetch_one(c).await?))
}

from_row! { DeclaredApp { id, name, platform, bundle_id } json { activity_types } }

pub async fn apps(tx: &mut Tx, workspace: i32) -> Result<Vec<DeclaredApp>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name, platform, bundle_id, activity_types FROM apps
         WHERE workspace_id = $1 ORDER BY name, id",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// Writes an app; false if another workspace has an app with that id.
pub async fn put_app(tx: &mut Tx, workspace: i32, app: &DeclaredApp) -> Result<bool, StoreError> {
    let written = on!(tx, c => sqlx::query(
        "INSERT INTO apps (id, workspace_id, name, platform, bundle_id, activity_types)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (id) DO UPDATE SET
             name = excluded.name, platform = excluded.platform,
             bundle_id = excluded.bundle_id, activity_types = excluded.activity_types
         WHERE apps.workspace_id = excluded.workspace_id",
    )
    .bind(app.id).bind(workspace).bind(&app.name).bind(app.platform.name())
    .bind(&app.bundle_id).bind(to_json(&app.activity_types))
    .execute(c).await?.rows_affected());
    Ok(written == 1)
}

pub async fn delete_app(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<(), StoreError> {
    on!(tx, c => sqlx::query("DELETE FROM apps WHERE workspace_id = $1 AND id = $2")
        .bind(workspace).bind(id).execute(c).await?.rows_affected());
    Ok(())
}
