//! The permissions of keys in words, in groups.

use maud::{Markup, html};

use console_frame::parts;

/// A permission, and what it allows.
pub struct Permission {
    pub name: &'static str,
    pub about: &'static str,
}

/// Permissions that belong together.
pub struct Group {
    /// In forms.
    pub name: &'static str,
    pub title: &'static str,
    pub permissions: &'static [Permission],
}

const fn allows(name: &'static str, about: &'static str) -> Permission {
    Permission { name, about }
}

/// All permissions of [`PERMISSIONS`](gateway::workspaces::keys::PERMISSIONS), each in one group.
pub const GROUPS: [Group; 9] = [
    Group {
        name: "users",
        title: "Users",
        permissions: &[
            allows("users.track", "Store attributes, events and purchases"),
            allows("users.identify", "Give an external_id to users who have only an alias"),
            allows("users.alias.new", "Add aliases"),
            allows("users.alias.update", "Change aliases"),
            allows("users.merge", "Merge two users into one"),
            allows("users.external_ids.rename", "Rename external_ids"),
            allows("users.external_ids.remove", "Remove former external_ids"),
            allows("users.delete", "Erase users"),
            allows("users.messages", "See what a user got, and why a send did not reach the user"),
        ],
    },
    Group {
        name: "exports",
        title: "Exports of users",
        permissions: &[
            allows("users.export.global_control_group", "Export the global control group"),
            allows("users.export.segment", "Export every segment and audience, so all users"),
            allows("users.export.ids", "Read the records of users by their identifiers"),
        ],
    },
    Group {
        name: "segments",
        title: "Segments",
        permissions: &[
            allows("segments.list", "List segments"),
            allows("segments.details", "Read a segment"),
            allows("segments.size", "Count the users of a segment or an audience"),
            allows("segments.sample", "Read the records of some users of any segment or audience"),
        ],
    },
    Group {
        name: "messages",
        title: "Messages",
        permissions: &[
            allows("messages.send", "Send messages now"),
            allows("messages.schedule.create", "Schedule messages"),
            allows("messages.schedule.update", "Change scheduled messages"),
            allows("messages.schedule.delete", "Cancel scheduled messages"),
            allows("messages.schedule_broadcasts", "List scheduled broadcasts"),
            allows("messages.live_activity.start", "Start Live Activities"),
            allows("transactional.send", "Send transactional emails"),
            allows("templates.preview", "Render messages for a user, with the data of the user"),
        ],
    },
    Group {
        name: "sends",
        title: "Sends and their results",
        permissions: &[
            allows("messages.dispatches.list", "List sends"),
            allows("messages.dispatches.get", "Read a send and its results"),
            allows("messages.dispatches.recipients", "List the recipients of a send"),
            allows("messages.dispatches.cancel", "Cancel sends"),
            allows("messages.dispatches.send", "Send to the recipients of a former send"),
        ],
    },
    Group {
        name: "campaigns",
        title: "Campaigns and Canvases",
        permissions: &[
            allows("campaigns.list", "List campaigns"),
            allows("campaigns.details", "Read a campaign"),
            allows("campaigns.statistics", "Read the statistics of a campaign"),
            allows("campaigns.trigger.send", "Send campaigns now"),
            allows("campaigns.trigger.schedule.create", "Schedule campaigns"),
            allows("campaigns.trigger.schedule.update", "Change scheduled campaigns"),
            allows("campaigns.trigger.schedule.delete", "Cancel scheduled campaigns"),
            allows("canvas.list", "List Canvases"),
            allows("canvas.trigger.send", "Send Canvases now"),
            allows("canvas.trigger.schedule.create", "Schedule Canvases"),
            allows("canvas.trigger.schedule.update", "Change scheduled Canvases"),
            allows("canvas.trigger.schedule.delete", "Cancel scheduled Canvases"),
        ],
    },
    Group {
        name: "consent",
        title: "Subscriptions",
        permissions: &[
            allows("subscription.status.get", "Read the state of users in subscription groups"),
            allows("subscription.status.set", "Set the state of users in subscription groups"),
            allows("email.status", "Set the email subscription of users"),
            allows("suppressions.list", "Count and check addresses that get no messages"),
            allows("suppressions.edit", "Suppress addresses, and end their suppression"),
            allows("sms.invalid_phone_numbers.remove", "Remove numbers from the invalid ones"),
        ],
    },
    Group {
        name: "catalogs",
        title: "Catalogs and products",
        permissions: &[
            allows("catalogs.get", "List catalogs"),
            allows("catalogs.create", "Create catalogs"),
            allows("catalogs.delete", "Delete catalogs with their items"),
            allows("catalogs.get_items", "List items"),
            allows("catalogs.add_items", "Create several items"),
            allows("catalogs.update_items", "Change several items"),
            allows("catalogs.replace_items", "Replace several items"),
            allows("catalogs.delete_items", "Delete several items"),
            allows("catalogs.get_item", "Read an item"),
            allows("catalogs.create_item", "Create an item"),
            allows("catalogs.update_item", "Change an item"),
            allows("catalogs.replace_item", "Replace an item"),
            allows("catalogs.delete_item", "Delete an item"),
            allows("purchases.product_list", "List the products that users bought"),
        ],
    },
    Group {
        name: "operations",
        title: "Deliveries and dead letters",
        permissions: &[
            allows("deliveries.list", "List callbacks, postbacks and notifications"),
            allows("deliveries.get", "Read one of them with its body"),
            allows("deliveries.resend", "Send one of them again"),
            allows("dead_letters.list", "List data that could not be applied"),
            allows("dead_letters.get", "Read such data"),
            allows("dead_letters.retry", "Apply such data"),
            allows("dead_letters.discard", "Delete such data permanently"),
        ],
    },
];

