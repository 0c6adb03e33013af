//! Finds the user of a record.

use super::{ImportedUsers, by_email_only};
use crate::users::profile::Alias;
use crate::users::record::Record;
use crate::users::rows::Kind;

impl ImportedUsers<'_> {
    /// The user that a record identifies, if it is known.
    pub(super) fn find(&self, record: &Record) -> Result<Option<usize>, String> {
        if let Some(kept) = record.service_id.and_then(|id| self.merged.get(&id)) {
            return Err(format!("service_id: the user was merged into {kept}"));
        }
        if let Some(index) = record.service_id.and_then(|id| self.by_id.get(&id)) {
            return Ok(Some(*index));
        }
        let external_id = record.external_id.as_ref();
        if let Some(index) = external_id.and_then(|id| self.owner(Kind::ExternalId, id)) {
            return Ok(Some(index));
        }
        if let Some((alias, index)) = record
            .aliases
            .iter()
            .find_map(|alias| Some((alias, self.owner(Kind::Alias, &alias.key())?)))
        {
            // With another external_id it is another user.
            if external_id.is_some() && self.imported[index].external_id.is_some() {
                return Err(self.clash(alias_text(alias), index));
            }
            return Ok(Some(index));
        }
        let email = record.address().filter(|_| by_email_only(record));
        let with_address = email.as_deref().and_then(|email| self.by_email.get(email));
        Ok(with_address
            .into_iter()
            .flatten()
            .copied()
            .filter(|index| self.imported[*index].address() == email)
            .max_by_key(|index| {
                let user = &self.imported[*index];
                (user.external_id.is_some(), user.written, user.service_id)
            }))
    }

    /// Rejects a record with an identifier of another user.
    pub(super) fn check_clashes(
        &self,
        record: &Record,
        found: Option<usize>,
    ) -> Result<(), String> {
        let another =
            |kind, value: &str| self.owner(kind, value).filter(|owner| Some(*owner) != found);
        if let Some(index) =
            record.external_id.as_ref().and_then(|id| another(Kind::ExternalId, id))
        {
            return Err(self.clash("external_id".to_owned(), index));
        }
        for alias in &record.aliases {
            if let Some(index) = another(Kind::Alias, &alias.key()) {
                return Err(self.clash(alias_text(alias), index));
            }
        }
        Ok(())
    }

    fn clash(&self, field: String, index: usize) -> String {
        format!("{field}: belongs to another user, {}", self.imported[index].service_id)
    }
}

fn alias_text(alias: &Alias) -> String {
    format!("user_aliases ({} {})", alias.label, alias.name)
}
