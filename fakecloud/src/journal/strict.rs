//! JSON text that is read completely. Without checksums a changed letter of a field's name is found only here: serde
//! ignores unknown fields, and the last one of several equal keys wins.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The value in a text, if each of its keys is unique and known to `T`.
///
/// # Errors
/// The text is not valid, or part of it would be lost.
pub(super) fn read<T: DeserializeOwned + Serialize>(text: &[u8]) -> serde_json::Result<T> {
    let Unique(found) = serde_json::from_slice(text)?;
    let read: T = serde_json::from_slice(text)?;
    match unknown(&found, &serde_json::to_value(&read)?) {
        None => Ok(read),
        Some(path) => Err(serde_json::Error::custom(format!("the field {path} is not known"))),
    }
}

/// The path of the first key of `found` that `read` does not have.
fn unknown(found: &Value, read: &Value) -> Option<String> {
    let below = |key: &str, path: String| Some(format!("{key}.{path}"));
    match (found, read) {
        (Value::Object(found), Value::Object(read)) => found.iter().find_map(|(key, found)| match read.get(key) {
            // Fault rules may have old spellings. Their reader refuses unknown ones.
            Some(_) if key == "rule" => None,
            Some(read) => below(key, unknown(found, read)?),
            None => Some(key.clone()),
        }),
        (Value::Array(found), Value::Array(read)) => found
            .iter()
            .zip(read)
            .enumerate()
            .find_map(|(index, (found, read))| below(&index.to_string(), unknown(found, read)?)),
        _ => None,
    }
}

/// A value whose objects have no key twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(entry)) = entries.next_element()? {
            list.push(entry);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = serde_json::Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} exists twice")));
            }
            let Unique(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rstest::rstest;

    use super::*;

    #[derive(Debug, Deserialize, Serialize)]
    struct Row {
        id: String,
        removed: Option<u64>,
        rule: Option<Value>,
    }

    #[rstest]
    #[case::all(r#"{"a": [{"id": "x", "removed": 1, "rule": {"id": 1}}]}"#, None)]
    #[case::absent(r#"{"a": [{"id": "x"}]}"#, None)]
    #[case::unknown(
        r#"{"a": [{"id": "x"}, {"id": "y", "removee": 1}]}"#,
        Some("the field a.1.removee is not known")
    )]
    #[case::repeated(r#"{"a": [], "a": []}"#, Some("the key \"a\" exists twice"))]
    #[case::cut(r#"{"a": [{"id": "x""#, Some("EOF"))]
    fn text_that_would_be_lost_is_an_error(#[case] text: &str, #[case] expected: Option<&str>) {
        let error = read::<BTreeMap<String, Vec<Row>>>(text.as_bytes()).err();
        match (error, expected) {
            (None, None) => {}
            (Some(error), Some(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (error, _) => panic!("{error:?}"),
        }
    }
}
