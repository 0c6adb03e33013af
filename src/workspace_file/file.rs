//! Reads the workspace file and checks everything in it at once, so that one run says all
//! that is wrong, each with its line and the path of the field.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use secrecy::SecretString;

use crate::config::network::network;

mod campaigns;
mod channels;
pub mod company;
mod mistakes;
mod storage;

use crate::campaigns::Campaign;
use crate::catalogs::{self, Field};
use crate::workspace_file::declare_catalogs::DeclaredCatalog;
use crate::workspace_file::expand::expand;
use crate::workspace_file::file::company::Company;
use crate::workspace_file::schema::{
    AppFile, CatalogFieldFile, CatalogFile, DocumentFile, KeyFile, RateLimitFile, Text,
    WorkspaceFile,
};
use crate::workspace_file::values;
use crate::workspaces::channels::Channels;
use crate::workspaces::settings::{CappingRule, SubscriptionGroup};
use crate::workspaces::storage::Settings;
use crate::workspaces::{Budget, DeclaredApp, Limit, Platform, Segment, keys};
use kit::retry::Retry;

const EXPORT_USERS: i64 = 500_000;
const EXPORT_BYTES: i64 = 5 << 30;

/// What a file declares, checked: the workspaces in their order, and the company.
pub struct Declared {
    pub workspaces: Vec<Declaration>,
    pub company: Option<Company>,
}

/// What a file declares of one workspace, checked.
pub struct Declaration {
    pub name: String,
    pub currency: String,
    /// How many millionths of `currency` one of the other currency is.
    pub exchange_rates: BTreeMap<String, i64>,
    pub time_zone: String,
    pub ip_allowlist: Vec<IpNet>,
    /// By the names of budgets.
    pub rate_limits: BTreeMap<String, Limit>,
    pub export_users_limit: i64,
    pub export_bytes_limit: i64,
    pub frequency_capping: Vec<CappingRule>,
    pub keys: Vec<DeclaredKey>,
    pub apps: Vec<DeclaredApp>,
    pub catalogs: Vec<DeclaredCatalog>,
    pub segments: Vec<Segment>,
    pub subscription_groups: Vec<SubscriptionGroup>,
    pub channels: Channels,
    /// Then the Canvases.
    pub campaigns: Vec<Campaign>,
    /// Where what each of them sends is in the file, in their order.
    pub contents: Vec<Place>,
    pub s3: Option<Settings>,
    pub azure: Option<Settings>,
    /// None where the file declares no Azure storage: what is kept then keeps its switch.
    pub azure_is_default: Option<bool>,
    /// Of the control group.
    pub percent: Option<i32>,
}

impl Declaration {
    /// Has the files that it names lie in a directory: the workspace file's.
    pub fn relative_to(&mut self, directory: &Path) {
        for items in self.catalogs.iter_mut().filter_map(|catalog| catalog.items.as_mut()) {
            *items = directory.join(&*items);
        }
    }
}

/// Where something is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: u64,
    /// Such as `campaigns[0]`.
    pub path: String,
}

pub struct DeclaredKey {
    pub name: String,
    pub secret: SecretString,
    pub permissions: Vec<String>,
    pub allow: Vec<IpNet>,
}

/// Everything that is wrong with a file. No text repeats a secret.
#[derive(Debug, thiserror::Error)]
pub struct FileError {
    pub problems: Vec<Problem>,
}

/// One thing that is wrong: where, and what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// From 1; 0 where it is not known.
    pub line: u64,
    /// Such as `keys[0].permissions[1]`; empty where the file as a whole cannot be read.
    pub path: String,
    pub text: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the workspace file cannot be used:")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.text)
    }
}

impl Retry for FileError {}

/// Reads the documents of a file, one for each workspace and at most one for the company.
pub fn read(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Declared, FileError> {
    let documents = parse(text)?;
    let mut check = Check { environment, problems: Vec::new() };
    if documents.is_empty() {
        check.refuse(0, "", "it declares no workspace");
    }
    let mut declared = Declared { workspaces: Vec::new(), company: None };
    let mut names = HashSet::new();
    for document in documents {
        match document {
            DocumentFile::Workspace(document) => {
                let line = document.workspace.line();
                let declaration = check.workspace(*document);
                if !names.insert(declaration.name.clone()) {
                    check.refuse(line, "workspace", "an earlier document declares it already");
                }
                declared.workspaces.push(declaration);
            }
            DocumentFile::Company(document) => {
                if declared.company.is_some() {
                    let text = "an earlier document declares the company already";
                    check.refuse(document.company.line(), "company", text);
                }
                declared.company = Some(check.company(&document));
            }
        }
    }
    if !check.problems.is_empty() {
        check.problems.sort();
        return Err(FileError { problems: check.problems });
    }
    if let Some(company) = &mut declared.company {
        company.beside = names.into_iter().collect();
    }
    Ok(declared)
}

fn parse(text: &str) -> Result<Vec<DocumentFile>, FileError> {
    let options = serde_saphyr::options! {
        // Without the source lines around it: they may hold credentials.
        with_snippet: false,
        // As YAML 1.2 has them: `no` and `on` are texts.
        strict_booleans: true,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(0, |location| location.line());
        let text = without_position(&mistakes::in_words(&error));
        FileError { problems: vec![Problem { line, path: String::new(), text }] }
    })
}

