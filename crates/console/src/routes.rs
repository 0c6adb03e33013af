//! Every page and action, with the right that it needs.
//!
//! One table serves three purposes: the router checks it before a handler runs, a page asks it which
//! actions to offer ([`Page::may`]), and `longshore console rights` prints it.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::RequestPartsExt as _;
use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;

use crate::app::App;
use crate::error::PageError;
use crate::form::{self, Form, MAX_FORM_BYTES, MAX_SIGN_IN_BYTES, TOKEN_FIELD};
use crate::layout::{self, RequestInfo};
use crate::page::{Page, Viewer, VisibleWorkspace};
use crate::pages::{audit_log, export, export_request, exports, overview, people, sign_in};
use crate::rights::Right;
use crate::session;
use gateway::workspaces::{self, Workspace};
use gateway::{ApiError, COMPANY};
use runtime::fairness::{Holder, SLOT_BYTES, SharedMemory};
use store::{StoreError, Tx};

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: the pages with which one signs in.
    Nothing,
    /// A session, whatever its rights.
    Session,
    /// The right, in the workspace of the path; without one in the path, in the whole installation.
    Right(Right),
}

/// A page, or an action of one.
#[derive(Clone, Debug)]
pub struct Action {
    pub method: Method,
    /// The path below the console's base path.
    pub path: &'static str,
    pub needs: Needs,
}

/// The routes of the console, and the list of them.
pub struct Routes {
    router: Router<App>,
    actions: Vec<Action>,
}

/// All routes.
pub fn all() -> Routes {
    use Needs::{Nothing, Right as Needed, Session};
    Routes { router: Router::new(), actions: Vec::new() }
        .route(Method::GET, "/sign-in", Nothing, get(sign_in::show))
        .route(Method::POST, "/sign-in", Nothing, post(sign_in::sign_in))
        .route(Method::POST, "/sign-out", Session, post(sign_in::sign_out))
        .route(Method::POST, "/preferences", Session, post(sign_in::set_preferences))
        .route(Method::GET, "/", Session, get(overview::show))
        .route(Method::GET, "/overview/live", Session, get(overview::live))
        .route(Method::GET, "/people/sessions", Session, get(people::sessions))
        .route(Method::POST, "/people/sessions/{id}/end", Session, post(people::end_session))
        .route(Method::GET, "/audit", Needed(Right::AuditView), get(audit_log::show))
        .route(
            Method::GET,
            "/w/{workspace}/exports",
            Needed(Right::ExportsView),
            get(exports::list),
        )
        .route(
            Method::GET,
            "/w/{workspace}/exports/new",
            Needed(Right::ExportsRun),
            get(export_request::show),
        )
        .route(
            Method::POST,
            "/w/{workspace}/exports/new",
            Needed(Right::ExportsRun),
            post(export_request::submit),
        )
        .route(
            Method::GET,
            "/w/{workspace}/exports/{object_prefix}",
            Needed(Right::ExportsView),
            get(export::show),
        )
        .route(
            Method::GET,
            "/w/{workspace}/exports/{object_prefix}/live",
            Needed(Right::ExportsView),
            get(export::live),
        )
        .route(
            Method::POST,
            "/w/{workspace}/exports/{object_prefix}/cancel",
            Needed(Right::ExportsRun),
            post(export::cancel),
        )
        .route(
            Method::POST,
            "/w/{workspace}/exports/{object_prefix}/repeat",
            Needed(Right::ExportsRun),
            post(export::repeat),
        )
        .route(
            Method::GET,
            "/w/{workspace}/exports/{object_prefix}/download",
            Needed(Right::ExportsDownload),
            get(export::download),
        )
}

impl Routes {
    fn route(
        mut self,
        method: Method,
        path: &'static str,
        needs: Needs,
        handler: MethodRouter<App>,
    ) -> Self {
        let guarded = handler.route_layer(middleware::from_fn(
            move |request: Request, next: Next| async move { guard(needs, request, next).await },
        ));
        self.router = self.router.route(path, guarded);
        self.actions.push(Action { method, path, needs });
        self
    }

    /// Every page and action.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// The router, without what [`serve`](crate::serve) adds to each response.
    pub fn router(self) -> Router<App> {
        self.router
    }
}

/// Runs a handler if its request may: the session, the workspace, the right, and for a form where it
/// comes from, in this order.
async fn guard(needs: Needs, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let Some(app) = head.extensions.get::<App>().cloned() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let info = RequestInfo::new(&head);
    let admitted = admit(&app, needs, &mut head, body).await;
    let page = head.extensions.get::<Page>().cloned();
    let response = match admitted {
        Ok(body) => next.run(Request::from_parts(head, body)).await,
        Err(error) => error.into_response(),
    };
    match response.extensions().get::<Arc<PageError>>() {
        Some(error) => layout::error_page(&app, page.as_ref(), &info, error),
        None => response,
    }
}

