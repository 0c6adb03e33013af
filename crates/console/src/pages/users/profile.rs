//! The sections of a user's profile.

use std::borrow::Cow;

use maud::{Markup, html};
use serde_json::value::RawValue;

use crate::page::Page;
use console_frame::parts::{self, Look, Tone, json_text, json_value};
use gateway::workspaces::ControlGroup;
use kit::clock::parse_time;
use kit::json::{self, JsonFields};
use people::users::consent::{Consent, Topic, UNSUBSCRIBED};
use people::users::profile::{Field, Profile};
use people::users::rows::StoredUser;
use people::users::service_id;
use people::users::suppressions::{AddressState, Reason, Stop};

/// Identifiers, apps, devices and groups of each kind that a page lists.
const MAX_LISTED: usize = 20;

/// Custom attributes that are shown at once, and at most. The command shows all.
const FIRST_ATTRIBUTES: usize = 50;
const MAX_ATTRIBUTES: usize = 500;

/// The fields of a person, in the order of the page.
const ABOUT: [(&str, Field); 17] = [
    ("First name", Field::FirstName),
    ("Last name", Field::LastName),
    ("Gender", Field::Gender),
    ("Date of birth", Field::Dob),
    ("Country", Field::Country),
    ("Language", Field::Language),
    ("Time zone", Field::TimeZone),
    ("Home city", Field::HomeCity),
    ("Last coordinates", Field::LastCoordinates),
    ("Current location", Field::CurrentLocation),
    ("Campaign", Field::AttributedCampaign),
    ("Source", Field::AttributedSource),
    ("Ad group", Field::AttributedAdgroup),
    ("Ad", Field::AttributedAd),
    ("First session", Field::DateOfFirstSession),
    ("Last session", Field::DateOfLastSession),
    ("Uninstalled", Field::UninstalledAt),
];

/// A user, as the page shows it.
pub(super) struct Shown {
    pub user: StoredUser,
    pub control_group: Option<ControlGroup>,
    /// What is known about the user's addresses.
    pub address: Option<AddressState>,
}

/// Who the user is, and which messages the user gets.
pub fn side(page: &Page, shown: &Shown, profile: &Profile) -> Markup {
    html! {
        (identifiers(profile))
        (consent(page, shown, profile))
        (about(page, shown, profile))
    }
}

fn identifiers(profile: &Profile) -> Markup {
    let mut facts = Vec::new();
    let text = |field| profile.text(field);
    for (name, field) in
        [("external_id", Field::ExternalId), ("Email", Field::Email), ("Phone", Field::Phone)]
    {
        let value = text(field);
        facts.push((
            name,
            html! {
                @match &value {
                    Some(value) => (parts::name(value)),
                    None => { span.muted { "None" } }
                }
            },
        ));
    }
    let aliases = profile.aliases();
    if !aliases.is_empty() {
        let names = aliases.iter().map(|alias| format!("{}:{}", alias.label, alias.name));
        facts.push(("Aliases", listed(&names.collect::<Vec<_>>())));
    }
    let former = profile.deprecated_external_ids();
    if !former.is_empty() {
        facts.push(("Former external_ids", listed(&former)));
    }
    section("Identifiers", &parts::facts(&facts))
}

/// Some of many texts, one below the other.
fn listed(texts: &[String]) -> Markup {
    let more = texts.len().saturating_sub(MAX_LISTED);
    html! {
        @for text in texts.iter().take(MAX_LISTED) { div { (parts::name(text)) } }
        @if more > 0 { div.muted { "and " (parts::number(more as i64)) " more" } }
    }
}

fn section(title: &str, content: &Markup) -> Markup {
    html! {
        section.panel aria-label=(title) {
            div.panel-head { h2 { (title) } }
            div.panel-body { (content) }
        }
    }
}

