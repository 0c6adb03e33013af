//! Checks the fields of the file together. Each single field was checked when it was read.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;

use serde_json::Value;
use uuid::Uuid;

use super::{Document, steps};
use crate::document::company::{Company, Permissions};
use crate::document::{Declaration, DeclaredCampaign, SourceLocation, Storage};
use crate::values::Currency;
use content::campaigns::{Kind, Trigger, TriggerError};
use content::catalogs::MAX_FIELDS;
use gateway::workspaces::email_templates::{EMAIL_TEMPLATE_ID, MAX_TEMPLATES, MAX_TEMPLATES_BYTES};
use gateway::workspaces::keys::KeyError;
use gateway::workspaces::rules::{self, Rule as _};
use gateway::workspaces::settings::Secret;
use gateway::workspaces::template_data::{self, data_name};
use gateway::workspaces::{Budget, to_json};
use messages::personalization::{NAMES, alias};
use people::audience::{Audience, AudienceError};
use scim::resource::folded;
use template::{Names, Template};
use tracking::is_field;

const SAME: &str = "duplicate of an earlier one";

impl Document<'_> {
    /// Reports each item of a list with the same key as an earlier one.
    fn distinct<K: Eq + Hash>(
        &mut self,
        list: &[String],
        field: &str,
        keys: impl IntoIterator<Item = K>,
    ) {
        let mut seen = HashSet::new();
        for (i, key) in keys.into_iter().enumerate() {
            if !seen.insert(key) {
                let item = [list, &steps![i], &steps![field]].concat();
                self.refuse(if field.is_empty() { &item[..=list.len()] } else { &item }, SAME);
            }
        }
    }

    fn audience(&mut self, path: &[String], read: Result<Audience, AudienceError>) {
        if let Err(AudienceError { path: inside, text }) = read {
            self.refuse_within(path, &inside, text);
        }
    }

    fn former_secret(&mut self, path: &[String], pair: Option<(&Option<Secret>, &Option<Secret>)>) {
        if let Some((None, Some(_))) = pair {
            let path = [path, &steps!["secret_old"]].concat();
            self.refuse(&path, "requires secret, the new one");
        }
    }

    /// The places of the messages of campaigns and Canvases.
    pub(super) fn places(&self, workspace: &Declaration) -> Vec<SourceLocation> {
        let field = |one: &DeclaredCampaign| one.email.as_ref().map_or("messages", |_| "email");
        let campaigns = workspace.campaigns.iter().map(field).enumerate();
        let campaigns = campaigns.map(|(i, field)| ("campaigns", i, field));
        let canvases = (0..workspace.canvases.len()).map(|i| ("canvases", i, "messages"));
        let place = |(list, i, field): (&str, usize, &str)| SourceLocation {
            line: self.root.find(&steps![list, i, field]).line,
            path: self.root.find(&steps![list, i]).path,
        };
        campaigns.chain(canvases).map(place).collect()
    }

    pub(super) fn email_template_places(&self, workspace: &Declaration) -> Vec<SourceLocation> {
        let place = |i: usize| {
            let found = self.root.find(&steps!["email_templates", i]);
            SourceLocation { line: found.line, path: found.path }
        };
        (0..workspace.email_templates.len()).map(place).collect()
    }
}

