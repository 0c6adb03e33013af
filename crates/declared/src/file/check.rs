//! Checks the fields of the file together. Each single field was checked when it was read.

mod storages;

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;

use serde_json::Value;
use uuid::Uuid;

use super::{Document, steps};
use crate::document::company::{Company, Permissions};
use crate::document::{Declaration, DeclaredCampaign, SourceLocation};
use crate::values::Currency;
use content::campaigns::{Kind, Trigger, TriggerError};
use content::catalogs::{MAX_FIELDS, Type};
use gateway::workspaces::email_templates::{EMAIL_TEMPLATE_ID, MAX_TEMPLATES, MAX_TEMPLATES_BYTES};
use gateway::workspaces::keys::KeyError;
use gateway::workspaces::notify::{EmailReceiver, Event, MAX_ADDRESSES, MAX_ENTRIES, Receiver};
use gateway::workspaces::rules::{self, Rule as _};
use gateway::workspaces::segments::ALL_USERS;
use gateway::workspaces::settings::Secret;
use gateway::workspaces::template_data::{self, Filter, data_name};
use gateway::workspaces::{Budget, to_json};
use kit::clock::parse_time;
use kit::json::Tree;
use messages::personalization::{NAMES, alias};
use people::audience::{Audience, AudienceError};
use scim::resource::folded;
use template::{Names, Template};
use tracking::is_field;

const DUPLICATE: &str = "duplicate of an earlier one";

impl Document<'_> {
    /// Reports each element of a list with the same key as an earlier one.
    fn distinct<K: Eq + Hash>(
        &mut self,
        list: &[String],
        field: &str,
        keys: impl IntoIterator<Item = K>,
    ) {
        let mut seen = HashSet::new();
        for (i, key) in keys.into_iter().enumerate() {
            if !seen.insert(key) {
                let path = [list, &steps![i], &steps![field]].concat();
                self.report(if field.is_empty() { &path[..=list.len()] } else { &path }, DUPLICATE);
            }
        }
    }

    fn audience(&mut self, path: &[String], read: Result<Audience, AudienceError>) {
        if let Err(AudienceError { path: inside, text }) = read {
            self.report_within(path, &inside, text);
        }
    }

    fn former_secret(&mut self, path: &[String], pair: Option<(&Option<Secret>, &Option<Secret>)>) {
        if let Some((None, Some(_))) = pair {
            let path = [path, &steps!["secret_old"]].concat();
            self.report(&path, "requires secret, the new one");
        }
    }

    /// The locations of the messages of campaigns and Canvases, in their order.
    pub(super) fn message_locations(&self, workspace: &Declaration) -> Vec<SourceLocation> {
        let campaigns = workspace.campaigns.iter().enumerate().map(|(index, campaign)| {
            let field = if campaign.email.is_some() { "email" } else { "messages" };
            self.location("campaigns", index, Some(field))
        });
        let canvases = 0..workspace.canvases.len();
        let canvases = canvases.map(|index| self.location("canvases", index, Some("messages")));
        campaigns.chain(canvases).collect()
    }

    /// The locations of the email templates, in their order.
    pub(super) fn email_template_locations(&self, workspace: &Declaration) -> Vec<SourceLocation> {
        let templates = 0..workspace.email_templates.len();
        templates.map(|index| self.location("email_templates", index, None)).collect()
    }

    /// The location of a list's entry; its line is that of the field, if one is given.
    fn location(&self, list: &str, index: usize, field: Option<&str>) -> SourceLocation {
        let entry = self.root.find(&steps![list, index]);
        let line = match field {
            Some(field) => self.root.find(&steps![list, index, field]).line,
            None => entry.line,
        };
        SourceLocation { line, path: entry.path }
    }
}

