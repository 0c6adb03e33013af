//! The state of the installation: its processes, its log, work in progress, and where its data is
//! (docs/how-to/console-pages.md). It is updated while it is shown.

mod view;

use std::sync::Arc;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::history;
use crate::app::App;
use crate::fleet::Fleet;
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::lists::first_rows;
use console_frame::page::VisibleWorkspace;
use console_frame::page::update;
use console_frame::shared::Shared;
use runtime::backups;
use runtime::processes::{self, Process};
use runtime::work_rows::{self, Lease};
use store::{StoreError, claims};

/// Leases on the page.
const LEASES: usize = 100;

/// What all open pages show, without the [`Fleet`].
struct System {
    /// Milliseconds since the epoch, by the database's clock.
    now: i64,
    processes: Vec<Process>,
    leases: Vec<Lease>,
    /// Whether there are more leases.
    has_more: bool,
    last_backup: Option<i64>,
}

/// Reads the state once for all pages.
pub struct SystemReads(Shared<(), System>);

impl Default for SystemReads {
    fn default() -> Self {
        Self(Shared::new("processes and leases", 1))
    }
}

/// What an address selects.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct View {
    /// Whether partitions of the log that are up to date are listed; any value.
    all: Option<u8>,
}

/// Everything on the page.
struct Shown {
    view: View,
    system: Arc<System>,
    fleet: Arc<Fleet>,
    /// Conditions of this process.
    warnings: Vec<String>,
    workspaces: Vec<VisibleWorkspace>,
}

/// `GET /system`: the page, or the part of it that changes.
pub async fn show(
    page: Page,
    view: Result<Query<View>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let Query(view) = view.map_err(|error| PageError::Invalid(error.body_text()))?;
    let app = page.app.clone();
    let system = page.app.system.0.get_for(&page, (), read(app)).await?;
    let fleet = page.app.fleet.current(&page.app).await?;
    let workspaces = page.visible_workspaces().await?;
    let warnings = page.app.health_warnings.all();
    let shown = Shown { view, system, fleet, warnings, workspaces };
    if page.is_update {
        return Ok(update(&headers, view::live(&page, &shown)));
    }
    let past = history::lag_panel(&page).await?;
    Ok(page.html("System", view::content(&page, &shown, &past)))
}

async fn read(app: App) -> Result<System, StoreError> {
    let mut tx = app.request_queue.snapshot().await?;
    let now = claims::now(&mut tx).await?;
    let processes = processes::list(&mut tx).await?;
    let leases = work_rows::leases(&mut tx, LEASES as i64 + 1).await?;
    let last_backup = backups::last(&mut tx).await?;
    tx.commit().await?;
    let (leases, has_more) = first_rows(leases, LEASES);
    Ok(System { now, processes, leases, has_more, last_backup })
}