/// The state of each channel. Without a decision, emails and push messages are sent; SMS and
/// WhatsApp messages need a group.
fn consent(page: &Page, shown: &Shown, profile: &Profile) -> Markup {
    let mut consent = Consent::read(profile);
    shown.address.iter().for_each(|address| address.apply_to(&mut consent));
    let stopped = shown.address.as_ref().and_then(AddressState::stopped);
    let decided = |topic| consent.states().find(|(found, ..)| *found == topic);
    let groups: Vec<_> =
        consent.states().filter(|(topic, ..)| matches!(topic, Topic::Group(_))).collect();
    let more = groups.len().saturating_sub(MAX_LISTED);
    html! {
        section.panel aria-label="Consent" {
            div.panel-head { h2 { "Consent" } }
            div.panel-body {
                dl.facts {
                    @for (name, topic) in [("Email", Topic::Email), ("Push", Topic::Push)] {
                        div {
                            dt { (name) }
                            dd {
                                @match decided(topic) {
                                    Some((_, state, at)) => (decision(page, state, at)),
                                    None => {
                                        "subscribed" div.muted.small { "Not decided: the default" }
                                    }
                                }
                            }
                        }
                    }
                    @if let Some(Stop { reason, until }) = stopped {
                        div {
                            dt { "Email address" }
                            dd {
                                (parts::badge(Tone::Bad, "ban", "suppressed"))
                                div.muted.small {
                                    @match reason {
                                        Reason::Bounce => "An email bounced",
                                        _ => "A recipient complained",
                                    }
                                    @if let Some(until) = until { ": until " (page.time(until)) }
                                }
                            }
                        }
                    }
                    @for (topic, state, at) in groups.iter().take(MAX_LISTED) {
                        @if let Topic::Group(id) = topic {
                            div {
                                dt { "Group " span.mono { (parts::name(id)) } }
                                dd { (decision(page, state, *at)) }
                            }
                        }
                    }
                    div {
                        dt { "Control group" }
                        dd { (control_group(shown)) }
                    }
                }
                @if groups.is_empty() {
                    p.hint { "In no subscription group: the user gets no SMS and WhatsApp messages." }
                } @else if more > 0 {
                    p.hint { "And " (parts::number(more as i64)) " more groups." }
                }
            }
        }
    }
}

fn decision(page: &Page, state: &str, at: i64) -> Markup {
    let (tone, icon_name) =
        if state == UNSUBSCRIBED { (Tone::Bad, "ban") } else { (Tone::Good, "circle-check") };
    html! {
        (parts::badge(tone, icon_name, &parts::cut(state)))
        div.muted.small {
            @if at > 0 { "Decided " (page.time(at)) } @else { "Time of the decision unknown" }
        }
    }
}

fn control_group(shown: &Shown) -> Markup {
    let bucket = service_id::bucket(&shown.user.service_id);
    let slice = bucket.map(service_id::slice_of);
    html! {
        @match &shown.control_group {
            None => { "The workspace has none" }
            Some(group) if slice.is_some_and(|slice| group.slices.contains(&slice)) => {
                (Look::new(Tone::Warning, "shield-check", "Member").badge())
                div.muted.small { "Gets no messages of Canvases and triggered campaigns" }
            }
            Some(_) => { "Not a member" }
        }
        @if let Some(bucket) = bucket {
            div.muted.small { "random_bucket " (bucket) }
        }
    }
}

fn about(page: &Page, shown: &Shown, profile: &Profile) -> Markup {
    let mut facts = Vec::new();
    for (name, field) in ABOUT {
        let Some(json) = profile.get(field) else { continue };
        facts.push((name, plain_or_time(page, field, json)));
    }
    let created = profile.get(Field::CreatedAt).map(json_text);
    let created = created.and_then(|text| parse_time(&text).ok());
    let created = created.unwrap_or_else(|| service_id::millis(&shown.user.service_id));
    facts.push(("Created", page.time(created)));
    facts.push(("Attributes written", page.time(shown.user.attributes_at)));
    section("Attributes", &parts::facts(&facts))
}

fn plain_or_time(page: &Page, field: Field, json: &str) -> Markup {
    let text = json_text(json);
    let is_time = matches!(
        field,
        Field::DateOfFirstSession | Field::DateOfLastSession | Field::UninstalledAt
    );
    match parse_time(&text) {
        Ok(at) if is_time => page.time(at),
        _ => parts::name(&text),
    }
}

