//! Groups of users. The company document declares permission sets. Each of them is a group, and an
//! identity provider's group of the same name has its permissions. Without permission sets,
//! identity providers can create any groups, which grant nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::permissions::Permissions;
use super::resource::{Resource, Stored, Written, folded, location};
use super::schema::{Attributes, GROUPS, ResourceSchema, USERS, invalid};
use super::{members, rows};
use gateway::ApiError;
use gateway::scim::{ScimError, ScimType};
use store::{StoreError, Tx};

/// Maximum number of permission sets that an error lists.
const MAX_LISTED: usize = 10;

/// A group, or a permission set that no identity provider has linked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    pub display_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// The permissions of its permission set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Whether an identity provider has created it.
    #[serde(default)]
    pub is_linked: bool,
    #[serde(skip)]
    pub members: BTreeSet<Uuid>,
}

/// A group of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserGroup {
    pub id: Uuid,
    pub name: String,
    pub permissions: Option<Permissions>,
}

impl UserGroup {
    pub fn shown(&self, base: &str) -> Value {
        json!({
            "value": self.id, "$ref": location(base, &GROUPS, self.id), "display": self.name,
            "type": "direct",
        })
    }
}

impl Resource for Group {
    const SCHEMA: &'static ResourceSchema = &GROUPS;
    const TABLE: &'static str = "scim_groups";
    const LINKS: &'static [&'static str] = &["members"];

    fn name(&self) -> &str {
        &self.display_name
    }

    fn attributes(&self) -> Result<Attributes, ScimError> {
        let members: Vec<Value> = self.members.iter().map(|id| json!({ "value": id })).collect();
        let attributes = json!({
            "displayName": self.display_name, "externalId": self.external_id, "members": members,
        });
        match attributes {
            Value::Object(attributes) => GROUPS.read(attributes),
            other => Err(ApiError::Internal(format!("a group is not an object: {other:?}")).into()),
        }
    }

    fn show(&self, attributes: &mut Attributes, base: &str) {
        let members = self.members.iter().map(
            |id| json!({ "value": id, "$ref": location(base, &USERS, *id), "type": USERS.name }),
        );
        let members: Vec<Value> = members.collect();
        if !members.is_empty() {
            attributes.insert("members".into(), members.into());
        }
    }

    async fn complete(tx: &mut Tx, found: &mut [Stored<Self>]) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = found.iter().map(|group| group.id).collect();
        let mut members = members::users_in(tx, &ids).await?;
        for group in found {
            group.value.members = members.remove(&group.id).unwrap_or_default();
        }
        Ok(())
    }

    async fn read(
        tx: &mut Tx,
        written: Written,
        former: Option<&Stored<Self>>,
    ) -> Result<Self, ScimError> {
        let text = |name: &str| written.attributes.get(name).and_then(Value::as_str);
        let display_name = text("displayName").filter(|name| !name.is_empty());
        let display_name = display_name
            .ok_or_else(|| invalid("displayName", "required attribute is missing"))?
            .to_owned();
        let external_id = text("externalId").map(str::to_owned);
        let members = written.attributes.get("members").and_then(Value::as_array);
        let members = members.into_iter().flatten().map(member).collect::<Result<Vec<_>, _>>()?;
        let members = members.into_iter().flatten().collect();
        let mut new =
            Self { display_name, external_id, members, permissions: None, is_linked: true };
        let found =
            members::lock_users(tx, &new.shown_by(former.map(|former| &former.value))).await?;
        let is_former = |id: &Uuid| former.is_some_and(|former| former.value.members.contains(id));
        // Identity providers also send members of other types, and users that were deleted here.
        new.members.retain(|id| is_former(id) || found.contains(id));
        let Some(former) = former else { return Ok(new) };
        if former.value.key() == new.key() && former.declared_key.is_some() {
            let (name, permissions) =
                (former.value.display_name.clone(), former.value.permissions.clone());
            return Ok(Self { display_name: name, permissions, ..new });
        }
        if former.value.key() != new.key() {
            check_rename(tx, former, &new).await?;
        }
        Ok(new)
    }

    async fn adopted(&self, tx: &mut Tx) -> Result<Option<Stored<Self>>, ScimError> {
        let stored: Option<Stored<Self>> = rows::by_key_locked(tx, &self.key()).await?;
        match stored {
            Some(set) if set.declared_key.is_some() && !set.value.is_linked => Ok(Some(set)),
            Some(_) => Err(GROUPS.name_in_use()),
            None => check_name(tx, self).await.map(|()| None),
        }
    }

    async fn link(
        tx: &mut Tx,
        stored: &Stored<Self>,
        former: Option<&Self>,
        now: i64,
    ) -> Result<(), ScimError> {
        let (nobody, group) = (BTreeSet::new(), &stored.value);
        let former_members = former.map_or(&nobody, |former| &former.members);
        let removed: Vec<Uuid> = former_members.difference(&group.members).copied().collect();
        let added: Vec<Uuid> = group.members.difference(former_members).copied().collect();
        members::touch_users(tx, &group.shown_by(former), now).await?;
        members::remove(tx, stored.id, &removed).await?;
        Ok(members::add(tx, stored.id, &added).await?)
    }

    async fn unlink(_: &mut Tx, _: Uuid, _: i64) -> Result<(), StoreError> {
        Ok(())
    }

    async fn deleted(tx: &mut Tx, stored: Stored<Self>, now: i64) -> Result<(), StoreError> {
        let members: Vec<Uuid> = stored.value.members.iter().copied().collect();
        members::touch_users(tx, &members, now).await?;
        rows::remove_members(tx, "group_id", stored.id).await?;
        // A permission set is not deleted: an identity provider can create the group again.
        if stored.declared_key.is_some() {
            let set = Self {
                display_name: stored.value.display_name,
                permissions: stored.value.permissions,
                ..Self::default()
            };
            rows::insert(tx, &set, true, now).await?;
        }
        Ok(())
    }
}

