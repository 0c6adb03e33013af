//! `longshore console users` and `console reset-identity`: dashboard users and their sign-ins.

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::app::App;
use crate::cli::ids::dashboard_user_id;
use crate::cli::table::{Cell, text, time_or_never};
use crate::cli::{CommandResult, PageArguments, audit, retry};
use crate::config::Config;
use crate::scim::sign_in::{self, DashboardUser};
use console_frame::permissions::PermissionTable;
use console_frame::rights::Rights;
use kit::clock::serialize_optional_time;

/// A dashboard user with the rights that the permissions grant.
#[derive(Serialize)]
struct ListedUser {
    id: Uuid,
    user_name: String,
    name: Option<String>,
    active: bool,
    rights: Rights,
    #[serde(serialize_with = "serialize_optional_time")]
    last_sign_in_at: Option<i64>,
}

pub async fn list(config: Config, page: PageArguments) -> CommandResult {
    let after = page.after(dashboard_user_id)?;
    let app = crate::cli::open(config).await?;
    let table = PermissionTable::from_config(&app.config);
    let mut tx = app.store.snapshot().await?;
    let found = sign_in::list(&mut tx, after, page.rows_to_read().into()).await?;
    let workspaces = crate::workspaces::ids(&mut tx).await?;
    tx.commit().await?;
    let listed = |user: DashboardUser| ListedUser {
        rights: table.rights(&user.permissions, &workspaces),
        id: user.id,
        user_name: user.user_name,
        name: user.display_name,
        active: user.is_active,
        last_sign_in_at: user.last_sign_in_at,
    };
    let users: Vec<ListedUser> = found.into_iter().map(listed).collect();
    let headers = ["ID", "USER", "NAME", "ACTIVE", "LAST SIGN-IN"];
    page.print_page("dashboard users", headers, &users, |user| user.id.to_string(), row)
}

fn row(user: &ListedUser) -> [Cell; 5] {
    [
        text(user.id),
        text(&user.user_name),
        text(user.name.as_deref().unwrap_or_default()),
        text(if user.active { "yes" } else { "no" }),
        time_or_never(user.last_sign_in_at),
    ]
}

/// Removes the identity of a user at the provider, and ends the user's sessions: the next sign-in
/// binds another identity.
pub async fn reset_identity(app: &App, user_name: &str, as_json: bool) -> CommandResult {
    let removed = retry::while_busy(async || remove_identities(app, user_name).await).await?;
    if as_json {
        println!("{}", json!({"removed": removed}));
    } else {
        let accounts = if removed == 1 { "account" } else { "accounts" };
        println!("removed {removed} {accounts}, and ended the sessions of {user_name}");
        println!("the next sign-in of {user_name} stores its own account");
    }
    Ok(())
}

async fn remove_identities(app: &App, user_name: &str) -> CommandResult<u64> {
    let mut tx = app.store.write().await?;
    let user = sign_in::by_name_locked(&mut tx, user_name).await?.ok_or_else(|| {
        format!("no dashboard user has the name {user_name:?}: see `longshore console users`")
    })?;
    let removed = sign_in::unbind(&mut tx, user.id).await?;
    let change = ("console.reset_identity", user.user_name);
    audit::record(&mut tx, app, None, change, json!({"identities": removed})).await?;
    tx.commit().await?;
    Ok(removed)
}
