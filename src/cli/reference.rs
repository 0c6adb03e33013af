//! Pages of the book that come from the code: settings, metrics, commands, the fields of the
//! workspace file and the codes of errors; sections of the pages about the API; and the API as
//! OpenAPI 3.0, which the gateway serves.
//! `longshore reference docs/reference` writes them. A test compares the stored pages.

pub mod api;
pub mod asyncapi;

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::CommandResult;
use crate::config::{Config, variable};
use crate::gateway::Code;
use crate::telemetry::metrics::{GROUPS, Group};
use crate::workspace_file::document::json_schema;
use kit::openapi30;

#[derive(clap::Args)]
pub struct Arguments {
    /// The output folder
    #[arg(required_unless_present_any = ["openapi", "manual"])]
    folder: Option<PathBuf>,

    /// Write the manual pages to a folder instead, one for each command
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["folder", "openapi"])]
    manual: Option<PathBuf>,

    /// Print the OpenAPI document of this version instead, with default settings
    #[arg(long, value_parser = ["3.0", "3.1"], conflicts_with = "folder")]
    openapi: Option<String>,
}

pub fn run(arguments: &Arguments) -> CommandResult {
    match &arguments.openapi.as_deref() {
        None => {}
        Some("3.0") => println!("{}", openapi30()),
        Some(_) => println!("{}", *api::DOCUMENT),
    }
    if let Some(folder) = &arguments.manual {
        clap_mangen::generate_to(super::commands(), folder)?;
    }
    let Some(folder) = &arguments.folder else { return Ok(()) };
    for (name, text) in pages() {
        std::fs::write(folder.join(name), text)?;
    }
    for entry in std::fs::read_dir(folder.join("api"))? {
        let path = entry?.path();
        let page = std::fs::read_to_string(&path)?;
        let page = api::renewed(&page).map_err(|error| format!("{}: {error}", path.display()))?;
        std::fs::write(&path, page)?;
    }
    Ok(())
}

/// A page of a list. The last one has no names: it gets those that no other page has.
struct Page {
    file: &'static str,
    title: &'static str,
    names: &'static [&'static str],
}

const fn page(file: &'static str, title: &'static str, names: &'static [&'static str]) -> Page {
    Page { file, title, names }
}

const SETTINGS: &[Page] = &[
    page("settings-gateway.md", "Settings of the gateway", &["gateway", "ops", "console"]),
    page("settings-worker.md", "Settings of workers", &["worker", "exports", "deliveries"]),
    page("settings-messages.md", "Settings of messages", &["messages", "transactional", "smtp"]),
    page("settings.md", "Settings of every process", &[]),
];

const COMMANDS: &[Page] = &[
    page(
        "commands-workspaces.md",
        "Commands: workspaces",
        &[
            "apply",
            "workspaces",
            "control-group",
            "segments",
            "catalogs",
            "suppressions",
            "invalid-numbers",
        ],
    ),
    page(
        "commands-access.md",
        "Commands: keys, the console and the audit log",
        &["key", "signing-key", "scim-token", "console", "audit"],
    ),
    page(
        "commands-users.md",
        "Commands: users and exports",
        &["import", "generate", "users", "export", "deliveries"],
    ),
    page(
        "commands-messages.md",
        "Commands: sends and messages",
        &[
            "dispatches",
            "messages",
            "schedules",
            "campaigns",
            "cards",
            "sla",
            "console-log",
            "template",
        ],
    ),
    page("commands.md", "Commands: processes and the log", &[]),
];

/// Fields of a workspace that are about exports, which have a page of their own.
const EXPORT_FIELDS: [&str; 5] =
    ["export_late_after", "export_limits", "notify", "storage", "storages"];

/// The API as OpenAPI 3.0, with default settings.
pub fn openapi30() -> Value {
    openapi30::convert(&api::DOCUMENT)
}

/// Every generated page: its file and its text.
pub fn pages() -> Vec<(&'static str, String)> {
    let (service, work) = GROUPS.split_at(4);
    let mut pages = vec![
        ("metrics.md", metrics("Metrics of processes, requests and the log", service)),
        ("metrics-work.md", metrics("Metrics of exports, ingestion and messages", work)),
        (
            "workspace-file-fields.md",
            workspace_file("Fields of the workspace file", "Workspace", |name| {
                !EXPORT_FIELDS.contains(&name)
            }),
        ),
        (
            "workspace-file-exports.md",
            workspace_file("Fields of exports", "Workspace", |name| EXPORT_FIELDS.contains(&name)),
        ),
        ("workspace-file-company.md", workspace_file("Fields of the company", "Company", |_| true)),
        ("error-codes.md", error_codes()),
        ("asyncapi.json", format!("{:#}\n", asyncapi::document())),
        ("openapi-3.0.json", format!("{:#}\n", openapi30())),
    ];
    pages.extend(SETTINGS.iter().map(|page| (page.file, settings(page))));
    pages.extend(COMMANDS.iter().map(|page| (page.file, commands(page))));
    pages
}