/// Takes the position off the end of the YAML reader's text: it is said before it.
fn without_position(text: &str) -> String {
    text.rsplit_once(" at line ").map_or(text, |(text, _)| text).to_owned()
}

pub(crate) struct Check<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<Problem>,
}

impl Check<'_> {
    pub(crate) fn refuse(&mut self, line: u64, path: &str, text: impl fmt::Display) {
        self.problems.push(Problem { line, path: path.into(), text: text.to_string() });
    }

    /// A value, checked by `rule`; what is wrong is noted, and nothing answered.
    pub(crate) fn value<T, E: fmt::Display>(
        &mut self,
        path: &str,
        text: &Text,
        rule: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let checked = expand(text.as_str(), self.environment)
            .and_then(|expanded| rule(&expanded).map_err(|error| error.to_string()));
        checked.map_err(|error| self.refuse(text.line(), path, error)).ok()
    }

    /// A value that may be absent; an empty text is absent too, so that a variable of the
    /// environment can be empty.
    pub(crate) fn optional<T, E: fmt::Display>(
        &mut self,
        path: &str,
        text: Option<&Text>,
        rule: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let rule = |text: &str| match text {
            "" => Ok(None),
            text => rule(text).map(Some),
        };
        text.and_then(|text| self.value(path, text, rule)).flatten()
    }

    pub(crate) fn list<T>(
        &mut self,
        path: &str,
        texts: &[Text],
        rule: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let values = texts.iter().enumerate();
        values.filter_map(|(i, text)| self.value(&format!("{path}[{i}]"), text, &rule)).collect()
    }

    /// Notes each value that an earlier one has already.
    pub(crate) fn distinct<T: Eq + Hash>(
        &mut self,
        path: &str,
        seen: &mut HashSet<T>,
        value: T,
        text: &Text,
    ) {
        if !seen.insert(value) {
            self.refuse(text.line(), path, "an earlier one has the same");
        }
    }

    fn workspace(&mut self, file: WorkspaceFile) -> Declaration {
        let currency = self
            .optional("currency", file.currency.as_ref(), values::currency)
            .unwrap_or_else(|| "USD".into());
        let limits = file.export_limits.as_ref();
        let (keys, apps) = (self.keys(&file.keys), self.apps(&file.apps));
        let (s3, azure, azure_is_default) = self.storage(file.storage.as_ref());
        let (campaigns, contents) =
            self.campaigns(&file.campaigns, &file.canvases).into_iter().unzip();
        Declaration {
            name: self
                .value("workspace", &file.workspace, values::workspace_name)
                .unwrap_or_default(),
            exchange_rates: self.exchange_rates(&file.exchange_rates, &currency),
            currency,
            time_zone: self
                .optional("time_zone", file.time_zone.as_ref(), values::time_zone)
                .unwrap_or_else(|| "UTC".into()),
            ip_allowlist: self.list("ip_allowlist", &file.ip_allowlist, network),
            rate_limits: self.rate_limits(&file.rate_limits),
            export_users_limit: self
                .optional(
                    "export_limits.users",
                    limits.and_then(|limits| limits.users.as_ref()),
                    values::count,
                )
                .unwrap_or(EXPORT_USERS),
            export_bytes_limit: self
                .optional(
                    "export_limits.bytes",
                    limits.and_then(|limits| limits.bytes.as_ref()),
                    values::bytes,
                )
                .unwrap_or(EXPORT_BYTES),
            frequency_capping: self.frequency_capping(&file.frequency_capping),
            keys,
            apps,
            catalogs: self.catalogs(&file.catalogs),
            segments: self.segments(&file.segments),
            subscription_groups: self.subscription_groups(&file.subscription_groups),
            channels: self.channels(&file),
            campaigns,
            contents,
            s3,
            azure,
            azure_is_default,
            percent: file.control_group.as_ref().and_then(|file| {
                self.value("control_group.percent", &file.percent, values::percent)
            }),
        }
    }

    fn exchange_rates(
        &mut self,
        rates: &BTreeMap<String, Text>,
        currency: &str,
    ) -> BTreeMap<String, i64> {
        let mut checked = BTreeMap::new();
        for (code, rate) in rates {
            let path = format!("exchange_rates.{code}");
            if let Err(error) = values::currency(code) {
                self.refuse(rate.line(), &path, error);
            } else if code == currency {
                self.refuse(rate.line(), &path, "this is the workspace's own currency");
            }
            if let Some(rate) = self.value(&path, rate, values::millionths) {
                checked.insert(code.clone(), rate);
            }
        }
        checked
    }

    fn rate_limits(&mut self, files: &BTreeMap<String, RateLimitFile>) -> BTreeMap<String, Limit> {
        let mut checked = BTreeMap::new();
        for (name, file) in files {
            let path = format!("rate_limits.{name}");
            if let Err(error) = Budget::parse(name) {
                self.refuse(file.requests.line(), &path, error);
            }
            let requests =
                self.value(&format!("{path}.requests"), &file.requests, values::requests);
            let seconds = self.value(&format!("{path}.seconds"), &file.seconds, values::window);
            if let (Some(requests), Some(seconds)) = (requests, seconds) {
                checked.insert(name.clone(), Limit { requests, seconds });
            }
        }
        checked
    }

    fn keys(&mut self, files: &[KeyFile]) -> Vec<DeclaredKey> {
        let mut declared = Vec::new();
        let (mut names, mut secrets) = (HashSet::new(), HashSet::new());
        for (i, file) in files.iter().enumerate() {
            let path = format!("keys[{i}]");
            let name_path = format!("{path}.name");
            let name = self.value(&name_path, &file.name, |text| {
                keys::check_name(text).map(|()| text.to_owned())
            });
            let secret_path = format!("{path}.secret");
            let secret = self.value(&secret_path, &file.secret, |text| {
                keys::check_secret(text).map(|()| text.to_owned())
            });
            let permissions_path = format!("{path}.permissions");
            let permissions = self.list(&permissions_path, &file.permissions, |text| {
                let one = [text.to_owned()];
                keys::check_permissions(&one).map_err(|error| error.to_string())?;
                Ok(text.to_owned())
            });
            if file.permissions.is_empty() {
                self.refuse(file.name.line(), &permissions_path, keys::KeyError::NoPermissions);
            }
            let allow = self.list(&format!("{path}.allow"), &file.allow, network);
            if let (Some(name), Some(secret)) = (name, secret) {
                self.distinct(&name_path, &mut names, name.clone(), &file.name);
                self.distinct(&secret_path, &mut secrets, secret.clone(), &file.secret);
                declared.push(DeclaredKey { name, secret: secret.into(), permissions, allow });
            }
        }
        declared
    }

    fn apps(&mut self, files: &[AppFile]) -> Vec<DeclaredApp> {
        let mut declared = Vec::new();
        let mut ids = HashSet::new();
        for (i, file) in files.iter().enumerate() {
            let path = format!("apps[{i}]");
            let id = self.value(&format!("{path}.id"), &file.id, values::id);
            let name = self.value(&format!("{path}.name"), &file.name, values::name);
            let platform = self.value(&format!("{path}.platform"), &file.platform, Platform::parse);
            let bundle_id =
                self.optional(&format!("{path}.bundle_id"), file.bundle_id.as_ref(), values::name);
            let activity_types =
                self.list(&format!("{path}.activity_types"), &file.activity_types, values::name);
            if let (Some(id), Some(name), Some(platform)) = (id, name, platform) {
                self.distinct(&format!("{path}.id"), &mut ids, id, &file.id);
                declared.push(DeclaredApp { id, name, platform, bundle_id, activity_types });
            }
        }
        declared
    }

    fn catalogs(&mut self, files: &[CatalogFile]) -> Vec<DeclaredCatalog> {
        let mut declared = Vec::new();
        let mut names = HashSet::new();
        for (i, file) in files.iter().enumerate() {
            let path = format!("catalogs[{i}]");
            let name_path = format!("{path}.name");
            let name = self.value(&name_path, &file.name, values::catalog_name);
            let fields = self.catalog_fields(&format!("{path}.fields"), &file.fields);
            if file.fields.len() > catalogs::MAX_FIELDS {
                let text = format!("a catalog has at most {} fields", catalogs::MAX_FIELDS);
                self.refuse(file.name.line(), &format!("{path}.fields"), text);
            }
            let items = self.optional(&format!("{path}.items"), file.items.as_ref(), |text| {
                Ok::<_, String>(PathBuf::from(text))
            });
            if let Some(name) = name {
                self.distinct(&name_path, &mut names, name.clone(), &file.name);
                declared.push(DeclaredCatalog { name, fields: fields.into(), items });
            }
        }
        declared
    }

    fn catalog_fields(&mut self, path: &str, files: &[CatalogFieldFile]) -> Vec<Field> {
        let mut declared = Vec::new();
        let mut names = HashSet::new();
        for (i, file) in files.iter().enumerate() {
            let name_path = format!("{path}[{i}].name");
            let name = self.value(&name_path, &file.name, |text| {
                catalogs::check_field_name(text).map(|()| text.to_owned())
            });
            let kind = self.value(&format!("{path}[{i}].type"), &file.kind, catalogs::Type::parse);
            if let (Some(name), Some(kind)) = (name, kind) {
                self.distinct(&name_path, &mut names, name.clone(), &file.name);
                declared.push(Field { name, kind });
            }
        }
        declared
    }
}

#[cfg(test)]
mod tests;
