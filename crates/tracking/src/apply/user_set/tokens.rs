//! The push tokens that objects register: each belongs to one user.

use uuid::Uuid;

use super::super::ApplyError;
use super::super::draft::Draft;
use super::super::identifier_set::IdentifierSet;
use super::{UserEntry, UserIndex, UserSet};
use people::users::merged_rows;
use people::users::tokens::{Registered, Registrations, TokenKey};
use store::Tx;

impl<'a> UserSet<'a> {
    /// Locks the push tokens that objects register; their owners may lose them.
    pub(super) async fn look_up_tokens(
        &mut self,
        tx: &mut Tx,
        identifier_set: &IdentifierSet<'a>,
        changed: &mut Vec<Uuid>,
    ) -> Result<(), ApplyError> {
        if identifier_set.tokens.is_empty() {
            return Ok(());
        }
        self.tokens = Registrations::lock(tx, self.workspace, &identifier_set.tokens).await?;
        // Workers of an older version merge users without their registrations.
        let owners = self.tokens.owners();
        let merged = merged_rows::find_merged(tx, self.workspace, &owners).await?;
        self.tokens.move_merged(&merged);
        for owner in self.tokens.owners() {
            self.index(owner, false);
            changed.push(owner);
        }
        Ok(())
    }

    /// Registers the tokens that an object has added to a profile: each belongs to one user.
    pub(super) fn register_tokens(&mut self, user: UserIndex, keys: &[TokenKey], received_at: i64) {
        let service_id = self.service_id(user);
        for key in keys {
            let former = match self.tokens.register(*key, service_id, received_at) {
                Registered::Own => continue,
                Registered::OfAnother => Some(user),
                Registered::TakenFrom(owner) => self.by_id.get(&owner).copied(),
            };
            if let Some(former) = former {
                self.remove_token(former, *key);
            }
        }
    }

    /// An unreadable profile is left as it is.
    fn remove_token(&mut self, index: UserIndex, key: TokenKey) {
        let UserEntry { user, draft, .. } = &mut self.users[index.0];
        if draft.is_none() {
            *draft = Draft::open(&user.doc, user.attributes_at).ok();
        }
        if let Some(draft) = draft {
            draft.remove_tokens(&[key]);
        }
    }
}
