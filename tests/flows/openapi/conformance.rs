//! The binary, held against its document by schemathesis, and the document against the schema of
//! OpenAPI: programs of other people, which `scripts/python` installs.

use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use super::world::{APP, CAMPAIGN, CANVAS, CATALOG, RECEIPT, SEGMENT, World};
use crate::support::api::answer;
use crate::support::contract::CONTRACT;
use crate::support::fleet::Backend;
use crate::support::{process, python};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows/openapi");

/// A program of the packages in `openapi/requirements.txt`.
async fn program(name: &str) -> Command {
    let python = python::interpreter("openapi/requirements.txt").await;
    Command::new(python.replace("/bin/python", &format!("/bin/{name}")))
}

#[tokio::test]
async fn the_document_is_one_of_openapi() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("openapi.json");
    std::fs::write(&file, CONTRACT.document.to_string()).unwrap();
    let mut command = program("python").await;
    command.arg(format!("{HERE}/document.py")).stdin(std::fs::File::open(file).unwrap());
    let output = process::output(command).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Every check of schemathesis, in every phase, with a few examples of each call;
/// `SCHEMATHESIS_EXAMPLES` says how many, for a longer run by hand.
async fn conforms(backend: Backend) {
    let world = World::start(backend).await;
    let directory = tempfile::tempdir().unwrap();
    let examples = std::env::var("SCHEMATHESIS_EXAMPLES").unwrap_or("3".into());
    let mut command = program("schemathesis").await;
    command
        .args(["--config-file", &format!("{HERE}/schemathesis.toml")])
        .args(["run", &format!("{}/openapi.json", world.fleet.base())])
        .args(["--checks", "all", "--max-examples", &examples, "--generation-database", "none"])
        .args(["--no-color", "--report", "json", "--report-json-path", "report.json"])
        // It writes where it runs.
        .current_dir(&directory)
        .env("SCHEMATHESIS_HOOKS", format!("{HERE}/hooks.py"))
        .env("LONGSHORE_KEY", world.api.key())
        .env("LONGSHORE_SCIM_TOKEN", &world.token)
        .env("THERE", there(&world).await.to_string());
    let output = process::output(command).await;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    println!("{out}");
    let report = std::fs::read(directory.path().join("report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    // It leaves out where it has read the document.
    // Reports are signed, which it cannot do.
    let is_tested = |path: &str, operation: &Value| {
        path != "/openapi.json" && operation["security"] != json!([{ "Signature": [] }])
    };
    let others =
        CONTRACT.operations().filter(|(path, _, operation)| is_tested(path, operation)).count();
    assert_eq!(report["operations"]["tested"], others, "{report}");
    for phase in ["examples", "coverage", "fuzzing", "stateful"] {
        assert_eq!(report["phases"][phase]["status"], "success", "{phase}: {report}");
    }
    // Far fewer mean that it did not find what there is to check.
    assert!(report["test_cases"]["generated"].as_u64().is_some_and(|cases| cases > 2_000));
    world.fleet.close().await;
}

/// What calls can be about: a user, an export that is done, and what the workspace declares.
async fn there(world: &World) -> Value {
    let user = json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "ann@acme.example",
    });
    let user = answer(world.scim(Method::POST, "/Users").json(&user)).await;
    let accepted = world.api.export(&json!({ "fields_to_export": ["email"] })).await;
    world.api.done(&accepted.prefix).await;
    // A page of one has a cursor only if there is another export.
    world.api.export(&json!({ "fields_to_export": ["email"] })).await;
    let page = world.api.get("/users/export?limit=1").await;
    json!({
        "app": APP, "campaign": CAMPAIGN, "segment": SEGMENT,
        "canvas": CANVAS, "receipt": RECEIPT, "catalog": CATALOG, "workspace": "acme", "user": user.body["id"],
        "cursor": page.body["next_cursor"], "object_prefix": accepted.prefix,
        "signature": accepted.address().rsplit_once("signature=").expect("a signature").1,
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn a_gateway_is_as_it_is_described() {
    conforms(Backend::Embedded).await;
}
