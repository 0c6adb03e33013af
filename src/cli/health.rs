//! `longshore health`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde_json::json;

use super::{CommandResult, Error};
use crate::config::Config;

/// The probe must finish within its caller's time limit, which is 5 seconds in the image.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Check whether the process on this machine is ready
///
/// For health checks of containers, which have no shell and no other HTTP client. Requests /readyz
/// of the operations listener, prints the response, and exits with 0 only if the process is ready.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore health
  LONGSHORE_OPS_LISTEN=127.0.0.1:9101 longshore health")]
pub struct Arguments {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, Arguments { json }: Arguments) -> CommandResult {
    let address = local(config.ops.listen);
    let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build()?;
    let response = client
        .get(format!("http://{address}/readyz"))
        .send()
        .await
        .map_err(|error| Error::from(format!("{address} does not respond: {error}")))?;
    let ready = response.status().is_success();
    let text = response.text().await?;
    if json {
        println!("{}", json!({ "ready": ready, "response": text.trim_end() }));
    } else {
        print!("{text}");
    }
    if ready { Ok(()) } else { Err("the process is not ready".into()) }
}

/// The address of a listener from its own machine.
pub fn local(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        // It includes IPv4, and is 0.0.0.0 where there is no IPv6.
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
