//! The keys that webhooks are signed with, kept for a moment: a dispatch sends thousands.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::app::App;
use crate::workspaces;

/// How long a changed key may still be used.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// A key, and when it was read.
type Read = (Instant, Arc<[u8]>);

/// By workspace.
#[derive(Default)]
pub struct Secrets(Mutex<HashMap<i32, Read>>);

/// The key that signs a workspace's callbacks; the error is for the operator.
pub async fn callback_secret(app: &App, workspace: i32) -> Result<Arc<[u8]>, String> {
    let kept = &app.channels.secrets.0;
    let known = {
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&workspace).filter(|(read, _)| read.elapsed() < KEPT_FOR).cloned()
    };
    if let Some((_, secret)) = known {
        return Ok(secret);
    }
    let (app2, read) = (app.clone(), Instant::now());
    // Database work is not dropped half way.
    let reading = tokio::spawn(async move { workspaces::callback_secret(&app2, workspace).await });
    let secret = reading.await.map_err(|error| error.to_string())?;
    let secret: Arc<[u8]> =
        secret.map_err(|error| format!("the callback's secret: {error}"))?.into();
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.insert(workspace, (read, secret.clone()));
    Ok(secret)
}