pub(super) fn workspace(is: &Declaration, document: &mut Document<'_>) {
    for code in is.exchange_rates.keys() {
        let path = steps!["exchange_rates", code];
        if let Err(error) = Currency::read(code) {
            document.refuse(&path, error);
        } else if *code == is.currency {
            document.refuse(&path, "is the workspace's own currency");
        }
    }
    for budget in is.rate_limits.keys() {
        if let Err(error) = Budget::parse(budget) {
            document.refuse(&steps!["rate_limits", budget], error);
        }
    }
    if let Some(alias) = is.aliases.service_id.as_deref().filter(|alias| is_field(alias)) {
        let text = format!("{alias:?} is the name of another field");
        document.refuse(&steps!["aliases", "service_id"], text);
    }
    credentials(document, "keys", is.keys.iter().map(|key| (&*key.name, &key.secret)));
    for (i, _) in is.keys.iter().enumerate().filter(|(_, key)| key.permissions.is_empty()) {
        document.refuse(&steps!["keys", i, "permissions"], KeyError::NoPermissions);
    }
    document.distinct(&steps!["apps"], "id", is.apps.iter().map(|app| app.id));
    document.distinct(&steps!["catalogs"], "name", is.catalogs.iter().map(|one| &one.name));
    for (i, catalog) in is.catalogs.iter().enumerate() {
        let fields = steps!["catalogs", i, "fields"];
        document.distinct(&fields, "name", catalog.fields.iter().map(|field| &field.name));
        if catalog.fields.len() > MAX_FIELDS {
            document.refuse(&fields, format!("a catalog can have at most {MAX_FIELDS} fields"));
        }
    }
    document.distinct(&steps!["segments"], "id", is.segments.iter().map(|segment| segment.id));
    for (i, segment) in is.segments.iter().enumerate() {
        let read = Audience::read_segment(&segment.audience);
        document.audience(&steps!["segments", i, "audience"], read);
    }
    let groups = &is.subscription_groups;
    document.distinct(&steps!["subscription_groups"], "id", groups.iter().map(|group| group.id));
    for (i, group) in groups.iter().enumerate() {
        if let Err(error) = rules::check_sender(&group.from, group.channel) {
            document.refuse(&steps!["subscription_groups", i, "from"], error);
        }
    }
    for_templates(is, document);
    email_templates(is, document);
    campaigns(is, document);
    channels(is, document);
    storage(&is.storage, document);
}

/// No two have the same name or the same secret.
fn credentials<'a>(
    document: &mut Document<'_>,
    list: &str,
    each: impl Iterator<Item = (&'a str, &'a secrecy::SecretString)> + Clone,
) {
    use secrecy::ExposeSecret as _;
    document.distinct(&steps![list], "name", each.clone().map(|(name, _)| name));
    document.distinct(&steps![list], "secret", each.map(|(_, secret)| secret.expose_secret()));
}

fn for_templates(is: &Declaration, document: &mut Document<'_>) {
    if is.content_blocks.len() > template_data::MAX_BLOCKS {
        let text = format!("at most {} content blocks", template_data::MAX_BLOCKS);
        document.refuse(&steps!["content_blocks"], text);
    }
    let mut bytes = 0;
    for (name, body) in &is.content_blocks {
        let path = steps!["content_blocks", name];
        if let Err(error) = data_name(name) {
            document.refuse(&path, error);
        }
        let Some(body) = body.as_str() else {
            document.refuse(&path, "expected a string");
            continue;
        };
        bytes += body.len();
        if body.len() > template_data::MAX_BLOCK {
            let text =
                format!("a content block can have at most {} bytes", template_data::MAX_BLOCK);
            document.refuse(&path, text);
        }
        // References to other blocks and to the workspace are checked when the file is applied.
        let names = Names { is_open: true, alias: alias(&is.aliases), ..NAMES };
        let read = Template::parse(body, &names);
        let wrong = read.as_ref().map_or_else(Some, Template::mistake);
        if let Some(error) = wrong {
            document.refuse(&path, error);
        }
    }
    if bytes > template_data::MAX_BLOCKS_BYTES {
        let most = template_data::MAX_BLOCKS_BYTES;
        document.refuse(&steps!["content_blocks"], format!("at most {most} bytes in total"));
    }
    let selections = &is.catalog_selections;
    let keys = selections.iter().map(|one| (&one.catalog, &one.name));
    document.distinct(&steps!["catalog_selections"], "name", keys);
    if selections.len() > template_data::MAX_SELECTIONS {
        let text = format!("at most {} selections", template_data::MAX_SELECTIONS);
        document.refuse(&steps!["catalog_selections"], text);
    }
    for (i, selection) in selections.iter().enumerate() {
        if selection.filters.len() > template_data::MAX_FILTERS {
            let text =
                format!("a selection can have at most {} filters", template_data::MAX_FILTERS);
            document.refuse(&steps!["catalog_selections", i, "filters"], text);
        }
        // The fields of a catalog that only the store has are not known here.
        let Some(catalog) = is.catalogs.iter().find(|one| one.name == selection.catalog) else {
            continue;
        };
        let is_known = |field: &str| {
            field == content::catalogs::ID || catalog.fields.iter().any(|known| known.name == field)
        };
        let unknown = "the catalog has no such field";
        for (f, filter) in selection.filters.iter().enumerate() {
            if !is_known(&filter.field) {
                document.refuse(&steps!["catalog_selections", i, "filters", f, "field"], unknown);
            }
        }
        if selection.sort.as_ref().is_some_and(|sort| !is_known(&sort.field)) {
            document.refuse(&steps!["catalog_selections", i, "sort", "field"], unknown);
        }
    }
    let Some(content) = &is.connected_content else { return };
    let path = |rest: &[String]| [&steps!["connected_content"][..], rest].concat();
    if !(1..=template_data::MAX_HOSTS).contains(&content.hosts.len()) {
        let text = format!("1 to {} hosts are required", template_data::MAX_HOSTS);
        document.refuse(&path(&steps!["hosts"]), text);
    }
    let credentials = &content.credentials;
    let names = credentials.iter().map(|credential| &credential.name);
    document.distinct(&path(&steps!["credentials"]), "name", names);
    if credentials.len() > template_data::MAX_HOSTS {
        let text = format!("at most {} credentials", template_data::MAX_HOSTS);
        document.refuse(&path(&steps!["credentials"]), text);
    }
    for (i, credential) in credentials.iter().enumerate() {
        if let Err(error) = credential.check() {
            document.refuse(&path(&steps!["credentials", i]), error);
        }
        if credential.hosts.is_empty() {
            let text = "list the hosts that it may be sent to";
            document.refuse(&path(&steps!["credentials", i, "hosts"]), text);
        }
    }
}

