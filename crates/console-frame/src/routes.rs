//! Tables of routes, with what each route needs.
//!
//! One table serves three purposes: the router checks it before a handler runs, a page asks it
//! which actions to offer ([`Page::may`]), and `longshore console rights` prints it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::RequestPartsExt as _;
use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, RawPathParams, Request};
use axum::handler::Handler;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::app::App;
use crate::error::PageError;
use crate::form::{self, Form, MAX_FORM_BYTES, MAX_SIGN_IN_BYTES, TOKEN_FIELD};
use crate::layout::{self, Content, HX_REQUEST, RequestInfo};
use crate::page::{Page, Viewer};
use crate::rights::Right;
use crate::session;
use gateway::workspaces::{self, Workspace};
use gateway::{ApiError, COMPANY};
use kit::log_limit::LogLimit;
use runtime::audit::Change;
use runtime::fairness::{Holder, SLOT_BYTES};
use store::Tx;

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: the pages with which one signs in.
    Nothing,
    /// A session, whatever its rights.
    Session,
    /// All of these rights, in the workspace of the path; without one in the path, in the whole
    /// installation.
    Rights(&'static [Right]),
}

/// A page, or an action of one.
#[derive(Clone, Debug)]
pub struct Action {
    pub method: Method,
    /// The path below the console's base path.
    pub path: &'static str,
    pub needs: Needs,
}

/// The routes of the console, and the list of them. Handlers have the state `S`.
pub struct Routes<S> {
    router: Router<S>,
    actions: Vec<Action>,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self { router: Router::new(), actions: Vec::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Adds a page.
    #[must_use]
    pub fn get<T: 'static>(
        self,
        path: &'static str,
        needs: Needs,
        handler: impl Handler<T, S>,
    ) -> Self {
        self.add(Method::GET, path, needs, get(handler))
    }

    /// Adds an action.
    #[must_use]
    pub fn post<T: 'static>(
        self,
        path: &'static str,
        needs: Needs,
        handler: impl Handler<T, S>,
    ) -> Self {
        self.add(Method::POST, path, needs, post(handler))
    }

    fn add(
        mut self,
        method: Method,
        path: &'static str,
        needs: Needs,
        handler: MethodRouter<S>,
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
    pub fn router(self) -> Router<S> {
        self.router
    }
}

/// Runs a handler if its request may: the session, the workspace, the right, and for a form where
/// it comes from, in this order.
async fn guard(needs: Needs, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let Some(app) = head.extensions.get::<App>().cloned() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let info = RequestInfo::new(&head);
    let route = head.extensions.get::<MatchedPath>().cloned();
    let admitted = admit(&app, needs, &mut head, body).await;
    let page = head.extensions.get::<Page>().cloned();
    let mut response = match admitted {
        Ok(body) => next.run(Request::from_parts(head, body)).await,
        Err(error) => error.into_response(),
    };
    // After the work of the request, and not if the database failed.
    if let Some(page) = page.as_ref().filter(|page| !page.is_update)
        && !response.status().is_server_error()
    {
        session::note_use(&app, &page.viewer);
    }
    if let Some(page) = &page
        && let Some(error) = response.extensions().get::<Arc<PageError>>().cloned()
        && let PageError::Forbidden(right) = *error
        && let Some(skipped) = FORBIDDEN.skipped()
    {
        let route = route.as_ref().map_or("", MatchedPath::as_str);
        let details = json!({ "route": format!("{} {route}", info.method), "skipped": skipped });
        record_forbidden(page, right, details).await;
    }
    let content = response.extensions_mut().remove::<Content>();
    if let (Some(page), Some(content)) = (&page, content) {
        response = match add_frame(page, &content, response).await {
            Ok(framed) => framed,
            Err(error) => error.into_response(),
        };
    }
    match response.extensions().get::<Arc<PageError>>() {
        Some(error) => layout::error_page(&app, page.as_ref(), &info, error),
        None => response,
    }
}

/// The entries about missing rights have the limit of log lines: an open page can ask for its
/// updates, and a person can repeat a request.
static FORBIDDEN: LogLimit = LogLimit::new();

