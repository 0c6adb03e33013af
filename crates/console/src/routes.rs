//! Every page and action, with the right that it needs.
//!
//! One table serves three purposes: the router checks it before a handler runs, a page asks it which
//! actions to offer ([`Page::may`]), and `longshore console rights` prints it.

use std::net::IpAddr;
use std::sync::Arc;
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
use crate::layout::{self, Content, HX_REQUEST, RequestInfo};
use crate::page::{Page, Viewer};
use crate::pages::{
    audit_log, catalogs, dashboard_users, dead_letters, deliveries, developer, export,
    export_request, exports, history, keys, oidc, overview, people, products, schedules, segments,
    sends, sign_in, sms_numbers, system, users,
};
use crate::rights::Right;
use crate::session;
use gateway::workspaces::{self, Workspace};
use gateway::{ApiError, COMPANY};
use runtime::fairness::{Holder, SLOT_BYTES};
use store::Tx;

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: the pages with which one signs in.
    Nothing,
    /// A session, whatever its rights.
    Session,
    /// The right, in the workspace of the path; without one in the path, in the whole installation.
    Right(Right),
    /// Two rights there.
    Both(Right, Right),
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
    use Needs::{Both, Nothing, Right as Needed, Session};
    Routes { router: Router::new(), actions: Vec::new() }
        .route(Method::GET, "/sign-in", Nothing, get(sign_in::show))
        .route(Method::POST, "/sign-in", Nothing, post(sign_in::sign_in))
        .route(Method::GET, "/sign-in/oidc", Nothing, get(oidc::begin))
        .route(Method::GET, "/sign-in/oidc/callback", Nothing, get(oidc::callback))
        .route(Method::POST, "/sign-out", Session, post(sign_in::sign_out))
        .route(Method::POST, "/preferences", Session, post(sign_in::set_preferences))
        .route(Method::GET, "/", Session, get(overview::show))
        .route(Method::GET, "/overview/live", Session, get(overview::live))
        .route(Method::GET, "/people/sessions", Session, get(people::sessions))
        .route(Method::POST, "/people/sessions/{id}/end", Session, post(people::end_session))
        .route(
            Method::GET,
            "/people/users",
            Needed(Right::SessionsManage),
            get(dashboard_users::list),
        )
        .route(Method::GET, "/audit", Needed(Right::AuditView), get(audit_log::show))
        .route(Method::GET, "/system", Needed(Right::SystemView), get(system::show))
        .route(Method::GET, "/history", Needed(Right::SystemView), get(history::show))
        .route(Method::GET, "/w/{workspace}/history", Session, get(history::show))
        .route(Method::GET, "/dead-letters", Needed(Right::SystemView), get(dead_letters::list))
        .route(
            Method::GET,
            "/dead-letters/{id}",
            Needed(Right::SystemView),
            get(dead_letters::show),
        )
        .route(
            Method::GET,
            "/dead-letters/{id}/payload",
            Needed(Right::UsersView),
            get(dead_letters::payload),
        )
        .route(
            Method::POST,
            "/dead-letters/{id}/retry",
            Needed(Right::DeadLettersManage),
            post(dead_letters::retry),
        )
        .route(
            Method::POST,
            "/dead-letters/{id}/discard",
            Needed(Right::DeadLettersManage),
            post(dead_letters::discard),
        )
        .route(
            Method::GET,
            "/w/{workspace}/dead-letters",
            Needed(Right::SystemView),
            get(dead_letters::list),
        )
        .route(
            Method::GET,
            "/w/{workspace}/dead-letters/{id}",
            Needed(Right::SystemView),
            get(dead_letters::show),
        )
        .route(
            Method::GET,
            "/w/{workspace}/dead-letters/{id}/payload",
            Needed(Right::UsersView),
            get(dead_letters::payload),
        )
        .route(
            Method::POST,
            "/w/{workspace}/dead-letters/{id}/retry",
            Needed(Right::DeadLettersManage),
            post(dead_letters::retry),
        )
        .route(
            Method::POST,
            "/w/{workspace}/dead-letters/{id}/discard",
            Needed(Right::DeadLettersManage),
            post(dead_letters::discard),
        )
        .route(
            Method::GET,
            "/w/{workspace}/deliveries",
            Needed(Right::MessagesView),
            get(deliveries::list),
        )
        .route(
            Method::GET,
            "/w/{workspace}/deliveries/{id}",
            Needed(Right::MessagesView),
            get(deliveries::show),
        )
        .route(
            Method::GET,
            "/w/{workspace}/deliveries/{id}/body",
            Needed(Right::UsersView),
            get(deliveries::body),
        )
        .route(
            Method::POST,
            "/w/{workspace}/deliveries/{id}/resend",
            Needed(Right::DeliveriesResend),
            post(deliveries::resend),
        )
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
        .route(
            Method::GET,
            "/w/{workspace}/catalogs",
            Needed(Right::CatalogsView),
            get(catalogs::list),
        )
        .route(
            Method::GET,
            "/w/{workspace}/catalogs/{catalog}",
            Needed(Right::CatalogsView),
            get(catalogs::catalog::show),
        )
        .route(
            Method::GET,
            "/w/{workspace}/catalogs/{catalog}/{item}",
            Needed(Right::CatalogsView),
            get(catalogs::item::show),
        )
        .route(
            Method::GET,
            "/w/{workspace}/products",
            Needed(Right::CatalogsView),
            get(products::list),
        )
        .route(
            Method::GET,
            "/w/{workspace}/sms-numbers",
            Needed(Right::UsersView),
            get(sms_numbers::show),
        )
        .route(
            Method::POST,
            "/w/{workspace}/sms-numbers",
            Needed(Right::UsersView),
            post(sms_numbers::find),
        )
        .route(
            Method::GET,
            "/w/{workspace}/developer",
            Needed(Right::MessagesView),
            get(developer::list),
        )
        .route(Method::GET, "/w/{workspace}/keys", Needed(Right::KeysManage), get(keys::list))
        .route(
            Method::GET,
            "/w/{workspace}/keys/new",
            Needed(Right::KeysManage),
            get(keys::create::show),
        )
        .route(
            Method::POST,
            "/w/{workspace}/keys/new",
            Needed(Right::KeysManage),
            post(keys::create::submit),
        )
        .route(
            Method::GET,
            "/w/{workspace}/keys/{id}",
            Needed(Right::KeysManage),
            get(keys::key::show),
        )
        .route(
            Method::GET,
            "/w/{workspace}/keys/{id}/revoke",
            Needed(Right::KeysManage),
            get(keys::key::ask),
        )
        .route(
            Method::POST,
            "/w/{workspace}/keys/{id}/revoke",
            Needed(Right::KeysManage),
            post(keys::key::revoke),
        )
        .route(
            Method::GET,
            "/w/{workspace}/schedules",
            Needed(Right::MessagesView),
            get(schedules::list),
        )
        .route(
            Method::GET,
            "/w/{workspace}/schedules/{id}",
            Needed(Right::MessagesView),
            get(schedules::schedule::show),
        )
        .route(
            Method::POST,
            "/w/{workspace}/schedules/{id}/cancel",
            Needed(Right::MessagesCancel),
            post(schedules::schedule::cancel),
        )
        .route(
            Method::GET,
            "/w/{workspace}/segments",
            Needed(Right::SegmentsView),
            get(segments::list),
        )
        .route(
            Method::GET,
            "/w/{workspace}/segments/{id}",
            Needed(Right::SegmentsView),
            get(segments::segment::show),
        )
        .route(
            Method::GET,
            "/w/{workspace}/segments/{id}/sample",
            Both(Right::SegmentsView, Right::UsersView),
            get(segments::sample::show),
        )
        .route(Method::GET, "/w/{workspace}/sends", Needed(Right::MessagesView), get(sends::list))
        .route(
            Method::GET,
            "/w/{workspace}/sends/{dispatch_id}",
            Needed(Right::MessagesView),
            get(sends::send::show),
        )
        .route(
            Method::POST,
            "/w/{workspace}/sends/{dispatch_id}/cancel",
            Needed(Right::MessagesCancel),
            post(sends::send::cancel),
        )
        .route(
            Method::GET,
            "/w/{workspace}/sends/{dispatch_id}/recipients",
            Both(Right::MessagesView, Right::UsersView),
            get(sends::recipients::list),
        )
        .route(
            Method::GET,
            "/w/{workspace}/preview",
            Both(Right::MessagesView, Right::UsersView),
            get(sends::preview::show),
        )
        .route(
            Method::POST,
            "/w/{workspace}/preview",
            Both(Right::MessagesView, Right::UsersView),
            post(sends::preview::submit),
        )
        .route(Method::GET, "/w/{workspace}/users", Needed(Right::UsersView), get(users::show))
        .route(Method::POST, "/w/{workspace}/users", Needed(Right::UsersView), post(users::find))
        .route(
            Method::GET,
            "/w/{workspace}/users/{id}",
            Needed(Right::UsersView),
            get(users::record::show),
        )
        .route(
            Method::GET,
            "/w/{workspace}/users/{id}/messages",
            Needed(Right::UsersView),
            get(users::messages::show),
        )
        .route(
            Method::GET,
            "/w/{workspace}/users/{id}/erase",
            Needed(Right::UsersErase),
            get(users::erase::show),
        )
        .route(
            Method::POST,
            "/w/{workspace}/users/{id}/erase",
            Needed(Right::UsersErase),
            post(users::erase::submit),
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

/// Fills the response of a page with its content, in the frame.
async fn add_frame(
    page: &Page,
    content: &Content,
    response: Response,
) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let workspaces = page.visible_workspaces(&mut tx).await?;
    tx.commit().await?;
    let (mut head, _) = response.into_parts();
    let (framed, body) = layout::page(page, &workspaces, content).into_response().into_parts();
    head.headers.extend(framed.headers);
    Ok(Response::from_parts(head, body))
}

