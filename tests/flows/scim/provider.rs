//! An identity provider: it sends no `X-Request-Origin`, and its own media type.

use super::*;

pub struct Provider<'a>(pub &'a World);

impl Provider<'_> {
    pub async fn get(&self, path: &str) -> ApiResponse {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn delete(&self, path: &str) -> ApiResponse {
        answer(self.request(Method::DELETE, path)).await
    }

    pub async fn send(&self, method: Method, path: &str, body: &Value) -> ApiResponse {
        let request = self.request(method, path).body(body.to_string());
        answer(request.header("content-type", "application/scim+json; charset=utf-8")).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> ApiResponse {
        self.send(Method::POST, path, body).await
    }

    /// Of a PATCH that has to succeed, the resource.
    pub async fn patched(&self, path: &str, operations: Value) -> Value {
        let body = json!({ "schemas": [PATCH], "Operations": operations });
        let patched = self.send(Method::PATCH, path, &body).await;
        assert_eq!(patched.status, 200, "{operations}: {patched:?}");
        assert_eq!(self.get(path).await.body, patched.body);
        patched.body
    }

    /// The ids that a filter finds.
    pub async fn found(&self, path: &str, filter: &str) -> Vec<Value> {
        let filter: String = form_urlencoded::byte_serialize(filter.as_bytes()).collect();
        let filter = filter.replace('+', "%20");
        let found = self.get(&format!("{path}?filter={filter}&startIndex=1&count=100")).await;
        assert_eq!(found.status, 200, "{filter}: {found:?}");
        let resources = found.body["Resources"].as_array().unwrap();
        assert_eq!(found.body["totalResults"], resources.len(), "{found:?}");
        resources.iter().map(|resource| resource["id"].clone()).collect()
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.0.bare(method, path).bearer_auth(WITHOUT_ORIGIN);
        request.header("accept", "application/scim+json")
    }
}

/// The path of a resource.
pub fn path(endpoint: &str, resource: &Value) -> String {
    format!("{endpoint}/{}", resource["id"].as_str().unwrap())
}

/// Whether a user is in a group, as both of them show.
pub async fn is_member(provider: &Provider<'_>, user: &Value, group: &Value) -> bool {
    let has = |list: &Value, id: &Value| {
        list.as_array().is_some_and(|all| all.iter().any(|member| member["value"] == *id))
    };
    let of_group = provider.get(&path(GROUPS, group)).await.body;
    let of_user = provider.get(&path(USERS, user)).await.body;
    let is_member = has(&of_group["members"], &user["id"]);
    assert_eq!(is_member, has(&of_user["groups"], &group["id"]), "{of_group} {of_user}");
    is_member
}
