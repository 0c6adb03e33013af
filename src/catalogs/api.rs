//! `PATCH /catalogs/{catalog_name}/items`: check, append, answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::patch;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::check::{self, Faults};
use super::message::{Edit, Item, VERSION};
use super::{Catalog, is_plain_name, known, openapi};
use crate::app::App;
use crate::gateway::idempotency::Received;
use crate::gateway::{self, ApiError, Caller, IdempotencyKey, JsonText, Routes, idempotency};
use crate::topics;
use log::{NewMessage, partition_of};

pub(super) const PERMISSION: &str = "catalogs.update_items";

/// What the message of every refusal is.
pub(super) const INVALID: &str = "Invalid Request";

/// Ways of a catalog through the log. An item always goes the same one, so its edits stay in
/// order, and as many workers can share a catalog. A request becomes no more messages than
/// this: one for each of 64 partitions would have items travel almost alone, ten times the
/// messages for the same items, and as many records of what became of them.
pub const LANES: u32 = 4;

/// The routes of catalogs.
pub fn routes() -> Routes {
    let route = gateway::protected(PERMISSION, patch(edit));
    Routes::new().route("/catalogs/{catalog_name}/items", route, [openapi::edit()])
}

async fn edit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    name: Result<Path<String>, PathRejection>,
    key: Option<IdempotencyKey>,
    body: Result<JsonText, ApiError>,
) -> Result<Response, ApiError> {
    // What is not UTF-8 is no catalog's name.
    let name = name.map(|Path(name)| name).unwrap_or_default();
    let (key, catalog) = match is_plain_name(&name) {
        true => {
            let catalog = known::find(&app, caller.workspace.id, &name).await?;
            (key.map(|key| key.within(&name)), catalog)
        }
        // No such call ever had an answer that could be given again.
        false => (None, None),
    };
    let work = Work {
        workspace: caller.workspace.id,
        catalog,
        name,
        partitions: app.config.log.partitions,
        request_id: caller.request_id,
    };
    let edited = match body {
        Ok(body) => idempotency::append(app, key, body, work).await,
        Err(error) => Err(work.cannot_read(error)),
    };
    edited.inspect_err(count)
}

/// `items` as it was sent; null counts as absent, and other members are passed over.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(default, borrow)]
    items: Option<&'a RawValue>,
}

#[derive(Serialize)]
pub(crate) struct Answer {
    message: &'static str,
    #[serde(skip)]
    items: usize,
}

/// An edit that was asked for.
pub(crate) struct Work {
    pub workspace: i32,
    /// None where the workspace has none of that name.
    pub catalog: Option<Arc<Catalog>>,
    pub name: String,
    /// Of the log.
    pub partitions: u32,
    pub request_id: String,
}

impl idempotency::Work for Work {
    type Answer = Answer;
    const STATUS: StatusCode = StatusCode::ACCEPTED;

    /// The same body and time come to the same messages as long as the catalog is the same.
    fn read(
        &self,
        body: &JsonText,
        received: Received,
    ) -> Result<(Answer, Vec<NewMessage>), ApiError> {
        let Body { items } = body.parse().map_err(|error| self.cannot_read(error))?;
        let fields = self.catalog.as_ref().map(|catalog| &catalog.fields);
        match (&self.catalog, check::items(items, fields)) {
            (Some(catalog), Ok(items)) => {
                let answer = Answer { message: "success", items: items.len() };
                Ok((answer, self.messages(catalog.id, items, received.at)?))
            }
            (_, checked) => Err(self.refuse(checked.err().unwrap_or_default())),
        }
    }

    fn taken(&self, answer: &Answer) {
        metrics::counter!("longshore_catalog_items_total").increment(answer.items as u64);
    }
}

impl Work {
    /// 400, or 404 where there is no such catalog, which is said before the rest.
    fn refuse(&self, mut faults: Faults) -> ApiError {
        if self.catalog.is_some() {
            return ApiError::InvalidMany(INVALID.into(), faults.errors());
        }
        faults.note_no_catalog(&self.name);
        ApiError::NotFoundMany(INVALID.into(), faults.errors())
    }

    /// What is wrong with a body as a whole, in the form that this call's refusals have.
    fn cannot_read(&self, error: ApiError) -> ApiError {
        match error {
            ApiError::Invalid(why) => self.refuse(Faults::no_items(why)),
            other => other,
        }
    }

    /// A message for each partition that the items fall on.
    fn messages(
        &self,
        catalog: i32,
        items: Vec<Item<'_>>,
        received_at: i64,
    ) -> Result<Vec<NewMessage>, ApiError> {
        let mut by_partition: BTreeMap<i32, Vec<Item<'_>>> = BTreeMap::new();
        for item in items {
            by_partition.entry(self.partition(catalog, &item.id)).or_default().push(item);
        }
        let message = |(partition, items)| {
            let edit = Edit { v: VERSION, workspace: self.workspace, catalog, received_at, items };
            let payload = serde_json::to_vec(&edit).map_err(|error| {
                ApiError::Internal(format!("a message cannot be written: {error}"))
            })?;
            Ok(NewMessage {
                topic: topics::CATALOGS,
                key: Vec::new(),
                partition: Some(partition),
                payload,
                request_id: self.request_id.clone(),
            })
        };
        by_partition.into_iter().map(message).collect()
    }

    fn partition(&self, catalog: i32, item: &str) -> i32 {
        let lane = partition_of(item.as_bytes(), LANES);
        let lane = format!("{}\u{1f}{catalog}\u{1f}{lane}", self.workspace);
        partition_of(lane.as_bytes(), self.partitions)
    }
}

fn count(error: &ApiError) {
    let (ApiError::InvalidMany(_, errors) | ApiError::NotFoundMany(_, errors)) = error else {
        return;
    };
    for code in errors.iter().filter_map(|error| error["id"].as_str()) {
        metrics::counter!("longshore_catalog_refused_total", "code" => code.to_owned())
            .increment(1);
    }
}
