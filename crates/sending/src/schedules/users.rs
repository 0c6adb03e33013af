//! The listed users of schedules. A user who is erased is removed from schedules that are not sent
//! yet. Once a schedule has ended, nothing needs its users: all of them are removed.
//!
//! A removed user leaves an identifier that no user has, because a request without users is for
//! everybody.

use std::collections::HashSet;

use uuid::Uuid;

use super::Schedule;
use super::request;
use crate::app::App;
use messages::order::{Order, Who};
use people::users::erased_rows::{self, Name, name_hash};
use people::users::profile::Alias;
use store::documents::parsed;
use store::{StoreError, Tx};

/// The beginning of the identifiers of removed users.
const REMOVED: &str = "removed-";

/// A stored request.
enum Request {
    Messages(Box<Order>),
    Canvas(Box<request::Target>),
}

/// The request of a schedule without the users that it no longer needs, and without their
/// properties; none if that changes nothing, or if the request cannot be read.
pub(super) async fn without_unneeded(
    app: &App,
    tx: &mut Tx,
    schedule: &Schedule,
) -> Result<Option<String>, StoreError> {
    if schedule.ended_at.is_some() {
        return Ok(app.cores.compute_here(schedule.workspace_id, || without_users(schedule)));
    }
    without_erased(app, tx, schedule).await
}

/// The request of a schedule without erased users and their properties; none if that changes
/// nothing, or if the request cannot be read. A user with the same identifier who is listed after
/// the erasure is another one.
pub(super) async fn without_erased(
    app: &App,
    tx: &mut Tx,
    schedule: &Schedule,
) -> Result<Option<String>, StoreError> {
    let read = app.cores.compute_here(schedule.workspace_id, || {
        let request = Request::read(schedule).ok()?;
        let hashes: HashSet<[u8; 32]> = request.users().iter().filter_map(hash).collect();
        Some((request, hashes.into_iter().collect::<Vec<_>>()))
    });
    let Some((mut request, hashes)) = read else { return Ok(None) };
    let erased = erased_rows::find(tx, schedule.workspace_id, &hashes).await?;
    let is_erased = |who: &Who| {
        hash(who).is_some_and(|hash| {
            erased.iter().any(|(name, at)| name[..] == hash && *at >= schedule.created_at)
        })
    };
    app.cores.compute_here(schedule.workspace_id, || {
        if !request.users().iter().any(is_erased) {
            return Ok(None);
        }
        request.remove(is_erased);
        request.to_json().map(Some)
    })
}

/// The request of a schedule that has ended, without its users and their properties; none if that
/// changes nothing, or if the request cannot be read.
pub(super) fn without_users(schedule: &Schedule) -> Option<String> {
    let mut request = Request::read(schedule).ok()?;
    if request.users().iter().all(is_removed) {
        return None;
    }
    request.remove(|_| true);
    request.to_json().ok()
}

/// An external id that no user has.
pub(super) fn removed_id() -> String {
    format!("{REMOVED}{}", Uuid::new_v4())
}

fn is_removed(who: &Who) -> bool {
    let Who::ExternalId(id) = who else { return false };
    id.strip_prefix(REMOVED).is_some_and(|rest| Uuid::try_parse(rest).is_ok())
}

fn hash(who: &Who) -> Option<[u8; 32]> {
    match who {
        Who::ExternalId(id) => Some(name_hash(Name::ExternalId, id)),
        Who::Alias { label, name } => Some(name_hash(Name::Alias, &Alias::key_of(label, name))),
        Who::ServiceId(_) => None,
    }
}

impl Request {
    fn read(schedule: &Schedule) -> Result<Self, StoreError> {
        let (column, id, text) = ("schedules.request", schedule.id, schedule.request.as_str());
        Ok(match schedule.canvas_id {
            Some(_) => Self::Canvas(Box::new(parsed(column, id, text)?)),
            None => Self::Messages(Box::new(Order::from_row(column, id, text)?)),
        })
    }

    /// The users, without their properties.
    fn users(&self) -> Vec<Who> {
        match self {
            Self::Messages(order) => {
                order.target.users.iter().map(|user| user.who.clone()).collect()
            }
            Self::Canvas(target) => target.identifiers(),
        }
    }

    /// Removes users with their properties, and with the last one the properties of all.
    fn remove(&mut self, is_selected: impl Fn(&Who) -> bool) {
        match self {
            Self::Messages(order) => {
                let users = order.target.users.iter_mut();
                for user in users.filter(|user| is_selected(&user.who)) {
                    *user = Who::ExternalId(removed_id()).into();
                }
            }
            Self::Canvas(target) => target.remove_users(is_selected),
        }
        if !self.users().iter().all(is_removed) {
            return;
        }
        match self {
            Self::Messages(order) => {
                (order.trigger_properties, order.canvas_entry_properties) = (None, None);
            }
            Self::Canvas(target) => target.canvas_entry_properties = None,
        }
    }

    fn to_json(&self) -> Result<String, StoreError> {
        match self {
            Self::Messages(order) => Ok(order.to_json()),
            Self::Canvas(target) => store::to_json(target),
        }
    }
}
