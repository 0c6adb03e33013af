//! No command prints a secret of its settings, whatever goes wrong.

use std::collections::BTreeMap;

use futures::StreamExt as _;

use super::*;

/// In each secret of the settings, in a form that they accept where they have one.
const SECRET: &str = "c2VjcmV0LW9mLWEtdGVzdC13aXRoLTMyLWJ5dGVzISE=";

/// These do not end by themselves.
const SERVICES: [&str; 4] = ["demo", "gateway", "standalone", "worker"];

fn settings(values: &[(&str, String)]) -> BTreeMap<String, String> {
    values.iter().map(|(name, value)| (format!("LONGSHORE_{name}"), value.clone())).collect()
}

/// The required arguments of a command, with a value that names nothing.
fn required_arguments(help: &str) -> Vec<String> {
    let usage = help.lines().find_map(|line| line.trim().strip_prefix("Usage: longshore"));
    let words = usage.unwrap_or_default().split_whitespace();
    let required = words.filter_map(|word| match word {
        word if word.starts_with('<') => Some("x".to_owned()),
        word if word.starts_with("--") => Some(word.to_owned()),
        _ => None,
    });
    required.collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn no_command_prints_secrets_of_its_settings() {
    let storage = format!("s3://b?access_key_id=a&secret_access_key={SECRET}");
    let unreachable = settings(&[
        ("SECRET_KEY", SECRET.to_owned()),
        ("KEY", SECRET.to_owned()),
        ("URL", "http://127.0.0.1:1".to_owned()),
        ("DATABASE_URL", format!("postgres://u:{SECRET}@127.0.0.1:1/x")),
        ("LOG_URL", "kafka://127.0.0.1:1".to_owned()),
        ("OBJECTS_URL", format!("{storage}&endpoint=http://127.0.0.1:1")),
        ("PUBLIC_URL", "http://127.0.0.1:1".to_owned()),
    ]);
    let invalid = settings(&[
        ("SECRET_KEY", format!("{SECRET}x")),
        ("KEY", format!("{SECRET}\n")),
        ("URL", format!("http://u:{SECRET}@[/")),
        ("DATABASE_URL", format!("postgre://u:{SECRET}@127.0.0.1:1/x?password={SECRET}")),
        ("LOG_URL", format!("kafka://u:{SECRET}@127.0.0.1:1")),
        ("OBJECTS_URL", format!("{storage}&colour={SECRET}")),
        ("PUBLIC_URL", format!("http://u:{SECRET}@127.0.0.1:1")),
    ]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = async |arguments: &[String], environment: &BTreeMap<String, String>| -> Output {
        let mut command = process::command(directory.path(), environment);
        command.args(arguments);
        process::output(command).await
    };
    let mut commands: Vec<Vec<String>> = vec![vec![]];
    let mut tries = Vec::new();
    while let Some(path) = commands.pop() {
        let help = run(&[path.clone(), vec!["--help".to_owned()]].concat(), &unreachable).await;
        let help = text(&help.stdout);
        let names = commands_of(&help).into_iter();
        let names = names.filter(|name| !SERVICES.contains(&name.as_str()));
        commands.extend(names.map(|name| [path.clone(), vec![name]].concat()));
        let arguments = [path, required_arguments(&help)].concat();
        tries.extend([&unreachable, &invalid].map(|environment| (arguments.clone(), environment)));
    }
    assert!(tries.len() > 150, "{tries:?}");
    let check = async |(arguments, environment): (Vec<String>, &BTreeMap<String, String>)| {
        let output = run(&arguments, environment).await;
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert!(!printed.contains(SECRET), "{arguments:?} prints a secret: {printed}");
    };
    // Most wait for the unreachable database.
    futures::stream::iter(tries).for_each_concurrent(32, check).await;
}