/// Records that a person lacked a right. Without the entry, the request is refused in any case.
async fn record_forbidden(page: &Page, right: &'static str, details: Value) {
    let recorded = async {
        let mut tx = page.app.request_queue.write().await?;
        page.record(&mut tx, Change::new("console.refused", right, details)).await?;
        tx.commit().await
    };
    if let Err(error) = recorded.await {
        tracing::warn!(%error, right, "cannot write a refused request into the audit log");
    }
}

/// Fills the response of a page with its content, in the frame.
async fn add_frame(
    page: &Page,
    content: &Content,
    response: Response,
) -> Result<Response, PageError> {
    let workspaces = page.visible_workspaces().await?;
    let (mut head, _) = response.into_parts();
    let (framed, body) = layout::page(page, &workspaces, content).into_response().into_parts();
    head.headers.extend(framed.headers);
    Ok(Response::from_parts(head, body))
}

/// Adds the [`Page`], if somebody is signed in, and the [`Form`] of a POST to the extensions.
async fn admit(app: &App, needs: Needs, head: &mut Parts, body: Body) -> Result<Body, PageError> {
    let page = match needs {
        Needs::Nothing => None,
        Needs::Session | Needs::Rights(_) => Some(signed_in(app, head).await?),
    };
    if let Some(page) = &page {
        head.extensions.insert(page.clone());
        if let Needs::Rights(rights) = needs
            && let Some(missing) = rights.iter().find(|right| !page.may(**right))
        {
            return Err(PageError::Forbidden(missing.name()));
        }
    }
    if head.method != Method::POST {
        return Ok(body);
    }
    if !form::is_same_origin(&head.headers, &app.config.console_url()) {
        return Err(PageError::ForeignForm);
    }
    let network = gateway::sender_network(app, &head.extensions, &head.headers);
    let bytes = read_form(app, body, network, page.is_some()).await?;
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

/// Time limit for a form to arrive.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of a form that comes from `network`.
async fn read_form(
    app: &App,
    body: Body,
    network: IpAddr,
    is_signed_in: bool,
) -> Result<Bytes, PageError> {
    let (slots, max_bytes) = if is_signed_in {
        (&app.forms.signed_in, MAX_FORM_BYTES)
    } else {
        (&app.forms.signing_in, MAX_SIGN_IN_BYTES)
    };
    let slot = slots.try_reserve(Holder::Source(network), SLOT_BYTES);
    let _slot = slot.ok_or(ApiError::Overloaded)?;
    let read = timeout(FORM_TIMEOUT, Limited::new(body, max_bytes).collect()).await;
    let read = read.map_err(|_| ApiError::TooSlow)?;
    Ok(read.map_err(|_| PageError::Invalid("The form is too large".into()))?.to_bytes())
}

/// Whether an address has the character NUL, encoded.
fn has_nul(uri: &Uri) -> bool {
    uri.path_and_query().is_some_and(|address| address.as_str().contains("%00"))
}

/// The page of the person who is signed in, in the workspace of the path.
async fn signed_in(app: &App, head: &mut Parts) -> Result<Page, PageError> {
    let secret = session::secret(app, head).ok_or(PageError::SignedOut)?;
    let mut tx = app.request_queue.snapshot().await?;
    let viewer = session::find(app, &mut tx, head, secret).await?.ok_or(PageError::SignedOut)?;
    // Not where a stream checks its session: then its connection could not be closed for another
    // one.
    gateway::mark_authenticated(&head.extensions, COMPANY);
    // PostgreSQL cannot store a NUL character, and would report an error.
    if has_nul(&head.uri) {
        return Err(PageError::NotFound);
    }
    let params = head.extract::<RawPathParams>().await.map_err(|_| PageError::NotFound)?;
    let name =
        params.iter().find(|(key, _)| *key == "workspace").map(|(_, value)| value.to_owned());
    let workspace = match name {
        Some(name) => Some(find_workspace(&mut tx, &viewer, &name).await?),
        None => None,
    };
    tx.commit().await?;
    let is_update = is_update(head);
    Ok(Page::new(app.clone(), viewer, workspace, head.uri.clone(), is_update))
}

/// Whether an open page asks for its update. An update does not prolong the session, which would
/// otherwise never end while a page is open.
fn is_update(head: &Parts) -> bool {
    let is_htmx = head.headers.contains_key(&HX_REQUEST);
    head.method == Method::GET && (is_htmx || head.uri.path().ends_with("/live"))
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
