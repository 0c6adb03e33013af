//! What an operator needs first: where `standalone` serves, where it keeps its data, and what to do
//! next (docs/how-to/standalone.md).

use std::path::{Path, PathBuf, absolute};

use super::super::CommandResult;
use super::super::console::link_for;
use crate::config::Config;
use crate::telemetry::{self, lines};
use console_frame::rights::Role;
use runtime::audit::operator;
use server::service::Service;

/// Reports that `service` is ready: some lines on a terminal, otherwise one log line, which
/// `longshore demo` reads. Only the terminal gets a link that signs in to the console: logs are
/// kept, and read by others.
pub async fn report(service: &Service, has_console: bool) -> CommandResult {
    // As for every event of this level, `RUST_LOG` decides.
    if !tracing::enabled!(tracing::Level::INFO) {
        return Ok(());
    }
    let config = &service.app.config;
    let has_workspace = !service.app.known_names.read(&service.app).await?.is_empty();
    let is_terminal = telemetry::is_text_on_terminal(config);
    let console = if !has_console {
        None
    } else if is_terminal {
        Some(sign_in_link(service).await)
    } else {
        Some(config.console_url().to_string())
    };
    let started = Started {
        console,
        api: config.public_base(),
        operations: format!("http://{}", config.ops.listen),
        data: absolute(&config.data)?,
        next: next_step(has_workspace, &config.data)?,
    };
    if is_terminal {
        lines::write_line(&started.text());
    } else {
        let Started { api, console, operations, data, next } = started;
        let docs = format!("{api}/docs");
        let data = data.display();
        tracing::info!(api, docs, console, operations, %data, next, "standalone started");
    }
    Ok(())
}

/// A link that signs the operator in. If there can be none, such as on a full disk, `standalone`
/// still starts.
async fn sign_in_link(service: &Service) -> String {
    match link_for(&service.app, operator(), Role::Admin).await {
        Ok(link) => link.url,
        Err(error) => {
            tracing::warn!(%error, "cannot create a sign-in link");
            service.app.config.console_url().to_string()
        }
    }
}

struct Started {
    api: String,
    /// The address of the console, if it is on.
    console: Option<String>,
    operations: String,
    data: PathBuf,
    next: String,
}

impl Started {
    fn text(&self) -> String {
        let Self { api, console, operations, data, next } = self;
        let console = console.as_ref().map(|url| format!("Console     {url}\n"));
        let console = console.unwrap_or_default();
        format!(
            "API         {api}\n\
             Reference   {api}/docs\n\
             {console}\
             Operations  {operations} (/healthz, /readyz, /metrics)\n\
             Data        {}\n\
             Next        {next}",
            data.display()
        )
    }
}

/// A command that works in another shell in the same directory: with a data directory that is not
/// the default, commands need the same setting.
fn next_step(has_workspace: bool, data: &Path) -> std::io::Result<String> {
    let data = absolute(data)?;
    let setting = if data == absolute(Config::default().data)? {
        String::new()
    } else {
        format!("LONGSHORE_DATA='{}' ", data.display().to_string().replace('\'', r"'\''"))
    };
    Ok(if has_workspace {
        format!("test each connection: {setting}longshore doctor")
    } else {
        format!(
            "declare a workspace and its API keys: {setting}longshore apply acme.yaml \
             (`longshore apply --help` shows such a file)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_a_line_for_each_address() {
        let started = Started {
            api: "https://longshore.example.com".into(),
            console: Some("http://127.0.0.1:8081/sign-in#lsl_abc".into()),
            operations: "http://127.0.0.1:9100".into(),
            data: "/var/lib/longshore".into(),
            next: next_step(false, Path::new("/var/lib/longshore")).unwrap(),
        };
        let text = started.text();
        assert_eq!(text.lines().count(), 6, "{text}");
        assert!(text.contains("\nReference   https://longshore.example.com/docs\n"), "{text}");
    }

    #[test]
    fn the_next_step_names_the_data_directory_unless_it_is_the_default() {
        let next = |has_workspace, data: &str| next_step(has_workspace, Path::new(data)).unwrap();
        assert!(next(false, "longshore-data").contains(": longshore apply acme.yaml"));
        assert!(next(true, "./longshore-data").ends_with(": longshore doctor"));
        let command = "LONGSHORE_DATA='/srv/it'\\''s here' longshore doctor";
        assert!(next(true, "/srv/it's here").ends_with(command));
    }
}
