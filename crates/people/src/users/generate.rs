//! Realistic users: some with little data, many with some, a few with a lot; names and words in
//! many scripts, every field of the export's user record, every type of custom attribute.
//!
//! The same seed, date and number give the same user, whichever others are generated. All activity
//! is before the date, and at most 88 days before it, so that an export on that day or the next has
//! all of it.

mod words;

use std::fmt::Write as _;

use jiff::civil::{Date, date};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use self::words::Place;
use super::{BUCKETS, service_id};
use kit::clock::format_time;
use kit::json::push_string;
use kit::money;

const DAY_MS: i64 = 86_400_000;
const ACTIVITY_DAYS: i64 = 88;
const OLDEST_DAYS: i64 = 5 * 365;

/// Generates users.
#[derive(Clone, Debug)]
pub struct Users {
    seed: u64,
    rng: ChaCha8Rng,
    /// The start of the date, in milliseconds since the epoch.
    end_ms: i64,
}

/// The amount of data of a user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Little,
    Something,
    Much,
}

impl Users {
    /// Users without activity on `as_of` or later.
    pub fn new(seed: u64, as_of: Date) -> Self {
        let days = i64::from((as_of - date(1970, 1, 1)).get_days());
        Self { seed, rng: ChaCha8Rng::seed_from_u64(seed), end_ms: days * DAY_MS }
    }

    /// Appends the record of user `number`, without an end of line.
    pub fn write(&mut self, number: u64, out: &mut String) {
        self.rng.set_stream(number);
        self.rng.set_word_pos(0);
        let created_ms = self.end_ms - self.rng.random_range(DAY_MS..OLDEST_DAYS * DAY_MS);
        let known = match self.rng.random_range(0..100u32) {
            0..25 => Known::Little,
            25..78 => Known::Something,
            _ => Known::Much,
        };
        let place = &words::PLACES[self.rng.random_range(0..words::PLACES.len() as u32) as usize];
        let mut user = User {
            rng: &mut self.rng,
            out,
            first: true,
            number,
            seed: self.seed,
            created_ms,
            end_ms: self.end_ms,
            known,
            place,
        };
        user.write();
    }
}

/// A user in progress.
struct User<'a> {
    rng: &'a mut ChaCha8Rng,
    out: &'a mut String,
    /// Whether the next field is the first of its object.
    first: bool,
    number: u64,
    seed: u64,
    created_ms: i64,
    end_ms: i64,
    known: Known,
    place: &'static Place,
}

