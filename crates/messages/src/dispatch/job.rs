//! A dispatch prepared for the work on a part: its parsed audiences and templates.

use std::sync::{Arc, OnceLock};

use jiff::tz::TimeZone;
use serde_json::Value;
use uuid::Uuid;

use super::error::DispatchError;
use super::kept::Kept;
use super::left_out::Exclusion;
use super::recipient::{read_user, unreadable_profile};
use super::rows::{self, Dispatch};
use crate::app::App;
use crate::content::{Content, MessageSource, Problem};
use crate::order::{Kind, Order, Wave};
use crate::personalization::{Origin, Unsubscribe};
use crate::unsubscribe_token;
use crate::waves::{self, Membership};
use crate::{Outcome, When};
use gateway::workspaces;
use gateway::workspaces::Channel;
use gateway::workspaces::settings::{self, Settings};
use kit::json::Tree;
use kit::pattern::TooCostly;
use kit::zones;
use people::audience::{Audience, AudienceError, Matcher};
use people::users::Recipient;
use people::users::activity::Activity;
use people::users::service_id;
use people::users::suppressions::bounces::Bounce;
use people::users::suppressions::{self, Address, AddressStates, Hash, Key};
use store::Tx;
use store::documents::parsed;

pub(super) struct Job {
    pub order: Order,
    pub settings: Arc<Settings>,
    pub content: Content,
    pub origin: Origin,
    /// Signs unsubscribe links; absent only in tests.
    app: Option<App>,
    /// A recipient must be in all of these audiences.
    audiences: Vec<Matcher>,
    /// Slices of the control group, if it is excluded.
    excluded_slices: Vec<i16>,
    /// Newer users are excluded.
    pub youngest: Option<Uuid>,
    zone: TimeZone,
    /// Hashes the addresses of unsubscribe links. None before the workspace has the key.
    address_key: OnceLock<Key>,
}

