//! What templates can name besides what is their own.

use kit::words::{beginning, nearest};

/// The names that the data of a caller has, with or without a value for this or that user.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'n> {
    /// Those of `${name}`.
    pub fields: &'n [&'n str],
    /// Those without `${…}`.
    pub objects: &'n [Object<'n>],
}

/// `name.${member}`, or a value of that name.
#[derive(Clone, Copy, Debug)]
pub struct Object<'n> {
    pub name: &'n str,
    /// What its members are called; without, as they like.
    pub members: Option<&'n [&'n str]>,
}

/// Characters of a name that an error repeats.
const MAX_SHOWN: usize = 100;

impl<'n> Names<'n> {
    pub(super) fn object(&self, name: &str) -> Option<&Object<'n>> {
        self.objects.iter().find(|object| object.name == name)
    }

    /// What is wrong with `${name}`.
    pub(super) fn unknown_field(&self, name: &str) -> Option<String> {
        if self.fields.contains(&name) {
            return None;
        }
        let near = nearest(name, self.fields.iter().copied()).map(|near| format!("${{{near}}}"));
        Some(unknown(&format!("${{{}}}", beginning(name, MAX_SHOWN)), near))
    }

    /// What is wrong with a member of an object.
    pub(super) fn unknown_member(&self, object: &str, name: &str) -> Option<String> {
        let members = self.object(object)?.members?;
        if members.contains(&name) {
            return None;
        }
        let written = |name: &str| format!("{object}.${{{name}}}");
        let near = nearest(name, members.iter().copied()).map(written);
        Some(unknown(&written(&beginning(name, MAX_SHOWN)), near))
    }

    /// What to say of a name that neither the data nor the template has.
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
    format!("there is no name `{name}`{near}")
}
