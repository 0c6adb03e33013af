//! What messages go by, to whom they can go and how many: `email`, `providers`, `segments`,
//! `subscription_groups` and `frequency_capping` of the workspace file.

use std::collections::HashSet;

use super::Check;
use crate::audience::{Audience, AudienceError};
use crate::workspace_file::schema::{
    CappingFile, EmailFile, ProvidersFile, SegmentFile, SignedAddressFile, SubscriptionGroupFile,
    Text, Verbatim, WorkspaceFile,
};
use crate::workspace_file::values;
use crate::workspaces::Channel;
use crate::workspaces::Segment;
use crate::workspaces::channels::{Channels, DeclaredPart, Part};
use crate::workspaces::relay::Relay;
use crate::workspaces::settings::{
    CappingRule, Email, Provider, Secret, SigningSecrets, StatusPostback, SubscriptionGroup,
};

/// The days that a rule may look back.
const CAPPING_DAYS: u32 = 30;

const CAPPING_MESSAGES: u32 = 1_000_000;

impl Check<'_> {
    pub(crate) fn channels(&mut self, file: &WorkspaceFile) -> Channels {
        let mut channels = Channels::new();
        let email = file.email.as_ref().and_then(|file| self.email(file));
        channels.extend(email.map(|email| (Part::Email, DeclaredPart::Email(email))));
        let (callbacks, webhooks) = (file.callbacks.as_ref(), file.webhooks.as_ref());
        let callbacks = callbacks.map(|file| (file.secret.as_ref(), file.secret_old.as_ref()));
        let webhooks = webhooks.map(|file| (file.secret.as_ref(), file.secret_old.as_ref()));
        for (part, path, declared) in
            [(Part::Callbacks, "callbacks", callbacks), (Part::Webhooks, "webhooks", webhooks)]
        {
            let signing =
                declared.map(|texts| self.signing_secrets(path, texts, values::callback_secret));
            channels.extend(signing.map(|signing| (part, DeclaredPart::Signing(signing))));
        }
        let Some(ProvidersFile { push, sms, whats_app, feedback_secret }) = &file.providers else {
            return channels;
        };
        for (part, file) in [(Part::Push, push), (Part::Sms, sms), (Part::WhatsApp, whats_app)] {
            let address = file.as_ref().and_then(|file| self.signed_address(part.path(), file));
            let provider = address.map(|(url, signing)| Provider { url, signing });
            channels.extend(provider.map(|provider| (part, DeclaredPart::Provider(provider))));
        }
        let part = Part::FeedbackSecret;
        let secret = self.optional(part.path(), feedback_secret.as_ref(), values::signing_secret);
        channels.extend(secret.map(|secret| (part, DeclaredPart::Secret(Secret(secret)))));
        channels
    }

    fn email(&mut self, file: &EmailFile) -> Option<Email> {
        if file.smtp.is_none() {
            let EmailFile { from, events_secret, .. } = file;
            let beside = from.as_ref().or(events_secret.as_ref()).map_or(0, |text| text.line());
            self.refuse(beside, "email.smtp", "it is missing: expected smtp://host:port");
        }
        let smtp = self.optional("email.smtp", file.smtp.as_ref(), |text| {
            Relay::parse(text).map(|_| text.to_owned())
        });
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
            status_postback: postback.map(|(url, signing)| StatusPostback { url, signing }),
            events_secret: events_secret.map(Secret),
        })
    }

    fn signed_address(
        &mut self,
        path: &str,
        file: &SignedAddressFile,
    ) -> Option<(String, SigningSecrets)> {
        let url = self.value(&format!("{path}.url"), &file.url, values::address);
        let texts = (file.secret.as_ref(), file.secret_old.as_ref());
        let signing = self.signing_secrets(path, texts, values::signing_secret);
        Some((url?, signing))
    }

    fn signing_secrets(
        &mut self,
        path: &str,
        (secret, secret_old): (Option<&Text>, Option<&Text>),
        read: fn(&str) -> Result<Vec<u8>, String>,
    ) -> SigningSecrets {
        let old_path = format!("{path}.secret_old");
        let is_given = |text: &Text| !text.as_str().is_empty();
        if !secret.is_some_and(is_given)
            && let Some(old) = secret_old.filter(|old| is_given(old))
        {
            self.refuse(old.line(), &old_path, "there must be a new secret next to it");
        }
        SigningSecrets {
            secret: self.optional(&format!("{path}.secret"), secret, read).map(Secret),
            secret_old: self.optional(&old_path, secret_old, read).map(Secret),
        }
    }

    pub(crate) fn frequency_capping(&mut self, files: &[CappingFile]) -> Vec<CappingRule> {
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

    pub(crate) fn subscription_groups(
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

    pub(crate) fn segments(&mut self, files: &[SegmentFile]) -> Vec<Segment> {
        let mut declared = Vec::new();
        let mut ids = HashSet::new();
        for (i, file) in files.iter().enumerate() {
            let path = format!("segments[{i}]");
            let id_path = format!("{path}.id");
            let id = self.value(&id_path, &file.id, values::id);
            let name = self.value(&format!("{path}.name"), &file.name, values::name);
            let audience = file.audience.members().clone().into();
            self.audience(
                &format!("{path}.audience"),
                &file.audience,
                Audience::read_segment(&audience),
            );
            if let (Some(id), Some(name)) = (id, name) {
                self.distinct(&id_path, &mut ids, id, &file.id);
                declared.push(Segment { id, name, audience });
            }
        }
        declared
    }

    /// Notes what is wrong with an audience, with the path inside of it.
    pub(crate) fn audience(
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

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use secrecy::ExposeSecret as _;

    use super::super::{Declaration, read};
    use super::*;

    const ID: &str = "7b1f8a34-8f4e-4d0e-9a55-0c5a2f3f6d02";

    fn environment(name: &str) -> Option<String> {
        match name {
            "PASSWORD" => Some("p%2Fss".into()),
            "SECRET" => Some(format!("whsec_{}", BASE64_STANDARD.encode([7; 32]))),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn declared(text: &str) -> Declaration {
        read(text, &environment).map(|mut file| file.workspaces.remove(0)).unwrap()
    }

    #[test]
    fn all_of_it_is_read() {
        let text = format!(
            "workspace: a
frequency_capping: [{{messages: 5, days: 7, channel: email}}, {{messages: 20, days: 30}}]
segments:
  - id: {ID}
    name: VIP
    audience: {{AND: [{{push_subscription_status: {{comparison: is, value: opted_in}}}}]}}
subscription_groups: [{{id: {ID}, channel: sms, from: '+15550100'}}]
email:
  smtp: smtp://user:${{PASSWORD}}@relay:2525
  from: Acme <hello@acme.example>
  status_postback: {{url: https://acme.example/hook, secret: '${{SECRET}}'}}
  events_secret: a-secret-that-is-long-enough
providers:
  push: {{url: http://10.0.0.1/push, secret: '${{SECRET}}'}}
  whats_app: {{url: https://wa.example, secret: '${{SECRET}}'}}
  feedback_secret: '${{EMPTY}}'
"
        );
        let declared = declared(&text);
        let email = Some(Channel::Email);
        let capping = [
            CappingRule { messages: 5, days: 7, channel: email },
            CappingRule { messages: 20, days: 30, channel: None },
        ];
        assert_eq!(declared.frequency_capping, capping);
        assert_eq!(declared.segments[0].name, "VIP");
        assert!(Audience::read_segment(&declared.segments[0].audience).is_ok());
        let [group] = declared.subscription_groups.as_slice() else { panic!("one group") };
        assert_eq!((group.channel, group.from.as_str()), (Channel::Sms, "+15550100"));
        let parts: Vec<Part> = declared.channels.keys().copied().collect();
        assert_eq!(parts, [Part::Email, Part::Push, Part::WhatsApp]);
        let DeclaredPart::Email(email) = &declared.channels[&Part::Email] else { panic!("email") };
        assert_eq!(email.smtp.expose_secret(), "smtp://user:p%2Fss@relay:2525");
        let signing = &email.status_postback.as_ref().unwrap().signing;
        assert_eq!(*signing, Secret(vec![7; 32]).into());
        assert_eq!(email.events_secret, Some(Secret(b"a-secret-that-is-long-enough".into())));
        let DeclaredPart::Provider(push) = &declared.channels[&Part::Push] else { panic!("push") };
        assert_eq!(push.url, "http://10.0.0.1/push");
    }

    #[test]
    fn what_is_left_out_is_not_declared() {
        let declared = declared("workspace: a\nproviders: {}\nsegments: []\n");
        assert!(declared.channels.is_empty() && declared.frequency_capping.is_empty());
        assert!(declared.segments.is_empty() && declared.subscription_groups.is_empty());
    }

    #[test]
    fn each_mistake_is_named_with_its_line_and_path() {
        const SECRET: &str = "secret: a-secret-that-is-long-enough";
        let segment = |audience: &str| {
            format!("segments:\n  - id: {ID}\n    name: s\n    audience:\n      {audience}\n")
        };
        for (text, expected) in [
            ("email: {}\n".to_owned(), "email.smtp: it is missing"),
            ("email: {from: a@acme.example}\n".into(), "line 2: email.smtp: it is missing"),
            ("email: {smtp: relay}\n".into(), "line 2: email.smtp: it is no address"),
            (
                "email: {smtp: 'http://hidden@r'}\n".into(),
                "line 2: email.smtp: expected smtp://host:port",
            ),
            (
                "email:\n  smtp: smtp://relay\n  from: Acme\n".into(),
                "line 4: email.from: \"Acme\" is no sender",
            ),
            (
                format!("email: {{smtp: smtp://r, status_postback: {{url: ftp://x, {SECRET}}}}}\n"),
                "line 2: email.status_postback.url: must be an http or https URL",
            ),
            (
                format!("email: {{smtp: smtp://r, status_postback: {{{SECRET}}}}}\n"),
                "line 2: missing field",
            ),
            (
                format!(
                    "providers:\n  push: {{url: 'https://x', {}}}\n",
                    SECRET.replace("secret:", "secret_old:")
                ),
                "line 3: providers.push.secret_old: there must be a new secret",
            ),
            (
                "email:\n  smtp: smtp://r\n  events_secret: hidden\n".into(),
                "line 4: email.events_secret: a secret that signs is whsec_",
            ),
            (
                "providers:\n  push: {url: 'https://x', secret: hidden}\n".into(),
                "line 3: providers.push.secret: a secret that signs",
            ),
            (
                format!("providers:\n  whats_app: {{url: /hidden, {SECRET}}}\n"),
                "line 3: providers.whats_app.url: must be a valid URL",
            ),
            (
                "providers: {feedback_secret: whsec_hidden}\n".into(),
                "line 2: providers.feedback_secret: such a secret is whsec_",
            ),
            (
                format!("providers:\n  fax: {{url: 'https://x', {SECRET}}}\n"),
                "line 3: unknown field `fax`",
            ),
            (
                "frequency_capping: [{messages: 0, days: 1}]\n".into(),
                "line 2: frequency_capping[0].messages: \"0\": expected a whole number from 1",
            ),
            (
                "frequency_capping:\n  - {messages: 1, days: 31}\n".into(),
                "line 3: frequency_capping[0].days: \"31\": expected a whole number from 1 to 30",
            ),
            (
                "frequency_capping: [{messages: 1, days: 1, channel: fax}]\n".into(),
                "line 2: frequency_capping[0].channel: \"fax\": expected one of apple_push,",
            ),
            (
                format!("subscription_groups: [{{id: {ID}, channel: email, from: '12345'}}]\n"),
                "line 2: subscription_groups[0].channel: \"email\": expected sms or whats_app",
            ),
            (
                format!("subscription_groups: [{{id: {ID}, channel: whats_app, from: Acme}}]\n"),
                "line 2: subscription_groups[0].from: \"Acme\": expected + and 7 to 15 digits",
            ),
            ("segments: [{id: 7, name: s}]\n".into(), "line 2: missing field"),
            (segment("[]"), "line 6: expected fields"),
            (segment("{}"), "line 6: segments[0].audience: a node has one member"),
            (
                segment("AND:\n        - {last_used_app: {comparison: is}}"),
                "line 6: segments[0].audience.AND[0].last_used_app.comparison: expected one of",
            ),
        ] {
            let text = format!("workspace: a\n{text}");
            let error = read(&text, &environment).map(|_| ()).expect_err(&text);
            let [problem] = error.problems.as_slice() else { panic!("{text}\n{error}") };
            let problem = problem.to_string();
            assert!(problem.starts_with(expected), "{text}\n{problem}");
            assert!(!problem.contains("hidden"), "{text}\n{problem}");
        }
        let twice = format!("{{id: {ID}, channel: sms, from: '12345'}}");
        let text = format!("workspace: a\nsubscription_groups: [{twice}, {twice}]\n");
        let error = read(&text, &environment).map(|_| ()).unwrap_err().to_string();
        assert!(
            error.contains("subscription_groups[1].id: an earlier one has the same"),
            "{error}"
        );
    }
}
