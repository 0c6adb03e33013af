//! Reads message objects.

use ipnet::IpNet;
use serde_json::{Map, Value};
use template::Template;
use uuid::Uuid;

use super::piece::{LineBreaks, Piece};
use super::table::{EXPIRE_AT, FieldSpec, Kind, MAX_SECONDS, TIME_TO_LIVE, known_fields};
use super::{Content, Message, MessageSource, Problem};
use crate::channels::{self, MAX_HEADERS};
use crate::personalization::names;
use gateway::workspaces::Channel;
use gateway::workspaces::email_templates::EMAIL_TEMPLATE_ID;
use gateway::workspaces::settings::Settings;
use kit::json::as_whole_number;
use kit::words::beginning;
use runtime::outbound::check_within;

/// Maximum number of values in a message object, not counting the object itself.
pub const MAX_VALUES: usize = 1_000;

/// Maximum depth of a message object, including its first level.
pub const MAX_DEPTH: usize = 32;

/// Maximum bytes of the strings and names of a message object.
pub const MAX_BYTES: usize = 1 << 20;

const MISSING: &str = "required field is missing";
const UNKNOWN_EMAIL_TEMPLATE: &str = "does not match an email template in this workspace";

/// Maximum characters of an identifier.
const MAX_ID: usize = people::users::profile::MAX_TEXT;

/// The marks that open a template's markup.
const OPENERS: [&str; 2] = ["{{", "{%"];

type ReadResult<T> = Result<T, Problem>;

impl Content {
    /// Parses a messages object; returns the usable ones, their JSON, and the errors of the others.
    /// Null means absent.
    pub fn read(
        messages: &Map<String, Value>,
        source: MessageSource,
        settings: &Settings,
    ) -> (Self, Map<String, Value>, Vec<Problem>) {
        let (mut content, mut accepted, mut problems) = (Self::default(), Map::new(), Vec::new());
        for (name, value) in messages.iter().filter(|(_, value)| !value.is_null()) {
            let path = format!("messages.{}", beginning(name, MAX_ID));
            let channel = match usable_channel(name, &path, source, settings) {
                Ok(channel) => channel,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            let mut reader = Reader::new(settings, source);
            let message = match value.as_object() {
                Some(object) => reader.message(channel, object, &path),
                None => problem(path, "expected an object"),
            };
            content.has_unknown_sources |= reader.has_unknown_source;
            match message {
                Ok((message, object)) if reader.fatal.is_empty() => {
                    content.messages.push(message);
                    accepted.insert(name.clone(), object.into());
                }
                Ok(_) => {}
                Err(problem) => problems.push(problem),
            }
            problems.append(&mut reader.fatal);
        }
        (content, accepted, problems)
    }

    /// The message of a live activity. The strings of its alert are templates; the rest is data of
    /// the app.
    pub fn live_activity(
        object: &Map<String, Value>,
        source: MessageSource,
    ) -> Result<Self, Problem> {
        let settings = Settings::default();
        let mut reader = Reader::new(&settings, source);
        let mut pieces = Vec::with_capacity(object.len());
        for (name, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            let piece = match value.as_object().filter(|_| name == "aps") {
                Some(aps) => reader.push_to_start(aps)?,
                None => Piece::Fixed(value.clone()),
            };
            pieces.push((name.clone(), piece));
        }
        if let Some(fatal) = reader.fatal.pop() {
            return Err(fatal);
        }
        let message = Message::new(Channel::LiveActivity, None, pieces);
        Ok(Self { messages: vec![message], has_unknown_sources: false })
    }
}

/// The errors of an email template: those of an email object with these fields, except that fields
/// other than `body` may be missing. `path` is the template's path in the file.
pub fn check_email_template(
    fields: &Map<String, Value>,
    path: &str,
    settings: &Settings,
) -> Vec<Problem> {
    if fields.get("body").is_none_or(Value::is_null) {
        let path = format!("{path}.body");
        return vec![Problem { path, text: MISSING.into(), is_fatal: true }];
    }
    let mut reader = Reader::new(settings, MessageSource::File);
    let read = reader.fields(Channel::Email, fields, path);
    read.err().into_iter().chain(reader.fatal).collect()
}

/// The channel with that name, if it can be used.
fn usable_channel(
    name: &str,
    path: &str,
    source: MessageSource,
    settings: &Settings,
) -> ReadResult<Channel> {
    let channel = Channel::from_name(name).filter(|channel| *channel != Channel::LiveActivity);
    let Some(channel) = channel else {
        let names = Channel::OF_MESSAGES.map(Channel::name).join(", ");
        return problem(path, format!("unknown channel; expected one of {names}"));
    };
    if channel == Channel::WhatsApp && source == MessageSource::Schedule {
        return problem(path, "cannot be scheduled, only sent immediately");
    }
    match settings.without(channel) {
        Some(why) => problem(path, why),
        None => Ok(channel),
    }
}

fn problem<T>(path: impl Into<String>, text: impl Into<String>) -> ReadResult<T> {
    Err(Problem { path: path.into(), text: text.into(), is_fatal: false })
}

struct Reader<'a> {
    settings: &'a Settings,
    source: MessageSource,
    values: usize,
    bytes: usize,
    /// Errors that fail the whole request; all are reported.
    fatal: Vec<Problem>,
    has_unknown_source: bool,
}

