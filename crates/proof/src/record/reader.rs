//! Reads lines as records of one export.

use std::fmt;

use serde::Deserialize as _;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer as _, Error as _, IntoDeserializer, MapAccess, Visitor,
};
use uuid::Uuid;

use super::{ExportRecord, Optional};
use crate::fields::{CUSTOM_ATTRIBUTES, FieldSet, SERVICE_ID};
use kit::json::{self, Text};
use kit::words::beginning;

/// Characters of a field's name that an error shows.
const MAX_NAME_SHOWN: usize = 64;

/// Reads the lines of an export with these fields.
#[derive(Clone, Debug)]
pub struct RecordReader {
    fields: FieldSet,
}

impl RecordReader {
    pub fn new(fields: FieldSet) -> Self {
        Self { fields }
    }

    /// Reads a line without its line break. The error is for a person, and shows no values.
    pub fn read(&self, line: &[u8]) -> Result<ExportRecord, String> {
        let text = std::str::from_utf8(line)
            .map_err(|error| format!("not UTF-8 (byte {})", error.valid_up_to() + 1))?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let record = reader.deserialize_map(Line(&self.fields));
        let record = record.and_then(|record| reader.end().map(|()| record));
        let record = record
            .map_err(|error| format!("{} (column {})", json::describe(&error), error.column()))?;
        self.check_attributes(&record)?;
        Ok(record)
    }

    /// Whether lines have the users' ids.
    pub fn has_ids(&self) -> bool {
        self.fields.wants(SERVICE_ID)
    }

    fn check_attributes(&self, record: &ExportRecord) -> Result<(), String> {
        let Some(attributes) = &record.custom_attributes.0 else { return Ok(()) };
        let requested = self.fields.attributes();
        let is_requested =
            |name: &String| self.fields.wants(CUSTOM_ATTRIBUTES) || requested.contains(name);
        match attributes.0.iter().find(|name| !is_requested(name)) {
            Some(name) => {
                let name = beginning(name, MAX_NAME_SHOWN);
                Err(format!(
                    "the export did not request {:?}",
                    format!("{CUSTOM_ATTRIBUTES}.{name}")
                ))
            }
            None => Ok(()),
        }
    }
}

struct Line<'f>(&'f FieldSet);

impl<'de> Visitor<'de> for Line<'_> {
    type Value = ExportRecord;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a user record")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ExportRecord, A::Error> {
        let requested = Requested { fields: self.0, map, ids: Vec::new() };
        ExportRecord::deserialize(MapAccessDeserializer::new(requested))
    }
}

/// The requested fields of a line; `service_id` has its usual name here, once.
struct Requested<'f, A> {
    fields: &'f FieldSet,
    map: A,
    /// The names of `service_id` that were read.
    ids: Vec<&'f str>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Requested<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let fields = self.fields;
        let name = loop {
            let Some(Text(name)) = self.map.next_key::<Text<'de>>()? else { return Ok(None) };
            let id = fields.service_id_names().find(|id| *id == name);
            let Some(id) = id.filter(|id| !self.ids.contains(id)) else { break name };
            self.ids.push(id);
            if self.ids.len() == 1 {
                break name;
            }
            // The record has one field for both names.
            self.map.next_value::<Optional<Uuid>>()?;
        };
        let is_id = fields.service_id_names().any(|id| id == name);
        let is_requested = name != SERVICE_ID && fields.wants(&name)
            || name == CUSTOM_ATTRIBUTES && !fields.attributes().is_empty();
        let name = match &*name {
            _ if is_id => SERVICE_ID,
            name if is_requested => name,
            name => {
                let name = beginning(name, MAX_NAME_SHOWN);
                return Err(A::Error::custom(format!("the export did not request {name:?}")));
            }
        };
        let name = IntoDeserializer::<A::Error>::into_deserializer(name);
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