/// Why a user is not a recipient.
pub(super) enum NoRecipient {
    Excluded(Exclusion),
    /// Stored data cannot be read, with the reason for the operator.
    Unreadable(&'static str),
    /// It is unknown whether the user is in an audience.
    Costly(TooCostly),
}

impl From<Exclusion> for NoRecipient {
    fn from(exclusion: Exclusion) -> Self {
        Self::Excluded(exclusion)
    }
}

/// Checks that the subject of a dispatch still exists. Returns the name of its campaign or Canvas,
/// which may have been removed since the dispatch began.
pub(super) async fn check(
    tx: &mut Tx,
    order: &Order,
    kept: Option<&Kept>,
) -> Result<(workspaces::Workspace, Option<String>), DispatchError> {
    let deleted = |subject: &str| DispatchError::Permanent(format!("{subject} was deleted"));
    let workspace = workspaces::by_id(tx, order.workspace_id).await?;
    let workspace = workspace.ok_or_else(|| deleted("the workspace"))?;
    let name = match order.campaign_id {
        None => None,
        Some(_) if kept.is_some_and(|kept| kept.campaign.is_some()) => {
            kept.and_then(|kept| kept.campaign.clone())
        }
        Some(id) => match rows::campaign_name(tx, workspace.id, id).await? {
            None => return Err(deleted(&format!("the campaign {id}"))),
            name => name,
        },
    };
    Ok((workspace, name))
}

/// The current audience of the order's segment, as JSON; none if the order has no segment.
pub(super) async fn segment(tx: &mut Tx, order: &Order) -> Result<Option<String>, DispatchError> {
    let Some(id) = order.target.segment_id else { return Ok(None) };
    let segment = workspaces::segments::segment(tx, order.workspace_id, id).await?;
    let segment =
        segment.ok_or_else(|| DispatchError::Permanent(format!("the segment {id} was deleted")))?;
    Ok(Some(segment.audience.to_string()))
}

/// The control group's slices, if the order excludes the control group.
async fn excluded_slices(tx: &mut Tx, order: &Order) -> Result<Vec<i16>, DispatchError> {
    if !order.kind.excludes_control_group() {
        return Ok(Vec::new());
    }
    let group = workspaces::control_group(tx, order.workspace_id).await?;
    Ok(group.map(|group| group.slices).unwrap_or_default())
}

impl Job {
    pub async fn load(app: &App, tx: &mut Tx, dispatch: Dispatch) -> Result<Self, DispatchError> {
        let Dispatch { order, segment, youngest, kept, .. } = dispatch;
        let (workspace, name) = check(tx, &order, kept.as_ref()).await?;
        let segment = match segment {
            Some(segment) => Some(segment),
            None => self::segment(tx, &order).await?,
        };
        let excluded_slices = excluded_slices(tx, &order).await?;
        let mut settings = settings::find(app, order.workspace_id).await?;
        let with_blocks = with_kept_blocks(tx, &order, kept.as_ref(), &settings).await?;
        let (mut content, mut problems) = read_content(app, &order, &with_blocks);
        if !problems.is_empty() || content.has_unknown_sources() {
            let read = settings::read_current(app, tx, order.workspace_id);
            settings = Arc::new(Box::pin(read).await?);
            let with_blocks = with_kept_blocks(tx, &order, kept.as_ref(), &settings).await?;
            (content, problems) = read_content(app, &order, &with_blocks);
        }
        let content = usable(content, problems)?;
        let mut audiences = Vec::new();
        if let Some(segment) = segment {
            let tree: Tree = parsed("dispatches.segment", order.dispatch_id, &segment)?;
            let read = || matcher(Audience::read_segment(&tree), "segment");
            audiences.push(app.cores.compute_here(order.workspace_id, read)?);
        }
        if let Some(audience) = &order.target.audience {
            let read = || matcher(Audience::read(&audience.into()), "audience");
            audiences.push(app.cores.compute_here(order.workspace_id, read)?);
        }
        let zone = zones::zone(&workspace.time_zone).unwrap_or(TimeZone::UTC);
        let key = suppressions::stored_key(tx, order.workspace_id).await?;
        let address_key = key.map(OnceLock::from).unwrap_or_default();
        let (origin, app) = (origin(&order, name), Some(app.clone()));
        Ok(Self {
            order,
            settings,
            content,
            origin,
            app,
            audiences,
            excluded_slices,
            youngest,
            zone,
            address_key,
        })
    }

    /// A job for messages without a dispatch.
    #[cfg(test)]
    pub fn from_messages(messages: &serde_json::Map<String, Value>) -> Self {
        let settings = Arc::new(Settings::default());
        let (content, accepted, _) = Content::read(messages, MessageSource::Send, &settings);
        let order = Order {
            dispatch_id: Uuid::nil(),
            workspace_id: 1,
            kind: Kind::Send,
            campaign_id: None,
            send_id: None,
            messages: accepted,
            target: crate::order::Target::default(),
            subscription_state: crate::order::SubscriptionState::All,
            ignores_capping: false,
            canvas_entry_properties: None,
            trigger_properties: None,
            accepted_at: 0,
            requested_by: None,
            request_id: "r".into(),
        };
        Self {
            order,
            settings,
            content,
            origin: Origin::default(),
            app: None,
            audiences: Vec::new(),
            excluded_slices: Vec::new(),
            youngest: None,
            zone: TimeZone::UTC,
            address_key: OnceLock::new(),
        }
    }

    /// Who can unsubscribe from a message to this user.
    pub fn unsubscribe(&self, user: &Recipient) -> Option<Unsubscribe<'_>> {
        let recipient = unsubscribe_token::Recipient {
            workspace: self.order.workspace_id,
            user: user.service_id,
            address: self.address(user),
        };
        Some(Unsubscribe { app: self.app.as_ref()?, recipient })
    }

