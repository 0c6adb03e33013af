//! The SQL of a workspace's list of products.

use crate::store::{StoreError, Tx, execute, on};

/// Makes whoever else wants to add products wait for the end of this transaction; SQLite has
/// one writer anyway.
pub async fn lock_products(tx: &mut Tx, workspace: i32) -> Result<(), StoreError> {
    if let Tx::Postgres(tx) = tx {
        sqlx::query("SELECT 1 FROM workspaces WHERE id = $1 FOR NO KEY UPDATE")
            .bind(workspace)
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

pub async fn products(tx: &mut Tx, workspace: i32) -> Result<Vec<String>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar("SELECT product_id FROM products WHERE workspace_id = $1")
        .bind(workspace).fetch_all(c).await?))
}

/// Adds products that the list does not have.
pub async fn add_products(
    tx: &mut Tx,
    workspace: i32,
    products: &[&str],
) -> Result<(), StoreError> {
    match tx {
        Tx::Postgres(tx) => {
            sqlx::query(
                "INSERT INTO products (workspace_id, product_id) SELECT $1, unnest($2::text[])",
            )
            .bind(workspace)
            .bind(products)
            .execute(&mut **tx)
            .await?;
        }
        Tx::Sqlite(_) => {
            for product in products {
                execute!(
                    tx,
                    sqlx::query("INSERT INTO products (workspace_id, product_id) VALUES ($1, $2)")
                        .bind(workspace)
                        .bind(*product)
                );
            }
        }
    }
    Ok(())
}
