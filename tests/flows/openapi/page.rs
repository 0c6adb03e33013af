//! The page `/docs`, and the samples in it.

use std::io::Read as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use regex::Regex;
use sha2::{Digest as _, Sha256};

use super::world::World;
use crate::support::contract::CONTRACT;
use crate::support::fleet::Backend;
use crate::support::{process, python};

#[tokio::test(flavor = "multi_thread")]
async fn the_page_loads_its_own_script_and_nothing_else() {
    let world = World::start(Backend::Embedded).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = |path: &str| client.get(format!("{}{path}", world.fleet.base()));
    let page = get("/docs").send().await.unwrap();
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self' 'sha256-"), "{policy}");
    assert!(!policy.contains("http") && !policy.contains("unsafe-eval"), "{policy}");
    let page = page.text().await.unwrap();
    let sources = Regex::new(r#"(?:src|href)="([^"]+)""#).unwrap();
    let sources: Vec<&str> =
        sources.captures_iter(&page).map(|found| found.extract::<1>().1[0]).collect();
    let [icon, document, path] = sources[..] else { panic!("{sources:?}") };
    assert_eq!((icon, document), ("data:,", "/openapi.json"));

    // The browser checks the same sum, whether it accepts gzip or not.
    let plain = get(path).send().await.unwrap();
    assert_eq!(plain.headers()["content-type"], "text/javascript; charset=utf-8");
    assert!(plain.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    let plain = plain.bytes().await.unwrap();
    let gzip = get(path).header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(gzip.headers()["content-encoding"], "gzip");
    let gzip = gzip.bytes().await.unwrap();
    assert!(gzip.len() < 2 << 20, "{}", gzip.len());
    let mut script = Vec::new();
    GzDecoder::new(&gzip[..]).read_to_end(&mut script).unwrap();
    assert!(plain == script);
    let sum = STANDARD.encode(Sha256::digest(&script));
    assert!(page.contains(&format!("<script src=\"{path}\" integrity=\"sha256-{sum}\">")));
    // And lets what starts it run, which it knows by its sum.
    let start = page.split("<script>").nth(1).unwrap().split("</script>").next().unwrap();
    let sum = STANDARD.encode(Sha256::digest(start));
    assert!(policy.contains(&format!("'sha256-{sum}'")), "{policy}");
    world.fleet.close().await;
}

/// Each operation but the signed ones has a sample for a shell and one for Python.
#[tokio::test]
async fn samples_can_be_parsed() {
    let mut shell = String::new();
    let mut programs = Vec::new();
    for (path, method, operation) in CONTRACT.operations() {
        let is_signed = operation["security"].to_string().contains("Signature");
        let samples = operation["x-codeSamples"].as_array();
        assert_eq!(samples.is_none(), is_signed, "{method} {path}");
        for sample in samples.into_iter().flatten() {
            let source = sample["source"].as_str().unwrap();
            match sample["label"].as_str().unwrap() {
                "curl" => shell += &format!("{source}\n"),
                "Python" => programs.push(source),
                other => panic!("{other}"),
            }
        }
    }
    assert!(programs.len() > 20, "{}", programs.len());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("samples.sh");
    std::fs::write(&file, shell).unwrap();
    let mut command = Command::new("sh");
    command.arg("-n").arg(file);
    let output = process::output(command).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = directory.path().join("samples.json");
    std::fs::write(&file, serde_json::to_string(&programs).unwrap()).unwrap();
    let mut command = Command::new("python3");
    command.arg("-c").arg(
        "import json, sys\n[compile(text, text, 'exec') for text in json.load(open(sys.argv[1]))]",
    );
    let output = process::output({
        command.arg(file);
        command
    })
    .await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The sample that people try first, as it is.
#[tokio::test(flavor = "multi_thread")]
async fn the_sample_of_tracking_works() {
    let world = World::start(Backend::Embedded).await;
    let served = world.keyless(reqwest::Method::GET, "/openapi.json").await;
    let source = &served.body["paths"]["/users/track"]["post"]["x-codeSamples"][0]["source"];
    let mut command = Command::new("sh");
    command.arg("-c").arg(source.as_str().unwrap()).env("LONGSHORE_KEY", world.api.key());
    command.env("no_proxy", "*").stdin(Stdio::null());
    let output = process::output(command).await;
    let body: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(body["message"], "success", "{body}");
    assert_eq!(body["errors"], serde_json::Value::Null, "{body}");
    world.fleet.close().await;
}

/// In a browser: every operation is shown, the search finds, nothing comes from elsewhere, and
/// the page fits a phone. `LONGSHORE_SCREENSHOTS` names a folder for pictures of it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn a_browser_shows_every_operation() {
    let world = World::start(Backend::Embedded).await;
    let mut command = Command::new(python::interpreter("openapi/requirements.txt").await);
    command.arg(python::file("openapi/page.py")).arg(world.fleet.base()).arg("/usr/bin/chromium");
    command.args(std::env::var_os("LONGSHORE_SCREENSHOTS"));
    let output = process::output(command).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.fleet.close().await;
}
