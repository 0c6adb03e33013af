//! Parts of pages: each function returns the HTML of one component, whose look is in
//! `assets/console.css`. All text from outside is escaped.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, PreEscaped, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::form::TOKEN_FIELD;
use crate::page::Page;
use kit::json;

#[cfg(test)]
mod tests;

/// Longer names are cut, so that a page stays readable. The whole name is in the title.
const MAX_SHOWN_CHARS: usize = 200;

/// Larger counts are shown as estimates, because pages do not count that far.
const MAX_EXACT: i64 = 10_000;

/// What stays as it is in a segment of a path (RFC 3986, unreserved).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How a state is shown: its colour, which an icon and a word always accompany.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Neutral,
    Running,
    Good,
    Warning,
    Bad,
}

impl Tone {
    /// The suffix of the class of states.
    fn state_class(self) -> &'static str {
        match self {
            Self::Neutral => "state-idle",
            Self::Running => "state-busy",
            Self::Good => "state-ok",
            Self::Warning => "state-warn",
            Self::Bad => "state-bad",
        }
    }

    /// The class of a progress bar.
    pub fn bar_class(self) -> &'static str {
        match self {
            Self::Neutral => "idle",
            _ => self.class(),
        }
    }

    /// The class of everything else.
    fn class(self) -> &'static str {
        match self {
            Self::Neutral => "plain",
            Self::Running => "",
            Self::Good => "ok",
            Self::Warning => "warn",
            Self::Bad => "bad",
        }
    }
}

/// How long ago a time is, with the exact time in the zone as its title. Times are milliseconds
/// since the epoch.
pub fn time(ms: i64, now: i64, zone: &TimeZone) -> Markup {
    let Ok(timestamp) = Timestamp::from_millisecond(ms) else { return html! { "unknown" } };
    let exact = exact_time(ms, zone);
    let shown = relative_time(ms, now)
        .unwrap_or_else(|| timestamp.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string());
    html! { time datetime=(timestamp) title=(exact) { (shown) } }
}

/// A time with its zone: `2026-11-24 15:04:05 CET`.
pub fn exact_time(ms: i64, zone: &TimeZone) -> String {
    Timestamp::from_millisecond(ms).map_or_else(
        |_| "unknown".to_owned(),
        |at| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
    )
}

/// The distance of a time from now in its largest unit; none if it is more than 30 days.
fn relative_time(ms: i64, now: i64) -> Option<String> {
    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let distance = now.saturating_sub(ms);
    let (count, unit) = match distance.saturating_abs() {
        ms if ms < 5 * SECOND => return Some("just now".to_owned()),
        ms if ms < MINUTE => (ms / SECOND, "s"),
        ms if ms < HOUR => (ms / MINUTE, "min"),
        ms if ms < DAY => (ms / HOUR, "h"),
        ms if ms < 2 * DAY => (1, "day"),
        ms if ms <= 30 * DAY => (ms / DAY, "days"),
        _ => return None,
    };
    Some(if distance < 0 { format!("in {count} {unit}") } else { format!("{count} {unit} ago") })
}