    /// The hash of a user's email address.
    pub fn address(&self, user: &Recipient) -> Option<Hash> {
        let key = self.address_key.get()?;
        Some(key.hash(&Address::Email(user.email()?.into())))
    }

    /// The bounce of an email to an address, unless the workspace ignores bounces.
    pub fn bounce(&self, address: Hash, outcome: &Outcome) -> Option<Bounce> {
        let Outcome::Bounced { address: Some(status), .. } = outcome else { return None };
        let period = self.settings.email.as_ref()?.bounce_period();
        (period > 0).then_some(Bounce { address, status: *status, period })
    }

    /// Whether the job needs the key of the workspace's addresses, and has none yet.
    pub fn needs_address_key(&self) -> bool {
        self.address_key.get().is_none() && self.has_channel(Channel::Email)
    }

    /// Sets the key, once it is stored.
    pub fn set_address_key(&self, key: Key) {
        self.address_key.get_or_init(|| key);
    }

    fn has_channel(&self, channel: Channel) -> bool {
        self.content.messages().iter().any(|message| message.channel == channel)
    }

    /// Whether recipients depend on what was decided about their addresses.
    pub fn needs_addresses(&self) -> bool {
        [Channel::Email, Channel::Sms, Channel::WhatsApp].iter().any(|c| self.has_channel(*c))
            || self.audiences.iter().any(Matcher::needs_addresses)
    }

    /// Whether the job reads users' activity.
    pub fn needs_activity(&self, wave: Option<&Wave>) -> bool {
        let is_optimal = |wave: &Wave| wave.timing == crate::Timing::Optimal;
        self.audiences.iter().any(Matcher::needs_activity) || wave.is_some_and(is_optimal)
    }

    /// Reads the recipient with this stored document. The error is why the user is not a recipient,
    /// or not in this wave.
    pub fn recipient(
        &self,
        service_id: Uuid,
        document: &str,
        activity: Option<&Activity<'_>>,
        addresses: &AddressStates,
        wave: Option<&Wave>,
        now: i64,
    ) -> Result<Recipient, NoRecipient> {
        let read = || read_user(service_id, document, addresses).map_err(NoRecipient::Unreadable);
        let Some(wave) = wave else {
            // Before the whole document is read, which takes much longer.
            self.check_audiences(service_id, document, activity, addresses, now)?;
            return read();
        };
        let user = read()?;
        let membership = waves::membership(wave, &user, activity, &self.zone);
        if membership == Membership::OtherWave {
            return Err(Exclusion::OtherWave.into());
        }
        self.check_audiences(service_id, document, activity, addresses, now)?;
        match membership {
            Membership::TooLate => Err(Exclusion::TooLate.into()),
            _ => Ok(user),
        }
    }

    /// When a user of a dispatch at local times is due. Without readable activity, at the given time.
    pub fn due(&self, wave: &Wave, user: &Recipient, activity: Option<&[u8]>) -> i64 {
        let activity = activity.and_then(|activity| Activity::decode(activity).ok());
        let when = When { timing: wave.timing, time: wave.time };
        waves::due(when, wave.made_at, user, activity.as_ref(), &self.zone)
    }

    fn check_audiences(
        &self,
        service_id: Uuid,
        document: &str,
        activity: Option<&Activity<'_>>,
        addresses: &AddressStates,
        now: i64,
    ) -> Result<(), NoRecipient> {
        let user = (service_id, document);
        check_user(&self.audiences, &self.excluded_slices, user, activity, addresses, now)
    }

    /// Messages of a campaign or a Canvas are subject to frequency capping; a send without a
    /// campaign is not ([`super`]).
    pub fn is_capped(&self) -> bool {
        self.order.campaign_id.is_some()
            && !self.order.ignores_capping
            && !self.settings.frequency_capping.is_empty()
    }
}