/// Whether a page of the list `all` includes a name.
fn includes(page: &Page, all: &[Page], name: &str) -> bool {
    let is_elsewhere = || all.iter().any(|other| other.names.contains(&name));
    page.names.contains(&name) || (page.names.is_empty() && !is_elsewhere())
}

fn heading(title: &str) -> String {
    format!("# {title}\n\n<!-- Generated by `longshore reference`. -->\n")
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

/// The anchor that the book gives a heading.
fn anchor(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-');
    heading.to_lowercase().replace(' ', "-").chars().filter(is_kept).collect()
}

/// A name as a link to its section of the page.
fn link(name: &str) -> String {
    format!("[`{name}`](#{})", anchor(name))
}

/// The first sentence of a text, for an overview.
fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or_else(|| text.trim_end_matches('.'), |(first, _)| first)
}

fn metrics(title: &str, groups: &[Group]) -> String {
    let mut page = heading(title) + "\n| About | Metrics |\n|---|---|\n";
    for group in groups {
        let names: Vec<String> = group.metrics.iter().map(|metric| link(metric.name)).collect();
        let (title, anchor) = (group.title, anchor(group.title));
        let _ = writeln!(page, "| [{title}](#{anchor}) | {} |", names.join(", "));
    }
    for group in groups {
        let _ = write!(page, "\n## {}\n", group.title);
        for metric in group.metrics {
            let labels: Vec<String> =
                metric.labels.iter().map(|name| format!("`{name}`")).collect();
            let labels = match &*labels {
                [] => String::new(),
                [label] => format!(" with the label {label}"),
                _ => format!(" with the labels {}", labels.join(", ")),
            };
            let (name, kind, help) = (metric.name, metric.kind.name(), metric.help);
            let _ = write!(page, "\n### `{name}`\n\n{help}.\n\nA {kind}{labels}.\n");
        }
    }
    page
}

fn settings(page: &Page) -> String {
    let schema = schemars::schema_for!(Config).to_value();
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    let mut overview = heading(page.title) + "\n| Setting | Default | Meaning |\n|---|---|---|\n";
    let mut text = String::new();
    let (sections, single): (Vec<_>, Vec<_>) =
        members(&schema).into_iter().partition(|(_, field)| field.get("$ref").is_some());
    if page.names.is_empty() {
        text += "\n## General\n";
        for (name, field) in single {
            let default = &defaults[name.as_str()];
            setting(&mut overview, &mut text, name, field, default);
        }
    }
    for (section, reference) in sections {
        if includes(page, SETTINGS, section) {
            let _ = write!(text, "\n## `[{section}]`\n");
            for (name, field) in members(resolved(&schema, reference)) {
                let default = &defaults[section.as_str()][name.as_str()];
                let name = format!("{section}.{name}");
                let nested = members(resolved(&schema, inner(field)));
                if nested.is_empty() {
                    setting(&mut overview, &mut text, &name, field, default);
                }
                for (inner_name, field) in nested {
                    let default = &default[inner_name.as_str()];
                    let name = format!("{name}.{inner_name}");
                    setting(&mut overview, &mut text, &name, field, default);
                }
            }
        }
    }
    overview + &text
}

/// Adds a setting to the overview and to the page.
fn setting(overview: &mut String, page: &mut String, name: &str, field: &Value, default: &Value) {
    let default = match default {
        Value::Null | Value::Object(_) => String::new(),
        Value::Array(list) if list.is_empty() => "none".into(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    let mut environment = variable(name);
    if matches!(name, "log.kafka" | "console.permissions") {
        environment += "__<NAME>";
    }
    let text = field["description"].as_str().unwrap_or_default().replace('\n', " ");
    let (link, summary) = (link(name), cell(first_sentence(&text)));
    let _ = writeln!(overview, "| {link} | {default} | {summary} |");
    let default = if default.is_empty() { default } else { format!(". Default: {default}") };
    let _ = write!(page, "\n### `{name}`\n\n{text}\n\nEnvironment: `{environment}`{default}.\n");
}

fn commands(page: &Page) -> String {
    let mut text = heading(page.title);
    let root = super::commands().disable_help_flag(true).disable_help_subcommand(true);
    let mut root = root.mut_arg("config", |option| option.hide(true));
    root.build();
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        if includes(page, COMMANDS, command.get_name()) {
            help(&mut text, command, 2);
        }
    }
    text
}

fn help(page: &mut String, command: &clap::Command, level: usize) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    // The values of environment variables are not part of the documentation.
    let mut shown = command.clone().mut_args(|option| option.hide_env_values(true));
    let text = shown.render_help().to_string();
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    let hashes = "#".repeat(level);
    let _ = write!(page, "\n{hashes} `{name}`\n\n```text\n{}\n```\n", lines.join("\n"));
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        help(page, command, level + 1);
    }
}