fn email_templates(is: &Declaration, document: &mut Document<'_>) {
    let (list, templates) = (steps!["email_templates"], is.email_templates());
    document.distinct(&list, "id", templates.iter().map(|template| template.id));
    if templates.len() > MAX_TEMPLATES {
        document.refuse(&list, format!("at most {MAX_TEMPLATES} email templates"));
    }
    let bytes = templates.iter().map(|template| to_json(&template.content).len());
    if bytes.sum::<usize>() > MAX_TEMPLATES_BYTES {
        document.refuse(&list, format!("at most {MAX_TEMPLATES_BYTES} bytes in total"));
    }
}

fn campaigns(is: &Declaration, document: &mut Document<'_>) {
    let mut ids: HashSet<Uuid> = HashSet::new();
    document.distinct(&steps!["campaigns"], "id", is.campaigns.iter().map(|one| one.id));
    ids.extend(is.campaigns.iter().map(|one| one.id));
    for (i, canvas) in is.canvases.iter().enumerate() {
        if !ids.insert(canvas.id) {
            document.refuse(&steps!["canvases", i, "id"], SAME);
        }
    }
    for (i, campaign) in is.campaigns.iter().enumerate() {
        let mut refuse = |field: &str, inside: &str, text: &dyn Display| {
            document.refuse_within(&steps!["campaigns", i, field], inside, text);
        };
        check_type(campaign, &mut refuse);
        if let Some(Err(TriggerError { path, text })) = campaign.trigger.as_ref().map(Trigger::read)
        {
            refuse("trigger", &path, &text);
        }
        // Without the rest of the workspace, only the body can be checked. An email template has one.
        let has_body = |email: &serde_json::Map<String, Value>| {
            email.get("body").and_then(Value::as_str).is_some_and(|body| !body.is_empty())
                || email.get(EMAIL_TEMPLATE_ID).is_some_and(|id| !id.is_null())
        };
        if campaign.email.as_ref().is_some_and(|email| !has_body(email)) {
            refuse("email", "body", &"is missing: expected a string");
        }
        if let Some(audience) = &campaign.audience {
            let read = Audience::read(&Value::Object(audience.clone()));
            document.audience(&steps!["campaigns", i, "audience"], read);
        }
        document.distinct(&steps!["campaigns", i, "tags"], "", &campaign.tags);
        let mut seen = HashSet::new();
        for (v, variation) in campaign.variations.iter().enumerate() {
            let id = variation.get("id").and_then(Value::as_str).unwrap_or_default();
            let path = steps!["campaigns", i, "variations", v, "id"];
            match rules::id(id) {
                Ok(id) if seen.insert(id) => {}
                Ok(_) => document.refuse(&path, SAME),
                Err(error) => document.refuse(&path, error),
            }
        }
    }
}

