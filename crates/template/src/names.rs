//! The names that templates can use in addition to their own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use kit::words::{beginning, nearest};

/// The names that the caller's data defines, with or without a value for a user.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'n> {
    /// The names that are written `${name}`.
    pub fields: &'n [&'n str],
    /// Another name of a field, and the field's name in the data.
    pub alias: Option<(&'n str, &'n str)>,
    /// The names that are written without `${…}`.
    pub objects: &'n [Object<'n>],
    /// The sources of `content_blocks`. If absent, every block is known and empty.
    pub blocks: Option<&'n BTreeMap<String, String>>,
    /// Checks uses of other data. If absent, nothing is checked.
    pub sources: Option<&'n dyn Sources>,
    /// Whether other names may have a value: in a block, the template around it can define more.
    pub is_open: bool,
}

/// The sources that templates can read in addition to their data.
pub trait Sources: fmt::Debug + Sync {
    /// Checks whether a template can use a source; the error is the reason why not.
    fn check(&self, source: Source<'_>) -> Result<(), String>;
}

/// The source that a tag names.
#[derive(Clone, Copy, Debug)]
pub enum Source<'s> {
    Catalog(&'s str),
    Selection {
        catalog: &'s str,
        name: &'s str,
    },
    /// A URL of `connected_content`, up to the first value in it.
    Address {
        beginning: &'s str,
        is_whole: bool,
    },
    /// The credential of `connected_content`.
    Credential(&'s str),
}

/// `name.${member}`, or a value of that name.
#[derive(Clone, Copy, Debug)]
pub struct Object<'n> {
    pub name: &'n str,
    pub members: MemberNames<'n>,
}

/// The names of an object's fields.
#[derive(Clone, Copy, Debug)]
pub enum MemberNames<'n> {
    Any,
    /// Any; returns the spelling in the data.
    Spelled(fn(&str) -> Cow<'_, str>),
    Named(&'n [&'n str]),
}

/// Maximum characters of a name in an error message.
const MAX_SHOWN: usize = 100;

impl<'n> Names<'n> {
    pub(super) fn object(&self, name: &str) -> Option<&Object<'n>> {
        self.objects.iter().find(|object| object.name == name)
    }

    /// The name in the data of `${name}`.
    pub(super) fn field<'a>(&self, name: &'a str) -> &'a str
    where
        'n: 'a,
    {
        self.alias.filter(|(alias, _)| *alias == name).map_or(name, |(_, field)| field)
    }

    /// What is wrong with `${name}`.
    pub(super) fn unknown_field(&self, name: &str) -> Option<String> {
        if self.fields.contains(&name) {
            return None;
        }
        let near = nearest(name, self.fields.iter().copied()).map(|near| format!("${{{near}}}"));
        Some(unknown(&format!("${{{}}}", beginning(name, MAX_SHOWN)), near))
    }

    /// The name in the data of an object's field.
    pub(super) fn member<'a>(&self, object: &str, name: &'a str) -> Cow<'a, str> {
        match self.object(object) {
            Some(Object { members: MemberNames::Spelled(spelled), .. }) => spelled(name),
            _ => name.into(),
        }
    }

    /// What is wrong with a field of an object.
    pub(super) fn unknown_member(&self, object: &str, name: &str) -> Option<String> {
        let MemberNames::Named(members) = self.object(object)?.members else { return None };
        if members.contains(&name) {
            return None;
        }
        let written = |name: &str| format!("{object}.${{{name}}}");
        let near = nearest(name, members.iter().copied()).map(written);
        Some(unknown(&written(&beginning(name, MAX_SHOWN)), near))
    }

    /// The source of a block; the error message if there is none.
    pub(super) fn block(&self, name: &str) -> Result<&'n str, String> {
        let Some(blocks) = self.blocks else { return Ok("") };
        if let Some(source) = blocks.get(name) {
            return Ok(source);
        }
        let written = |name: &str| format!("content_blocks.${{{name}}}");
        let near = nearest(name, blocks.keys().map(String::as_str)).map(written);
        Err(unknown(&written(&beginning(name, MAX_SHOWN)), near))
    }

    /// The error for a name that neither the data nor the template defines.
    pub(super) fn unknown_object<'o>(
        &self,
        name: &str,
        own: impl Iterator<Item = &'o str>,
    ) -> String {
        let fields = self.fields.iter().copied();
        let field = fields.clone().find(|field| *field == name).map(|name| format!("${{{name}}}"));
        let objects = self.objects.iter().map(|object| object.name);
        let near = || nearest(name, objects).or_else(|| nearest(name, own)).map(str::to_owned);
        let near_field = || nearest(name, fields).map(|name| format!("${{{name}}}"));
        unknown(&beginning(name, MAX_SHOWN), field.or_else(near).or_else(near_field))
    }
}

fn unknown(name: &str, near: Option<String>) -> String {
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    format!("unknown name `{name}`{near}")
}
