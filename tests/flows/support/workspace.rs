//! Workspace files.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::storage::TestStorage;

/// What a workspace file declares, for one workspace.
#[derive(Clone)]
pub struct WorkspaceFile {
    pub name: String,
    /// Of a key that may export, track and edit catalogs, by default.
    pub key: String,
    permissions: Vec<String>,
    /// The bytes behind `callbacks.secret`.
    pub callback_secret: Vec<u8>,
    /// Percent of the control group; none without one.
    pub percent: Option<u8>,
    /// `storage`.
    storage: Map<String, Value>,
    storage_secrets: Vec<String>,
    /// Any other members.
    more: Map<String, Value>,
}

impl WorkspaceFile {
    /// A workspace with a key, everybody in the control group, and no storage of its own.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            key: format!("test-key-{}", Uuid::new_v4().simple()),
            permissions: [
                "users.export.global_control_group",
                "users.track",
                "catalogs.update_items",
            ]
            .map(str::to_owned)
            .into(),
            callback_secret: Uuid::new_v4().into_bytes().repeat(2),
            percent: Some(100),
            storage: Map::new(),
            storage_secrets: Vec::new(),
            more: Map::new(),
        }
    }

    /// With storage of its own; an Azure container becomes the default destination.
    pub fn with_storage(self, storage: &TestStorage) -> Self {
        self.with_storage_switched(storage, true)
    }

    /// With storage of its own, and the default-destination switch as given where that is
    /// an Azure container.
    pub fn with_storage_switched(mut self, storage: &TestStorage, default: bool) -> Self {
        let (kind, mut settings) = storage.storage();
        if kind == "azure" {
            settings["default_export_destination"] = default.into();
        }
        self.storage.insert(kind.to_owned(), settings);
        self.storage_secrets.extend(storage.secret());
        self
    }

    /// With a storage that requests choose by its name.
    pub fn with_named_storage(mut self, name: &str, storage: &TestStorage) -> Self {
        let (kind, settings) = storage.storage();
        let storages = self.more.entry("storages").or_insert_with(|| json!([]));
        let storages = storages.as_array_mut().expect("a list");
        storages.push(json!({ "name": name, kind: settings }));
        self.storage_secrets.extend(storage.secret());
        self
    }

    pub fn with_percent(mut self, percent: Option<u8>) -> Self {
        self.percent = percent;
        self
    }

    /// With a key that has other permissions.
    pub fn permitted(mut self, permissions: &[&str]) -> Self {
        self.permissions = permissions.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// With another member.
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    /// As if no call were limited.
    pub fn unlimited(self) -> Self {
        let limit = json!({ "requests": 1_000_000_000, "seconds": 3_600 });
        self.with("rate_limits", json!({ "users.track": limit, "messages.send.audience": limit }))
    }

    /// The secret of the callbacks as written in the file.
    fn callback_text(&self) -> String {
        format!("whsec_{}", BASE64_STANDARD.encode(&self.callback_secret))
    }

    /// What must not be printed.
    pub fn secrets(&self) -> Vec<String> {
        let own = [self.key.clone(), self.callback_text().split_off("whsec_".len())];
        own.into_iter().chain(self.storage_secrets.iter().cloned()).collect()
    }

    /// The YAML document; JSON is YAML.
    pub fn document(&self) -> String {
        let mut document = json!({
            "workspace": self.name,
            "currency": "USD",
            "keys": [{
                "name": "integrator",
                "secret": self.key,
                "permissions": self.permissions,
            }],
            "callbacks": { "secret": self.callback_text() },
        });
        if let Some(percent) = self.percent {
            document["control_group"] = json!({ "percent": percent });
        }
        if !self.storage.is_empty() {
            document["storage"] = self.storage.clone().into();
        }
        for (name, value) in &self.more {
            document[name] = value.clone();
        }
        document.to_string()
    }
}
