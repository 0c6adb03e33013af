//! `longshore demo`: an export from start to end, step by step.
//!
//! Every step is a command of this program or an API request, run as a user would run it; only the
//! check at the end looks inside the files.

mod callback;
mod check;
mod server;

use std::path::{Path, PathBuf};
use std::time::Instant;

use indicatif::{HumanBytes, HumanCount};
use uuid::Uuid;

use self::callback::Receiver;
use self::server::Standalone;
use super::CommandResult;
use super::export;
use super::export::client::{Body, Client};
use crate::config::Config;
use kit::secrets::random_bytes;
use kit::words::count;

/// Generate users, import them, export them with the API, receive the callback, download the files
/// and check every line: all in a data directory that is deleted at the end.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  longshore demo --users 10000")]
pub struct Arguments {
    /// Number of users
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    users: u64,
}

pub async fn run(_config: Config, arguments: Arguments) -> CommandResult {
    let directory = Directory::create()?;
    tokio::select! {
        result = demo(&directory.0, arguments.users) => result,
        _ = tokio::signal::ctrl_c() => Err("interrupted; the data directory was deleted".into()),
    }
}

async fn demo(directory: &Path, users: u64) -> CommandResult {
    let begun = Instant::now();
    println!("Export users with Longshore, from start to end");
    println!("       in {}, which is deleted at the end\n", directory.display());

    let step = Step::begin(1, format!("generate {} realistic users", HumanCount(users)));
    let records = directory.join("users.ndjson");
    server::command(directory, &["generate", "--users", &users.to_string()], Some(&records))
        .await?;
    step.end(format!(
        "{} of newline-delimited JSON",
        HumanBytes(std::fs::metadata(&records)?.len())
    ));

    let step = Step::begin(2, "declare a workspace with all users in its control group");
    let workspace = Workspace::write(directory)?;
    server::command(directory, &["apply", "workspace.yaml"], None).await?;
    step.end("longshore apply workspace.yaml");

    let step = Step::begin(3, "import the users");
    server::command(directory, &["import", "users.ndjson"], None).await?;
    step.end("longshore import users.ndjson");

    let step = Step::begin(4, "start the service");
    let receiver = Receiver::start(workspace.callback_secret.clone()).await?;
    let server = Standalone::start(directory).await?;
    let client = Client::over(server.client.clone(), &server.url, workspace.key);
    step.end(format!("longshore standalone, on {}", server.url));

    let step = Step::begin(5, "request an export of every field");
    let mut body = Body::default();
    body.set("callback_endpoint", &receiver.url)?;
    body.set("fields_to_export", &crate::proof::fields::record().collect::<Vec<_>>())?;
    let requested = client.request(&body, None).await?;
    let url = requested.url.ok_or("the API's response has no url")?;
    step.end(format!("object_prefix {}", requested.object_prefix));
    println!("     the same with curl:\n{}", curl(&server.url, &receiver.url));

    let step = Step::begin(6, "wait for the callback");
    let (finished, _) = export::wait(&client, &requested.object_prefix).await?;
    receiver.wait(&url).await?;
    step.end(format!(
        "{} in {}; the signature is valid",
        HumanBytes(finished.bytes),
        count(finished.files.done, "file")
    ));

    let step = Step::begin(7, "download and verify the export, and compare every line");
    let downloaded = export::download::fetch(&client, &url, directory, &finished, None).await?;
    let archive = downloaded.archive;
    let prefix = requested.object_prefix;
    let checked =
        tokio::task::spawn_blocking(move || check::archive(&archive, &records, &prefix)).await??;
    if checked.users != users {
        return Err(
            format!("{} users were imported, {} were exported", users, checked.users).into()
        );
    }
    step.end("verified: the signature, all hashes and counts, and every line");

    println!(
        "\nThe export is correct: every user once, every field as imported, at most {} lines per \
         file.\n{} users in {:.1} s.",
        HumanCount(check::LINES_PER_FILE as u64),
        HumanCount(users),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// A request like that of the demo, in lines that fit into a terminal.
fn curl(url: &str, callback: &str) -> String {
    format!(
        "       curl {url}/users/export/global_control_group \\\n         \
         -H \"Authorization: Bearer $LONGSHORE_KEY\" -H 'Content-Type: application/json' \\\n         \
         -d '{{\"callback_endpoint\": \"{callback}\",\n              \
         \"fields_to_export\": [\"external_id\", \"email\", \"…\"]}}'"
    )
}

/// The workspace that the demo declares.
struct Workspace {
    key: String,
    callback_secret: Vec<u8>,
}

impl Workspace {
    fn write(directory: &Path) -> CommandResult<Self> {
        use base64::{Engine as _, prelude::BASE64_STANDARD};
        let callback_secret = random_bytes::<32>().to_vec();
        let key = format!("demo-{}", Uuid::new_v4());
        let file = format!(
            "workspace: demo\n\
             currency: USD\n\
             keys:\n\
             \x20 - {{name: demo, secret: \"{key}\", permissions: [users.export.global_control_group]}}\n\
             control_group: {{percent: 100}}\n\
             callbacks: {{secret: \"whsec_{}\"}}\n",
            BASE64_STANDARD.encode(&callback_secret)
        );
        std::fs::write(directory.join("workspace.yaml"), file)?;
        Ok(Self { key, callback_secret })
    }
}

/// A step as printed: its name, its result and its time.
struct Step {
    begun: Instant,
}

impl Step {
    fn begin(number: u32, name: impl std::fmt::Display) -> Self {
        println!("{number}/7  {name}");
        Self { begun: Instant::now() }
    }

    fn end(self, result: impl std::fmt::Display) {
        println!("     {result} ({:.1} s)", self.begun.elapsed().as_secs_f64());
    }
}

/// The data directory, deleted at the end.
struct Directory(PathBuf);

impl Directory {
    fn create() -> std::io::Result<Self> {
        let directory = std::env::temp_dir().join(format!("longshore-demo-{}", Uuid::new_v4()));
        std::fs::create_dir_all(&directory)?;
        Ok(Self(directory))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
