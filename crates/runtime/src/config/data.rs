//! Prepares the data directory before it is used: creates the directory and the secret key.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use secrecy::ExposeSecret as _;
use sqlx::sqlite::SqliteConnectOptions;

use super::{Config, ConfigError};
use kit::private;
use kit::secrets::SecretKey;

impl Config {
    /// The secret key: from the settings, or from the data directory, or created there once with
    /// mode 0600. Never created next to an existing database, whose secrets are encrypted with
    /// another key.
    pub fn secret_key(&self) -> Result<SecretKey, ConfigError> {
        let file = self.data.join("secret.key");
        let problem = |text: String| ConfigError { problems: vec![text] };
        let current = match &self.secret_key {
            Some(key) => key.expose_secret().to_owned(),
            None => read_or_create_key(&file, self.database_file().as_deref())
                .map_err(|error| problem(format!("{}: {error}", file.display())))?,
        };
        let old = self.secret_key_old.as_ref().map(|old| old.expose_secret());
        SecretKey::parse(&current, old)
            .map_err(|error| problem(format!("{}: {error}", file.display())))
    }

    /// The folder of a missing installation, as text; none if it exists, or if a command reads
    /// nothing from a folder.
    pub fn missing_installation(&self) -> Option<String> {
        let path = match self.database_file() {
            Some(file) => std::path::absolute(&file).unwrap_or(file),
            None if self.log.url == "embedded" => self.data.join("log.db"),
            None => return None,
        };
        let folder = path.parent()?.display();
        match fs::metadata(&path) {
            Ok(_) => return None,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Some(self.unreadable(&path));
            }
            Err(_) => {}
        }
        let or_database =
            if self.database.url.is_none() { " or LONGSHORE_DATABASE_URL" } else { "" };
        Some(format!(
            "there is no installation in {folder} yet: `longshore migrate` creates the database \
             and the log, as do `longshore apply FILE` and `longshore standalone`. If you have an \
             installation, run the command in the folder that contains longshore-data, or set \
             LONGSHORE_DATA{or_database}"
        ))
    }

    /// Why a file cannot be looked at: another user owns the data directory.
    fn unreadable(&self, path: &Path) -> String {
        let owner = fs::metadata(&self.data).map(|data| data.uid());
        let user = private::user();
        let fix = match owner {
            Ok(owner) if owner != user => format!(
                "{} belongs to the user {owner}, and this is the user {user}: run the command as \
                 the user {owner}, such as with `sudo -u '#{owner}'`",
                self.data.display()
            ),
            _ => {
                "run the command as the user of the installation, or set LONGSHORE_DATA".to_owned()
            }
        };
        format!("no permission to read {}: {fix}", path.display())
    }

    /// The database's file, existing or not, if it is a file.
    pub fn database_file(&self) -> Option<PathBuf> {
        let url = self.database_url();
        let options = SqliteConnectOptions::from_str(&url).ok()?;
        url.starts_with("sqlite:").then(|| options.get_filename().to_owned())
    }
}

fn read_or_create_key(file: &Path, database: Option<&Path>) -> io::Result<String> {
    if let Some(directory) = file.parent() {
        private::directory(directory)?;
    }
    // Checked before the key, because another process that creates both creates the key first.
    let database = database.filter(|database| database.exists());
    if !file.exists() {
        if let Some(database) = database {
            return Err(io::Error::new(
                ErrorKind::NotFound,
                format!(
                    "is missing, and the secrets in {} are encrypted with it: restore it from a \
                     backup, or set LONGSHORE_SECRET_KEY to its content",
                    database.display()
                ),
            ));
        }
        create_key(file)?;
    }
    fs::read_to_string(file)
}

/// Written to a temporary name and then linked: if two processes start together, one wins, and
/// neither reads half a key.
fn create_key(file: &Path) -> io::Result<()> {
    let draft = file.with_extension(format!("{}.new", std::process::id()));
    let mut new =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    new.write_all(SecretKey::generate().as_bytes())?;
    new.sync_all()?;
    let linked = fs::hard_link(&draft, file);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_new_data_directory_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config { data: directory.path().join("data"), ..Config::default() };
        config.secret_key().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&config.data), 0o700);
        assert_eq!(mode(&config.data.join("secret.key")), 0o600);
        // The same key the second time, and no other file next to it.
        let text = fs::read_to_string(config.data.join("secret.key")).unwrap();
        config.secret_key().unwrap();
        assert_eq!(fs::read_to_string(config.data.join("secret.key")).unwrap(), text);
        assert_eq!(fs::read_dir(&config.data).unwrap().count(), 1);
    }

    #[test]
    fn a_lost_key_is_not_replaced_where_a_database_is() {
        let directory = tempfile::tempdir().unwrap();
        let (beside, elsewhere) = (directory.path().join("store.db"), directory.path().join("own"));
        let mut config = Config { data: directory.path().into(), ..Config::default() };
        let refuses_for = |config: &Config, database: &Path| {
            fs::write(database, "").unwrap();
            let error = config.secret_key().unwrap_err().to_string();
            assert!(error.contains("secret.key: is missing"), "{error}");
            assert!(error.contains(database.to_str().unwrap()), "{error}");
            assert!(!config.data.join("secret.key").exists());
        };
        refuses_for(&config, &beside);
        config.database.url =
            Some(format!("sqlite://{}?cache=private", elsewhere.display()).into());
        refuses_for(&config, &elsewhere);
        // The file next to it is not the database then.
        fs::remove_file(elsewhere).unwrap();
        config.secret_key().unwrap();
    }
}