pub(super) fn workspace(declaration: &Declaration, document: &mut Document<'_>) {
    for code in declaration.exchange_rates.keys() {
        let path = steps!["exchange_rates", code];
        if let Err(error) = Currency::read(code) {
            document.report(&path, error);
        } else if *code == declaration.currency {
            document.report(&path, "is the workspace's own currency");
        }
    }
    for budget in declaration.rate_limits.keys() {
        if let Err(error) = Budget::parse(budget) {
            document.report(&steps!["rate_limits", budget], error);
        }
    }
    if let Some(alias) = declaration.aliases.service_id.as_deref().filter(|alias| is_field(alias)) {
        let text = format!("{alias:?} is the name of another field");
        document.report(&steps!["aliases", "service_id"], text);
    }
    credentials(document, "keys", declaration.keys.iter().map(|key| (&*key.name, &key.secret)));
    for (i, _) in declaration.keys.iter().enumerate().filter(|(_, key)| key.permissions.is_empty())
    {
        document.report(&steps!["keys", i, "permissions"], KeyError::NoPermissions);
    }
    document.distinct(&steps!["apps"], "id", declaration.apps.iter().map(|app| app.id));
    document.distinct(
        &steps!["catalogs"],
        "name",
        declaration.catalogs.iter().map(|catalog| &catalog.name),
    );
    for (i, catalog) in declaration.catalogs.iter().enumerate() {
        let fields = steps!["catalogs", i, "fields"];
        document.distinct(&fields, "name", catalog.fields.iter().map(|field| &field.name));
        if catalog.fields.len() > MAX_FIELDS {
            document.report(&fields, format!("a catalog can have at most {MAX_FIELDS} fields"));
        }
    }
    document.distinct(
        &steps!["segments"],
        "id",
        declaration.segments.iter().map(|segment| segment.id),
    );
    for (i, segment) in declaration.segments.iter().enumerate() {
        if segment.name == ALL_USERS {
            let text = format!("{ALL_USERS:?} is the segment that every workspace has");
            document.report(&steps!["segments", i, "name"], text);
        }
        let read = Audience::read_new_segment(&(&segment.audience).into());
        document.audience(&steps!["segments", i, "audience"], read);
    }
    let groups = &declaration.subscription_groups;
    document.distinct(&steps!["subscription_groups"], "id", groups.iter().map(|group| group.id));
    for (i, group) in groups.iter().enumerate() {
        if let Err(error) = rules::check_sender(&group.from, group.channel) {
            document.report(&steps!["subscription_groups", i, "from"], error);
        }
    }
    check_template_data(declaration, document);
    email_templates(declaration, document);
    campaigns(declaration, document);
    channels(declaration, document);
    storages::storage(&declaration.storage, document);
    storages::storages(&declaration.storages, document);
    notify(&declaration.notify, document);
}

/// Reports credentials with the same name or the same secret as an earlier one.
fn credentials<'a>(
    document: &mut Document<'_>,
    list: &str,
    credentials: impl Iterator<Item = (&'a str, &'a secrecy::SecretString)> + Clone,
) {
    use secrecy::ExposeSecret as _;
    document.distinct(&steps![list], "name", credentials.clone().map(|(name, _)| name));
    document.distinct(
        &steps![list],
        "secret",
        credentials.map(|(_, secret)| secret.expose_secret()),
    );
}

