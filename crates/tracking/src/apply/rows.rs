//! The SQL of a workspace's list of products.

use store::{StoreError, Tx, fetch_listed, insert_rows, on};

/// Blocks other writers of products until the end of this transaction; SQLite has one writer
/// anyway.
pub async fn lock_products(tx: &mut Tx, workspace: i32) -> Result<(), StoreError> {
    if let Tx::Postgres(tx) = tx {
        sqlx::query("SELECT 1 FROM workspaces WHERE id = $1 FOR NO KEY UPDATE")
            .bind(workspace)
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

/// Those of `products` that are listed.
pub async fn find_listed(
    tx: &mut Tx,
    workspace: i32,
    products: &[&str],
) -> Result<Vec<String>, StoreError> {
    Ok(fetch_listed!(
        tx,
        query_scalar,
        plain(products),
        "SELECT product_id FROM products WHERE workspace_id = $2 AND product_id",
        workspace
    ))
}

/// Products that a workspace lists, by name.
pub async fn products_page(
    tx: &mut Tx,
    workspace: i32,
    offset: i64,
    limit: i64,
) -> Result<Vec<String>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT product_id FROM products WHERE workspace_id = $1
         ORDER BY product_id LIMIT $3 OFFSET $2",
    )
    .bind(workspace).bind(offset).bind(limit).fetch_all(c).await?))
}

/// Products that a workspace lists, in order, from this name on.
pub async fn products_from(
    tx: &mut Tx,
    workspace: i32,
    from: &str,
    limit: i64,
) -> Result<Vec<String>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT product_id FROM products WHERE workspace_id = $1 AND product_id >= $2
         ORDER BY product_id LIMIT $3",
    )
    .bind(workspace).bind(from).bind(limit).fetch_all(c).await?))
}

/// How many products a workspace lists.
pub async fn count_products(tx: &mut Tx, workspace: i32) -> Result<usize, StoreError> {
    let count: i64 = on!(tx, c => sqlx::query_scalar(
        "SELECT count(*) FROM products WHERE workspace_id = $1",
    )
    .bind(workspace).fetch_one(c).await?);
    Ok(usize::try_from(count).unwrap_or_default())
}

/// Adds products that the list does not have.
pub async fn add_products(
    tx: &mut Tx,
    workspace: i32,
    products: &[&str],
) -> Result<(), StoreError> {
    insert_rows!(tx, "products", products, |product| {
        workspace_id: workspace,
        product_id: *product,
    }, "");
    Ok(())
}
