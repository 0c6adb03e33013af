//! The parameters of a list, from the URL or from the body of `/.search`.

use serde_json::Value;
use url::form_urlencoded;

use super::filter::{Filter, Scope, invalid_filter};
use super::projection::Projection;
use super::schema::{self, Attributes, ResourceSchema, SEARCH, invalid};
use gateway::scim::ScimError;

/// Maximum number of resources on one page.
pub const PAGE: i64 = 100;

#[derive(Clone, Debug)]
pub struct Query {
    pub filter: Filter,
    /// Position of the page's first result, from 1.
    pub start_index: i64,
    /// Maximum number of resources.
    pub count: i64,
    pub projection: Projection,
}

/// The supported parameters. Sorting is documented as unsupported: clients that request it get
/// resources in the order of their creation.
#[derive(Default)]
struct Raw {
    filter: Option<String>,
    start_index: Option<String>,
    count: Option<String>,
    attributes: Vec<String>,
    excluded_attributes: Vec<String>,
}

impl Query {
    /// Reads the query part of a URL.
    pub fn from_query_string(
        query: &str,
        schema: &'static ResourceSchema,
    ) -> Result<Self, ScimError> {
        // A plus is kept: in a URL without form encoding it is a plus. The filter parser reads it
        // as a space outside of strings.
        let query = query.replace('+', "%2B");
        let mut raw = Raw::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let names = || value.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
            let once = |parameter: &mut Option<String>| match parameter.replace(value.to_string()) {
                Some(_) => Err(invalid(&name, "duplicate parameter")),
                None => Ok(()),
            };
            match &*name {
                "filter" => once(&mut raw.filter)?,
                "startIndex" => once(&mut raw.start_index)?,
                "count" => once(&mut raw.count)?,
                "attributes" => raw.attributes.extend(names()),
                "excludedAttributes" => raw.excluded_attributes.extend(names()),
                _ => {}
            }
        }
        raw.checked(schema)
    }

    /// Reads the body of `/.search` (RFC 7644 section 3.4.3).
    pub fn from_body(
        body: &Attributes,
        schema: &'static ResourceSchema,
    ) -> Result<Self, ScimError> {
        schema::check_schemas(body, SEARCH)?;
        let number = |name: &str| match schema::member(body, name) {
            None | Some(Value::Null) => Ok(None),
            // In any notation, such as 1.0 for 1. Values beyond the number of resources are
            // allowed.
            Some(Value::Number(number)) => match number.as_f64() {
                Some(float) if !number.is_i64() && float.fract() == 0.0 => {
                    Ok(Some((float as i64).to_string()))
                }
                _ => Ok(Some(number.to_string())),
            },
            Some(_) => Err(invalid(name, "expected a whole number")),
        };
        let filter = match schema::member(body, "filter") {
            None | Some(Value::Null) => None,
            Some(Value::String(filter)) => Some(filter.clone()),
            Some(_) => return Err(invalid_filter("expected a string")),
        };
        let names = |name: &str| match schema::member(body, name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(names)) => {
                let names = names.iter().map(|name| name.as_str().map(str::to_owned));
                names.collect::<Option<_>>().ok_or_else(|| invalid(name, "expected strings"))
            }
            Some(_) => Err(invalid(name, "expected an array of strings")),
        };
        Raw {
            filter,
            start_index: number("startIndex")?,
            count: number("count")?,
            attributes: names("attributes")?,
            excluded_attributes: names("excludedAttributes")?,
        }
        .checked(schema)
    }
}

impl Raw {
    fn checked(self, schema: &'static ResourceSchema) -> Result<Query, ScimError> {
        let number = |name: &str, text: Option<String>, default: i64| match text {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| invalid(name, "expected a whole number")),
        };
        let filter = match self.filter {
            None => Filter::default(),
            Some(text) => Filter::parse(&text, Scope::Resource(schema))?,
        };
        Ok(Query {
            filter,
            // Values below the minimum count as the minimum.
            start_index: number("startIndex", self.start_index, 1)?.max(1),
            count: number("count", self.count, PAGE)?.clamp(0, PAGE),
            projection: Projection::new(&self.attributes, &self.excluded_attributes, schema)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::USERS;

    #[test]
    fn an_address_is_read_however_it_was_written() {
        for address in [
            "filter=userName%20eq%20%22a+b@c.d%22&count=7&startIndex=3",
            "filter=userName+eq+%22a%2Bb%40c.d%22&count=7&startIndex=3&sortBy=userName",
        ] {
            let query = Query::from_query_string(address, &USERS).unwrap();
            let filter = query.filter.to_string();
            assert_eq!(filter, "userName eq \"a+b@c.d\"", "{address}");
            assert_eq!((query.start_index, query.count), (3, 7));
        }
    }

    #[test]
    fn whole_numbers_of_a_body_are_read_however_they_are_written() {
        let read = |number: Value| {
            let body = serde_json::json!({ "schemas": [SEARCH], "startIndex": number });
            Query::from_body(body.as_object().unwrap(), &USERS).map(|query| query.start_index).ok()
        };
        for (number, expected) in
            [("7", 7), ("7.0", 7), ("7e0", 7), ("-0.0", 1), ("1e300", i64::MAX), ("-1e300", 1)]
        {
            assert_eq!(read(serde_json::from_str(number).unwrap()), Some(expected), "{number}");
        }
        for number in ["7.5", "\"7\""] {
            assert_eq!(read(serde_json::from_str(number).unwrap()), None, "{number}");
        }
    }

    #[test]
    fn pages_have_bounds() {
        for (address, expected) in [
            ("", (1, PAGE)),
            ("startIndex=-5&count=-1", (1, 0)),
            ("startIndex=0&count=1000000", (1, PAGE)),
        ] {
            let query = Query::from_query_string(address, &USERS).unwrap();
            assert_eq!((query.start_index, query.count), expected, "{address}");
        }
        for address in [
            "count=1&count=1",
            "filter=x&filter=x",
            "count=x",
            "startIndex=1.5",
            "count=",
            "count=99999999999999999999",
        ] {
            assert!(Query::from_query_string(address, &USERS).is_err(), "{address}");
        }
    }
}