/// A duration in its two largest units: `2 h 5 min`.
pub fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    let seconds = ms / 1_000;
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{large} {large_unit}")
        } else {
            format!("{large} {large_unit} {small} {small_unit}")
        }
    };
    match seconds {
        0 => format!("{ms} ms"),
        1..=9 if ms % 1_000 >= 100 => format!("{seconds}.{} s", ms % 1_000 / 100),
        1..=59 => format!("{seconds} s"),
        60..=3_599 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..=86_399 => two(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

/// A number with separators: `12,345`.
pub fn number(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut text = if n < 0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count that is exact up to 10,000, and above it an estimate of three digits: `≈ 12,300`.
pub fn estimate(n: i64) -> String {
    if n <= MAX_EXACT {
        return number(n);
    }
    let digits = n.ilog10();
    let unit = 10_i64.pow(digits.saturating_sub(2));
    format!("≈ {}", number(n / unit * unit))
}

/// A size in the largest unit of 1,000: `1.2 MB`.
pub fn bytes(n: i64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let n = n.max(0);
    if n < 1_000 {
        return format!("{n} B");
    }
    let mut tenths = n / 100;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while tenths >= 10_000 {
        tenths /= 1_000;
        unit = units.next();
    }
    let unit = unit.copied().unwrap_or_default();
    if tenths >= 1_000 {
        format!("{} {unit}", tenths / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

/// A count with its noun: `1 file`, `2 files`.
pub fn count_of(count: i64, singular: &str, plural: &str) -> String {
    format!("{} {}", number(count), if count == 1 { singular } else { plural })
}

/// A segment of a path, such as a name.
pub fn encoded(segment: &str) -> String {
    utf8_percent_encode(segment, SEGMENT).to_string()
}

/// The hidden field that every form needs.
pub fn form_token(page: &Page) -> Markup {
    html! { input type="hidden" name=(TOKEN_FIELD) value=(page.viewer.form_token); }
}

/// The drawings of the icons, by their names.
static ICONS: LazyLock<HashMap<&str, (&str, &str)>> = LazyLock::new(|| {
    const SPRITE: &str = include_str!("../assets/icons.svg");
    let symbols = SPRITE.split("<symbol ").skip(1);
    let read = |symbol: &'static str| {
        let (attributes, rest) = symbol.split_once('>')?;
        let (drawing, _) = rest.split_once("</symbol>")?;
        let attribute = |name: &str| {
            let (_, value) = attributes.split_once(&format!("{name}=\""))?;
            Some(value.split_once('"')?.0)
        };
        let name = attribute("id")?.strip_prefix("i-")?;
        Some((name, (attribute("viewBox").unwrap_or("0 0 24 24"), drawing)))
    };
    symbols.filter_map(read).collect()
});

/// An icon, drawn in the page: its address would depend on the base path. It is only an ornament:
/// a word next to it always has its meaning.
pub fn icon(name: &str) -> Markup {
    debug_assert!(ICONS.contains_key(name), "no icon {name}");
    let (view_box, drawing) = ICONS.get(name).copied().unwrap_or(("0 0 24 24", ""));
    html! {
        svg.icon viewBox=(view_box) aria-hidden="true" focusable="false" { (PreEscaped(drawing)) }
    }
}

/// How a state is shown: its colour, its icon and its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub tone: Tone,
    pub icon: &'static str,
    pub word: &'static str,
}

impl Look {
    pub fn new(tone: Tone, icon: &'static str, word: &'static str) -> Self {
        Self { tone, icon, word }
    }

    /// Work that is being done.
    pub fn running(word: &'static str) -> Self {
        Self::new(Tone::Running, "loader-circle", word)
    }

    pub fn good(word: &'static str) -> Self {
        Self::new(Tone::Good, "circle-check", word)
    }

    pub fn bad(word: &'static str) -> Self {
        Self::new(Tone::Bad, "circle-x", word)
    }

    /// Something that was ended, or does not count any more.
    pub fn ended(word: &'static str) -> Self {
        Self::new(Tone::Neutral, "ban", word)
    }

    pub fn badge(self) -> Markup {
        badge(self.tone, self.icon, self.word)
    }

    /// The state next to the title of a page.
    pub fn pill(self) -> Markup {
        html! { span class={ "state pill " (self.tone.state_class()) } { (icon(self.icon)) (self.word) } }
    }
}

/// A state: an icon and a word.
pub fn badge(tone: Tone, icon_name: &str, word: &str) -> Markup {
    html! { span class={ "state " (tone.state_class()) } { (icon(icon_name)) (word) } }
}

/// A small mark on something that needs a look.
pub fn mark(tone: Tone, icon_name: &str, word: &str) -> Markup {
    html! { span class={ "mark " (tone.class()) } { (icon(icon_name)) (word) } }
}

/// A progress bar in the colour of a state, with its numbers; without a total, only what is done.
/// `label` is the unit: `users`.
pub fn progress_in(tone: Tone, done: i64, total: Option<i64>, label: &str) -> Markup {
    let done = done.max(0);
    let total = total.filter(|total| *total > 0);
    html! {
        @if let Some(total) = total {
            @let percent = percent(done, total);
            div.meter {
                span { (number(done)) " " span.muted { "of " (number(total)) " " (label) } }
                span.muted { (percent) "%" }
                progress class={ "bar " (tone.bar_class()) } max=(total) value=(done.min(total))
                    aria-label=(label)
                {
                    (percent) "%"
                }
            }
        } @else {
            span { (number(done)) " " span.muted { (label) } }
        }
    }
}

/// How much is done. Never 100 before the end.
pub fn percent(done: i64, total: i64) -> i64 {
    let percent = i128::from(done) * 100 / i128::from(total.max(1));
    i64::try_from(percent.clamp(0, 100)).unwrap_or(100)
}

/// Facts about one thing: what each is, and its value.
pub fn facts(rows: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in rows {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// A list without entries, with what would fill it.
pub fn empty(title: &str, text: &str) -> Markup {
    html! {
        div.empty { (icon("inbox")) h2 { (title) } p { (text) } }
    }
}

/// A box that needs to be read before the rest.
pub fn notice(tone: Tone, title: &str, content: Markup) -> Markup {
    let icon_name = match tone {
        Tone::Neutral | Tone::Running => "circle-alert",
        Tone::Good => "circle-check",
        Tone::Warning => "triangle-alert",
        Tone::Bad => "circle-x",
    };
    html! {
        section class={ "notice " (tone.class()) } {
            (icon(icon_name))
            div { h2 { (title) } (content) }
        }
    }
}

/// How to see or do the same from a terminal. An empty text is not shown.
pub fn terminal(curl: &str, command: &str) -> Markup {
    html! {
        details.terminal.more {
            summary { (icon("chevron-right")) "Do this from a terminal" }
            div {
                @for (title, text) in [("With the command:", command), ("Over HTTP:", curl)] {
                    @if !text.is_empty() { p { (title) } pre.code { (text) } }
                }
            }
        }
    }
}

/// The links to the pages before and after this one: their addresses, with query.
pub fn pager(newer: Option<&str>, older: Option<&str>) -> Markup {
    html! {
        @if newer.is_some() || older.is_some() {
            nav.pager aria-label="Pages" {
                span { "Newest first" }
                span.actions {
                    @if let Some(address) = newer {
                        a.button href=(address) rel="prev" { "Newer" }
                    }
                    @if let Some(address) = older {
                        a.button href=(address) rel="next" { "Older" (icon("chevron-right")) }
                    }
                }
            }
        }
    }
}

/// The links of a list in the order of a key: to its first page, and to the one after this: their
/// addresses, with query. `order` names the order.
pub fn key_pager(order: &str, first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav.pager aria-label="Pages" {
                span { (order) }
                span.actions {
                    @if let Some(address) = first {
                        a.button href=(address) { "First" }
                    }
                    @if let Some(address) = next {
                        a.button href=(address) rel="next" { "Next" (icon("chevron-right")) }
                    }
                }
            }
        }
    }
}

/// An action that asks first, also without JavaScript. `action` is an address, such as
/// [`Page::workspace_link`] returns it.
pub fn confirm(page: &Page, action: &str, button: &str, question: &str) -> Markup {
    html! {
        details.confirm {
            summary.button.danger { (button) }
            div.confirm-panel {
                p { (question) }
                form.actions method="post" action=(action) {
                    (form_token(page))
                    button.button.danger-fill type="submit" { (button) }
                }
            }
        }
    }
}

/// The message about a field of a form. Its input needs `aria-describedby` with
/// [`error_id`] of the field.
pub fn field_error(errors: &BTreeMap<String, String>, field: &str) -> Markup {
    html! {
        @if let Some(message) = errors.get(field) {
            p.error id=(error_id(field)) { (icon("circle-alert")) span { (message) } }
        }
    }
}

/// The id of the message about a field.
pub fn error_id(field: &str) -> String {
    format!("{field}-error")
}

/// A name that somebody chose: it may be long, in any script, and hostile.
pub fn name(text: &str) -> Markup {
    let shown = cut(text);
    let title = (shown.len() < text.len()).then_some(text);
    html! { bdi title=[title] { (shown) } }
}

/// The beginning of a text that may be long.
pub fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// A value of JSON as people read it: a string without its quotes, anything else as it is.
pub fn json_text(json: &str) -> Cow<'_, str> {
    match json::parse::<json::Text<'_>>(json) {
        Ok(json::Text(text)) => text,
        Err(_) => json.into(),
    }
}

/// A value of JSON that may be long: its beginning, and the whole of it on request.
pub fn json_value(json: &str) -> Markup {
    let text = json_text(json);
    let shown = cut(&text);
    html! {
        @if shown.len() == text.len() {
            bdi { (shown) }
        } @else {
            details.long {
                summary { bdi { (shown) } " " span.link { "Show all" } }
                // It scrolls, also with the keyboard.
                pre.code dir="auto" tabindex="0" { (text) }
            }
        }
    }
}

/// A reference to a page of the book, such as `docs/runbooks/export-failed.md`.
pub fn runbook(path: &str) -> Markup {
    html! { span.runbook { "Runbook: " code { (path) } } }
}
