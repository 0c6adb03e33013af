//! PostgreSQL at rest, before something is measured.

use sqlx::PgPool;

/// Does what PostgreSQL would do by and by, so that it does not do it meanwhile.
pub async fn settle(pool: &PgPool) {
    for sql in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
        sqlx::query(sql).execute(pool).await.expect("PostgreSQL settles");
    }
}