impl User<'_> {
    fn write(&mut self) {
        self.open('{');
        self.identity();
        self.person();
        self.attribution();
        if self.known > Known::Little || self.chance(30) {
            self.custom_attributes();
        }
        if self.chance(90) {
            self.apps_and_devices();
        }
        self.activity();
        self.close('}');
    }

    fn identity(&mut self) {
        let bucket = self.rng.random_range(0..BUCKETS);
        let counter = (self.rng.next_u32() & 0xfff) as u16;
        let id = service_id::new(self.created_ms, counter, bucket, self.rng.next_u64());
        self.raw("service_id", format_args!("\"{id}\""));
        if self.known > Known::Little || self.chance(50) {
            let (seed, number) = (self.seed, self.number);
            self.raw("external_id", format_args!("\"customer-{seed:x}-{number:08}\""));
        }
        if self.chance(20) {
            self.key("user_aliases");
            self.open('[');
            for label in self.pick_several(words::ALIAS_LABELS, 2) {
                self.separate();
                self.open('{');
                let number = self.number;
                let seed = self.seed;
                self.raw("alias_name", format_args!("\"{seed:x}/{number}\""));
                self.text("alias_label", label);
                self.close('}');
            }
            self.close(']');
        }
        self.raw("random_bucket", format_args!("{bucket}"));
        self.time("created_at", self.created_ms);
    }

    fn person(&mut self) {
        let place = self.place;
        let (given, gender) = self.pick(place.given);
        if self.known > Known::Little {
            let (handle, domain) = (self.pick(words::HANDLES), self.pick(words::DOMAINS));
            let number = self.number;
            let seed = self.seed;
            self.raw("email", format_args!("\"{handle}.{seed:x}.{number}@{domain}\""));
            if self.chance(60) {
                let first = self.rng.random_range(1..10u32);
                self.key("phone");
                let _ = write!(self.out, "\"{}{first}", place.dial);
                for _ in 1..place.digits {
                    let digit = self.rng.random_range(0..10u32);
                    let _ = write!(self.out, "{digit}");
                }
                self.out.push('"');
            }
            self.text("first_name", given);
            let family = self.pick(place.family);
            self.text("last_name", family);
            let gender = if self.chance(4) { "P" } else { gender };
            if self.chance(70) {
                self.text("gender", gender);
            }
            if self.chance(60) {
                let (year, month, day) = (
                    self.rng.random_range(1940..2008u32),
                    self.rng.random_range(1..13u32),
                    self.rng.random_range(1..29u32),
                );
                self.raw("dob", format_args!("\"{year}-{month:02}-{day:02}\""));
            }
        }
        self.text("country", place.country);
        self.text("language", place.language);
        self.text("time_zone", place.time_zone);
        if self.known > Known::Little && self.chance(80) {
            self.text("home_city", place.city);
        }
        if self.chance(45) {
            let mut near = || f64::from(self.rng.random_range(-5_000..5_000i32)) / 100_000.0;
            let (longitude, latitude) = (place.longitude + near(), place.latitude + near());
            self.raw("last_coordinates", format_args!("[{longitude:.5},{latitude:.5}]"));
        }
    }

    fn attribution(&mut self) {
        if self.chance(20) {
            let (campaign, source) = (self.pick(words::CAMPAIGNS), self.pick(words::SOURCES));
            self.text("attributed_campaign", campaign);
            self.text("attributed_source", source);
            let (group, ad) = (self.rng.random_range(1..40u32), self.rng.random_range(1..900u32));
            self.raw("attributed_adgroup", format_args!("\"group {group}\""));
            self.raw("attributed_ad", format_args!("\"ad-{ad}\""));
        }
    }

    /// Strings, whole and decimal numbers, booleans, times, arrays, objects; empty ones too.
    fn custom_attributes(&mut self) {
        let rich = self.known == Known::Much;
        self.key("custom_attributes");
        self.open('{');
        let tier = self.pick(words::TIERS);
        self.text("loyalty_tier", tier);
        let points = self.rng.random_range(0..200_000u32);
        self.raw("loyalty_points", format_args!("{points}"));
        let (stars, tenths) = (self.rng.random_range(0..5u32), self.rng.random_range(0..10u32));
        self.raw("average_rating", format_args!("{stars}.{tenths}0"));
        let vip = self.chance(10);
        self.raw("is_vip", format_args!("{vip}"));
        let visited = self.moment(self.created_ms);
        self.time("last_visit_at", visited);
        let color = self.pick(words::COLORS);
        self.text("favorite color", color);
        if self.chance(50) {
            let phrase = self.pick(self.place.phrases);
            self.text("delivery_note", phrase);
        }
        if self.chance(15) {
            self.text("nickname", "");
        }
        if rich || self.chance(30) {
            self.key("favorite_products");
            self.open('[');
            for (name, _) in self.pick_several(words::PRODUCTS, 4) {
                self.separate();
                push_string(self.out, name);
            }
            self.close(']');
        }
        if rich {
            self.rich_attributes();
        }
        self.close('}');
    }

    fn rich_attributes(&mut self) {
        let card = self.rng.random_range(10_000_000_000_000_000_000..u64::MAX);
        self.raw("card_number", format_args!("{card}"));
        let balance = self.rng.random_range(-90_000..90_000i64);
        self.raw("balance", format_args!("{balance}e-2"));
        self.key("sizes");
        let (shoe, shirt) = (self.rng.random_range(35..47u32), self.rng.random_range(36..60u32));
        let _ = write!(self.out, "[{shoe},{shirt}.5]");
        let (city, phrase) = (self.place.city, self.pick(self.place.phrases));
        self.key("address");
        self.open('{');
        self.text("city", city);
        let house = self.rng.random_range(1..200u32);
        self.raw("house", format_args!("{house}"));
        self.text("note", phrase);
        self.raw("verified", format_args!("false"));
        let since = self.moment(self.created_ms);
        self.time("since", since);
        self.close('}');
        self.key("household");
        self.open('[');
        let place = self.place;
        for (name, _) in self.pick_several(place.given, 3) {
            self.separate();
            self.open('{');
            self.text("name", name);
            let born = self.rng.random_range(1950..2023u32);
            self.raw("born", format_args!("{born}"));
            self.raw("pets", format_args!("[]"));
            self.close('}');
        }
        self.close(']');
        for attribute in 1..=self.rng.random_range(4..10u32) {
            let score = self.rng.random_range(0..10_000u32);
            self.raw(&format!("affinity_{attribute:02}"), format_args!("0.{score:04}"));
        }
        for attribute in 1..=self.rng.random_range(2..6u32) {
            let phrase = self.pick(self.place.phrases);
            self.text(&format!("survey_2024_answer_{attribute}"), phrase);
        }
    }

    fn apps_and_devices(&mut self) {
        let max_apps = if self.known == Known::Much { 3 } else { 1 };
        let apps = self.pick_several(words::APPS, max_apps);
        self.key("apps");
        self.open('[');
        for (name, platform) in &apps {
            self.separate();
            self.open('{');
            self.text("name", name);
            self.text("platform", platform);
            let version = self.rng.random_range(0..60u32);
            self.raw("version", format_args!("\"7.{version}.1\""));
            let sessions = self.rng.random_range(1..900u32);
            self.raw("sessions", format_args!("\"{sessions}\""));
            let first_used = self.moment(self.created_ms);
            let last_used = self.moment(first_used);
            self.time("first_used", first_used);
            self.time("last_used", last_used);
            self.close('}');
        }
        self.close(']');
        self.key("devices");
        self.open('[');
        for (_, platform) in &apps {
            self.separate();
            self.open('{');
            self.device(platform);
            self.close('}');
        }
        self.close(']');
        if self.chance(8) {
            let at = self.moment(self.created_ms);
            self.time("uninstalled_at", at);
        }
    }

    fn device(&mut self, platform: &str) {
        let models = match platform {
            "iOS" => words::IOS_DEVICES,
            "Android" => words::ANDROID_DEVICES,
            "Roku" => &[("Roku Ultra", "Roku OS 12.5")],
            _ => &[("", "Chrome 123"), ("", "Firefox 124"), ("", "Safari 17")],
        };
        let (model, os) = self.pick(models);
        if !model.is_empty() {
            self.text("model", model);
        }
        self.text("os", os);
        if matches!(platform, "iOS" | "Android") && self.chance(60) {
            let carrier = self.pick(words::CARRIERS);
            self.text("carrier", carrier);
        }
        let tracking = self.chance(40);
        match platform {
            "iOS" => {
                self.uuid("idfv");
                if tracking {
                    self.uuid("idfa");
                }
            }
            "Android" => {
                let id = self.rng.next_u64();
                self.raw("device_id", format_args!("\"{id:016x}\""));
                if tracking {
                    self.uuid("google_ad_id");
                }
            }
            "Roku" => self.uuid("roku_ad_id"),
            _ => {}
        }
        self.raw("ad_tracking_enabled", format_args!("{tracking}"));
    }

    fn activity(&mut self) {
        let (max_events, max_purchases) = match self.known {
            Known::Little => (1, 0),
            Known::Something => (3, 2),
            Known::Much => (7, 6),
        };
        let mut hundredths = 0;
        let products = self.pick_several(words::PRODUCTS, max_purchases);
        if !products.is_empty() && self.chance(65) {
            self.key("purchases");
            self.open('[');
            for (name, price) in products {
                hundredths += price * self.entry(name, 6);
            }
            self.close(']');
            if self.chance(50) {
                hundredths += self.rng.random_range(0..200_000i64);
            }
            let revenue = money::format(hundredths * (money::MILLION / 100));
            self.raw("total_revenue", format_args!("{revenue}"));
        }
        let events = self.pick_several(words::EVENTS, max_events);
        if !events.is_empty() {
            self.key("custom_events");
            self.open('[');
            for name in events {
                self.entry(name, 120);
            }
            self.close(']');
        }
    }

    /// One product or event over the last days; returns its count.
    fn entry(&mut self, name: &str, max_count: i64) -> i64 {
        let start = self.created_ms.max(self.end_ms - ACTIVITY_DAYS * DAY_MS);
        let first = self.moment(start);
        let count = self.rng.random_range(1..=max_count);
        let last = if count == 1 { first } else { self.moment(first) };
        self.separate();
        self.open('{');
        self.text("name", name);
        self.time("first", first);
        self.time("last", last);
        self.raw("count", format_args!("{count}"));
        self.close('}');
        count
    }

    // Chance ---------------------------------------------------------------------------

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100u32) < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.random_range(0..from.len() as u32) as usize]
    }

    /// 1 to `max` different ones (none for 0), ascending.
    fn pick_several<T: Copy + Ord>(&mut self, from: &[T], max: u32) -> Vec<T> {
        let mut picked = Vec::new();
        if max > 0 {
            for _ in 0..self.rng.random_range(1..=max) {
                picked.push(self.pick(from));
            }
        }
        picked.sort_unstable();
        picked.dedup();
        picked
    }

    /// A moment from `from` on and before the end.
    fn moment(&mut self, from: i64) -> i64 {
        self.rng.random_range(from..self.end_ms)
    }

    // Writing --------------------------------------------------------------------------

    fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.first = true;
    }

    fn close(&mut self, bracket: char) {
        self.out.push(bracket);
        self.first = false;
    }

    fn separate(&mut self) {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(',');
        }
    }

    fn key(&mut self, name: &str) {
        self.separate();
        push_string(self.out, name);
        self.out.push(':');
    }

    fn text(&mut self, name: &str, text: &str) {
        self.key(name);
        push_string(self.out, text);
    }

    fn time(&mut self, name: &str, ms: i64) {
        self.raw(name, format_args!("\"{}\"", format_time(ms)));
    }

    fn uuid(&mut self, name: &str) {
        let id = uuid::Builder::from_u128(self.rng.random())
            .with_version(uuid::Version::Random)
            .with_variant(uuid::Variant::RFC4122)
            .into_uuid();
        self.raw(name, format_args!("\"{id}\""));
    }

    fn raw(&mut self, name: &str, value: std::fmt::Arguments<'_>) {
        self.key(name);
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(value);
    }
}