fn check_template_data(declaration: &Declaration, document: &mut Document<'_>) {
    if declaration.content_blocks.len() > template_data::MAX_BLOCKS {
        let text = format!("at most {} content blocks", template_data::MAX_BLOCKS);
        document.report(&steps!["content_blocks"], text);
    }
    let mut bytes = 0;
    for (name, body) in &declaration.content_blocks {
        let path = steps!["content_blocks", name];
        if let Err(error) = data_name(name) {
            document.report(&path, error);
        }
        let Some(body) = body.as_str() else {
            document.report(&path, "expected a string");
            continue;
        };
        bytes += body.len();
        if body.len() > template_data::MAX_BLOCK {
            let text =
                format!("a content block can have at most {} bytes", template_data::MAX_BLOCK);
            document.report(&path, text);
        }
        // References to other blocks and to the workspace are checked when the file is applied.
        let names = Names { is_open: true, alias: alias(&declaration.aliases), ..NAMES };
        let read = Template::parse(body, &names);
        let mistake = read.as_ref().map_or_else(Some, Template::mistake);
        if let Some(error) = mistake {
            document.report(&path, error);
        }
    }
    if bytes > template_data::MAX_BLOCKS_BYTES {
        let limit = template_data::MAX_BLOCKS_BYTES;
        document.report(&steps!["content_blocks"], format!("at most {limit} bytes in total"));
    }
    let selections = &declaration.catalog_selections;
    let keys = selections.iter().map(|selection| (&selection.catalog, &selection.name));
    document.distinct(&steps!["catalog_selections"], "name", keys);
    if selections.len() > template_data::MAX_SELECTIONS {
        let text = format!("at most {} selections", template_data::MAX_SELECTIONS);
        document.report(&steps!["catalog_selections"], text);
    }
    for (i, selection) in selections.iter().enumerate() {
        if selection.filters.len() > template_data::MAX_FILTERS {
            let text =
                format!("a selection can have at most {} filters", template_data::MAX_FILTERS);
            document.report(&steps!["catalog_selections", i, "filters"], text);
        }
        // The fields of a catalog that only the store has are not known here.
        let Some(catalog) =
            declaration.catalogs.iter().find(|catalog| catalog.name == selection.catalog)
        else {
            continue;
        };
        let kind = |name: &str| {
            let declared = catalog.fields.iter().find(|field| field.name == name);
            let id = (name == content::catalogs::ID).then_some(Type::String);
            declared.map(|field| field.kind).or(id)
        };
        let unknown = "the catalog has no such field";
        for (f, filter) in selection.filters.iter().enumerate() {
            let path = |field: &str| steps!["catalog_selections", i, "filters", f, field];
            match kind(&filter.field) {
                Some(kind) => {
                    if let Err(text) = check_filter_value(kind, filter) {
                        document.report(&path("value"), text);
                    }
                }
                None => document.report(&path("field"), unknown),
            }
        }
        if selection.sort.as_ref().is_some_and(|sort| kind(&sort.field).is_none()) {
            document.report(&steps!["catalog_selections", i, "sort", "field"], unknown);
        }
    }
    let Some(content) = &declaration.connected_content else { return };
    let path = |rest: &[String]| [&steps!["connected_content"][..], rest].concat();
    if !(1..=template_data::MAX_HOSTS).contains(&content.hosts.len()) {
        let text = format!("1 to {} hosts are required", template_data::MAX_HOSTS);
        document.report(&path(&steps!["hosts"]), text);
    }
    let credentials = &content.credentials;
    let names = credentials.iter().map(|credential| &credential.name);
    document.distinct(&path(&steps!["credentials"]), "name", names);
    if credentials.len() > template_data::MAX_HOSTS {
        let text = format!("at most {} credentials", template_data::MAX_HOSTS);
        document.report(&path(&steps!["credentials"]), text);
    }
    for (i, credential) in credentials.iter().enumerate() {
        if let Err(error) = credential.check() {
            document.report(&path(&steps!["credentials", i]), error);
        }
        if credential.hosts.is_empty() {
            let text = "list the hosts that it may be sent to";
            document.report(&path(&steps!["credentials", i, "hosts"]), text);
        }
    }
}

/// Checks that the value of a filter can be compared with a field of this type.
fn check_filter_value(kind: Type, Filter { operator, value, .. }: &Filter) -> Result<(), String> {
    let expected = match (kind, value) {
        (Type::Array, _) if operator.searches_parts() => return Ok(()),
        (Type::Time, Tree::Text(_)) if operator.searches_parts() => return Ok(()),
        (Type::Time, Tree::Text(text)) => return parse_time(text).map(|_| ()),
        (Type::String, Tree::Text(_))
        | (Type::Number, Tree::Number(_))
        | (Type::Boolean, Tree::Bool(_))
        | (Type::Object, Tree::Object(_))
        | (Type::Array, Tree::Array(_)) => return Ok(()),
        (Type::String, _) => "a string",
        (Type::Number, _) => "a number",
        (Type::Boolean, _) => "true or false",
        (Type::Time, _) => "a date and time in ISO 8601",
        (Type::Object, _) => "an object",
        (Type::Array, _) => "an array",
    };
    Err(format!("expected {expected}, because the field has the type {}", kind.name()))
}

