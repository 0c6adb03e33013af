//! Charts: values over time as bars, drawn on the server, with the same values as a table.
//!
//! A time without a record is a grey gap, which is not the same as zero. Numbers and times are text
//! next to the drawing, so that they keep their size on a phone.

use std::fmt::Write as _;
use std::ops::Range;

use jiff::tz::TimeZone;
use kit::clock::from_ms;
use maud::{Markup, html};

use crate::parts::{self, icon};
use runtime::history::{self, Rollup};

#[cfg(test)]
mod tests;

/// The size of the drawing in its own units; it is stretched to its place.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 100.0;

/// The lowest bar of anything that is not zero.
const MIN_BAR: f64 = 1.0;

/// The part of the place of a bar that it takes.
const BAR_SHARE: f64 = 0.8;

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    /// Milliseconds.
    Duration,
}

impl Unit {
    /// A value in a text.
    fn format(self, value: i64) -> String {
        match self {
            Self::Count => parts::number(value),
            Self::Duration => parts::duration(value),
        }
    }

    /// A value of the axis, which has little room.
    fn short(self, value: i64) -> String {
        const UNITS: [(i64, &str); 4] =
            [(1_000_000_000_000, "T"), (1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k")];
        if self == Self::Duration {
            return parts::duration(value);
        }
        match UNITS.into_iter().find(|(size, _)| value >= *size) {
            Some((size, unit)) if value % size == 0 => {
                format!("{}{unit}", parts::number(value / size))
            }
            Some((size, unit)) => format!("{:.1}{unit}", value as f64 / size as f64),
            None => value.to_string(),
        }
    }

    /// The lowest end of an axis for values up to `max`, whose half can be written shortly, too.
    fn axis_end(self, max: i64) -> i64 {
        match self {
            Self::Count => round_up(max.max(2), 1),
            Self::Duration => {
                const SECOND: i64 = 1_000;
                const MINUTE: i64 = 60 * SECOND;
                const HOUR: i64 = 60 * MINUTE;
                const DAY: i64 = 24 * HOUR;
                const ENDS: [i64; 13] = [
                    2 * SECOND,
                    10 * SECOND,
                    20 * SECOND,
                    MINUTE,
                    2 * MINUTE,
                    10 * MINUTE,
                    20 * MINUTE,
                    HOUR,
                    2 * HOUR,
                    6 * HOUR,
                    12 * HOUR,
                    DAY,
                    2 * DAY,
                ];
                let end = ENDS.into_iter().find(|end| *end >= max);
                end.unwrap_or_else(|| round_up(max, DAY))
            }
        }
    }
}

/// The lowest of 2, 4, 6, 8 or 10 times a power of 10 in this unit that is not below `value`.
fn round_up(value: i64, unit: i64) -> i64 {
    let mut power = unit;
    loop {
        for factor in [2, 4, 6, 8, 10] {
            match power.checked_mul(factor) {
                Some(end) if end >= value => return end,
                Some(_) => {}
                None => return i64::MAX,
            }
        }
        power = power.saturating_mul(10);
    }
}

/// The time of a chart: bins of the same length, as the history has them.
#[derive(Clone, Debug)]
pub struct Times {
    pub window: history::Window,
    /// What people call a bin, such as `5 minutes`.
    pub bin: &'static str,
    /// The labels of the axis, at the same distances from the start to the end.
    pub labels: Vec<String>,
    /// The rows of the table: their labels and bins, in order.
    pub rows: Vec<(String, Range<usize>)>,
}

impl Times {
    /// The rows whose bins have the same label, by the time at which a bin starts.
    pub fn rows_by(
        window: &history::Window,
        zone: &TimeZone,
        format: &str,
    ) -> Vec<(String, Range<usize>)> {
        let mut rows: Vec<(String, Range<usize>)> = Vec::new();
        for bin in 0..window.bins() {
            let label = written(window.bin_start(bin), zone, format);
            match rows.last_mut() {
                Some((last, bins)) if *last == label => bins.end = bin + 1,
                _ => rows.push((label, bin..bin + 1)),
            }
        }
        rows
    }
}

/// A time in a zone.
pub fn written(ms: i64, zone: &TimeZone, format: &str) -> String {
    from_ms(ms).to_zoned(zone.clone()).strftime(format).to_string()
}

/// What one colour shows.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: &'static str,
    /// A value for each bin; none where nothing was recorded.
    pub values: Vec<Option<i64>>,
}

impl Series {
    fn latest(&self) -> Option<i64> {
        self.values.iter().rev().copied().flatten().next()
    }
}

/// A chart of one or two series. The second one shows failures, on top of the first.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// The id of its section.
    pub id: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub rollup: Rollup,
    pub series: Vec<Series>,
    pub times: &'a Times,
    /// When the first value was recorded; none before.
    pub since: Option<i64>,
    pub zone: &'a TimeZone,
}