/// Adds the [`Page`], if somebody is signed in, and the [`Form`] of a POST to the extensions.
async fn admit(app: &App, needs: Needs, head: &mut Parts, body: Body) -> Result<Body, PageError> {
    let page = match needs {
        Needs::Nothing => None,
        Needs::Session => Some(signed_in(app, head, &[]).await?),
        Needs::Right(right) => Some(signed_in(app, head, &[right]).await?),
        Needs::Both(first, second) => Some(signed_in(app, head, &[first, second]).await?),
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

/// The page of the person who is signed in, in the workspace of the path, if the person has these
/// rights there.
async fn signed_in(app: &App, head: &mut Parts, rights: &[Right]) -> Result<Page, PageError> {
    let secret = session::secret(app, head).ok_or(PageError::SignedOut)?;
    let mut tx = app.request_queue.snapshot().await?;
    let viewer = session::find(app, &mut tx, head, secret).await?.ok_or(PageError::SignedOut)?;
    // Not where a stream checks its session: then its connection could not be closed for another one.
    gateway::mark_authenticated(&head.extensions, COMPANY);
    // PostgreSQL stores no such text, and would report an error.
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
    let page = Page::new(app.clone(), viewer, workspace, head.uri.clone(), is_update);
    match rights.iter().find(|right| !page.may(**right)) {
        Some(missing) => Err(PageError::Forbidden(missing.name())),
        None => Ok(page),
    }
}

/// Whether an open page asks for its update: that is no use of the session, which would otherwise
/// never end while a page is open.
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