impl Group {
    /// The users whose resources show a change from the former group, so that their versions
    /// increase.
    fn shown_by(&self, former: Option<&Self>) -> Vec<Uuid> {
        let Some(former) = former else { return self.members.iter().copied().collect() };
        if former.display_name == self.display_name {
            former.members.symmetric_difference(&self.members).copied().collect()
        } else {
            former.members.union(&self.members).copied().collect()
        }
    }
}

/// The id of a member that is a user; none for other members.
fn member(member: &Value) -> Result<Option<Uuid>, ScimError> {
    let text = |name: &str| member.get(name).and_then(Value::as_str);
    let id = text("value").or_else(|| text("$ref")?.rsplit('/').next());
    let id = id.ok_or_else(|| invalid("members", "every member must have a value"))?;
    Ok(Uuid::parse_str(id).ok())
}

async fn check_rename(tx: &mut Tx, former: &Stored<Group>, new: &Group) -> Result<(), ScimError> {
    if former.declared_key.is_some() {
        return Err(ScimError::bad(
            ScimType::Mutability,
            "displayName: a permission set has this name; only the workspace file can change it",
        ));
    }
    check_name(tx, new).await
}

/// If permission sets are declared, a group must have the name of one of them.
async fn check_name(tx: &mut Tx, group: &Group) -> Result<(), ScimError> {
    let sets = rows::list_declared::<Group>(tx).await?;
    let key = folded(&group.display_name);
    if sets.is_empty() || sets.iter().any(|set| set.value.key() == key) {
        return Ok(());
    }
    let names: Vec<_> = sets.iter().take(MAX_LISTED).map(|set| &*set.value.display_name).collect();
    let more = if sets.len() > MAX_LISTED { ", …" } else { "" };
    Err(invalid(
        "displayName",
        &format!("no permission set has this name; expected one of {}{more}", names.join(", ")),
    ))
}

/// Writes a permission set. An existing group of the same name becomes the permission set, and
/// keeps its members.
pub async fn declare(
    tx: &mut Tx,
    name: &str,
    permissions: Permissions,
    now: i64,
) -> Result<(), StoreError> {
    let set =
        Group { display_name: name.to_owned(), permissions: Some(permissions), ..Group::default() };
    let Some(former) = rows::by_key_locked::<Group>(tx, &set.key()).await? else {
        rows::insert(tx, &set, true, now).await?;
        return Ok(());
    };
    let members: Vec<Uuid> = former.value.members.iter().copied().collect();
    let is_linked = former.value.is_linked || former.declared_key.is_none();
    let group = Group {
        display_name: set.display_name.clone(),
        permissions: set.permissions.clone(),
        is_linked,
        ..former.value.clone()
    };
    let former = Stored { declared_key: Some(set.key()), ..former };
    rows::update(tx, former, group, now).await?;
    members::touch_users(tx, &members, now).await
}

/// Deletes a permission set, which is a group.
pub async fn undeclare(tx: &mut Tx, key: &str, now: i64) -> Result<(), StoreError> {
    match rows::by_key_locked::<Group>(tx, key).await? {
        Some(group) => rows::delete(tx, Stored { declared_key: None, ..group }, now).await,
        None => Ok(()),
    }
}
