//! The required effects of acknowledged requests, kept by the clients: plain sums, independent of
//! the program.

use std::collections::{BTreeMap, HashMap};

use futures::TryStreamExt as _;
use jiff::Timestamp;
use longshore::users::activity::Activity;
use serde_json::Value;
use sqlx::Connection as _;
use uuid::Uuid;

/// The workspace's currency, one that it has a rate for, and one that it has none for; and
/// what a hundredth of each counts in millionths of the first.
pub const CURRENCIES: [(&str, i64); 3] = [("USD", 10_000), ("EUR", 12_500), ("JPY", 0)];

/// The rate of the second.
pub const EUR_RATE: f64 = 1.25;

/// Millionths in a hundredth.
const HUNDREDTH: i64 = 10_000;

/// The data of users in an export that is compared with acknowledged requests.
pub const FIELDS: [&str; 7] = [
    "external_id",
    "service_id",
    "first_name",
    "custom_attributes",
    "custom_events",
    "purchases",
    "total_revenue",
];

/// What an object that was acknowledged does.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    Purchase {
        product: &'static str,
        /// By its place in [`CURRENCIES`].
        currency: usize,
        /// Of one, in hundredths.
        price: i64,
        quantity: u64,
        at: i64,
    },
    Event {
        name: &'static str,
        at: i64,
    },
    /// Adds one to an attribute.
    Visit,
    /// Sets attributes to a number: the last one stays.
    Step(u64),
}

/// How often something was done, and between which moments (milliseconds since the epoch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    count: u64,
    first: i64,
    last: i64,
}

impl Count {
    fn merged(self, other: Option<&Self>) -> Self {
        other.map_or(self, |other| Self {
            count: self.count + other.count,
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        })
    }
}

/// The required state of a user.
#[derive(Clone, Debug, Default)]
struct Account {
    purchases: BTreeMap<&'static str, Count>,
    events: BTreeMap<&'static str, Count>,
    /// In hundredths, by the place of the currency; those with nothing have no purchases.
    revenue: BTreeMap<usize, i64>,
    visits: u64,
    step: u64,
}

impl Account {
    fn enter(&mut self, effect: Effect) {
        let once = |count, at| Count { count, first: at, last: at };
        match effect {
            Effect::Purchase { product, currency, price, quantity, at } => {
                add(&mut self.purchases, product, once(quantity, at));
                *self.revenue.entry(currency).or_default() += price * quantity as i64;
            }
            Effect::Event { name, at } => add(&mut self.events, name, once(1, at)),
            Effect::Visit => self.visits += 1,
            Effect::Step(step) => self.step = step,
        }
    }

    fn merge(&mut self, other: Self) {
        other.purchases.into_iter().for_each(|(name, count)| add(&mut self.purchases, name, count));
        other.events.into_iter().for_each(|(name, count)| add(&mut self.events, name, count));
        for (currency, hundredths) in other.revenue {
            *self.revenue.entry(currency).or_default() += hundredths;
        }
        self.visits += other.visits;
        // Only one client ever sets it.
        self.step = self.step.max(other.step);
    }

    fn shown(&self) -> Shown {
        let named = |counts: &BTreeMap<&str, Count>| {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let total = self.revenue.iter().map(|(currency, sum)| sum * CURRENCIES[*currency].1).sum();
        Shown {
            purchases: named(&self.purchases),
            events: named(&self.events),
            total_revenue: (!self.revenue.is_empty()).then_some(total),
            visits: (self.visits > 0).then_some(self.visits),
            step: (self.step > 0).then_some(self.step),
            first_name: (self.step > 0).then(|| format!("step {}", self.step)),
        }
    }

    fn revenue(&self) -> BTreeMap<String, i64> {
        let revenue = self.revenue.iter();
        revenue.map(|(currency, sum)| (CURRENCIES[*currency].0.into(), sum * HUNDREDTH)).collect()
    }
}

fn add(counts: &mut BTreeMap<&'static str, Count>, name: &'static str, count: Count) {
    let merged = count.merged(counts.get(name));
    counts.insert(name, merged);
}

/// A user as an export shows them, as far as tracking has to do with it.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    purchases: BTreeMap<String, Count>,
    events: BTreeMap<String, Count>,
    /// In millionths.
    total_revenue: Option<i64>,
    visits: Option<u64>,
    step: Option<u64>,
    first_name: Option<String>,
}

