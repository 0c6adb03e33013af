//! What the service can do, for clients that ask (RFC 7643 sections 5 to 7, RFC 7644 section 4).

use serde_json::{Value, json};

use super::query::PAGE;
use super::resource::AppGroup;
use super::schema::{APP_GROUP_ID, APP_GROUP_NAME, Attribute, Kind, LIST, USER, USER_ATTRIBUTES};
use crate::gateway::scim::PATH;

const SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:Schema";
const RESOURCE_TYPE: &str = "urn:ietf:params:scim:schemas:core:2.0:ResourceType";
const SERVICE_PROVIDER_CONFIG: &str = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig";

/// `/ServiceProviderConfig`; `base` is what public addresses begin with.
pub fn service_provider_config(base: &str) -> Value {
    let unsupported = json!({ "supported": false });
    json!({
        "schemas": [SERVICE_PROVIDER_CONFIG],
        "patch": { "supported": true },
        "bulk": { "supported": false, "maxOperations": 0, "maxPayloadSize": 0 },
        "filter": { "supported": true, "maxResults": PAGE },
        "changePassword": unsupported,
        "sort": unsupported,
        "etag": { "supported": true },
        "authenticationSchemes": [{
            "type": "oauthbearertoken",
            "name": "SCIM token",
            "description": "A token made by `longshore scim-token create`, sent as the bearer.",
            "primary": true,
        }],
        "meta": meta(base, "ServiceProviderConfig", "ServiceProviderConfig"),
    })
}

/// Every resource of `/ResourceTypes`.
pub fn resource_types(base: &str) -> Vec<Value> {
    vec![json!({
        "schemas": [RESOURCE_TYPE],
        "id": "User",
        "name": "User",
        "endpoint": "/Users",
        "description": "A user of the dashboard",
        "schema": USER,
        "meta": meta(base, "ResourceType", "ResourceTypes/User"),
    })]
}

/// Every resource of `/Schemas`. The app groups that there are stand in it as the values that
/// permissions can name.
pub fn schemas(base: &str, app_groups: &[AppGroup]) -> Vec<Value> {
    let attributes: Vec<Value> =
        USER_ATTRIBUTES.iter().map(|attribute| described(attribute, app_groups)).collect();
    vec![json!({
        "schemas": [SCHEMA],
        "id": USER,
        "name": "User",
        "description": "A user of the dashboard",
        "attributes": attributes,
        "meta": meta(base, "Schema", &format!("Schemas/{USER}")),
    })]
}

/// A list response with all there is.
pub fn list(resources: &[Value]) -> Value {
    json!({
        "schemas": [LIST],
        "totalResults": resources.len(),
        "startIndex": 1,
        "itemsPerPage": resources.len(),
        "Resources": resources,
    })
}

fn meta(base: &str, resource_type: &str, path: &str) -> Value {
    json!({ "resourceType": resource_type, "location": format!("{base}{PATH}/{path}") })
}

fn described(attribute: &Attribute, app_groups: &[AppGroup]) -> Value {
    let kind = match attribute.kind {
        Kind::Text => "string",
        Kind::Boolean => "boolean",
        Kind::Complex(_) => "complex",
    };
    let mut described = json!({
        "name": attribute.name,
        "type": kind,
        "multiValued": attribute.is_multi_valued,
        "description": attribute.description,
        "required": attribute.is_required,
        "mutability": if attribute.is_read_only { "readOnly" } else { "readWrite" },
        "returned": "default",
    });
    match attribute.kind {
        Kind::Text => {
            described["caseExact"] = attribute.is_case_exact.into();
            described["uniqueness"] = if attribute.is_unique { "server" } else { "none" }.into();
        }
        Kind::Boolean => {}
        Kind::Complex(members) => {
            let members = members.iter().filter(|member| member.is_published);
            let members = members.map(|member| self::described(member, app_groups));
            described["subAttributes"] = members.collect::<Vec<_>>().into();
        }
    }
    let values: Option<Vec<&str>> = match attribute.name {
        APP_GROUP_ID => Some(app_groups.iter().map(|group| group.id.as_str()).collect()),
        APP_GROUP_NAME => Some(app_groups.iter().map(|group| group.name.as_str()).collect()),
        _ => None,
    };
    if let Some(values) = values {
        described["canonicalValues"] = values.into();
    }
    described
}