impl<'a> Reader<'a> {
    fn new(settings: &'a Settings, source: MessageSource) -> Self {
        let (values, bytes, fatal, has_unknown_source) = (0, 0, Vec::new(), false);
        Self { settings, source, values, bytes, fatal, has_unknown_source }
    }

    /// The message, and its object without nulls.
    fn message(
        &mut self,
        channel: Channel,
        object: &Map<String, Value>,
        path: &str,
    ) -> ReadResult<(Message, Map<String, Value>)> {
        let known_fields = known_fields(channel);
        let is_there = |name: &str| object.get(name).is_some_and(|value| !value.is_null());
        // The id of a known template was replaced with the template's fields. Objects that earlier
        // versions stored can have any id, which is ignored.
        let is_stored = self.source == MessageSource::Stored;
        if channel == Channel::Email && !is_stored && is_there(EMAIL_TEMPLATE_ID) {
            let path = format!("{path}.{EMAIL_TEMPLATE_ID}");
            return Err(Problem { path, text: UNKNOWN_EMAIL_TEMPLATE.into(), is_fatal: true });
        }
        let missing = known_fields.iter().find(|field| field.is_required && !is_there(field.name));
        if let Some(missing) = missing {
            return problem(format!("{path}.{}", missing.name), MISSING);
        }
        if channel == Channel::ContentCard && is_there(TIME_TO_LIVE) == is_there(EXPIRE_AT) {
            return problem(
                path,
                format!("exactly one of {TIME_TO_LIVE} and {EXPIRE_AT} is required"),
            );
        }
        let pieces = self.fields(channel, object, path)?;
        let mut accepted = object.clone();
        accepted.retain(|_, value| !value.is_null());
        // Workers of earlier versions cannot read `60.0`, so store `60`.
        let time_to_live = pieces.iter().find(|(name, _)| name == TIME_TO_LIVE);
        if let Some((name, Piece::Fixed(seconds))) = time_to_live {
            accepted.insert(name.clone(), seconds.clone());
        }
        let variation_id = object.get("message_variation_id").and_then(Value::as_str);
        Ok((Message::new(channel, variation_id.map(str::to_owned), pieces), accepted))
    }

    /// The fields of a message object that are not null.
    fn fields(
        &mut self,
        channel: Channel,
        object: &Map<String, Value>,
        path: &str,
    ) -> ReadResult<Vec<(String, Piece)>> {
        let mut pieces = Vec::new();
        for (name, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            self.count(0, name.len(), path)?;
            let path = format!("{path}.{}", beginning(name, MAX_ID));
            let known = known_fields(channel).iter().find(|field| field.name == name);
            let piece = match known {
                Some(field) => self.field(field, channel, value, &path)?,
                None => self.any(value, &path, LineBreaks::Many, 2)?,
            };
            pieces.push((name.clone(), piece));
        }
        Ok(pieces)
    }

