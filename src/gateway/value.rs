//! Reads JSON as a tree of bounded memory, for endpoints that check fields individually.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use kit::json::MARK;

/// Maximum number of values in a body: in a tree each takes up to forty times its size as text.
const MAX_VALUES: usize = 20_000;

/// Reads an object. An error of the category `Data` concerns valid JSON.
pub fn object(text: &str) -> serde_json::Result<Map<String, Value>> {
    let left = Cell::new(MAX_VALUES);
    let mut json = serde_json::Deserializer::from_str(text);
    let object = json.deserialize_map(Members { left: &left })?;
    json.end()?;
    Ok(object)
}

/// Any value.
#[derive(Clone, Copy)]
struct Any<'a> {
    /// How many more values are allowed.
    left: &'a Cell<usize>,
}

/// Accepts only an object.
struct Members<'a> {
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Any<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left =
            self.left.get().checked_sub(1).ok_or_else(|| {
                D::Error::custom(format_args!("has more than {MAX_VALUES} values"))
            })?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Value, E> {
        Ok(boolean.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            array.push(element);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Value, A::Error> {
        Members { left: self.left }.visit_map(members).map(Value::Object)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if name == MARK {
                return Err(A::Error::custom(format_args!("has a field named {MARK}")));
            }
            object.insert(name, members.next_value_seed(Any { left: self.left })?);
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::error::Category;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_read_as_it_is() {
        let text = r#"{"a":[1,-2,3.5,true,null,"\u00e9"],"b":{"c":{}},"a2":18446744073709551615}"#;
        assert_eq!(
            Value::Object(object(text).unwrap()),
            serde_json::from_str::<Value>(text).unwrap()
        );
        assert_eq!(object(r#"{"a":1,"a":2}"#).unwrap()["a"], json!(2));
    }

    #[test]
    fn no_more_is_held_than_may_be() {
        let many = |count: usize| format!("{{\"a\":[{}]}}", vec!["[]"; count].join(","));
        assert!(object(&many(MAX_VALUES - 1)).is_ok());
        let error = object(&many(MAX_VALUES)).unwrap_err();
        assert_eq!(error.classify(), Category::Data);
        assert!(error.to_string().starts_with("has more than 20000 values"), "{error}");
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(object(&deep).unwrap_err().to_string().contains("recursion limit"));
    }

    #[test]
    fn nothing_is_hidden_in_embedded_text() {
        for text in [
            r#"{"$serde_json::private::RawValue":"{}"}"#,
            r#"{"a":[{"$serde_json::private::RawValue":"!"}]}"#,
            r#"{"a":{"b":1,"\u0024serde_json::private::RawValue":"1"}}"#,
        ] {
            assert_eq!(object(text).unwrap_err().classify(), Category::Data, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_agrees_with_serde_json(text in r#"[{}\[\]",:a0-9.e\\ -]{0,40}"#) {
            let expected = serde_json::from_str::<Map<String, Value>>(&text).ok();
            prop_assert_eq!(object(&text).ok(), expected);
        }
    }
}
