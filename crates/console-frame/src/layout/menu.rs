//! The menu: the workspaces, and the pages of one and of the installation, in groups.

use maud::{Markup, html};

use super::person;
use crate::page::{Page, VisibleWorkspace};
use crate::parts::{self, icon};
use crate::rights::Right;

/// A page in the menu.
struct Entry {
    title: &'static str,
    icon: &'static str,
    href: String,
    is_current: bool,
}

/// A page of a workspace in the menu: name, icon, path and right.
type WorkspacePage = (&'static str, &'static str, &'static str, Right);

/// The pages of a workspace in the menu, in groups. The first group also has the overview, and the
/// last one the pages of the installation.
const OF_WORKSPACE: [(&str, &[WorkspacePage]); 4] = [
    (
        "Work",
        &[
            ("Exports", "file-down", "/exports", Right::ExportsView),
            ("Sends", "send", "/sends", Right::MessagesView),
            ("Schedules", "clock", "/schedules", Right::MessagesView),
            ("History", "chart-line", "/history", Right::ExportsView),
        ],
    ),
    (
        "People",
        &[
            ("Users", "users", "/users", Right::UsersView),
            ("Segments", "circle-dashed", "/segments", Right::SegmentsView),
        ],
    ),
    (
        "Content",
        &[
            ("Catalogs", "library", "/catalogs", Right::CatalogsView),
            ("Products", "shopping-bag", "/products", Right::CatalogsView),
            ("SMS numbers", "phone-off", "/sms-numbers", Right::UsersView),
        ],
    ),
    (
        "Operations",
        &[
            ("Deliveries", "webhook", "/deliveries", Right::MessagesView),
            ("Developer console", "square-terminal", "/developer", Right::MessagesView),
            ("API keys", "key-round", "/keys", Right::KeysManage),
        ],
    ),
];

/// Those of these pages of a workspace that the person may see.
fn workspace_entries(
    page: &Page,
    workspace: &VisibleWorkspace,
    pages: &[WorkspacePage],
) -> Vec<Entry> {
    let is_here = page.workspace_if_any().is_some_and(|here| here.id == workspace.id);
    let mut entries = Vec::new();
    for &(title, icon, path, right) in pages {
        if page.viewer.rights.has(right, Some(workspace.id)) {
            // The third segment of `/w/NAME/exports/…`.
            let section = page.uri.path().split('/').nth(3);
            let is_current = is_here && section == path.strip_prefix('/');
            entries.push(Entry {
                title,
                icon,
                href: page.link_in(&workspace.name, path),
                is_current,
            });
        }
    }
    entries
}

/// The page that stands for a workspace: the first one that the person may see.
fn first_entry(page: &Page, workspace: &VisibleWorkspace) -> Option<Entry> {
    OF_WORKSPACE
        .into_iter()
        .find_map(|(_, pages)| workspace_entries(page, workspace, pages).into_iter().next())
}

/// The pages of the whole installation that the person may see.
fn administration_entries(page: &Page) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut add = |title, icon, path: &str| {
        let is_current = page.uri.path() == path;
        entries.push(Entry { title, icon, href: page.link(path), is_current });
    };
    if page.viewer.rights.has(Right::SystemView, None) {
        add("System", "server", "/system");
        add("Dead letters", "inbox", "/dead-letters");
        add("History", "chart-line", "/history");
    }
    if page.viewer.rights.has(Right::AuditView, None) {
        add("Audit log", "scroll-text", "/audit");
    }
    if page.viewer.rights.has(Right::SessionsManage, None) {
        add("Dashboard users", "user-cog", "/people/users");
    }
    add("Sessions", "monitor", "/people/sessions");
    entries
}

/// The menu of a page, for a person who sees these workspaces.
pub(super) fn menu(page: &Page, workspaces: &[VisibleWorkspace], label: &str) -> Markup {
    let here = page.workspace_if_any().map(|here| here.id);
    let current = workspaces.iter().find(|workspace| Some(workspace.id) == here);
    // Without a workspace in the address, the pages of the first one with any.
    let first = || workspaces.iter().find(|workspace| first_entry(page, workspace).is_some());
    html! {
        (switcher(page, workspaces, current))
        nav.nav aria-label=(label) {
            @for (title, entries) in groups(page, current.or_else(first)) {
                div.nav-group role="group" aria-label=(title) {
                    p.nav-title aria-hidden="true" { (title) }
                    @for entry in &entries { (link(entry)) }
                }
            }
        }
        (person(page))
    }
}

/// The groups of the menu, with their titles and the pages that the person may see.
fn groups(page: &Page, workspace: Option<&VisibleWorkspace>) -> Vec<(&'static str, Vec<Entry>)> {
    let mut groups = OF_WORKSPACE.map(|(title, pages)| {
        let entries = workspace.map(|workspace| workspace_entries(page, workspace, pages));
        (title, entries.unwrap_or_default())
    });
    let [(_, work), .., (_, operations)] = &mut groups;
    work.insert(
        0,
        Entry {
            title: "Overview",
            icon: "layout-dashboard",
            href: page.link("/"),
            is_current: page.uri.path() == "/",
        },
    );
    operations.extend(administration_entries(page));
    groups.into_iter().filter(|(_, entries)| !entries.is_empty()).collect()
}

fn link(entry: &Entry) -> Markup {
    let current = entry.is_current.then_some("page");
    html! {
        a.nav-item href=(entry.href) aria-current=[current] {
            (icon(entry.icon)) span { (entry.title) }
        }
    }
}

/// The workspaces that the person sees, as links.
fn switcher(
    page: &Page,
    workspaces: &[VisibleWorkspace],
    current: Option<&VisibleWorkspace>,
) -> Markup {
    let initial = |name: &str| {
        html! {
            span.badge-letter aria-hidden="true" { (name.chars().next().unwrap_or('*').to_uppercase()) }
        }
    };
    let all = "All workspaces";
    html! {
        details.switch {
            summary {
                (initial(current.map_or("*", |workspace| &workspace.name)))
                span {
                    span.hidden-label { "Workspace: " }
                    @match current {
                        Some(workspace) => (parts::name(&workspace.name)),
                        None => (all),
                    }
                }
                (icon("chevrons-up-down"))
            }
            div.switch-list {
                a.nav-item href=(page.link("/")) aria-current=[current.is_none().then_some("true")] {
                    (initial("*")) span { (all) }
                }
                @for workspace in workspaces {
                    @let is_current = current.is_some_and(|current| current.id == workspace.id);
                    @if let Some(entry) = first_entry(page, workspace) {
                        a.nav-item href=(entry.href) aria-current=[is_current.then_some("true")] {
                            (initial(&workspace.name)) span { (parts::name(&workspace.name)) }
                        }
                    }
                }
            }
        }
    }
}