fn email_templates(declaration: &Declaration, document: &mut Document<'_>) {
    let (list, templates) = (steps!["email_templates"], declaration.email_templates());
    document.distinct(&list, "id", templates.iter().map(|template| template.id));
    if templates.len() > MAX_TEMPLATES {
        document.report(&list, format!("at most {MAX_TEMPLATES} email templates"));
    }
    let bytes = templates.iter().map(|template| to_json(&template.content).len());
    if bytes.sum::<usize>() > MAX_TEMPLATES_BYTES {
        document.report(&list, format!("at most {MAX_TEMPLATES_BYTES} bytes in total"));
    }
}

fn campaigns(declaration: &Declaration, document: &mut Document<'_>) {
    let mut ids: HashSet<Uuid> = HashSet::new();
    document.distinct(
        &steps!["campaigns"],
        "id",
        declaration.campaigns.iter().map(|campaign| campaign.id),
    );
    ids.extend(declaration.campaigns.iter().map(|campaign| campaign.id));
    for (i, canvas) in declaration.canvases.iter().enumerate() {
        if !ids.insert(canvas.id) {
            document.report(&steps!["canvases", i, "id"], DUPLICATE);
        }
    }
    for (i, campaign) in declaration.campaigns.iter().enumerate() {
        let mut report = |field: &str, inside: &str, text: &dyn Display| {
            document.report_within(&steps!["campaigns", i, field], inside, text);
        };
        check_type(campaign, &mut report);
        let trigger = campaign.trigger.as_ref().map(|trigger| Trigger::read(&trigger.tree()));
        if let Some(Err(TriggerError { path, text })) = trigger {
            report("trigger", &path, &text);
        }
        // Without the rest of the workspace, only the body can be checked. An email template has
        // one.
        let has_body = |email: &serde_json::Map<String, Value>| {
            email.get("body").and_then(Value::as_str).is_some_and(|body| !body.is_empty())
                || email.get(EMAIL_TEMPLATE_ID).is_some_and(|id| !id.is_null())
        };
        if campaign.email.as_ref().is_some_and(|email| !has_body(email)) {
            report("email", "body", &"is missing: expected a string");
        }
        if let Some(audience) = &campaign.audience {
            let read = Audience::read_new(&audience.into());
            document.audience(&steps!["campaigns", i, "audience"], read);
        }
        document.distinct(&steps!["campaigns", i, "tags"], "", &campaign.tags);
        let mut seen = HashSet::new();
        for (v, variation) in campaign.variations.iter().enumerate() {
            let id = variation.get("id").and_then(Value::as_str).unwrap_or_default();
            let path = steps!["campaigns", i, "variations", v, "id"];
            match rules::id(id) {
                Ok(id) if seen.insert(id) => {}
                Ok(_) => document.report(&path, DUPLICATE),
                Err(error) => document.report(&path, error),
            }
        }
    }
}

/// Checks the fields that the type requires and those that it does not allow.
fn check_type(campaign: &DeclaredCampaign, report: &mut dyn FnMut(&str, &str, &dyn Display)) {
    let DeclaredCampaign { kind, messages, variations, email, trigger, audience, .. } = campaign;
    let with_messages = &[Kind::Api, Kind::Triggered][..];
    let fields = [
        ("messages", messages.is_some(), with_messages, &[Kind::Triggered][..]),
        ("variations", !variations.is_empty(), with_messages, &[]),
        ("email", email.is_some(), &[Kind::Transactional], &[Kind::Transactional]),
        ("sla_per_hour", campaign.sla_per_hour.is_some(), &[Kind::Transactional], &[]),
        ("trigger", trigger.is_some(), &[Kind::Triggered], &[Kind::Triggered]),
        ("audience", audience.is_some(), &[Kind::Triggered], &[]),
    ];
    let name = kind.name();
    for (field, is_set, allowed, required) in fields {
        if is_set && !allowed.contains(kind) {
            report(field, "", &format!("not allowed in a campaign of type {name}"));
        } else if !is_set && required.contains(kind) {
            report(field, "", &format!("required in a campaign of type {name}"));
        }
    }
}

