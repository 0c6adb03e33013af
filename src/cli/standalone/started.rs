//! What an operator needs first: where `standalone` serves, where it keeps its data, and what to do
//! next (docs/how-to/standalone.md).

use std::path::{Path, PathBuf, absolute};

use super::super::CommandResult;
use super::super::service::Service;
use crate::config::Config;
use crate::telemetry::{self, lines};

/// Reports that `service` is ready: five lines on a terminal, otherwise one log line.
pub async fn report(service: &Service) -> CommandResult {
    // As for every event of this level, `RUST_LOG` decides.
    if !tracing::enabled!(tracing::Level::INFO) {
        return Ok(());
    }
    let config = &service.app.config;
    let has_workspace = !service.app.known_names.read(&service.app).await?.is_empty();
    let started = Started {
        api: config.public_base(),
        operations: format!("http://{}", service.ops_address),
        data: absolute(&config.data)?,
        next: next_step(has_workspace, &config.data)?,
    };
    if telemetry::is_text_on_terminal(config) {
        lines::write_line(&started.text());
    } else {
        let Started { api, operations, data, next } = started;
        let docs = format!("{api}/docs");
        tracing::info!(api, docs, operations, data = %data.display(), next, "standalone started");
    }
    Ok(())
}

struct Started {
    api: String,
    operations: String,
    data: PathBuf,
    next: String,
}

impl Started {
    fn text(&self) -> String {
        let Self { api, operations, data, next } = self;
        format!(
            "API         {api}\n\
             Reference   {api}/docs\n\
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
    fn the_text_has_five_lines() {
        let started = Started {
            api: "https://longshore.example.com".into(),
            operations: "http://127.0.0.1:9100".into(),
            data: "/var/lib/longshore".into(),
            next: next_step(false, Path::new("/var/lib/longshore")).unwrap(),
        };
        let text = started.text();
        assert_eq!(text.lines().count(), 5, "{text}");
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
