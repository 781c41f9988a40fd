//! Documents in which each key is there once: of two, readers would take one or the other.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Refuses a document of JSON in which an object has a key twice. A text that is not JSON is left to its reader.
///
/// # Errors
/// The key, with its line and column.
pub fn require_unique_keys(text: &str) -> Result<(), String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    match UniqueKeys.deserialize(&mut reader) {
        Err(error) if error.is_data() => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Walks a value of any shape, and keeps nothing of it.
struct UniqueKeys;

impl<'de> DeserializeSeed<'de> for UniqueKeys {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            fields.next_value_seed(Self)?;
            if let Some(key) = keys.replace(key) {
                return Err(A::Error::custom(format!("`{key}` is given twice: keep one")));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_key_that_is_given_twice_at_any_depth() {
        for (text, key) in [
            (r#"{"a": 1, "a": 1}"#, "a"),
            (r#"{"a": [0, {"b": null, "c": {}, "b": true}]}"#, "b"),
            (r#"{"a": {"b": 1.5}, "\u0061": "of another spelling"}"#, "a"),
        ] {
            let error = require_unique_keys(text).expect_err(text);
            assert!(error.starts_with(&format!("`{key}` is given twice")), "{error}");
            assert!(error.contains("line 1"), "{error}");
        }
    }

    #[test]
    fn takes_all_else_and_leaves_what_is_not_json_to_its_reader() {
        for text in [r#"{"a": {"b": -1}, "b": [{"a": 1}, {"a": 2}]}"#, "[]", "", "11aa", r#"{"a":"#]
        {
            assert_eq!(require_unique_keys(text), Ok(()), "{text}");
        }
    }
}
