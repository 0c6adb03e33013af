//! The statements of `deploy/migrations`, which are part of the binary.

use std::sync::LazyLock;

use store::migrate::{Migrations, Step};

/// The files of both databases' folders, by their names.
macro_rules! steps {
    ($($version:literal $name:literal),+) => {
        [$(Step {
            version: parse($version),
            name: $name,
            postgres: file!("postgres", $version, $name),
            sqlite: file!("sqlite", $version, $name),
        }),+]
    };
}

macro_rules! file {
    ($database:literal, $version:literal, $name:literal) => {
        include_str!(concat!(
            "../../../../deploy/migrations/",
            $database,
            "/",
            $version,
            "_",
            $name,
            ".sql"
        ))
    };
}

pub static MIGRATIONS: LazyLock<Migrations> = LazyLock::new(|| {
    Migrations::new(&steps!(
        "0001" "first", "0002" "creations", "0003" "template_data", "0004" "aliases",
        "0005" "identity_changes", "0006" "scim_groups", "0007" "schedule_times",
        "0008" "consent", "0009" "push_tokens", "0010" "revoked_secrets",
        "0011" "claim_workspaces", "0012" "email_templates", "0013" "export_audiences",
        "0014" "phones", "0015" "signing_keys", "0016" "named_storages", "0017" "notifications",
        "0018" "lists_of_workspaces", "0019" "dispatch_list",
        "0020" "audit", "0021" "console", "0022" "exports_by_state",
        "0023" "processes", "0024" "console_lists", "0025" "dashboard_sign_in",
        "0026" "uncertain_messages", "0027" "history", "0028" "key_uses",
        "0029" "open_schedules", "0030" "segments_and_revokers", "0031" "suppressions",
        "0032" "send_texts", "0033" "local_times", "0034" "bounces", "0035" "export_waits",
        "0036" "order_by_the_log"
    ))
});

fn parse(version: &str) -> i64 {
    version.parse().expect("a file's name begins with a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_migrations_is_part_of_the_program() {
        for folder in ["postgres", "sqlite"] {
            let folder = format!("{}/../../deploy/migrations/{folder}", env!("CARGO_MANIFEST_DIR"));
            let files = std::fs::read_dir(folder).expect("the folder is read");
            let mut names: Vec<String> = files
                .map(|file| file.unwrap().file_name().into_string().expect("a name of ASCII"))
                .collect();
            names.sort();
            let own = MIGRATIONS.names().map(|(version, name)| format!("{version:04}_{name}.sql"));
            assert_eq!(own.collect::<Vec<_>>(), names);
        }
    }
}
