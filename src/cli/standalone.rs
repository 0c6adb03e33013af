//! `longshore standalone`.

mod started;

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;

use super::{CommandResult, Error};
use crate::config::Config;
use crate::config::console::{Console, ConsoleListen};
use crate::listen::BindError;
use crate::telemetry::process::Process;
use crate::users::phones;
use crate::worker::Role;
use crate::{listen, setup};
use kit::private;
use kit::retry::Retry as _;
use runtime::credentials::FindError;
use server::service::{CONSOLE_LISTEN, Service};
use server::setup::SetupError;
use store::StoreError;

/// Run the gateway and the workers in this process, with a data directory: nothing else to install
/// or start. Stops cleanly on Ctrl-C or SIGTERM, and continues at the next start.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  longshore standalone --data ./longshore-data")]
pub struct Arguments {
    /// Data directory, overrides LONGSHORE_DATA
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Listen address, overrides LONGSHORE_LISTEN
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
}

impl Arguments {
    /// The settings of the options.
    pub fn settings(&self) -> Vec<(&'static str, OsString)> {
        let data = self.data.iter().map(|data| ("LONGSHORE_DATA", data.into()));
        let listen = self.listen.iter();
        data.chain(listen.map(|listen| ("LONGSHORE_LISTEN", listen.to_string().into()))).collect()
    }
}

pub async fn run(mut config: Config, _arguments: Arguments) -> CommandResult {
    console_frame::permissions::check(&config)?;
    let _lock = lock(&config.data)?;
    let listener = listen::bind(config.gateway.listen, "LONGSHORE_LISTEN").await?;
    // The port may be one that the system has chosen. Download URLs need it.
    config.gateway.listen = listener.local_addr()?;
    let service = Service::start(config, Process::standalone()).await?;
    // Before the process is ready, as the API's.
    let console = listen_for_console(&service.app.config).await?;
    let result = run_until_stopped(&service, listener, console).await;
    let is_stopped = service.shutdown.is_cancelled();
    service.stop().await;
    match result {
        Err(error) if is_stopped && may_pass(&error) => {
            tracing::warn!(%error, "stopped before the start was complete");
            Ok(())
        }
        result => result,
    }
}

async fn run_until_stopped(
    service: &Service,
    listener: TcpListener,
    console: Option<TcpListener>,
) -> CommandResult {
    let schema = setup::run(&service.app).await?.schema;
    if schema.is_newer() {
        tracing::warn!("the database is {schema}");
    } else {
        phones::record(&service.app.store, |_| {}).await?;
    }
    if service.wait_for_lists().await? {
        started::report(service, console.is_some()).await?;
        let ((), (), worked) = tokio::join!(
            service.serve(listener),
            service.serve_console(console),
            service.work(&Role::ALL)
        );
        worked?;
    }
    Ok(())
}

/// Whether a start failed because the database or the log is down.
fn may_pass(error: &Error) -> bool {
    let of_setup = error.downcast_ref::<SetupError>().is_some_and(SetupError::can_retry);
    let of_list = error.downcast_ref::<FindError>().is_some_and(FindError::can_retry);
    of_setup || of_list || error.downcast_ref::<StoreError>().is_some_and(StoreError::can_retry)
}

/// The console's listener, unless it is off. An address that nobody has set may be in use, as by a
/// second `standalone`: then there is no console.
async fn listen_for_console(config: &Config) -> Result<Option<TcpListener>, BindError> {
    match config.console.listen {
        Some(ConsoleListen::Off) => Ok(None),
        Some(ConsoleListen::At(address)) => listen::bind(address, CONSOLE_LISTEN).await.map(Some),
        None => match listen::bind(Console::STANDALONE, CONSOLE_LISTEN).await {
            Ok(listener) => Ok(Some(listener)),
            Err(error) => {
                tracing::warn!(%error, "the console is off");
                Ok(None)
            }
        },
    }
}

/// One standalone per data directory, because the embedded log supports one process.
pub(super) fn lock(data: &Path) -> Result<File, String> {
    let file = data.join("standalone.lock");
    let problem = |error: std::io::Error| format!("{}: {error}", file.display());
    private::directory(data).map_err(problem)?;
    let lock = File::create(&file).map_err(problem)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(format!(
            "another standalone is running on {}: stop it, or set another --data",
            data.display()
        )),
        Err(TryLockError::Error(error)) => Err(problem(error)),
    }
}
