//! What messages go by, to whom they can go and how many: `email`, `providers`, `segments`,
//! `subscription_groups` and `frequency_capping` of the workspace file.

use std::collections::HashSet;

use super::super::Segment;
use super::super::channels::{Channels, DeclaredPart, Part};
use super::super::schema::{
    CappingFile, EmailFile, ProvidersFile, SegmentFile, SignedAddressFile, SubscriptionGroupFile,
    Verbatim,
};
use super::super::values;
use super::Check;
use crate::audience::{Audience, AudienceError};
use crate::messages::settings::{
    CappingRule, Email, Provider, Secret, StatusPostback, SubscriptionGroup,
};
use crate::messages::{Channel, relay::Relay};

/// The days that a rule may look back.
const CAPPING_DAYS: u32 = 30;

const CAPPING_MESSAGES: u32 = 1_000_000;

impl Check<'_> {
    pub(super) fn channels(
        &mut self,
        email: Option<&EmailFile>,
        providers: Option<&ProvidersFile>,
    ) -> Channels {
        let mut channels = Channels::new();
        let email = email.and_then(|file| self.email(file));
        channels.extend(email.map(|email| (Part::Email, DeclaredPart::Email(email))));
        let Some(ProvidersFile { push, sms, whats_app, feedback_secret }) = providers else {
            return channels;
        };
        for (part, file) in [(Part::Push, push), (Part::Sms, sms), (Part::WhatsApp, whats_app)] {
            let address = file.as_ref().and_then(|file| self.signed_address(part.path(), file));
            let provider = address.map(|(url, secret)| Provider { url, secret });
            channels.extend(provider.map(|provider| (part, DeclaredPart::Provider(provider))));
        }
        let part = Part::FeedbackSecret;
        let secret = self.optional(part.path(), feedback_secret.as_ref(), values::signing_secret);
        channels.extend(secret.map(|secret| (part, DeclaredPart::Secret(Secret(secret)))));
        channels
    }

    fn email(&mut self, file: &EmailFile) -> Option<Email> {
        let smtp = self
            .value("email.smtp", &file.smtp, |text| Relay::parse(text).map(|_| text.to_owned()));
        let from = self.optional("email.from", file.from.as_ref(), values::mailbox);
        let postback = file.status_postback.as_ref();
        let postback = postback.and_then(|file| self.signed_address("email.status_postback", file));
        let events_secret = self.optional(
            "email.events_secret",
            file.events_secret.as_ref(),
            values::signing_secret,
        );
        Some(Email {
            smtp: smtp?.into(),
            from,
            status_postback: postback.map(|(url, secret)| StatusPostback { url, secret }),
            events_secret: events_secret.map(Secret),
        })
    }

    fn signed_address(&mut self, path: &str, file: &SignedAddressFile) -> Option<(String, Secret)> {
        let url = self.value(&format!("{path}.url"), &file.url, values::address);
        let secret = self.value(&format!("{path}.secret"), &file.secret, values::signing_secret);
        Some((url?, Secret(secret?)))
    }

    pub(super) fn frequency_capping(&mut self, files: &[CappingFile]) -> Vec<CappingRule> {
        let mut declared = Vec::new();
        for (i, file) in files.iter().enumerate() {
            let path = format!("frequency_capping[{i}]");
            let messages = self.value(&format!("{path}.messages"), &file.messages, |text| {
                values::up_to(text, CAPPING_MESSAGES)
            });
            let days = self.value(&format!("{path}.days"), &file.days, |text| {
                values::up_to(text, CAPPING_DAYS)
            });
            let channel = self.optional(
                &format!("{path}.channel"),
                file.channel.as_ref(),
                values::message_channel,
            );
            if let (Some(messages), Some(days)) = (messages, days) {
                declared.push(CappingRule { messages, days, channel });
            }
        }
        declared
    }

    pub(super) fn subscription_groups(
        &mut self,
        files: &[SubscriptionGroupFile],
    ) -> Vec<SubscriptionGroup> {
        let mut declared = Vec::new();
        let mut ids = HashSet::new();
        for (i, file) in files.iter().enumerate() {
            let path = format!("subscription_groups[{i}]");
            let id_path = format!("{path}.id");
            let id = self.value(&id_path, &file.id, values::id);
            let channel =
                self.value(&format!("{path}.channel"), &file.channel, values::number_channel);
            let from = self.value(&format!("{path}.from"), &file.from, |text| {
                values::sender(text, channel != Some(Channel::WhatsApp))
            });
            if let (Some(id), Some(channel), Some(from)) = (id, channel, from) {
                self.distinct(&id_path, &mut ids, id, &file.id);
                declared.push(SubscriptionGroup { id, channel, from });
            }
        }
        declared
    }

    pub(super) fn segments(&mut self, files: &[SegmentFile]) -> Vec<Segment> {
        let mut declared = Vec::new();
        let mut ids = HashSet::new();
        for (i, file) in files.iter().enumerate() {
            let path = format!("segments[{i}]");
            let id_path = format!("{path}.id");
            let id = self.value(&id_path, &file.id, values::id);
            let name = self.value(&format!("{path}.name"), &file.name, values::name);
            let audience = file.audience.members().clone().into();
            self.audience(&format!("{path}.audience"), &file.audience, Audience::read(&audience));
            if let (Some(id), Some(name)) = (id, name) {
                self.distinct(&id_path, &mut ids, id, &file.id);
                declared.push(Segment { id, name, audience });
            }
        }
        declared
    }

    /// Notes what is wrong with an audience, with the path inside of it.
    pub(super) fn audience(
        &mut self,
        path: &str,
        file: &Verbatim,
        read: Result<Audience, AudienceError>,
    ) {
        let Err(AudienceError { path: inside, text }) = read else { return };
        let dot = if inside.is_empty() { "" } else { "." };
        self.refuse(file.line(), &format!("{path}{dot}{inside}"), text);
    }
}