    fn field(
        &mut self,
        field: &FieldSpec,
        channel: Channel,
        value: &Value,
        path: &str,
    ) -> ReadResult<Piece> {
        match field.kind {
            Kind::Text => self.text(value, path, field, LineBreaks::Many),
            Kind::Mailbox => self.mailboxes(value, path, field, channels::check_mailbox),
            Kind::Mailboxes => self.mailboxes(value, path, field, channels::check_mailboxes),
            Kind::Subject => self.text(value, path, field, LineBreaks::Joined),
            Kind::Alert if value.is_object() => self.any(value, path, LineBreaks::Many, 2),
            Kind::Alert if !value.is_string() => problem(path, "expected a string or an object"),
            Kind::Alert => self.text(value, path, field, LineBreaks::Many),
            Kind::Address => {
                let piece = self.text(value, path, field, LineBreaks::One)?;
                if let Piece::Fixed(Value::String(address)) = &piece {
                    self.check_address(address, path);
                }
                Ok(piece)
            }
            Kind::Time => {
                let piece = self.text(value, path, field, LineBreaks::One)?;
                if let Piece::Fixed(Value::String(time)) = &piece {
                    kit::clock::parse_time(time).or_else(|text| problem(path, text))?;
                }
                Ok(piece)
            }
            Kind::Headers => self.headers(channel, value, path),
            Kind::Object if value.is_object() => self.any(value, path, LineBreaks::Many, 2),
            Kind::Object => problem(path, "expected an object"),
            Kind::Id => self.id(value, path).map(|_| Piece::Fixed(value.clone())),
            Kind::OneOf(names) => match value.as_str().filter(|value| names.contains(value)) {
                Some(_) => Ok(Piece::Fixed(value.clone())),
                None => problem(path, format!("expected one of {}", names.join(", "))),
            },
            Kind::Group => self.group(channel, value, path),
            Kind::Seconds => {
                let seconds = value.as_number().and_then(as_whole_number);
                let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
                match seconds.filter(|seconds| (1..=MAX_SECONDS).contains(seconds)) {
                    Some(seconds) => Ok(Piece::Fixed(seconds.into())),
                    None => problem(
                        path,
                        format!("expected a whole number of seconds from 1 to {MAX_SECONDS}"),
                    ),
                }
            }
        }
    }

    fn text(
        &mut self,
        value: &Value,
        path: &str,
        field: &FieldSpec,
        lines: LineBreaks,
    ) -> ReadResult<Piece> {
        match value.as_str() {
            None => problem(path, "expected a string"),
            Some("") if field.is_required => problem(path, "must not be empty"),
            Some(_) => self.any(value, path, lines, 2),
        }
    }

    /// Addresses of an email. Invalid literal ones are rejected, because they would fail for every
    /// user.
    fn mailboxes(
        &mut self,
        value: &Value,
        path: &str,
        field: &FieldSpec,
        check: fn(&str) -> Result<(), String>,
    ) -> ReadResult<Piece> {
        let piece = self.text(value, path, field, LineBreaks::One)?;
        if let Piece::Fixed(Value::String(text)) = &piece
            && (field.is_required || !text.trim().is_empty())
            && let Err(why) = check(text)
        {
            self.add_fatal_error(path, why);
        }
        Ok(piece)
    }