pub fn custom_attributes(profile: &Profile) -> Markup {
    let json = profile.get(Field::CustomAttributes).unwrap_or("{}");
    let JsonFields(fields) = json::parse(json).unwrap_or_default();
    let (first, rest) = fields.split_at(fields.len().min(FIRST_ATTRIBUTES));
    let shown = rest.len().min(MAX_ATTRIBUTES - FIRST_ATTRIBUTES);
    let omitted = rest.len() - shown;
    let rows = |fields: &[(Cow<'_, str>, &RawValue)]| {
        html! {
            table.list.dense.attributes {
                thead {
                    tr { th scope="col" { "Attribute" } th scope="col" { "Value" } }
                }
                tbody {
                    @for (name, json) in fields {
                        tr {
                            td.c-full { (parts::name(name)) }
                            td.c-full { (json_value(json.get())) }
                        }
                    }
                }
            }
        }
    };
    html! {
        section.panel aria-label="Custom attributes" {
            div.panel-head {
                h2 { "Custom attributes" }
                @if !fields.is_empty() { span.hint { (parts::number(fields.len() as i64)) } }
            }
            @if fields.is_empty() {
                (parts::empty(
                    "No custom attributes",
                    "Fields of tracked attributes that are not in the user record appear here.",
                ))
            } @else {
                (rows(first))
                @if shown > 0 {
                    details.more {
                        summary.panel-foot { "Show " (parts::number(shown as i64)) " more" }
                        (rows(&rest[..shown]))
                    }
                }
                @if omitted > 0 {
                    p.panel-foot {
                        "Not shown: " (parts::number(omitted as i64))
                        " more. The command below prints all."
                    }
                }
            }
        }
    }
}

pub fn apps(page: &Page, profile: &Profile) -> Markup {
    let columns = [
        ("App", "name"),
        ("Platform", "platform"),
        ("Version", "version"),
        ("Sessions", "sessions"),
        ("First used", "first_used"),
        ("Last used", "last_used"),
    ];
    objects(page, "Apps", &columns, profile.get(Field::Apps))
}

pub fn devices(page: &Page, profile: &Profile) -> Markup {
    let columns = [
        ("Device", "model"),
        ("System", "os"),
        ("Carrier", "carrier"),
        ("Device ID", "device_id"),
        ("Ad tracking", "ad_tracking_enabled"),
    ];
    // Without the tokens: whoever has one may reach the device.
    let of_tokens = [("App ID", "app_id"), ("Kind", "kind"), ("Device ID", "device_id")];
    html! {
        (objects(page, "Devices", &columns, profile.get(Field::Devices)))
        (objects(page, "Push tokens", &of_tokens, profile.get(Field::PushTokens)))
    }
}

/// The objects of a stored list; none if it is unreadable.
fn objects_in(json: &str) -> Vec<JsonFields<'_>> {
    json::parse(json).unwrap_or_default()
}

/// A table of stored objects, by the titles and names of their fields.
fn objects(page: &Page, title: &str, columns: &[(&str, &str)], json: Option<&str>) -> Markup {
    let objects = json.map(objects_in).unwrap_or_default();
    let more = objects.len().saturating_sub(MAX_LISTED);
    html! {
        @if !objects.is_empty() {
            section.panel aria-label=(title) {
                div.panel-head { h2 { (title) } }
                table.list.dense.objects {
                    thead { tr { @for (title, _) in columns { th scope="col" { (title) } } } }
                    tbody {
                        @for object in objects.iter().take(MAX_LISTED) {
                            tr {
                                @for (title, name) in columns {
                                    td data-label=(title) {
                                        @if let Some(json) = object.get(name) { (object_field(page, name, json)) }
                                    }
                                }
                            }
                        }
                    }
                }
                @if more > 0 { p.panel-foot { "And " (parts::number(more as i64)) " more." } }
            }
        }
    }
}

fn object_field(page: &Page, name: &str, json: &str) -> Markup {
    let text = json_text(json);
    match parse_time(&text) {
        Ok(at) if name.ends_with("_used") => page.time(at),
        _ => parts::name(&text),
    }
}
