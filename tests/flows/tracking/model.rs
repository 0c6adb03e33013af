//! A simple model of what tracking comes to, object by object, and random objects for it.

use std::collections::BTreeMap;

use kit::clock::format_time;
use serde_json::{Map, Value, json};

use super::DAY;

/// The same numbers for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5555)
    }

    /// A number from 0 to one less than `end`.
    pub fn below(&mut self, end: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as i64 % end
    }
}

fn user(random: &mut Random) -> Value {
    match random.below(10) {
        0..5 => json!({"external_id": format!("user {}", random.below(6))}),
        5..7 => json!({"user_alias":
            {"alias_name": format!("{}", random.below(3)), "alias_label": "crm"}}),
        _ => json!({"email": email(random)}),
    }
}

fn email(random: &mut Random) -> String {
    let text = format!("mail-{}@acme.example", random.below(4));
    if random.below(2) == 0 { text.to_uppercase() } else { text }
}

/// An object of a request that was accepted at a time.
pub fn object(random: &mut Random, received_at: i64) -> Value {
    let time = received_at - random.below(89) * DAY - random.below(3);
    let mut object = match random.below(3) {
        0 => json!({"attributes": attributes(random)}),
        1 => json!({"event": {"name": format!("event {}", random.below(3)), "time": time}}),
        _ => json!({"purchase": {
            "product_id": format!("product {}", random.below(4)),
            "currency": if random.below(4) == 0 { "EUR" } else { "USD" },
            "price": random.below(5_000_000), "quantity": 1 + random.below(3), "time": time,
        }}),
    };
    for (_, object) in object.as_object_mut().expect("an object") {
        object["user"] = user(random);
        let is_alias = object["user"].get("user_alias").is_some();
        object["update_only"] = (is_alias || random.below(4) == 0).into();
    }
    object
}

fn attributes(random: &mut Random) -> Value {
    let mut object = json!({});
    match random.below(4) {
        0 => object["fields"] = json!({"email": email(random)}),
        1 => object["fields"] = json!({"email": null, "first_name": random.below(9).to_string()}),
        _ => {}
    }
    let change = match random.below(5) {
        0 => ("custom", json!({"a": random.below(9), "b": "x"})),
        1 => ("custom", json!({"a": null})),
        2 => ("inc", json!({"a": random.below(9)})),
        3 => ("add", json!({"list": [random.below(3)], "b": [1]})),
        _ => ("remove", json!({"list": [random.below(3)]})),
    };
    object[change.0] = change.1;
    object
}

#[derive(Default)]
struct User {
    fields: Map<String, Value>,
    custom: Map<String, Value>,
    aliases: Vec<String>,
    written: i64,
    /// Which is the younger of two.
    made: (i64, String),
    /// By kind and name: first, last, count.
    deeds: BTreeMap<(&'static str, String), (i64, i64, i64)>,
    /// Millionths of USD; none where nothing was bought.
    revenue: Option<i64>,
}

impl User {
    fn email(&self) -> Option<String> {
        self.fields.get("email").map(|email| email.as_str().expect("a text").to_lowercase())
    }
}

pub struct Model {
    users: Vec<User>,
}

impl Default for Model {
    fn default() -> Self {
        let users = Self::imported().into_iter().map(|record| {
            let mut fields = record.as_object().expect("an object").clone();
            let alias = fields["user_aliases"][0]["alias_name"].as_str().expect("a text");
            let aliases = vec![alias.to_owned()];
            let made = (0, fields["external_id"].to_string());
            let custom = fields.remove("custom_attributes");
            let custom = custom.and_then(|c| c.as_object().cloned()).unwrap_or_default();
            User { fields, custom, aliases, made, ..User::default() }
        });
        Self { users: users.collect() }
    }
}

impl Model {
    /// Who is there before.
    pub fn imported() -> Vec<Value> {
        (0..2)
            .map(|n| {
                json!({
                    "external_id": format!("user {n}"), "email": format!("mail-{n}@acme.example"),
                    "user_aliases": [{"alias_name": n.to_string(), "alias_label": "crm"}],
                    "custom_attributes": {"a": n},
                })
            })
            .collect()
    }

