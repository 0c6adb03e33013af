//! External data that template tags request: catalog items, and responses of servers.
//!
//! Rendering never waits. It stops at the first request without a response. The response is
//! fetched outside of any transaction and compute slot. Then the message is rendered again with
//! it, from the beginning. The limits apply to each rendering, and a message has at most
//! [`MAX_REQUESTS`].
//!
//! `catalog` reads items of the workspace's catalogs, and `content` sends the HTTP requests of
//! `connected_content`. Start with [`External::render`].

pub(crate) mod catalog;
pub(crate) mod content;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use template::{Answer, Request, Stop};

use crate::app::App;
use gateway::workspaces::settings::Settings;
use kit::moment::Moment;

/// Maximum number of requests in all templates of a user's message.
pub const MAX_REQUESTS: usize = 10;

/// Maximum number of attempts to send a message whose `connected_content` has `:retry`.
pub const MAX_ATTEMPTS: i32 = 5;

/// The responses to a message's requests.
#[derive(Clone, Debug, Default)]
pub struct Answers(Vec<(Request, Arc<Answer>)>);

impl Answers {
    pub fn get(&self, request: &Request) -> Option<&Answer> {
        self.0.iter().find(|(known, _)| known == request).map(|(_, answer)| &**answer)
    }
}

/// Why a message was not rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderError {
    Stopped(Stop),
    /// A request failed that may succeed later.
    Later {
        reason: String,
        after: Option<Duration>,
        /// Whether the template requests retries: then the limit is [`MAX_ATTEMPTS`].
        is_counted: bool,
    },
}

/// Gives templates access to external data.
#[derive(Clone, Copy)]
pub struct External<'a> {
    pub app: &'a App,
    pub workspace_id: i32,
    pub settings: &'a Settings,
    /// Whether its requests do not wait for others, as for transactional emails.
    pub is_urgent: bool,
    /// Limits the time of all renderings together, if a request waits for them.
    pub time: Option<&'a RenderTime>,
}

/// The time that renderings have left.
pub struct RenderTime(Mutex<Duration>);

impl RenderTime {
    pub fn new(limit: Duration) -> Self {
        Self(Mutex::new(limit))
    }

    /// Renders, if time is left.
    fn measure<T>(&self, render: impl FnOnce() -> Result<T, Stop>) -> Result<T, Stop> {
        if self.0.lock().is_zero() {
            return Err(Stop::Failed("rendering takes too much time".to_owned()));
        }
        let began = Moment::now();
        let rendered = render();
        let mut remaining = self.0.lock();
        *remaining = remaining.saturating_sub(began.elapsed());
        rendered
    }
}

impl External<'_> {
    /// Renders until no request is open. Starts with `needs` if an earlier rendering stopped at it.
    /// Adds a warning for data that is not available.
    pub async fn render<T>(
        &self,
        needs: Option<Request>,
        warnings: &mut Vec<String>,
        render: impl Fn(&Answers) -> Result<T, Stop>,
    ) -> Result<T, RenderError> {
        let (mut answers, mut needs) = (Answers::default(), needs);
        loop {
            if let Some(request) = needs.take() {
                if answers.0.len() == MAX_REQUESTS {
                    let text =
                        format!("the template reads external data more than {MAX_REQUESTS} times");
                    return Err(RenderError::Stopped(Stop::Failed(text)));
                }
                // Boxed: the future is large, and most messages read no external data.
                let answer = self.answer(&request, warnings).boxed().await?;
                answers.0.push((request, answer));
            }
            // Transactional emails have processors of their own.
            let turn = if self.is_urgent {
                None
            } else {
                Some(self.app.compute_turn(self.workspace_id).await)
            };
            let render = || match self.time {
                Some(time) => time.measure(|| render(&answers)),
                None => render(&answers),
            };
            let rendered = self.app.cores.compute_slice_here(self.workspace_id, render);
            drop(turn);
            match rendered {
                Err(Stop::Needs(request)) => needs = Some(*request),
                done => return done.map_err(RenderError::Stopped),
            }
        }
    }

    async fn answer(
        &self,
        request: &Request,
        warnings: &mut Vec<String>,
    ) -> Result<Arc<Answer>, RenderError> {
        match request {
            Request::Items { catalog, ids } => catalog::items(self, catalog, ids).await,
            Request::Selection { catalog, name } => {
                catalog::selection(self, catalog, name, warnings).await
            }
            Request::Content(content) => content::answer(self, content, warnings).await,
        }
    }
}
