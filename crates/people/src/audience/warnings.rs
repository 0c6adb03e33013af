//! Warnings about conditions that probably match no user.

use super::Audience;
use crate::users::profile::Field;
use gateway::warnings::{Warning, WarningCode, Warnings};

/// Fields of a record that are not part of the profile.
const ACTIVITY: [&str; 3] = ["purchases", "custom_events", "total_revenue"];

impl Audience {
    /// Warnings about conditions on custom attributes that have the name of a field of the record:
    /// such a condition does not see the field. `field` is that of the request with the audience.
    pub fn warnings(&self, field: &str) -> Vec<Warning> {
        let mut warnings = Warnings::default();
        self.add_warnings(field, &mut warnings);
        warnings.into_vec()
    }

    fn add_warnings(&self, field: &str, warnings: &mut Warnings) {
        match self {
            Self::And(conditions) | Self::Or(conditions) => {
                conditions.iter().for_each(|condition| condition.add_warnings(field, warnings));
            }
            Self::CustomAttribute { name, .. } => {
                if Field::from_name(name).is_some() || ACTIVITY.contains(&name.as_str()) {
                    let path = format!("{field}.custom_attribute.{name}");
                    warnings.add(Warning::new(path, WarningCode::ProfileField));
                }
            }
            Self::PushSubscriptionStatus(_)
            | Self::EmailSubscriptionStatus(_)
            | Self::LastUsedApp(_)
            | Self::PurchaseProperty { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_on_a_field_of_the_profile_is_named() {
        let leaf = |name: &str| json!({ "custom_attribute": { "custom_attribute_name": name, "comparison": "exists" } });
        let audience = json!({ "AND": [leaf("tier"), { "OR": [leaf("email"), leaf("email")] }] });
        let warnings = Audience::read(&(&audience).into()).unwrap().warnings("audience");
        let expected = json!([
            { "field": "audience.custom_attribute.email", "code": "profile-field", "count": 2 },
        ]);
        assert_eq!(json!(warnings), expected);
        assert_eq!(Audience::read(&(&leaf("tier")).into()).unwrap().warnings("audience"), []);
    }
}
