//! Merges users: their profiles, their activity, and their other rows.

use uuid::Uuid;

use super::super::ApplyError;
use super::super::identity_rows::Reached;
use super::{CONFLICT, Identities, Opened, Outcome, TOO_LARGE, UNKNOWN};
use kit::json::{self, JsonFields};
use people::users::activity::Activity;
use people::users::consent::{self, Consent};
use people::users::find;
use people::users::profile::{Field, MAX_BYTES, Profile};
use people::users::rows::{self, Kind, StoredUser};
use people::users::{activity_rows, address, merged_rows, suppressions, token_rows, tokens};
use store::ByteBudget;

impl Identities<'_> {
    pub(super) async fn merge(&mut self, merged: Uuid, reached: Reached) -> Outcome {
        let Some(kept) = reached.second else { return UNKNOWN };
        let at = reached.both_at();
        let kept = self.present(kept).await?;
        if merged == kept {
            return CONFLICT;
        }
        token_rows::lock_of_users(self.tx, self.workspace, &[merged, kept]).await?;
        let mut opened = self.open_all(&[merged, kept]).await?;
        let mut take = |id: Uuid| {
            let index = opened.iter().position(|opened| opened.user.service_id == id)?;
            Some(opened.swap_remove(index))
        };
        match (take(merged), take(kept)) {
            (None, _) => UNKNOWN,
            (Some(merged), Some(kept)) => self.merge_opened(merged, kept, at).await,
            (Some(_), None) if self.present(kept).await? != kept => Err(ApplyError::Changed),
            // The user to keep was erased since, so the merged user is erased, too.
            (Some(merged), None) => self.erase_opened(merged.user, at).await,
        }
    }

    /// Merges a user into another one, and removes it.
    pub(super) async fn merge_opened(&mut self, merged: Opened, kept: Opened, at: i64) -> Outcome {
        let Opened { mut user, mut profile } = kept;
        // Only an external id is free again; aliases identify the kept user.
        let both_continue = merged.user.external_id.is_none();
        let meeting = Meeting::Merge { at: at.min(self.latest), both_continue };
        merge_profiles(&mut profile, &merged.profile, meeting, self.now);
        if profile.bytes() > MAX_BYTES {
            return TOO_LARGE;
        }
        self.absorb(merged, &mut user, &profile, at).await?;
        self.write(user, &profile).await
    }

    /// Moves the rows of a user to the kept user, whose merged profile the caller writes.
    pub(super) async fn absorb(
        &mut self,
        merged: Opened,
        user: &mut StoredUser,
        profile: &Profile,
        at: i64,
    ) -> Result<(), ApplyError> {
        let activity = self.combined_activity(&merged.user, user).await?;
        let (from, to) = (merged.user.service_id, user.service_id);
        token_rows::reassign(self.tx, self.workspace, from, to).await?;
        find::remove(self.tx, self.workspace, &[], Some(&merged.user), 0).await?;
        suppressions::keep_opt_outs(self.tx, self.workspace, &merged.user, profile).await?;
        (self.hooks.merge)(self.tx, self.workspace, from, to).await?;
        merged_rows::add_merged(self.tx, self.workspace, from, to, at).await?;
        for alias in merged.profile.aliases() {
            self.assign(Kind::Alias, alias.key(), user.service_id).await?;
        }
        if user.email.is_none() {
            user.email = profile.text(Field::Email).map(|email| address::stored(&email));
            let email = user.email.iter().map(|email| (email.clone(), user.service_id));
            rows::add_emails(self.tx, self.workspace, &email.collect::<Vec<_>>()).await?;
        }
        user.attributes_at = user.attributes_at.max(merged.user.attributes_at);
        let row = [(user.key, user.service_id, activity)];
        Ok(activity_rows::put_activity(self.tx, self.workspace, &row).await?)
    }

    /// The combined activity of both users.
    async fn combined_activity(
        &mut self,
        merged: &StoredUser,
        kept: &StoredUser,
    ) -> Result<Vec<u8>, ApplyError> {
        let ids = [merged.service_id, kept.service_id];
        let (workspace, mut budget) = (self.workspace, ByteBudget::unlimited());
        let stored = activity_rows::lock_activity(self.tx, workspace, &ids, &mut budget).await?;
        let mut combined = Activity::default();
        // For activity at the same moment, the kept user's comes first.
        for id in [kept.service_id, merged.service_id] {
            let found = stored.iter().find(|stored| stored.service_id == id);
            if let Some(body) = found.and_then(|stored| stored.body.as_deref()) {
                let activity =
                    Activity::decode(body).map_err(|why| ApplyError::Activity(id, why))?;
                combined.absorb(&activity);
            }
        }
        combined.prune(self.today);
        combined.prune_names();
        Ok(combined.encode())
    }
}