fn error_codes() -> String {
    let mut page = heading("Error codes");
    page += "\nEach error of the API has a `code`. A code never changes its meaning. A later \
             version may add codes.\n\n| Code | Meaning |\n|---|---|\n";
    let schema = schemars::schema_for!(Code).to_value();
    for code in schema["oneOf"].as_array().into_iter().flatten() {
        let text = cell(code["description"].as_str().unwrap_or_default());
        let _ = writeln!(page, "| `{}` | {text} |", code["const"].as_str().unwrap_or_default());
    }
    page
}

/// A table of the document's plain fields, and one for each field with fields of its own; only
/// those that the page includes.
fn workspace_file(title: &str, document: &str, includes: impl Fn(&str) -> bool) -> String {
    const TABLE: &str = "| Field | Type | Meaning |\n|---|---|---|\n";
    let schema: Value = serde_json::from_str(&json_schema()).unwrap_or_default();
    let document = &schema["$defs"][document];
    let (nested, plain): (Vec<_>, Vec<_>) = members(document)
        .into_iter()
        .filter(|(name, _)| includes(name))
        .partition(|(_, field)| inner(field).get("$ref").is_some());
    let mut page = heading(title) + "\n" + TABLE;
    for (name, field) in plain {
        add_field(&mut page, &schema, document, name, field, "");
    }
    for (name, field) in nested {
        let _ = write!(page, "\n## `{name}`\n\n{TABLE}");
        add_field(&mut page, &schema, document, name, field, "");
    }
    page
}

/// A row for a field of an object, and for each field of the objects in it.
fn add_field(
    page: &mut String,
    schema: &Value,
    object: &Value,
    name: &str,
    field: &Value,
    path: &str,
) {
    let is_required = object["required"]
        .as_array()
        .is_some_and(|names| names.iter().any(|required| required.as_str() == Some(name)));
    let inner = inner(field);
    let (mut path, target) = (format!("{path}{name}"), resolved(schema, inner));
    if field.get("items").is_some() {
        path += "[]";
    } else if inner.get("$ref").is_some() && field.get("additionalProperties").is_some() {
        path += ".<name>";
    }
    let mut text = field["description"].as_str().unwrap_or_default().to_owned();
    let values = target.get("enum").or_else(|| field["propertyNames"].get("enum"));
    if let Some(values) = values.and_then(Value::as_array) {
        let shown = values.iter().filter_map(Value::as_str).map(|value| format!("`{value}`"));
        text += &format!(" One of {}.", shown.collect::<Vec<_>>().join(", "));
    }
    let required = if is_required { ", required" } else { "" };
    let text = cell(text.trim());
    let _ = writeln!(page, "| `{path}` | {}{required} | {text} |", kind(field, target));
    if inner.get("$ref").is_some() {
        for (name, field) in members(target) {
            add_field(page, schema, target, name, field, &format!("{path}."));
        }
    }
}

/// The type of a field: the object of a list, of a map, or of an optional field.
fn inner(field: &Value) -> &Value {
    let some = field["anyOf"].as_array().and_then(|forms| forms.first());
    let is_map = |value: &&Value| value.get("$ref").is_some();
    let maps = field.get("additionalProperties").filter(is_map);
    some.or_else(|| field.get("items")).or(maps).unwrap_or(field)
}

fn kind(field: &Value, target: &Value) -> &'static str {
    let has_type = |name: &str| match &field["type"] {
        Value::String(text) => text == name,
        Value::Array(names) => names.iter().any(|listed| listed == name),
        _ => false,
    };
    match () {
        () if has_type("array") => "list",
        () if has_type("object") || field.get("anyOf").is_some() || target["type"] == "object" => {
            "object"
        }
        () if has_type("boolean") => "boolean",
        () if has_type("number") => "number",
        () => "string",
    }
}

fn members(object: &Value) -> Vec<(&String, &Value)> {
    object["properties"].as_object().into_iter().flat_map(Map::iter).collect()
}

/// The target of a `$ref`.
fn resolved<'a>(schema: &'a Value, value: &'a Value) -> &'a Value {
    let name = value["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.map_or(value, |name| &schema["$defs"][name])
}
