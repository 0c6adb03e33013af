//! `longshore sla`.

use super::{CommandResult, find_named, print};
use crate::config::Config;
use crate::transactional::sla::{self, SlaHour};
use kit::clock::from_ms;

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
    let heading = format!(
        "{:<12}  {:<36}  {:<16}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}",
        "WORKSPACE", "CAMPAIGN", "HOUR", "EMAILS", "<1 MIN", "SHARE", "COVERED", "SHARE", "BEYOND"
    );
    print::rows(arguments.json, &heading, &hours, line)
}

fn line(hour: &SlaHour) -> String {
    // To the minute.
    let time: String = from_ms(hour.hour).to_string().chars().take(16).collect();
    format!(
        "{:<12}  {:<36}  {time:<16}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}",
        hour.workspace,
        hour.campaign_id,
        hour.emails,
        hour.within_minute,
        percent(hour.share),
        hour.covered,
        percent(hour.covered_share),
        hour.beyond,
    )
}

/// Rounded down: 99.89% must not show as 99.9%.
fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.2}%", (share * 1e4).floor() / 1e2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_shown_as_more_than_it_is() {
        assert_eq!(percent(Some(1.0)), "100.00%");
        assert_eq!(percent(Some(0.99999)), "99.99%");
        assert_eq!(percent(Some(0.5)), "50.00%");
        assert_eq!(percent(None), "-");
    }
}