    fn id<'v>(&mut self, value: &'v Value, path: &str) -> ReadResult<&'v str> {
        let id = value.as_str().filter(|id| (1..=MAX_ID).contains(&id.chars().count()));
        match id.filter(|id| !id.contains(char::is_control)) {
            Some(id) => Ok(id),
            None => problem(path, format!("expected a string of 1 to {MAX_ID} characters")),
        }
    }

    fn group(&mut self, channel: Channel, value: &Value, path: &str) -> ReadResult<Piece> {
        let id = self.id(value, path)?;
        let Ok(id) = Uuid::try_parse(id) else { return problem(path, "expected a UUID") };
        let mut groups = self.settings.subscription_groups.iter();
        match groups.find(|group| group.id == id && group.channel == channel) {
            // In the form in which profiles store it.
            Some(group) => Ok(Piece::Fixed(group.id.to_string().into())),
            None => {
                let channel = channel.name();
                problem(
                    path,
                    format!("does not match a {channel} subscription group in this workspace"),
                )
            }
        }
    }

    fn headers(&mut self, channel: Channel, value: &Value, path: &str) -> ReadResult<Piece> {
        let Some(headers) = value.as_object().filter(|headers| headers.len() <= MAX_HEADERS) else {
            return problem(path, format!("expected an object of at most {MAX_HEADERS} strings"));
        };
        let mut pieces = Vec::new();
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_null()) {
            self.count(0, name.len(), path)?;
            let header_path = format!("{path}.{}", beginning(name, MAX_ID));
            channels::check_header(channel, name).or_else(|text| problem(&header_path, text))?;
            if !value.is_string() {
                return problem(header_path, "expected a string");
            }
            let piece = self.any(value, &header_path, LineBreaks::One, 3)?;
            if let Piece::Fixed(Value::String(text)) = &piece {
                channels::check_header_value(channel, text)
                    .or_else(|why| problem(&header_path, why))?;
            }
            pieces.push((name.clone(), piece));
        }
        Ok(Piece::object(pieces))
    }

    /// The content of `aps` that starts a live activity.
    fn push_to_start(&mut self, aps: &Map<String, Value>) -> ReadResult<Piece> {
        let mut pieces = Vec::with_capacity(aps.len());
        for (name, value) in aps {
            let piece = match name.as_str() {
                "alert" => self.any(value, "notification.alert", LineBreaks::Many, 2)?,
                _ => Piece::Fixed(value.clone()),
            };
            pieces.push((name.clone(), piece));
        }
        Ok(Piece::object(pieces))
    }

    /// Any value: its strings are templates.
    fn any(
        &mut self,
        value: &Value,
        path: &str,
        lines: LineBreaks,
        level: usize,
    ) -> ReadResult<Piece> {
        if level > MAX_DEPTH {
            return problem(path, format!("a message can nest at most {MAX_DEPTH} levels"));
        }
        self.count(1, value.as_str().map_or(0, str::len), path)?;
        Ok(match value {
            Value::String(source) => self.template(source, path, lines)?,
            Value::Array(values) => {
                let mut pieces = Vec::with_capacity(values.len());
                for (index, value) in values.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    pieces.push(self.any(value, &path, lines, level + 1)?);
                }
                Piece::array(pieces)
            }
            Value::Object(members) => {
                let mut pieces = Vec::with_capacity(members.len());
                for (name, value) in members {
                    self.count(0, name.len(), path)?;
                    let path = format!("{path}.{}", beginning(name, MAX_ID));
                    pieces.push((name.clone(), self.any(value, &path, lines, level + 1)?));
                }
                Piece::object(pieces)
            }
            fixed => Piece::Fixed(fixed.clone()),
        })
    }

    fn template(&mut self, source: &str, path: &str, lines: LineBreaks) -> ReadResult<Piece> {
        if lines == LineBreaks::Many && !OPENERS.iter().any(|opener| source.contains(opener)) {
            return Ok(Piece::Fixed(source.into()));
        }
        let template = match Template::parse(source, &names(self.settings)) {
            Ok(template) => template,
            Err(error) => {
                self.add_fatal_error(path, error.to_string());
                return Ok(Piece::Fixed(Value::Null));
            }
        };
        self.has_unknown_source |= template.has_unknown_source();
        if let Some(mistake) = template.mistake().filter(|_| self.source != MessageSource::Stored) {
            self.add_fatal_error(path, mistake.to_string());
        }
        self.count(0, template.bytes_of_blocks(), path)?;
        let Some(text) = template.as_text() else { return Ok(Piece::Text(template, lines)) };
        match lines.apply(text.to_owned()) {
            Ok(text) => Ok(Piece::Fixed(text.into())),
            Err(text) => problem(path, text),
        }
    }

    fn check_address(&mut self, address: &str, path: &str) {
        let allowed: &[IpNet] = &self.settings.allow_private;
        if let Err(text) = check_within(address, allowed) {
            self.add_fatal_error(path, text);
        }
    }

    fn add_fatal_error(&mut self, path: &str, text: String) {
        self.fatal.push(Problem { path: path.to_owned(), text, is_fatal: true });
    }

    /// Counts values and the bytes of texts and names.
    fn count(&mut self, values: usize, bytes: usize, path: &str) -> ReadResult<()> {
        self.values += values;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.values > MAX_VALUES {
            return problem(path, format!("a message can have at most {MAX_VALUES} values"));
        }
        if self.bytes > MAX_BYTES {
            return problem(path, format!("a message can have at most {MAX_BYTES} bytes of text"));
        }
        Ok(())
    }
}
