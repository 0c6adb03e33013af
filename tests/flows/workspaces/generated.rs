//! Properties of applying files, held by generated ones.

use longshore::catalogs;
use longshore::workspace_file::change::Options;
use longshore::workspaces::channels::settings;
use longshore::workspaces::keys;
use longshore::workspaces::{Workspace, by_name, channel_rows};
use proptest::collection::{btree_map, btree_set};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{World, lines};

/// Files that are applied in each way.
const CASES: u8 = 12;

fn uuid(kind: u8, number: u8) -> Uuid {
    Uuid::from_u128(u128::from(kind) << 8 | u128::from(number))
}

fn names() -> impl Strategy<Value = &'static str> {
    select(["Anna", "Bo", "Ümläut 🙂", "{x}"].as_slice())
}

/// Lists of things of a few keys, so that two files share some of them.
fn list<T: std::fmt::Debug + 'static>(
    each: impl Strategy<Value = T>,
    thing: impl Fn(u8, T) -> Value,
) -> impl Strategy<Value = Value> {
    let all = btree_map(0..4_u8, each, 0..4);
    all.prop_map(move |all| all.into_iter().map(|(number, value)| thing(number, value)).collect())
}

/// Keys whose secrets move from one to the next as the whole is rotated.
fn keys() -> impl Strategy<Value = Value> {
    (0..3_u8).prop_flat_map(|rotation| {
        list(select(["users.track", "messages.send"].as_slice()), move |number, permission| {
            let secret = format!("integrator-secret-number-{}", number + rotation);
            let name = format!("key {number}");
            json!({ "name": name, "secret": secret, "permissions": [permission] })
        })
    })
}

fn address() -> impl Strategy<Value = Value> {
    let secrets = select(["a-secret-that-is-long-enough", "another-one-that-is-long"].as_slice());
    (0..3_u8, secrets).prop_map(
        |(host, secret)| json!({ "url": format!("https://{host}.example/"), "secret": secret }),
    )
}

/// A file, without storage, which is tried, and without a control group, which stays.
fn file() -> impl Strategy<Value = Value> {
    let webhook = |host: u8| {
        let url = format!("https://{host}.example/");
        json!({ "webhook": { "url": url, "request_method": "GET" } })
    };
    let workspace = (
        select(["USD", "EUR"].as_slice()),
        btree_map(select(["GBP", "JPY"].as_slice()), 1..1_000_u32, 0..3),
        select(["UTC", "Europe/Berlin"].as_slice()),
        btree_set(select(["10.0.0.0/8", "::1"].as_slice()), 0..3),
        btree_map(select(["catalogs", "users.track"].as_slice()), 1..9_u32, 0..3),
        option::of(1..9_i64),
        list(
            option::of(select(["email", "sms"].as_slice())),
            |number, channel| json!({ "messages": number + 1, "days": 7, "channel": channel }),
        ),
    );
    let things = (
        keys(),
        list(
            (names(), select(["ios", "web"].as_slice())),
            |number, (name, platform)| json!({ "id": uuid(1, number), "name": name, "platform": platform }),
        ),
        list(
            btree_map(
                select(["City", "Open"].as_slice()),
                select(["string", "time"].as_slice()),
                0..3,
            ),
            |number, fields| {
                let field = |(name, kind)| json!({ "name": name, "type": kind });
                let fields: Value = fields.into_iter().map(field).collect();
                json!({ "name": format!("catalog-{number}"), "fields": fields })
            },
        ),
        list((names(), select(["opted_in", "subscribed"].as_slice())), |number, (name, value)| {
            let audience =
                json!({ "push_subscription_status": { "comparison": "is", "value": value } });
            json!({ "id": uuid(2, number), "name": name, "audience": audience })
        }),
        list(
            select(["+15550100", "+15550101"].as_slice()),
            |number, from| json!({ "id": uuid(3, number), "channel": "sms", "from": from }),
        ),
        list(
            (names(), any::<bool>(), 0..3_u8, option::of(Just("3d"))),
            move |number, (name, paused, host, window)| {
                json!({
                    "id": uuid(4, number), "name": name, "type": "api", "paused": paused,
                    "messages": webhook(host), "conversion_window": window, "tags": [name],
                })
            },
        ),
        list(
            (names(), 0..3_u8),
            move |number, (name, host)| json!({ "id": uuid(5, number), "name": name, "messages": webhook(host) }),
        ),
        option::of(address()),
        option::of(address()),
        option::of(address()),
    );
    (workspace, things).prop_map(|(workspace, things)| {
        let (currency, mut rates, time_zone, allow, limits, users, capping) = workspace;
        rates.remove(currency);
        let limits: serde_json::Map<String, Value> = limits
            .into_iter()
            .map(|(budget, requests)| {
                (budget.to_owned(), json!({ "requests": requests, "seconds": 60 }))
            })
            .collect();
        let (keys, apps, catalogs, segments, groups, campaigns, canvases, push, sms, post) = things;
        let email = post.map(|post| json!({ "smtp": "smtp://relay", "status_postback": post }));
        json!({
            "currency": currency, "exchange_rates": rates, "time_zone": time_zone,
            "ip_allowlist": allow, "rate_limits": limits, "export_limits": { "users": users },
            "frequency_capping": capping, "keys": keys, "apps": apps, "catalogs": catalogs,
            "segments": segments, "subscription_groups": groups, "campaigns": campaigns,
            "canvases": canvases, "email": email, "providers": { "push": push, "sms": sms },
        })
    })
}