    fn find(&self, user: &Value) -> Option<usize> {
        let indices = 0..self.users.len();
        if let Some(alias) = user.get("user_alias") {
            let alias = alias["alias_name"].as_str().expect("a text").to_owned();
            return { indices }.find(|at| self.users[*at].aliases.contains(&alias));
        }
        if let Some(id) = user.get("external_id") {
            return { indices }.find(|at| self.users[*at].fields.get("external_id") == Some(id));
        }
        let email = user["email"].as_str().expect("a text").to_lowercase();
        indices.filter(|at| self.users[*at].email().as_ref() == Some(&email)).max_by_key(|at| {
            let user = &self.users[*at];
            (user.fields.contains_key("external_id"), user.written, user.made.clone())
        })
    }

    pub fn apply(&mut self, received_at: i64, object: &Value) {
        let (kind, object) = object.as_object().expect("an object").iter().next().expect("one");
        let user = &object["user"];
        let index = match self.find(user) {
            Some(index) => index,
            None if object["update_only"] == true => return,
            None => {
                let fields = user.as_object().expect("an object").clone();
                // External ids are given out before emails.
                let made = match user["external_id"].as_str() {
                    Some(id) => format!("0 {id}"),
                    None => format!("1 {:6}", self.users.len()),
                };
                let made = (received_at, made);
                self.users.push(User { fields, written: received_at, made, ..User::default() });
                self.users.len() - 1
            }
        };
        let user = &mut self.users[index];
        let number = |name: &str| object[name].as_i64().expect("a number");
        let mut count = |kind, name: &str, times: i64| {
            let (name, time) = (object[name].as_str().expect("a text").to_owned(), number("time"));
            let deed = user.deeds.entry((kind, name)).or_insert((time, time, 0));
            *deed = (deed.0.min(time), deed.1.max(time), deed.2 + times);
        };
        match kind.as_str() {
            "event" => count("custom_events", "name", 1),
            "purchase" => {
                count("purchases", "product_id", number("quantity"));
                let spent = if object["currency"] == "USD" { number("price") } else { 0 };
                *user.revenue.get_or_insert(0) += spent * number("quantity");
            }
            _ => {
                user.written = user.written.max(received_at);
                change(user, object);
            }
        }
    }

    /// Every user as shown, without what only the program knows; sorted.
    pub fn users(&self) -> Vec<String> {
        let mut users: Vec<String> = self.users.iter().map(show).collect();
        users.sort_unstable();
        users
    }
}

fn change(user: &mut User, object: &Value) {
    let entries = |name: &str| object[name].as_object().cloned().unwrap_or_default();
    for (name, value) in entries("fields") {
        match value {
            Value::Null => _ = user.fields.remove(&name),
            value => _ = user.fields.insert(name, value),
        }
    }
    for (name, value) in entries("custom") {
        match value {
            Value::Null => _ = user.custom.remove(&name),
            value => _ = user.custom.insert(name, value),
        }
    }
    for (name, by) in entries("inc") {
        let value = user.custom.entry(name).or_insert(json!(0));
        *value = json!(value.as_i64().expect("a number") + by.as_i64().expect("a number"));
    }
    for (name, elements) in entries("add") {
        if let Value::Array(all) = user.custom.entry(name).or_insert(json!([])) {
            for element in elements.as_array().expect("an array") {
                if !all.contains(element) {
                    all.push(element.clone());
                }
            }
        }
    }
    for (name, elements) in entries("remove") {
        if let Some(Value::Array(all)) = user.custom.get_mut(&name) {
            all.retain(|element| !elements.as_array().expect("an array").contains(element));
        }
    }
}

fn show(user: &User) -> String {
    let mut shown = Value::Object(user.fields.clone());
    if !user.custom.is_empty() {
        shown["custom_attributes"] = Value::Object(user.custom.clone());
    }
    for ((kind, name), (first, last, count)) in &user.deeds {
        if !shown[kind].is_array() {
            shown[kind] = json!([]);
        }
        let (first, last) = (format_time(*first), format_time(*last));
        let entry = json!({"name": name, "first": first, "last": last, "count": count});
        shown[kind].as_array_mut().expect("an array").push(entry);
    }
    if let Some(revenue) = user.revenue {
        shown["total_revenue"] = match revenue % 1_000_000 {
            0 => json!(revenue / 1_000_000),
            _ => json!(revenue as f64 / 1e6),
        };
    }
    shown.to_string()
}