impl Chart<'_> {
    /// The chart in a section of its own. `link` is shown next to its title.
    pub fn panel(&self, link: Markup) -> Markup {
        html! {
            section.panel id=(self.id) {
                div.panel-head { h2 { (self.title) } (link) }
                div.panel-body {
                    @if self.is_empty() {
                        p.muted { (self.without_values()) }
                    } @else {
                        (self.drawing())
                        (self.table())
                    }
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.latest().is_none())
    }

    fn without_values(&self) -> String {
        match self.since {
            Some(since) => {
                let since = written(since, self.zone, "%Y-%m-%d %H:%M %Z");
                format!("No values in this time. The history begins {since}.")
            }
            None => "No values yet. The history begins with the first minute that ends.".to_owned(),
        }
    }

    /// What one would read from the drawing.
    fn summary(&self) -> String {
        let bin = self.times.bin;
        let mut text = String::new();
        for series in &self.series {
            let format = |value: Option<i64>| {
                value.map_or_else(|| "unknown".to_owned(), |value| self.unit.format(value))
            };
            let latest = format(series.latest());
            let highest = format(history::total(Rollup::Max, &series.values));
            let separator = if text.is_empty() { "" } else { " " };
            _ = write!(text, "{separator}{}: ", series.name);
            _ = match self.rollup {
                Rollup::Sum => {
                    let total = format(history::total(Rollup::Sum, &series.values));
                    write!(text, "{total} in total, at most {highest} in {bin}, now {latest}.")
                }
                Rollup::Max => write!(text, "now {latest}, at most {highest}."),
            };
        }
        text
    }

    /// The sum of the series in a bin: how high its bars are together.
    fn height(&self, bin: usize) -> i64 {
        let values =
            self.series.iter().filter_map(|series| series.values.get(bin).copied().flatten());
        values.fold(0, i64::saturating_add)
    }

    fn drawing(&self) -> Markup {
        let bins = self.times.window.bins();
        let end = self.unit.axis_end((0..bins).map(|bin| self.height(bin)).max().unwrap_or(0));
        let summary = self.summary();
        let gaps = self.gaps();
        html! {
            p.muted.small { (summary) }
            div.plot {
                div.scale aria-hidden="true" {
                    @for value in [end, end / 2, 0] { span { (self.unit.short(value)) } }
                }
                svg.chart role="img" aria-label=(format!("{}. {summary}", self.title))
                    viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none"
                {
                    path.gap d=(gaps) {}
                    path.rule d=(format!("M0 0H{WIDTH}M0 {}H{WIDTH}", HEIGHT / 2.0)) {}
                    @for index in 0..self.series.len() {
                        path.second[index == 1] d=(self.bars(index, end)) {}
                    }
                }
                div.axis aria-hidden="true" {
                    @for label in &self.times.labels { span { (label) } }
                }
            }
            (self.legend(!gaps.is_empty()))
        }
    }

    fn legend(&self, has_gaps: bool) -> Markup {
        let swatch = |class: &str| {
            html! {
                svg class={ "swatch " (class) } viewBox="0 0 10 10" aria-hidden="true"
                    focusable="false"
                {
                    rect width="10" height="10" rx="2" {}
                }
            }
        };
        html! {
            @if self.series.len() > 1 || has_gaps {
                div.legend {
                    @for (index, series) in self.series.iter().enumerate() {
                        span { (swatch(if index == 1 { "second" } else { "" })) (series.name) }
                    }
                    @if has_gaps { span { (swatch("soft")) "Not recorded" } }
                }
            }
        }
    }

    /// The bars of a series, above those of the series before it.
    fn bars(&self, index: usize, end: i64) -> String {
        let scale = |value: i64| value.max(0) as f64 / end.max(1) as f64 * HEIGHT;
        let mut path = String::new();
        for (bin, value) in self.series[index].values.iter().enumerate() {
            let Some(value) = value.filter(|value| *value > 0) else { continue };
            let below = self.series[..index].iter();
            let below = below.filter_map(|series| series.values.get(bin).copied().flatten());
            let bottom = HEIGHT - scale(below.fold(0, i64::saturating_add));
            let top = (bottom - scale(value).max(MIN_BAR)).max(0.0);
            let (left, width) = self.span(bin);
            let right = left + width * BAR_SHARE;
            _ = write!(path, "M{left:.1} {bottom:.1}V{top:.1}H{right:.1}V{bottom:.1}z");
        }
        path
    }

    /// The left edge and the width of a bin.
    fn span(&self, bin: usize) -> (f64, f64) {
        let width = WIDTH / self.times.window.bins().max(1) as f64;
        (bin as f64 * width, width)
    }

    /// The times that were not recorded, between recorded ones. What is after the last one has not
    /// happened yet, and what is before the first one was before the history.
    fn gaps(&self) -> String {
        let is_recorded = |bin: &usize| {
            self.series.iter().any(|series| series.values.get(*bin).is_some_and(Option::is_some))
        };
        let bins = 0..self.times.window.bins();
        let first = bins.clone().find(is_recorded).unwrap_or_default();
        let last = bins.rev().find(is_recorded).unwrap_or_default();
        let mut path = String::new();
        for bin in (first..last).filter(|bin| !is_recorded(bin)) {
            let (left, width) = self.span(bin);
            _ = write!(path, "M{left:.1} 0H{:.1}V{HEIGHT}H{left:.1}z", left + width);
        }
        path
    }

    fn table(&self) -> Markup {
        let shown = |bins: &Range<usize>, series: &Series| {
            let values = series.values.get(bins.clone()).unwrap_or_default();
            history::total(self.rollup, values)
                .map_or_else(|| "–".to_owned(), |value| self.unit.format(value))
        };
        let caption = match self.rollup {
            Rollup::Sum => "sums",
            Rollup::Max => "highest values",
        };
        html! {
            details.more {
                summary.muted.small { (icon("chevron-right")) "Show as a table" }
                table.values {
                    caption.hidden-label { (self.title) ", " (caption) ", the latest first" }
                    thead {
                        tr {
                            th scope="col" { "Time" }
                            @for series in &self.series { th.num scope="col" { (series.name) } }
                        }
                    }
                    tbody {
                        @for (label, bins) in self.times.rows.iter().rev() {
                            tr {
                                th scope="row" { (label) }
                                @for series in &self.series { td.num { (shown(bins, series)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