/// Checks the fields that the type requires and those that it does not allow.
fn check_type(campaign: &DeclaredCampaign, refuse: &mut dyn FnMut(&str, &str, &dyn Display)) {
    let DeclaredCampaign { kind, messages, variations, email, trigger, audience, .. } = campaign;
    let sent = &[Kind::Api, Kind::Triggered][..];
    let fields = [
        ("messages", messages.is_some(), sent, &[Kind::Triggered][..]),
        ("variations", !variations.is_empty(), sent, &[]),
        ("email", email.is_some(), &[Kind::Transactional], &[Kind::Transactional]),
        ("sla_per_hour", campaign.sla_per_hour.is_some(), &[Kind::Transactional], &[]),
        ("trigger", trigger.is_some(), &[Kind::Triggered], &[Kind::Triggered]),
        ("audience", audience.is_some(), &[Kind::Triggered], &[]),
    ];
    let name = kind.name();
    for (field, is_there, allowed, required) in fields {
        if is_there && !allowed.contains(kind) {
            refuse(field, "", &format!("not allowed in a campaign of type {name}"));
        } else if !is_there && required.contains(kind) {
            refuse(field, "", &format!("required in a campaign of type {name}"));
        }
    }
}

fn channels(is: &Declaration, document: &mut Document<'_>) {
    let pairs = [("callbacks", &is.callbacks), ("webhooks", &is.webhooks)];
    for (field, pair) in pairs {
        let pair = pair.as_ref().map(|pair| (&pair.secret, &pair.secret_old));
        document.former_secret(&steps![field], pair);
    }
    let postback = is.email.as_ref().map(|email| &email.status_postback);
    let providers = &is.providers;
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

fn storage(storage: &Storage, document: &mut Document<'_>) {
    if let Some(s3) = &storage.s3 {
        let mut refuse = |field: &str, text| document.refuse(&steps!["storage", "s3", field], text);
        if s3.access_key_id.is_some() != s3.secret_access_key.is_some() {
            let text = "requires secret_access_key; without both, the machine's own credentials \
                        are used";
            refuse("access_key_id", text);
        } else if s3.session_token.is_some() && s3.access_key_id.is_none() {
            refuse("session_token", "requires access_key_id and secret_access_key");
        }
        if s3.region.is_none() && s3.endpoint.is_none() {
            refuse("region", "is required, for example eu-west-1");
        }
    }
    if let Some(azure) = &storage.azure
        && azure.access_key.is_some() == azure.sas_token.is_some()
    {
        let path = steps!["storage", "azure", "access_key"];
        document.refuse(&path, "exactly one of access_key and sas_token is required");
    }
}

pub(super) fn company(is: &Company, document: &mut Document<'_>) {
    let tokens = is.scim_tokens.iter().map(|token| (&*token.name, &token.secret));
    credentials(document, "scim_tokens", tokens);
    let names = is.dashboard_users.iter().map(|user| folded(&user.user_name));
    document.distinct(&steps!["dashboard_users"], "user_name", names);
    let names = is.permission_sets.iter().map(|set| folded(&set.name));
    document.distinct(&steps!["permission_sets"], "name", names);
    for (i, user) in is.dashboard_users.iter().enumerate() {
        let path = steps!["dashboard_users", i, "permissions", "workspaces"];
        permissions(&user.permissions, &path, document);
    }
    for (i, set) in is.permission_sets.iter().enumerate() {
        let path = steps!["permission_sets", i, "permissions", "workspaces"];
        permissions(&set.permissions, &path, document);
    }
}

/// The permissions in the workspaces at a path.
fn permissions(is: &Permissions, path: &[String], document: &mut Document<'_>) {
    document.distinct(path, "workspace", is.workspaces.iter().map(|one| &one.workspace));
    for (w, workspace) in is.workspaces.iter().enumerate() {
        for (t, team) in workspace.teams.iter().enumerate() {
            if team.id.is_none() && team.name.is_none() {
                let path = [path, &steps![w, "teams", t, "id"]].concat();
                document.refuse(&path, "a team needs an id or a name");
            }
        }
    }
}
