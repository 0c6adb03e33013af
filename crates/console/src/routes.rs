//! Every page and action, with the rights that it needs (docs/reference/console-rights.md).

use crate::app::App;
use crate::pages::{
    catalogs, dead_letters, deliveries, developer, export, export_request, exports, history, keys,
    overview, products, schedules, segments, sends, sms_numbers, system, users,
};
use console_frame::pages::{audit_log, dashboard_users, oidc, people, sign_in};
use console_frame::rights::Right;
use console_frame::routes::{Needs, Routes};

/// All routes.
pub fn all() -> Routes<App> {
    use Needs::{Nothing, Rights, Session};
    use Right::{
        AuditView, CatalogsView, DeadLettersManage, DeliveriesResend, ExportsDownload, ExportsRun,
        ExportsView, KeysManage, MessagesCancel, MessagesSend, MessagesView, SegmentsView,
        SessionsManage, SystemView, UsersErase, UsersView,
    };
    Routes::default()
        .get("/sign-in", Nothing, sign_in::show)
        .post("/sign-in", Nothing, sign_in::sign_in)
        .get("/sign-in/oidc", Nothing, oidc::begin)
        .get("/sign-in/oidc/callback", Nothing, oidc::callback)
        .post("/sign-out", Session, sign_in::sign_out)
        .post("/preferences", Session, sign_in::set_preferences)
        .get("/", Session, overview::show)
        .get("/overview/live", Session, overview::live)
        .get("/people/sessions", Session, people::sessions)
        .post("/people/sessions/{id}/end", Session, people::end_session)
        .get("/people/users", Rights(&[SessionsManage]), dashboard_users::list)
        .get("/audit", Rights(&[AuditView]), audit_log::show)
        .get("/system", Rights(&[SystemView]), system::show)
        .get("/history", Rights(&[SystemView]), history::show)
        .get("/w/{workspace}/history", Session, history::show)
        .get("/dead-letters", Rights(&[SystemView]), dead_letters::list)
        .get("/dead-letters/{id}", Rights(&[SystemView]), dead_letters::show)
        .get("/dead-letters/{id}/payload", Rights(&[UsersView]), dead_letters::payload)
        .post("/dead-letters/{id}/retry", Rights(&[DeadLettersManage]), dead_letters::retry)
        .post("/dead-letters/{id}/discard", Rights(&[DeadLettersManage]), dead_letters::discard)
        .get("/w/{workspace}/dead-letters", Rights(&[SystemView]), dead_letters::list)
        .get("/w/{workspace}/dead-letters/{id}", Rights(&[SystemView]), dead_letters::show)
        .get(
            "/w/{workspace}/dead-letters/{id}/payload",
            Rights(&[UsersView]),
            dead_letters::payload,
        )
        .post(
            "/w/{workspace}/dead-letters/{id}/retry",
            Rights(&[DeadLettersManage]),
            dead_letters::retry,
        )
        .post(
            "/w/{workspace}/dead-letters/{id}/discard",
            Rights(&[DeadLettersManage]),
            dead_letters::discard,
        )
        .get("/w/{workspace}/deliveries", Rights(&[MessagesView]), deliveries::list)
        .get("/w/{workspace}/deliveries/{id}", Rights(&[MessagesView]), deliveries::show)
        .get("/w/{workspace}/deliveries/{id}/body", Rights(&[UsersView]), deliveries::body)
        .post(
            "/w/{workspace}/deliveries/{id}/resend",
            Rights(&[DeliveriesResend]),
            deliveries::resend,
        )
        .get("/w/{workspace}/exports", Rights(&[ExportsView]), exports::list)
        .get("/w/{workspace}/exports/new", Rights(&[ExportsRun]), export_request::show)
        .post("/w/{workspace}/exports/new", Rights(&[ExportsRun]), export_request::submit)
        .get("/w/{workspace}/exports/{object_prefix}", Rights(&[ExportsView]), export::show)
        .get("/w/{workspace}/exports/{object_prefix}/live", Rights(&[ExportsView]), export::live)
        .post(
            "/w/{workspace}/exports/{object_prefix}/cancel",
            Rights(&[ExportsRun]),
            export::cancel,
        )
        .post(
            "/w/{workspace}/exports/{object_prefix}/repeat",
            Rights(&[ExportsRun]),
            export::repeat,
        )
        .get(
            "/w/{workspace}/exports/{object_prefix}/download",
            Rights(&[ExportsDownload]),
            export::download,
        )
        .get("/w/{workspace}/catalogs", Rights(&[CatalogsView]), catalogs::list)
        .get("/w/{workspace}/catalogs/{catalog}", Rights(&[CatalogsView]), catalogs::catalog::show)
        .get(
            "/w/{workspace}/catalogs/{catalog}/{item}",
            Rights(&[CatalogsView]),
            catalogs::item::show,
        )
        .get("/w/{workspace}/products", Rights(&[CatalogsView]), products::list)
        .get("/w/{workspace}/sms-numbers", Rights(&[UsersView]), sms_numbers::show)
        .post("/w/{workspace}/sms-numbers", Rights(&[UsersView]), sms_numbers::find)
        .get("/w/{workspace}/developer", Rights(&[MessagesView]), developer::list)
        .get("/w/{workspace}/keys", Rights(&[KeysManage]), keys::list)
        .get("/w/{workspace}/keys/new", Rights(&[KeysManage]), keys::create::show)
        .post("/w/{workspace}/keys/new", Rights(&[KeysManage]), keys::create::submit)
        .get("/w/{workspace}/keys/{id}", Rights(&[KeysManage]), keys::key::show)
        .get("/w/{workspace}/keys/{id}/revoke", Rights(&[KeysManage]), keys::key::ask)
        .post("/w/{workspace}/keys/{id}/revoke", Rights(&[KeysManage]), keys::key::revoke)
        .get("/w/{workspace}/schedules", Rights(&[MessagesView]), schedules::list)
        .get("/w/{workspace}/schedules/{id}", Rights(&[MessagesView]), schedules::schedule::show)
        .post(
            "/w/{workspace}/schedules/{id}/cancel",
            Rights(&[MessagesCancel]),
            schedules::schedule::cancel,
        )
        .get("/w/{workspace}/segments", Rights(&[SegmentsView]), segments::list)
        .get("/w/{workspace}/segments/{id}", Rights(&[SegmentsView]), segments::segment::show)
        .get(
            "/w/{workspace}/segments/{id}/sample",
            Rights(&[SegmentsView, UsersView]),
            segments::sample::show,
        )
        .get("/w/{workspace}/sends", Rights(&[MessagesView]), sends::list)
        .get(
            "/w/{workspace}/sends/new",
            Rights(&[MessagesSend, MessagesView, SegmentsView]),
            sends::new::show,
        )
        .post(
            "/w/{workspace}/sends/new",
            Rights(&[MessagesSend, MessagesView, SegmentsView]),
            sends::new::submit,
        )
        .get("/w/{workspace}/sends/{dispatch_id}", Rights(&[MessagesView]), sends::send::show)
        .post(
            "/w/{workspace}/sends/{dispatch_id}/cancel",
            Rights(&[MessagesCancel]),
            sends::send::cancel,
        )
        .get(
            "/w/{workspace}/sends/{dispatch_id}/recipients",
            Rights(&[MessagesView, UsersView]),
            sends::recipients::list,
        )
        .get("/w/{workspace}/preview", Rights(&[MessagesView, UsersView]), sends::preview::show)
        .post("/w/{workspace}/preview", Rights(&[MessagesView, UsersView]), sends::preview::submit)
        .get("/w/{workspace}/users", Rights(&[UsersView]), users::show)
        .post("/w/{workspace}/users", Rights(&[UsersView]), users::find)
        .get("/w/{workspace}/users/{id}", Rights(&[UsersView]), users::record::show)
        .get("/w/{workspace}/users/{id}/messages", Rights(&[UsersView]), users::messages::show)
        .get("/w/{workspace}/users/{id}/erase", Rights(&[UsersErase]), users::erase::show)
        .post("/w/{workspace}/users/{id}/erase", Rights(&[UsersErase]), users::erase::submit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use console_frame::assets;
    use runtime::config::console::Console;

    #[test]
    fn no_base_path_begins_like_a_route() {
        let routes = all();
        let paths = routes.actions().iter().map(|action| action.path).chain([assets::ROUTE]);
        for path in paths {
            let first = path.split('/').nth(1).unwrap_or_default();
            let is_own = first.is_empty() || Console::OWN_SEGMENTS.contains(&first);
            assert!(is_own, "{path}: add it to Console::OWN_SEGMENTS");
        }
    }
}
