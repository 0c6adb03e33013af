//! What the installation declares.

use serde_json::json;

use super::ReceiverAddresses;

/// What it is called by, and what signs its callbacks.
pub const KEY: &str = "corpus-key-of-the-integrator";
pub const TOKEN: &str = "corpus-token-of-the-identity-provider";
pub const SIGNS: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const PERMISSIONS: [&str; 10] = [
    "campaigns.list",
    "canvas.trigger.schedule.create",
    "canvas.trigger.schedule.delete",
    "catalogs.update_items",
    "messages.live_activity.start",
    "messages.schedule.create",
    "messages.send",
    "transactional.send",
    "users.export.global_control_group",
    "users.track",
];

pub const APP: &str = "7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33";
pub const SEGMENT: &str = "9d0b7c52-61c5-4d0e-b0f3-2f1c7a3f8e20";
pub const WELCOME: &str = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60";
pub const RECEIPT: &str = "7d0c41a8-3f5e-4b7a-9c1d-2e6f8a90b1c2";
const THANKS: &str = "2b7c9d1e-5e0a-4b7f-9c1d-7a8e6f5d4c03";
pub const CANVAS: &str = "0b0a6c8e-6d0c-4f39-9d0b-6f0f6f9a2c11";
pub const SMS_GROUP: &str = "5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11";

impl ReceiverAddresses {
    /// What the workspace file declares.
    pub fn file(self) -> String {
        let provider = |path: &str| json!({ "url": self.url(path), "secret": SIGNS });
        let tier = json!({ "custom_attribute": {
            "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
        } });
        let email = json!({
            "subject": "receipt {{api_trigger_properties.${order}}} {{${external_id}}}",
            "body": "Thank you",
        });
        let thanks = self.webhook("thanks {{${external_id}}} {{event_properties.${size}}}");
        let acme = json!({
            "workspace": "acme", "currency": "USD", "exchange_rates": { "EUR": 1.25 },
            "time_zone": "America/New_York",
            "rate_limits": { "users.track": { "requests": 50_000, "seconds": 60 } },
            "export_limits": { "users": 1_000, "bytes": "1GiB" },
            "frequency_capping": [{ "messages": 500, "days": 7, "channel": "email" }],
            "keys": [{ "name": "k", "secret": KEY, "permissions": PERMISSIONS }],
            "apps": [{ "id": APP, "name": "iOS", "platform": "ios", "bundle_id": "com.acme",
                       "activity_types": ["Delivery"] }],
            "control_group": { "percent": 100 },
            "segments": [{ "id": SEGMENT, "name": "VIP", "audience": { "AND": [tier] } }],
            "catalogs": [{ "name": "restaurants", "items": "restaurants.ndjson", "fields": [
                { "name": "City", "type": "string" }, { "name": "Rating", "type": "number" },
                { "name": "Opened_at", "type": "time" },
            ] }],
            "subscription_groups": [{ "id": SMS_GROUP, "channel": "sms", "from": "+15550100" }],
            "campaigns": [
                { "id": WELCOME, "name": "Welcome", "type": "api", "tags": ["t"],
                  "messages": { "webhook": self.webhook("welcome {{${external_id}}}") } },
                { "id": RECEIPT, "name": "Receipt", "type": "transactional", "email": email,
                  "sla_per_hour": 5 },
                { "id": THANKS, "name": "Thanks", "type": "triggered",
                  "trigger": { "purchase": { "product_id": "shoes", "properties": { "size": "XL" } } },
                  "audience": tier, "messages": { "webhook": thanks } },
            ],
            "canvases": [{ "id": CANVAS, "name": "Onboarding", "messages": { "webhook":
                self.webhook("canvas {{${external_id}}} {{canvas_entry_properties.${n}}}") } }],
            "email": {
                "smtp": format!("smtp://{}", self.mail()), "from": "Acme <hello@acme.example>",
                "status_postback": { "url": self.url("/states"), "secret": SIGNS },
                "events_secret": SIGNS,
            },
            "providers": {
                "push": provider("/push"), "sms": provider("/sms"), "feedback_secret": SIGNS,
            },
            "callbacks": { "secret": SIGNS },
        });
        let company = json!({
            "company": "Acme Inc.",
            "scim_tokens": [{ "name": "idp", "secret": TOKEN }],
            "dashboard_users": [{ "user_name": "ann@acme.example", "given_name": "Ann",
                "permissions": { "company": ["manage_company_settings"],
                                 "workspaces": [{ "workspace": "acme",
                                                  "permissions": ["send_campaigns"] }] } }],
        });
        format!("{acme}\n---\n{company}\n")
    }
}