impl Group {
    /// The permissions of the group that are among these.
    fn granted(&self, names: &[String]) -> Vec<&'static Permission> {
        let is_granted =
            |permission: &&Permission| names.iter().any(|name| name == permission.name);
        self.permissions.iter().filter(is_granted).collect()
    }
}

/// These permissions that no group has: those of a newer release.
fn unknown(names: &[String]) -> Vec<&str> {
    let is_known = |name: &str| {
        GROUPS.iter().any(|group| group.permissions.iter().any(|own| own.name == name))
    };
    names.iter().map(String::as_str).filter(|name| !is_known(name)).collect()
}

/// Permissions in a few words: `Users (2 of 9), Segments (all)`.
pub fn summary(names: &[String]) -> String {
    let counted = GROUPS.iter().map(|group| (group, group.granted(names).len()));
    let counted: Vec<_> = counted.filter(|(_, count)| *count > 0).collect();
    let is_all = |(group, count): &(&Group, usize)| *count == group.permissions.len();
    if counted.len() == GROUPS.len() && counted.iter().all(is_all) {
        return "Every permission".to_owned();
    }
    let words = counted.iter().map(|entry @ (group, count)| {
        if is_all(entry) {
            format!("{} (all)", group.title)
        } else {
            format!("{} ({count} of {})", group.title, group.permissions.len())
        }
    });
    let unknown = unknown(names).into_iter().map(str::to_owned);
    words.chain(unknown).collect::<Vec<_>>().join(", ")
}

/// Permissions with what each allows, in groups.
pub fn list(names: &[String]) -> Markup {
    let unknown = unknown(names);
    html! {
        dl.facts.permissions {
            @for group in &GROUPS {
                @let granted = group.granted(names);
                @if !granted.is_empty() {
                    div.stack {
                        dt { (group.title) }
                        @for permission in granted {
                            dd { (permission.about) " " code.muted { (permission.name) } }
                        }
                    }
                }
            }
            @if !unknown.is_empty() {
                div.stack {
                    dt { "Of another release" }
                    @for name in unknown { dd { code { (parts::cut(name)) } } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gateway::workspaces::keys::PERMISSIONS;

    use super::*;

    #[test]
    fn each_permission_is_in_one_group() {
        let permissions = GROUPS.iter().flat_map(|group| group.permissions);
        let mut grouped: Vec<&str> = permissions.map(|permission| permission.name).collect();
        grouped.sort_unstable();
        assert_eq!(grouped, PERMISSIONS);
    }

    #[test]
    fn permissions_are_counted_by_group() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (granted, words) in [
            (&["users.track", "users.delete"][..], "Users (2 of 9)"),
            (
                &["segments.list", "segments.details", "segments.size", "segments.sample"][..],
                "Segments (all)",
            ),
            (&["email.status", "cafes.open"][..], "Subscriptions (1 of 6), cafes.open"),
            (PERMISSIONS, "Every permission"),
        ] {
            assert_eq!(summary(&names(granted)), words);
        }
    }
}
