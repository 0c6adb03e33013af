//! `longshore sla`.

use super::table::{self, Cell, measure, number, optional, text, time};
use super::{CommandResult, find_named};
use crate::config::Config;
use crate::transactional::sla::{self, SlaHour};

/// Show how many transactional emails the relay accepted within a minute, by campaign and hour,
/// within and above the package.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore sla
  longshore sla --workspace acme --hours 168 --json")]
pub struct Arguments {
    /// Only this workspace
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// Number of hours, including the current one
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=8_760))]
    hours: u32,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    let mut tx = app.store.snapshot().await?;
    let name = arguments.workspace.as_deref();
    find_named(&mut tx, name).await?;
    let hours = sla::last_hours(&mut tx, name, arguments.hours).await?;
    let headers = [
        "WORKSPACE",
        "CAMPAIGN",
        "HOUR",
        "EMAILS",
        "<1 MIN",
        "SHARE",
        "COVERED",
        "COVERED SHARE",
        "BEYOND",
    ];
    table::print(arguments.json, "transactional emails", headers, &hours, row)
}

fn row(hour: &SlaHour) -> [Cell; 9] {
    [
        text(&hour.workspace),
        text(hour.campaign_id),
        time(hour.hour),
        number(hour.emails),
        number(hour.within_minute),
        optional(hour.share.map(percent)),
        number(hour.covered),
        optional(hour.covered_share.map(percent)),
        number(hour.beyond),
    ]
}

/// Rounded down: 99.89% must not show as 99.9%.
fn percent(share: f64) -> Cell {
    measure(format!("{:.2}%", (share * 1e4).floor() / 1e2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_shown_as_more_than_it_is() {
        assert_eq!(percent(1.0), measure("100.00%"));
        assert_eq!(percent(0.99999), measure("99.99%"));
        assert_eq!(percent(0.5), measure("50.00%"));
    }
}
