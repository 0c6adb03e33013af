//! Arrays and objects of the data, as views.

use kit::json::{Tree, TreeObject};
use serde_json::{Map, Value as Json};

use super::value::Value;

/// The elements of an array.
#[derive(Clone, Copy, Debug)]
pub(super) enum List<'a> {
    Json(&'a [Json]),
    Tree(&'a [Tree]),
}

impl<'a> List<'a> {
    pub fn len(self) -> usize {
        match self {
            Self::Json(list) => list.len(),
            Self::Tree(list) => list.len(),
        }
    }

    pub fn get(self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Json(list) => list.get(index).map(Value::from_json),
            Self::Tree(list) => list.get(index).map(Value::from_tree),
        }
    }

    pub fn iter(self) -> impl Iterator<Item = Value<'a>> {
        (0..self.len()).filter_map(move |index| self.get(index))
    }
}

/// The fields of an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fields<'a> {
    /// Sorted by name.
    Json(&'a Map<String, Json>),
    /// In the order of the data.
    Tree(&'a TreeObject),
}

impl<'a> Fields<'a> {
    pub fn len(self) -> usize {
        match self {
            Self::Json(object) => object.len(),
            Self::Tree(object) => object.len(),
        }
    }

    pub fn get(self, name: &str) -> Option<Value<'a>> {
        match self {
            Self::Json(object) => object.get(name).map(Value::from_json),
            Self::Tree(object) => object.get(name).map(Value::from_tree),
        }
    }

    pub fn iter(self) -> Box<dyn Iterator<Item = (&'a str, Value<'a>)> + 'a> {
        match self {
            Self::Json(object) => Box::new(
                object.iter().map(|(name, value)| (name.as_str(), Value::from_json(value))),
            ),
            Self::Tree(object) => {
                Box::new(object.iter().map(|(name, value)| (name, Value::from_tree(value))))
            }
        }
    }

    pub fn to_json(self) -> String {
        match self {
            Self::Json(object) => serde_json::to_string(object).unwrap_or_default(),
            Self::Tree(object) => object.to_json(),
        }
    }
}