/// How the states of two profiles meet.
#[derive(Clone, Copy)]
pub(super) enum Meeting {
    /// Two users are merged by a change that was received at this time, in milliseconds since the
    /// epoch. The merged user's names identify the kept user if `both_continue`.
    Merge { at: i64, both_continue: bool },
    /// Both profiles are of one user, who got another name.
    OfSameUser,
}

/// Adds the values to a profile that only the other one has, at a time in milliseconds since the
/// epoch. The decisions about messages of both apply to it: one user's address may come with the
/// other's state.
pub(super) fn merge_profiles(kept: &mut Profile, merged: &Profile, meeting: Meeting, now: i64) {
    let (mut consent, merged_consent) = (Consent::read(kept), Consent::read(merged));
    match meeting {
        Meeting::Merge { at, both_continue } => consent.meet(&merged_consent, at, both_continue),
        Meeting::OfSameUser => consent.join(&merged_consent),
    }
    consent.write(kept);
    for field in Field::ALL.into_iter().filter(|field| !consent::is_state(*field)) {
        let Some(value) = merged.get(field) else { continue };
        if field == Field::TimeZone && kept.get(field).is_none() {
            kept.set_time_zone_changed_at(now);
        }
        let kept_value = kept.get(field);
        let combined = match field {
            Field::ServiceId
            | Field::ExternalId
            | Field::RandomBucket
            | Field::CreatedAt
            | Field::DeprecatedExternalIds => continue,
            Field::UserAliases => {
                let mut aliases = kept.aliases();
                aliases.extend(merged.aliases());
                kept.set_aliases(&aliases);
                continue;
            }
            // Both have the same format, so the texts compare like the times.
            Field::DateOfFirstSession => {
                kept_value.filter(|kept| *kept < value).unwrap_or(value).to_owned()
            }
            Field::DateOfLastSession => {
                kept_value.filter(|kept| *kept > value).unwrap_or(value).to_owned()
            }
            Field::PushTokens => {
                kept_value.map_or(value.to_owned(), |kept| tokens::merged(kept, value))
            }
            Field::CustomAttributes => {
                match kept_value.and_then(|kept| merged_members(kept, value)) {
                    Some(members) => members,
                    None => kept_value.unwrap_or(value).to_owned(),
                }
            }
            _ => kept_value.unwrap_or(value).to_owned(),
        };
        kept.set_json(field, combined);
    }
}

/// The fields of both objects; if both have a field, that of the first.
fn merged_members(first: &str, second: &str) -> Option<String> {
    let (first, second): (JsonFields<'_>, JsonFields<'_>) =
        (json::parse(first).ok()?, json::parse(second).ok()?);
    let more = second.0.iter().filter(|(name, _)| first.get(name).is_none());
    let mut out = String::new();
    for (name, value) in first.0.iter().chain(more) {
        out.push(if out.is_empty() { '{' } else { ',' });
        json::push_string(&mut out, name);
        out.push(':');
        out.push_str(value.get());
    }
    out.push('}');
    Some(out)
}

#[cfg(test)]
mod tests;
