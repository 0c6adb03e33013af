//! The SQL of content blocks, of selections of catalog items, and of email templates.

use uuid::Uuid;

use super::email_templates::EmailTemplate;
use super::template_data::{CatalogSelection, ContentBlock};
use super::to_json;
use store::documents::parsed;
use store::{StoreError, Tx, execute, from_row, on};

from_row! { ContentBlock { name, body } }
from_row! { EmailTemplate { id, name } json { content } }

pub async fn blocks(tx: &mut Tx, workspace: i32) -> Result<Vec<ContentBlock>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT name, body FROM content_blocks WHERE workspace_id = $1 ORDER BY name",
    )
    .bind(workspace).fetch_all(c).await?))
}

pub async fn put_block(
    tx: &mut Tx,
    workspace: i32,
    block: &ContentBlock,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO content_blocks (workspace_id, name, body) VALUES ($1, $2, $3)
             ON CONFLICT (workspace_id, name) DO UPDATE SET body = excluded.body",
        )
        .bind(workspace)
        .bind(&block.name)
        .bind(&block.body)
    );
    Ok(())
}

pub async fn delete_block(tx: &mut Tx, workspace: i32, name: &str) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM content_blocks WHERE workspace_id = $1 AND name = $2")
            .bind(workspace)
            .bind(name)
    );
    Ok(())
}

pub async fn selections(tx: &mut Tx, workspace: i32) -> Result<Vec<CatalogSelection>, StoreError> {
    let found: Vec<(String, String)> = on!(tx, c => sqlx::query_as(
        "SELECT name, definition FROM catalog_selections
         WHERE workspace_id = $1 ORDER BY catalog, name",
    )
    .bind(workspace).fetch_all(c).await?);
    read_selections(found)
}

/// The selections of one catalog.
pub async fn selections_of(
    tx: &mut Tx,
    workspace: i32,
    catalog: &str,
) -> Result<Vec<CatalogSelection>, StoreError> {
    let found: Vec<(String, String)> = on!(tx, c => sqlx::query_as(
        "SELECT name, definition FROM catalog_selections
         WHERE workspace_id = $1 AND catalog = $2 ORDER BY name",
    )
    .bind(workspace).bind(catalog).fetch_all(c).await?);
    read_selections(found)
}

/// Reads selections from their names and definitions.
fn read_selections(found: Vec<(String, String)>) -> Result<Vec<CatalogSelection>, StoreError> {
    let selection = |(name, definition): (String, String)| {
        parsed("catalog_selections.definition", name, &definition)
    };
    found.into_iter().map(selection).collect()
}

pub async fn put_selection(
    tx: &mut Tx,
    workspace: i32,
    selection: &CatalogSelection,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO catalog_selections (workspace_id, catalog, name, definition)
             VALUES ($1, $2, $3, $4)
             ON CONFLICT (workspace_id, catalog, name) DO UPDATE SET
                 definition = excluded.definition",
        )
        .bind(workspace)
        .bind(&selection.catalog)
        .bind(&selection.name)
        .bind(to_json(selection))
    );
    Ok(())
}

pub async fn delete_selection(
    tx: &mut Tx,
    workspace: i32,
    selection: &CatalogSelection,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "DELETE FROM catalog_selections WHERE workspace_id = $1 AND catalog = $2 AND name = $3",
        )
        .bind(workspace)
        .bind(&selection.catalog)
        .bind(&selection.name)
    );
    Ok(())
}

/// The names of a workspace's catalogs.
pub(crate) async fn catalogs(tx: &mut Tx, workspace: i32) -> Result<Vec<String>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT name FROM catalogs WHERE workspace_id = $1")
        .bind(workspace).fetch_all(c).await?))
}

pub async fn email_templates(
    tx: &mut Tx,
    workspace: i32,
) -> Result<Vec<EmailTemplate>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name, content FROM email_templates WHERE workspace_id = $1 ORDER BY name, id",
    )
    .bind(workspace).fetch_all(c).await?))
}

/// The email template with that id, if it exists.
pub async fn email_template(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<EmailTemplate>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT id, name, content FROM email_templates WHERE workspace_id = $1 AND id = $2",
    )
    .bind(workspace).bind(id).fetch_optional(c).await?))
}

pub async fn put_email_template(
    tx: &mut Tx,
    workspace: i32,
    template: &EmailTemplate,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO email_templates (workspace_id, id, name, content) VALUES ($1, $2, $3, $4)
             ON CONFLICT (workspace_id, id) DO UPDATE SET
                 name = excluded.name, content = excluded.content",
        )
        .bind(workspace)
        .bind(template.id)
        .bind(&template.name)
        .bind(to_json(&template.content))
    );
    Ok(())
}

pub async fn delete_email_template(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM email_templates WHERE workspace_id = $1 AND id = $2")
            .bind(workspace)
            .bind(id)
    );
    Ok(())
}