impl World {
    /// Applies a generated file, or none, to the workspace of that name; returns the changes.
    async fn bring(&self, name: &str, file: Option<&Value>) -> Vec<String> {
        let rest = file.cloned().unwrap_or_else(|| json!({}));
        let mut document = json!({ "workspace": name });
        let fields = document.as_object_mut().unwrap();
        fields.extend(rest.as_object().unwrap().clone());
        let options = Options { dry_run: false, prune: true, confirmed: false };
        // A secret that another workspace had is refused once it is revoked there.
        let secrets = format!("secret-of-{name}-with-number");
        let text = document.to_string().replace("integrator-secret-number", &secrets);
        let applied = self.apply_with(&text, options).await;
        lines(&applied.unwrap_or_else(|error| panic!("{error}\n{document:#}")))
    }

    /// What is stored of a workspace that a file declares; what it creates itself is left out.
    async fn stored(&self, name: &str) -> String {
        let mut tx = self.app.store.snapshot().await.unwrap();
        let workspace = by_name(&mut tx, name).await.unwrap().unwrap();
        let id = workspace.id;
        let keys = keys::list(&mut tx, Some(id)).await.unwrap();
        let keys: Vec<_> = keys
            .into_iter()
            .filter(|key| key.revoked_at.is_none())
            .map(|key| (key.name, key.permissions, key.allow, key.declared))
            .collect();
        let catalogs = catalogs::rows::list(&mut tx, id).await.unwrap();
        let catalogs: Vec<_> =
            catalogs.iter().map(|catalog| (&catalog.name, catalog.fields.all())).collect();
        let mut campaigns = longshore::campaigns::stored(&mut tx, id).await.unwrap();
        campaigns.sort_by_key(|campaign| campaign.id);
        let segments = channel_rows::segments(&mut tx, id).await.unwrap();
        let (secrets, config) = (&self.app.secrets, &self.app.config);
        let mut sends = settings(&mut tx, secrets, config, id).await.unwrap();
        (sends.callbacks, sends.webhooks) = Default::default();
        sends.segments.clear();
        let addresses = [&sends.push, &sends.sms].map(|provider| {
            provider.as_ref().map(|provider| provider.secret.as_ref().map(|secret| &secret.0))
        });
        let workspace = Workspace { id: 0, name: String::new(), ..workspace };
        format!(
            "{workspace:#?}{keys:#?}{catalogs:#?}{campaigns:#?}{segments:#?}{sends:#?}{addresses:?}"
        )
    }
}

pub(super) async fn files_are_applied_to_any_state(world: World) {
    let mut runner = TestRunner::default();
    let mut next = || file().new_tree(&mut runner).unwrap().current();
    for case in 0..CASES {
        let (first, second) = (next(), next());
        let (alone, over) = (format!("alone-{case}"), format!("over-{case}"));
        world.bring(&alone, Some(&second)).await;
        assert_eq!(world.bring(&alone, Some(&second)).await, Vec::<String>::new(), "{second:#}");
        let wanted = world.stored(&alone).await;
        // Apps and secrets are unique in the installation.
        world.bring(&alone, None).await;
        assert_eq!(world.bring(&alone, None).await, Vec::<String>::new(), "{second:#}");
        world.bring(&over, Some(&first)).await;
        world.bring(&over, Some(&second)).await;
        let found = world.stored(&over).await;
        assert!(found == wanted, "{second:#}\nover {first:#}\n{found}\nis not\n{wanted}");
        assert_eq!(world.bring(&over, Some(&second)).await, Vec::<String>::new(), "{second:#}");
        world.bring(&over, None).await;
    }
}