/// Whether a user is in all of these audiences, and not in one of these slices of the control group.
pub(super) fn check_user(
    audiences: &[Matcher],
    excluded_slices: &[i16],
    (service_id, document): (Uuid, &str),
    activity: Option<&Activity<'_>>,
    addresses: &AddressStates,
    now: i64,
) -> Result<(), NoRecipient> {
    for audience in audiences {
        let mut user = audience
            .read(service_id, document)
            .map_err(|error| NoRecipient::Unreadable(unreadable_profile(service_id, &error)))?;
        addresses.apply(&mut user, document);
        if !audience.holds(&user, activity, now).map_err(NoRecipient::Costly)? {
            return Err(Exclusion::NotInAudience.into());
        }
    }
    let slice = service_id::bucket(&service_id).map(service_id::slice_of);
    if slice.is_some_and(|slice| excluded_slices.contains(&slice)) {
        return Err(Exclusion::ControlGroup.into());
    }
    Ok(())
}

/// The variation of an order's message by a channel; empty if it names none.
pub(super) fn variation(order: &Order, channel: Channel) -> &str {
    let message = order.messages.get(channel.name());
    let variation = message.and_then(|message| message.get("message_variation_id"));
    variation.and_then(Value::as_str).unwrap_or_default()
}

/// The matcher of a tree that was checked before it was accepted.
pub(super) fn matcher(
    tree: Result<Audience, AudienceError>,
    name: &str,
) -> Result<Matcher, DispatchError> {
    let tree =
        tree.map_err(|error| DispatchError::Permanent(format!("cannot read the {name}: {error}")))?;
    Ok(tree.matcher())
}

fn origin(order: &Order, name: Option<String>) -> Origin {
    Origin {
        is_canvas: order.kind == Kind::Canvas,
        api_id: order.campaign_id.map(|id| id.to_string()),
        name,
        dispatch_id: order.dispatch_id.simple().to_string(),
    }
}

/// The settings with the content blocks that a dispatch began with.
async fn with_kept_blocks(
    tx: &mut Tx,
    order: &Order,
    kept: Option<&Kept>,
    settings: &Arc<Settings>,
) -> Result<Arc<Settings>, DispatchError> {
    let Some(kept) = kept else { return Ok(settings.clone()) };
    let changed = kept.changed_blocks(tx, order.workspace_id, &settings.blocks).await?;
    Ok(match changed {
        None => settings.clone(),
        Some(blocks) => Arc::new(Settings { blocks, ..Settings::clone(settings) }),
    })
}

/// The messages that can be sent with these settings, and the errors of the others.
fn read_content(app: &App, order: &Order, settings: &Settings) -> (Content, Vec<Problem>) {
    let read = || match order.kind {
        Kind::LiveActivity => {
            let channel = Channel::LiveActivity;
            let object = order.messages.get(channel.name()).and_then(Value::as_object);
            // It was checked before it was accepted.
            let read = |object| Content::live_activity(object, MessageSource::Stored).ok();
            let content = object.and_then(read).unwrap_or_default();
            let problem = settings.without(channel).map(|why| Problem {
                path: format!("messages.{}", channel.name()),
                text: why.to_owned(),
                is_fatal: false,
            });
            (content, problem.into_iter().collect())
        }
        _ => {
            let (content, _, problems) =
                Content::read(&order.messages, MessageSource::Stored, settings);
            (content, problems)
        }
    };
    app.cores.compute_here(order.workspace_id, read)
}

/// Logs the errors of messages; fails if none can be sent.
fn usable(content: Content, problems: Vec<Problem>) -> Result<Content, DispatchError> {
    for problem in problems {
        tracing::warn!(
            path = problem.path,
            "message object can no longer be sent: {}",
            problem.text
        );
    }
    if content.messages().is_empty() {
        return Err(DispatchError::Permanent(
            "none of its messages can be sent: check the workspace's settings of these channels"
                .into(),
        ));
    }
    Ok(content)
}
