//! The SQL of content cards.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::App;
use kit::clock::serialize_time;
use people::users::rows::{For, find_users};
use store::retention::OldRows;
use store::{StoreError, Tx, execute, insert_rows, old_rows, on};

/// A card to store.
#[derive(Clone, Debug)]
pub struct NewCard {
    pub workspace_id: i32,
    pub service_id: Uuid,
    pub id: Uuid,
    pub dispatch_id: Uuid,
    pub campaign_id: Option<Uuid>,
    pub variation_id: Option<String>,
    /// JSON.
    pub card: String,
    pub created_at: i64,
    pub expires_at: i64,
}

/// A card as it is read.
#[derive(Debug, Serialize)]
pub struct Card {
    pub id: Uuid,
    #[serde(serialize_with = "uuid::serde::simple::serialize")]
    pub dispatch_id: Uuid,
    pub campaign_id: Option<Uuid>,
    pub message_variation_id: Option<String>,
    #[serde(serialize_with = "serialize_time")]
    pub created_at: i64,
    #[serde(serialize_with = "serialize_time")]
    pub expires_at: i64,
    pub card: Box<RawValue>,
}

/// Stores cards. Existing ones stay unchanged; cards of erased users are not stored.
pub async fn insert(tx: &mut Tx, cards: &[NewCard]) -> Result<(), StoreError> {
    let mut by_workspace: BTreeMap<i32, Vec<&NewCard>> = BTreeMap::new();
    for card in cards {
        by_workspace.entry(card.workspace_id).or_default().push(card);
    }
    for (workspace, mut cards) in by_workspace {
        let ids: Vec<Uuid> = cards.iter().map(|card| card.service_id).collect();
        let users = find_users(tx, workspace, &ids, For::PreventingErasure).await?;
        let existing: HashSet<Uuid> = users.into_iter().map(|user| user.service_id).collect();
        cards.retain(|card| existing.contains(&card.service_id));
        // Sorted, so that two writers of the same cards do not deadlock.
        cards.sort_unstable_by_key(|card| (card.service_id, card.id));
        insert_in_workspace(tx, workspace, &cards).await?;
    }
    Ok(())
}

async fn insert_in_workspace(
    tx: &mut Tx,
    workspace: i32,
    cards: &[&NewCard],
) -> Result<(), StoreError> {
    insert_rows!(tx, "content_cards", cards, |card| {
        workspace_id: workspace,
        service_id: card.service_id,
        id: card.id,
        dispatch_id: card.dispatch_id,
        campaign_id: card.campaign_id,
        variation_id: card.variation_id.as_deref(),
        card: card.card.as_str(),
        created_at: card.created_at,
        expires_at: card.expires_at,
    }, "ON CONFLICT DO NOTHING");
    Ok(())
}

type CardColumns = (Uuid, Uuid, Option<Uuid>, Option<String>, i64, i64, String);

/// A user's cards, the latest first; also those that have expired, until they are deleted.
pub async fn list_for_user(
    tx: &mut Tx,
    workspace: i32,
    service_id: Uuid,
) -> Result<Vec<Card>, StoreError> {
    let rows: Vec<CardColumns> = on!(tx, c => sqlx::query_as(
        "SELECT id, dispatch_id, campaign_id, variation_id, created_at, expires_at, card
         FROM content_cards
         WHERE workspace_id = $1 AND service_id = $2
         ORDER BY created_at DESC, id",
    )
    .bind(workspace).bind(service_id).fetch_all(c).await?);
    let read = |(id, dispatch_id, campaign_id, variation, created_at, expires_at, card)| {
        Ok(Card {
            id,
            dispatch_id,
            campaign_id,
            message_variation_id: variation,
            created_at,
            expires_at,
            card: RawValue::from_string(card).map_err(|error| {
                StoreError::Corrupt(format!("content_cards.card of {id}: {error}"))
            })?,
        })
    };
    rows.into_iter().map(read).collect()
}

/// Deletes the cards of an erased user.
pub async fn erase_user(tx: &mut Tx, workspace: i32, user: Uuid) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query("DELETE FROM content_cards WHERE workspace_id = $1 AND service_id = $2")
            .bind(workspace)
            .bind(user)
    );
    Ok(())
}

/// Moves the cards of a merged user to the kept one, except those of dispatches of which the kept
/// user also has a card.
pub async fn move_to(
    tx: &mut Tx,
    workspace: i32,
    merged: Uuid,
    kept: Uuid,
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE content_cards SET service_id = $3
             WHERE workspace_id = $1 AND service_id = $2 AND dispatch_id NOT IN (
                 SELECT dispatch_id FROM content_cards WHERE workspace_id = $1 AND service_id = $3)",
        )
        .bind(workspace)
        .bind(merged)
        .bind(kept)
    );
    erase_user(tx, workspace, merged).await
}

/// Cards that have expired.
const EXPIRED: OldRows = old_rows!("content_cards", "expires_at <= $1", 5_000);

/// Deletes expired cards, by the database's clock: a worker with a wrong clock must not delete
/// anything.
pub async fn sweep(app: &App, stop: &CancellationToken) -> Result<(), StoreError> {
    EXPIRED.delete(&app.store, &[app.store.now().await?], stop).await
}
