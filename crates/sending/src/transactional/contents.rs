//! The emails of transactional campaigns, ready to be rendered.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use uuid::Uuid;

use content::campaigns::Campaign;
use gateway::workspaces::Channel;
use gateway::workspaces::settings::Settings;
use messages::content::{Content, MessageSource};

/// Maximum number of campaigns in the cache.
const MAX_CAMPAIGNS: usize = 1_000;

/// The email of a campaign, or why it is invalid.
pub type ContentResult = Result<Arc<Content>, String>;

/// Cache of campaigns' parsed emails.
#[derive(Default)]
pub struct Contents(Mutex<HashMap<(i32, Uuid), CachedContent>>);

/// The content, and what it was parsed from.
struct CachedContent {
    messages: Map<String, Value>,
    /// Content blocks and other settings are part of the content. Each read of them is an `Arc` of
    /// its own. Weak, so that a campaign that is not used keeps none.
    settings: Weak<Settings>,
    content: LazyContent,
}

/// An email that is parsed once, by the first request that needs it.
type LazyContent = Arc<OnceLock<ContentResult>>;

impl Contents {
    /// The email of a campaign with these settings.
    pub fn get(
        &self,
        workspace: i32,
        campaign: &Campaign,
        settings: &Arc<Settings>,
    ) -> ContentResult {
        if let Some(why) = settings.without(Channel::Email) {
            return Err(why.to_owned());
        }
        let messages = campaign.email(settings).ok_or("the campaign declares no email")?;
        // Parsed without the lock of the cache, so that other campaigns do not wait for large
        // templates.
        let content = self.cached((workspace, campaign.id), &messages, settings);
        let read = || {
            let (content, _, problems) = Content::read(&messages, MessageSource::Stored, settings);
            match problems.first() {
                Some(problem) => Err(problem.to_string()),
                None => Ok(Arc::new(content)),
            }
        };
        content.get_or_init(read).clone()
    }

    /// The cached content of a campaign with these messages and settings.
    fn cached(
        &self,
        key: (i32, Uuid),
        messages: &Map<String, Value>,
        settings: &Arc<Settings>,
    ) -> LazyContent {
        let settings = Arc::downgrade(settings);
        let is_same = |cached: &&CachedContent| {
            cached.settings.ptr_eq(&settings) && cached.messages == *messages
        };
        let mut cache = self.0.lock();
        if let Some(cached) = cache.get(&key).filter(is_same) {
            return cached.content.clone();
        }
        if cache.len() >= MAX_CAMPAIGNS {
            cache.clear();
        }
        let content = LazyContent::default();
        let (messages, shared) = (messages.clone(), content.clone());
        cache.insert(key, CachedContent { messages, settings, content: shared });
        content
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use content::campaigns::Kind;
    use gateway::workspaces::settings::Email;
    use messages::personalization::Scope;

    fn settings(from: Option<&str>) -> Arc<Settings> {
        let email = Email {
            smtp: "smtp://127.0.0.1:25".into(),
            from: from.map(str::to_owned),
            status_postback: None,
            events_secret: None,
            bounce_days: 90,
        };
        Arc::new(Settings { email: Some(email), ..Settings::default() })
    }

    /// The same settings with a content block.
    fn with_block(settings: &Settings, text: &str) -> Arc<Settings> {
        let blocks = [("footer".to_owned(), text.to_owned())].into();
        Arc::new(Settings { blocks, ..settings.clone() })
    }

    fn body(content: &Content) -> Value {
        let profile = Map::new();
        let rendered = content.messages()[0].render(&Scope::from_profile(&profile, 0)).unwrap();
        rendered.object["body"].clone()
    }

    fn campaign(email: Value) -> Campaign {
        Campaign {
            id: Uuid::nil(),
            kind: Kind::Transactional,
            name: "Receipt".into(),
            tags: Vec::new(),
            archived: false,
            paused: false,
            content: content::campaigns::Content::new(
                Map::from_iter([("email".to_owned(), email)]),
                None,
                None,
            ),
        }
    }

    #[test]
    fn a_campaign_needs_a_sender_of_its_own_or_its_workspaces() {
        let contents = Contents::default();
        let bare = campaign(json!({ "body": "{{${first_name}}}" }));
        let acme = settings(Some("hello@acme.example"));
        assert_eq!(contents.get(1, &bare, &acme).unwrap().messages().len(), 1);
        let error = contents.get(1, &bare, &settings(None)).unwrap_err();
        assert!(error.contains("email.from"), "{error}");
        let error = contents.get(1, &bare, &Arc::default()).unwrap_err();
        assert!(error.contains("declares no email"), "{error}");
    }

    #[test]
    fn a_template_is_read_while_others_are() {
        let (contents, settings) = (Contents::default(), settings(Some("a@acme.example")));
        let slow = campaign(json!({ "body": "slow" }));
        let other = Campaign { id: Uuid::max(), ..campaign(json!({ "body": "other" })) };
        let content = contents.cached((1, slow.id), &slow.email(&settings).unwrap(), &settings);
        let read = content.get_or_init(|| contents.get(1, &other, &settings)).clone().unwrap();
        assert!(Arc::ptr_eq(&read, &contents.get(1, &other, &settings).unwrap()));
        // Others with the same campaign share it.
        assert!(Arc::ptr_eq(&read, &contents.get(1, &slow, &settings).unwrap()));
    }

    #[test]
    fn changed_declarations_are_read_again() {
        let (contents, settings) = (Contents::default(), settings(Some("a@acme.example")));
        let first = contents.get(1, &campaign(json!({ "body": "a" })), &settings).unwrap();
        let same = contents.get(1, &campaign(json!({ "body": "a" })), &settings).unwrap();
        assert!(Arc::ptr_eq(&first, &same));
        let error = contents.get(1, &campaign(json!({ "body": "{% if %}" })), &settings);
        assert!(error.unwrap_err().contains("line 1"));
    }

    #[test]
    fn changed_blocks_are_read_again() {
        let (contents, without) = (Contents::default(), settings(Some("a@acme.example")));
        let campaign = campaign(json!({ "body": "{{content_blocks.${footer}}}" }));
        let error = contents.get(1, &campaign, &without).unwrap_err();
        assert!(error.contains("footer"), "{error}");
        for text in ["a", "b"] {
            let settings = with_block(&without, text);
            let content = contents.get(1, &campaign, &settings).unwrap();
            assert_eq!(body(&content), text);
            assert!(Arc::ptr_eq(&content, &contents.get(1, &campaign, &settings).unwrap()));
        }
        assert!(contents.get(1, &campaign, &without).is_err());
    }
}
