//! Finds duplicate fields of a JSON text; a parsed `Value` no longer contains them.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use super::path::Path;
use super::paths::Paths;
use quantity::Saturating as _;

/// The first hundred paths (`spec.containers[0].name`) of fields that occur more than once in one object, in text order. Invalid
/// JSON is searched up to the syntax error.
pub fn duplicate_fields(json: &[u8]) -> Vec<String> {
    let mut found = Paths::default();
    let walk = Walk {
        path: Path::Root,
        found: &mut found,
    };
    // The caller parses the same text and reports its errors.
    let _ = serde_json::Deserializer::from_slice(json).deserialize_any(walk);
    found.into_texts()
}

struct Walk<'a> {
    path: Path<'a>,
    found: &'a mut Paths,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items
            .next_element_seed(Walk {
                path: self.path.index(index),
                found: &mut *self.found,
            })?
            .is_some()
        {
            index.raise(1);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = members.next_key::<String>()? {
            let path = self.path.field(&name);
            if seen.contains(&name) {
                self.found.push(path);
            }
            members.next_value_seed(Walk {
                path,
                found: &mut *self.found,
            })?;
            seen.insert(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_named_by_path() {
        let json = br#"{"a":1,"spec":{"x":1,"x":2,"list":[{"y":1},{"y":null,"y":"z"}]},"a":{}}"#;
        assert_eq!(duplicate_fields(json), ["spec.x", "spec.list[1].y", "a"]);
    }

    #[test]
    fn invalid_json_is_left_to_the_parser() {
        assert_eq!(duplicate_fields(br#"{"a":1,"a":2,"#), ["a"]);
        assert_eq!(duplicate_fields(b"\xff"), Vec::<String>::new());
    }
}
