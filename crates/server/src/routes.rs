//! Every route of the API.

use axum::Router;
use content::{campaigns, catalogs, sms};
use gateway::Routes;
use sending::{inbound, schedules, transactional, user_messages};

use crate::app::App;
use crate::dead_letters;

/// Every route of the API. Without an app they can be described, but not served.
pub fn routes(app: Option<&App>) -> Routes {
    let gateway = app.map(|app| &app.gateway);
    let exports = app.map(|app| &app.exports);
    let content = app.map(|app| &app.content);
    let messages = app.map(|app| &app.messages);
    let sending = app.map(|app| &app.sending);
    let scim = app.map(|app| &app.scim);
    Routes::new()
        .merge(tracking::api::routes().with_app(messages))
        .merge(exports::api::request_routes().with_app(exports))
        .merge(exports::api::routes().with_app(gateway))
        .merge(exports::events::routes().with_app(exports))
        .merge(exports::segments::routes().with_app(exports))
        .merge(catalogs::api::routes().with_app(content))
        .merge(schedules::api::routes().with_app(sending))
        .merge(campaigns::api::routes().with_app(content))
        .merge(transactional::api::routes().with_app(sending))
        .merge(dispatches::orders::routes().with_app(messages))
        .merge(dispatches::preview::routes().with_app(messages))
        .merge(dispatches::api::routes().with_app(messages))
        .merge(sms::api::routes().with_app(content))
        .merge(inbound::api::routes().with_app(sending))
        .merge(user_messages::routes().with_app(sending))
        .merge(deliveries::api::routes().with_app(gateway))
        .merge(dead_letters::api::routes().with_app(app))
        .merge(scim::api::routes().with_extension(scim).with_app(scim))
}

/// [`routes`], and those that serve their description.
pub fn documented_routes(app: &App) -> Router {
    let openapi_30 = include_str!("../../../docs/reference/openapi-3.0.json");
    routes(Some(app)).documented(&app.gateway, openapi_30)
}