fn channels(declaration: &Declaration, document: &mut Document<'_>) {
    let pairs = [("callbacks", &declaration.callbacks), ("webhooks", &declaration.webhooks)];
    for (field, pair) in pairs {
        let pair = pair.as_ref().map(|pair| (&pair.secret, &pair.secret_old));
        document.former_secret(&steps![field], pair);
    }
    let postback = declaration.email.as_ref().map(|email| &email.status_postback);
    let providers = &declaration.providers;
    for (path, address) in [
        (steps!["email", "status_postback"], postback.unwrap_or(&None)),
        (steps!["providers", "push"], &providers.push),
        (steps!["providers", "sms"], &providers.sms),
        (steps!["providers", "whats_app"], &providers.whats_app),
    ] {
        let pair = address.as_ref().map(|address| (&address.secret, &address.secret_old));
        document.former_secret(&path, pair);
    }
}

fn notify(receivers: &[Receiver], document: &mut Document<'_>) {
    if receivers.len() > MAX_ENTRIES {
        document.report(&steps!["notify"], format!("at most {MAX_ENTRIES} entries"));
    }
    let mut urls = HashSet::new();
    for (i, receiver) in receivers.iter().enumerate() {
        let Receiver { on, webhook, slack, email } = receiver;
        let channels = [webhook.is_some(), slack.is_some(), email.is_some()];
        if channels.into_iter().filter(|is_set| *is_set).count() != 1 {
            let text = "exactly one of webhook, slack and email is required";
            document.report(&steps!["notify", i], text);
        }
        if on.is_empty() {
            let text = format!("list at least one of {}", Event::ALL.map(Event::name).join(", "));
            document.report(&steps!["notify", i, "on"], text);
        }
        document.distinct(&steps!["notify", i, "on"], "", on.iter().map(|event| event.name()));
        // A delivery is signed with the secret of the entry that has its URL.
        if let Some((field, url)) = receiver.address()
            && !urls.insert(url)
        {
            let channel = field.trim_end_matches(".url");
            document.report(&steps!["notify", i, channel, "url"], DUPLICATE);
        }
        if let Some(EmailReceiver { to }) = email {
            let path = steps!["notify", i, "email", "to"];
            if !(1..=MAX_ADDRESSES).contains(&to.len()) {
                document.report(&path, format!("1 to {MAX_ADDRESSES} addresses are required"));
            }
            document.distinct(&path, "", to);
        }
    }
}

pub(super) fn company(company: &Company, document: &mut Document<'_>) {
    let tokens = company.scim_tokens.iter().map(|token| (&*token.name, &token.secret));
    credentials(document, "scim_tokens", tokens);
    let names = company.dashboard_users.iter().map(|user| folded(&user.user_name));
    document.distinct(&steps!["dashboard_users"], "user_name", names);
    let names = company.permission_sets.iter().map(|set| folded(&set.name));
    document.distinct(&steps!["permission_sets"], "name", names);
    for (i, user) in company.dashboard_users.iter().enumerate() {
        let path = steps!["dashboard_users", i, "permissions", "workspaces"];
        permissions(&user.permissions, &path, document);
    }
    for (i, set) in company.permission_sets.iter().enumerate() {
        let path = steps!["permission_sets", i, "permissions", "workspaces"];
        permissions(&set.permissions, &path, document);
    }
}

/// The permissions in the workspaces at a path.
fn permissions(permissions: &Permissions, path: &[String], document: &mut Document<'_>) {
    let workspaces = &permissions.workspaces;
    document.distinct(path, "workspace", workspaces.iter().map(|granted| &granted.workspace));
    for (w, workspace) in workspaces.iter().enumerate() {
        for (t, team) in workspace.teams.iter().enumerate() {
            if team.id.is_none() && team.name.is_none() {
                let path = [path, &steps![w, "teams", t, "id"]].concat();
                document.report(&path, "a team needs an id or a name");
            }
        }
    }
}