impl Shown {
    fn from_user(user: &Value) -> Self {
        let revenue = &user["total_revenue"];
        let custom = &user["custom_attributes"];
        Self {
            purchases: counts(&user["purchases"]),
            events: counts(&user["custom_events"]),
            total_revenue: (!revenue.is_null()).then(|| millionths(&revenue.to_string())),
            visits: custom["visits"].as_u64(),
            step: custom["step"].as_u64(),
            first_name: user["first_name"].as_str().map(str::to_owned),
        }
    }
}

/// `purchases` or `custom_events` of a user.
fn counts(entries: &Value) -> BTreeMap<String, Count> {
    let mut counts = BTreeMap::new();
    for entry in entries.as_array().into_iter().flatten() {
        let name = entry["name"].as_str().unwrap_or_else(|| panic!("no name: {entry}"));
        let time = |member: &str| -> i64 {
            let text = entry[member].as_str().unwrap_or_else(|| panic!("no {member}: {entry}"));
            text.parse::<Timestamp>().expect("a time in ISO 8601").as_millisecond()
        };
        let count = entry["count"].as_u64().unwrap_or_else(|| panic!("no count: {entry}"));
        let count = Count { count, first: time("first"), last: time("last") };
        assert!(counts.insert(name.to_owned(), count).is_none(), "{name} is there twice");
    }
    counts
}

/// An amount with up to six digits behind the point.
fn millionths(text: &str) -> i64 {
    let (integer, rest) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{integer}{rest:0<6}");
    assert!(rest.len() <= 6, "{text} is more exact than millionths");
    digits.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What was acknowledged, by the users' numbers.
#[derive(Default)]
pub struct Ledger {
    accounts: HashMap<usize, Account>,
}

impl Ledger {
    pub fn enter(&mut self, user: usize, effect: Effect) {
        self.accounts.entry(user).or_default().enter(effect);
    }

    pub fn merge(&mut self, other: Self) {
        for (user, account) in other.accounts {
            self.accounts.entry(user).or_default().merge(account);
        }
    }

    /// How many purchases and events there are.
    pub fn totals(&self) -> (u64, u64) {
        let sum = |counts: &BTreeMap<&str, Count>| -> u64 {
            counts.values().map(|count| count.count).sum()
        };
        let accounts = self.accounts.values();
        accounts.fold((0, 0), |(purchases, events), account| {
            (purchases + sum(&account.purchases), events + sum(&account.events))
        })
    }

    /// A user's line in an export is what it must be.
    pub fn check(&self, number: usize, line: &Value) {
        let account = self.accounts.get(&number).cloned().unwrap_or_default();
        assert_eq!(Shown::from_user(line), account.shown(), "the export, and the ledger: {line}");
    }

    /// Whether anything was acknowledged about a user.
    pub fn has(&self, number: usize) -> bool {
        self.accounts.contains_key(&number)
    }

    /// The revenue by currency, which no export shows, is what it must be: that of each of
    /// these users by number, and of nobody else; those without a number are none of ours.
    pub async fn check_revenue(&self, database: &str, users: &HashMap<Uuid, Option<usize>>) {
        let mut database = sqlx::PgConnection::connect(database).await.expect("PostgreSQL answers");
        let mut rows =
            sqlx::query_as::<_, (Uuid, Vec<u8>)>("SELECT service_id, body FROM activity")
                .fetch(&mut database);
        let (mut found, none) = (0, BTreeMap::new());
        while let Some((id, body)) = rows.try_next().await.expect("activity is read") {
            let number = users.get(&id).unwrap_or_else(|| panic!("activity of nobody: {id}"));
            let Some(number) = number else { continue };
            let activity = Activity::decode(&body).expect("activity");
            let revenue: BTreeMap<String, i64> =
                activity.revenue().map(|(currency, sum)| (currency.to_owned(), sum)).collect();
            found += usize::from(!revenue.is_empty());
            let expected = self.accounts.get(number).map_or(none.clone(), Account::revenue);
            assert_eq!(revenue, expected, "the store, and the ledger, of user {number}");
        }
        let with = self.accounts.values().filter(|account| !account.revenue.is_empty());
        assert_eq!(found, with.count(), "users with revenue");
    }
}