/// Adds the [`Page`], if somebody is signed in, and the [`Form`] of a POST to the extensions.
async fn admit(app: &App, needs: Needs, head: &mut Parts, body: Body) -> Result<Body, PageError> {
    let page = match needs {
        Needs::Nothing => None,
        Needs::Session => Some(signed_in(app, head, None).await?),
        Needs::Right(right) => Some(signed_in(app, head, Some(right)).await?),
    };
    if let Some(page) = &page {
        head.extensions.insert(page.clone());
    }
    if head.method != Method::POST {
        return Ok(body);
    }
    if !form::is_same_origin(&head.headers, &app.config.console_url()) {
        return Err(PageError::ForeignForm);
    }
    let network = gateway::sender_network(app, &head.extensions, &head.headers);
    let bytes = read_form(body, network, page.is_some()).await?;
    let form = Form::parse(&bytes);
    if form.has_nul() {
        return Err(PageError::Invalid("The form has the character NUL".into()));
    }
    let is_of_session = |page: &Page| page.viewer.is_form_token(form.value(TOKEN_FIELD));
    if page.as_ref().is_some_and(|page| !is_of_session(page)) {
        return Err(PageError::ForeignForm);
    }
    head.extensions.insert(form);
    Ok(Body::empty())
}

/// Forms that are read at the same time, of people who are signed in, and of everybody else. A network
/// gets at most as many as it leaves free: whoever sends forms slowly leaves most of the requests in
/// progress to others.
const FORMS_AT_ONCE: usize = 16;
static FORMS: LazyLock<SharedMemory> = LazyLock::new(slots_for_forms);
static SIGN_IN_FORMS: LazyLock<SharedMemory> = LazyLock::new(slots_for_forms);

/// Time limit for a form to arrive.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);

fn slots_for_forms() -> SharedMemory {
    SharedMemory::halves(FORMS_AT_ONCE * SLOT_BYTES)
}

/// The body of a form that comes from `network`.
async fn read_form(body: Body, network: IpAddr, is_signed_in: bool) -> Result<Bytes, PageError> {
    let (forms, max_bytes) =
        if is_signed_in { (&FORMS, MAX_FORM_BYTES) } else { (&SIGN_IN_FORMS, MAX_SIGN_IN_BYTES) };
    let slot = forms.try_reserve(Holder::Source(network), SLOT_BYTES);
    let _slot = slot.ok_or(ApiError::Overloaded)?;
    let read = timeout(FORM_TIMEOUT, Limited::new(body, max_bytes).collect()).await;
    let read = read.map_err(|_| ApiError::TooSlow)?;
    Ok(read.map_err(|_| PageError::Invalid("The form is too large".into()))?.to_bytes())
}

/// Whether an address has the character NUL, encoded.
fn has_nul(uri: &Uri) -> bool {
    uri.path_and_query().is_some_and(|address| address.as_str().contains("%00"))
}

/// The page of the person who is signed in, in the workspace of the path, if the person has `right`
/// there.
async fn signed_in(app: &App, head: &mut Parts, right: Option<Right>) -> Result<Page, PageError> {
    let viewer = session::viewer(app, head).await?.ok_or(PageError::SignedOut)?;
    // Not where a stream checks its session: then its connection could not be closed for another one.
    gateway::mark_authenticated(&head.extensions, COMPANY);
    // PostgreSQL stores no such text, and would report an error.
    if has_nul(&head.uri) {
        return Err(PageError::NotFound);
    }
    let params = head.extract::<RawPathParams>().await.map_err(|_| PageError::NotFound)?;
    let name =
        params.iter().find(|(key, _)| *key == "workspace").map(|(_, value)| value.to_owned());
    let mut tx = app.request_queue.snapshot().await?;
    let workspace = match name {
        Some(name) => Some(find_workspace(&mut tx, &viewer, &name).await?),
        None => None,
    };
    let visible = visible_workspaces(&mut tx, &viewer).await?;
    tx.commit().await?;
    let page = Page::new(app.clone(), viewer, workspace, visible, head.uri.clone());
    match right {
        Some(right) if !page.may(right) => Err(PageError::Forbidden(right.name())),
        _ => Ok(page),
    }
}

/// The workspace with that name, if the person sees it.
async fn find_workspace(
    tx: &mut Tx,
    viewer: &Viewer,
    name: &str,
) -> Result<Arc<Workspace>, PageError> {
    workspaces::by_name(tx, name)
        .await?
        .filter(|workspace| viewer.rights.sees(workspace.id))
        .map(Arc::new)
        .ok_or(PageError::NotFound)
}

/// The workspaces that the person sees, by name.
async fn visible_workspaces(
    tx: &mut Tx,
    viewer: &Viewer,
) -> Result<Vec<VisibleWorkspace>, StoreError> {
    let ids = workspaces::ids(tx).await?.into_iter();
    let mut visible: Vec<VisibleWorkspace> = ids
        .filter(|(_, id)| viewer.rights.sees(*id))
        .map(|(name, id)| VisibleWorkspace { id, name })
        .collect();
    visible.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(visible)
}
