//! Imports that a signal interrupts, or that do not start.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::World;
use crate::support::eventually;
use crate::support::stores::{on_pool, on_sqlite};

on_sqlite!(World =>
    the_rejected_lines_of_an_interrupted_import_are_kept,
    an_import_that_does_not_start_leaves_no_file,
);

async fn the_rejected_lines_of_an_interrupted_import_are_kept(world: World) {
    world.migrate();
    let path = |name: &str| world.test.config.data.join(name).display().to_string();
    let (first, second) = (path("first.ndjson"), path("second.ndjson"));
    // A batch of 2,000 is reported when the next one was read.
    let lines: Vec<String> = (0..5_000)
        .map(|n| json!({"external_id": format!("u{n}"), "gender": "x"}).to_string())
        .collect();
    let mut child = world.command(&["import", "-", "--rejects", &first]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    stdin.flush().unwrap();
    let rejected = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    eventually("a batch is reported", async || rejected(&first).lines().count() >= 2_000).await;
    let signal = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status();
    assert!(signal.unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let kept = rejected(&first);
    assert!(kept.ends_with('\n'));
    let kept: Vec<&str> = kept.lines().collect();
    assert_eq!(kept, lines[..kept.len()]);

    // The file is not overwritten; with another one, the import is finished.
    let input = lines.join("\n");
    let (ok, _, err) = world.run(&["import", "-", "--rejects", &first], "");
    assert!(!ok && err.contains(&first), "{err}");
    let (ok, _, err) = world.run(&["import", "-", "--rejects", &second], &input);
    assert!(!ok && !err.contains(&first), "{err}");
    assert_eq!(rejected(&second).lines().collect::<Vec<_>>(), lines);
}

async fn an_import_that_does_not_start_leaves_no_file(world: World) {
    world.migrate();
    let rename = async |sql: &'static str| {
        on_pool!(&world.test.store, pool => sqlx::query(sql).execute(pool).await.map(drop)).unwrap()
    };
    let rejects = world.test.config.data.join("rejects.ndjson").display().to_string();
    let import = |line: &str| world.run(&["import", "-", "--rejects", &rejects], line);
    rename("ALTER TABLE audit_log RENAME TO unavailable").await;
    let (ok, _, err) = import("");
    assert!(!ok && !Path::new(&rejects).exists(), "{err}");
    rename("ALTER TABLE unavailable RENAME TO audit_log").await;
    let (ok, _, err) = import("x\n");
    assert!(!ok, "{err}");
    assert_eq!(std::fs::read_to_string(&rejects).unwrap(), "x\n");
}
