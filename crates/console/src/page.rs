//! A request for a page of the domains.

use std::ops::Deref;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::app::App;
use console_frame::PageError;
use kit::compute::NO_WORKSPACE;

/// A request for a page, with the app. It derefs to the [`console_frame::page::Page`].
#[derive(Clone)]
pub struct Page {
    pub app: App,
    frame: console_frame::page::Page,
}

impl Deref for Page {
    type Target = console_frame::page::Page;

    fn deref(&self) -> &console_frame::page::Page {
        &self.frame
    }
}

impl Page {
    /// Runs work on a compute thread of the page's workspace.
    pub fn compute<T>(&self, work: impl FnOnce() -> T) -> T {
        let workspace = self.workspace_if_any().map_or(NO_WORKSPACE, |workspace| workspace.id);
        self.app.cores.compute_here(workspace, work)
    }
}

impl FromRequestParts<App> for Page {
    type Rejection = PageError;

    async fn from_request_parts(head: &mut Parts, app: &App) -> Result<Self, PageError> {
        let frame = console_frame::page::Page::from_request_parts(head, app).await?;
        Ok(Self { app: app.clone(), frame })
    }
}
