//! Parses YAML with limits on depth and on the size to which aliases expand.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{DuplicateKeyPolicy, Error, Options};

use super::MAX_DEPTH;

/// The maximum size of all scalars and keys of a document after the expansion of aliases, in bytes. Each value counts
/// at least [`VALUE`]. A body has at most 3 MiB; upstream's limit is a ratio of expanded to written values.
const MAX_EXPANDED: usize = 16 * 1024 * 1024;
const VALUE: usize = 8;

/// Parses a YAML document of at most [`MAX_DEPTH`] levels.
///
/// # Errors
/// A syntax error, or a limit that the document exceeds.
pub fn parse_yaml(text: &[u8]) -> Result<Value, Error> {
    serde_saphyr::from_slice_with_options::<Bounded>(text, options()).map(|bounded| bounded.0)
}

/// A text is not YAML, or not that of an object, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub enum NoConfiguration {
    /// The text is not YAML.
    #[error("error converting YAML to JSON: yaml: {0}")]
    Syntax(String),
    /// The text is another value.
    #[error(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {0} into Go value of type \
         map[string]interface {{}}"
    )]
    NotAnObject(&'static str),
}

/// Parses a configuration for server-side apply: an object, of which a repeated key has its last value. Also returns
/// the first repetition, as `line 7: key "k" already set in map`.
///
/// # Errors
/// For any other text. An empty text is an empty object.
pub fn parse_configuration(text: &[u8]) -> Result<(Value, Option<String>), NoConfiguration> {
    let (value, repeated) = match parse_yaml(text) {
        Ok(value) => (value, None),
        Err(error) => {
            let with_last = serde_saphyr::options! {
                budget: serde_saphyr::budget! {
                    max_depth: MAX_DEPTH,
                    flow_nesting_limit: MAX_DEPTH,
                    max_total_scalar_bytes: MAX_EXPANDED,
                },
                duplicate_keys: DuplicateKeyPolicy::LastWins,
            };
            let value = serde_saphyr::from_slice_with_options::<Bounded>(text, with_last);
            let value = value.map_err(|_| NoConfiguration::Syntax(first_line(&error)))?;
            (value.0, Some(repetition(&error)))
        }
    };
    match value {
        Value::Null => Ok((Value::Object(Map::new()), repeated)),
        Value::Object(_) => Ok((value, repeated)),
        Value::Bool(_) => Err(NoConfiguration::NotAnObject("bool")),
        Value::Number(_) => Err(NoConfiguration::NotAnObject("number")),
        Value::String(_) => Err(NoConfiguration::NotAnObject("string")),
        Value::Array(_) => Err(NoConfiguration::NotAnObject("array")),
    }
}

/// The first line of an error, without its position in the first line of the text.
fn first_line(error: &Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let what = line.rsplit_once(": ").map_or(line, |(_, what)| what);
    match error.location().map(|location| location.line()) {
        Some(number) if number > 1 => format!("line {number}: {what}"),
        _ => what.to_owned(),
    }
}

fn repetition(error: &Error) -> String {
    let text = error.to_string();
    let key = text.split_once("duplicate mapping key: ").map_or("", |(_, rest)| rest);
    let key = key.split([',', '\n']).next().unwrap_or_default();
    let line = error.location().map_or(0, |location| location.line());
    format!("line {line}: key {key:?} already set in map")
}

/// Parses all documents of a text.
///
/// # Errors
/// As [`parse_yaml`].
pub fn parse_yaml_documents(text: &str) -> Result<Vec<Value>, Error> {
    let documents: Vec<Bounded> = serde_saphyr::from_multiple_with_options(text, options())?;
    Ok(documents.into_iter().map(|bounded| bounded.0).collect())
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_total_scalar_bytes: MAX_EXPANDED,
        },
    }
}

/// A value within the limits.
struct Bounded(Value);

impl<'de> Deserialize<'de> for Bounded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut left = MAX_EXPANDED;
        let walk = Walk {
            levels: MAX_DEPTH,
            left: &mut left,
        };
        walk.deserialize(deserializer).map(Self)
    }
}

struct Walk<'a> {
    /// How many levels may follow.
    levels: usize,
    /// How many bytes may follow.
    left: &'a mut usize,
}

impl Walk<'_> {
    fn spend<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        let cost = bytes.saturating_add(VALUE);
        *self.left = self
            .left
            .checked_sub(cost)
            .ok_or_else(|| E::custom("document contains excessive aliasing"))?;
        Ok(())
    }

    fn deeper<E: serde::de::Error>(&mut self) -> Result<Walk<'_>, E> {
        let levels = self
            .levels
            .checked_sub(1)
            .ok_or_else(|| E::custom(format_args!("exceeded max depth of {MAX_DEPTH}")))?;
        Ok(Walk {
            levels,
            left: self.left,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can express")
    }

    fn visit_bool<E: serde::de::Error>(mut self, value: bool) -> Result<Value, E> {
        self.spend(0)?;
        Ok(value.into())
    }

    fn visit_i64<E: serde::de::Error>(mut self, value: i64) -> Result<Value, E> {
        self.spend(0)?;
        Ok(value.into())
    }

    fn visit_u64<E: serde::de::Error>(mut self, value: u64) -> Result<Value, E> {
        self.spend(0)?;
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(mut self, value: f64) -> Result<Value, E> {
        self.spend(0)?;
        Ok(value.into())
    }

    fn visit_str<E: serde::de::Error>(mut self, value: &str) -> Result<Value, E> {
        self.spend(value.len())?;
        Ok(value.into())
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<Value, E> {
        self.spend(0)?;
        Ok(Value::Null)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.spend(0)?;
        let mut deeper = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(deeper.again())? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        self.spend(0)?;
        let mut deeper = self.deeper()?;
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            deeper.spend(name.len())?;
            map.insert(name, members.next_value_seed(deeper.again())?);
        }
        Ok(map.into())
    }
}

impl Walk<'_> {
    fn again(&mut self) -> Walk<'_> {
        Walk {
            levels: self.levels,
            left: self.left,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn error(text: &str) -> String {
        parse_yaml(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn yaml_becomes_json() {
        let text = "a: &a {b: [1, -2, 2.5, x, ~, true]}\n1: *a\n'c': |\n  text\n";
        let inner = json!({ "b": [1, -2, 2.5, "x", null, true] });
        assert_eq!(
            parse_yaml(text.as_bytes()).unwrap(),
            json!({ "a": inner, "1": inner, "c": "text\n" })
        );
        assert_eq!(
            parse_yaml_documents("a: 1\n---\n- 2\n").unwrap(),
            [json!({ "a": 1 }), json!([2])]
        );
    }

    fn block(levels: usize) -> String {
        let lines = (0..levels).map(|level| format!("{}a:\n", " ".repeat(level)));
        lines.collect()
    }

    #[rstest]
    #[case::flow_maps(format!("{}1{}", "{a: ".repeat(MAX_DEPTH), "}".repeat(MAX_DEPTH)), format!("{}1{}", "{a: ".repeat(MAX_DEPTH + 1), "}".repeat(MAX_DEPTH + 1)))]
    #[case::flow_lists(format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH)), "[".repeat(1_000_000))]
    #[case::blocks(block(MAX_DEPTH), block(MAX_DEPTH + 1))]
    #[case::compact_lists(format!("{}1", "- ".repeat(MAX_DEPTH)), format!("{}1", "- ".repeat(1_000_000)))]
    #[case::complex_keys("a: 1".to_owned(), format!("{}1", "? ".repeat(1_000_000)))]
    fn the_depth_is_limited(#[case] fits: String, #[case] too_deep: String) {
        parse_yaml(fits.as_bytes()).unwrap();
        error(&too_deep);
    }

    #[rstest]
    #[case::of_lists("[*a,*a,*a,*a,*a,*a,*a,*a,*a]")]
    #[case::of_maps("{a: *a, b: *a, c: *a, d: *a, e: *a, f: *a, g: *a, h: *a, i: *a}")]
    fn the_expansion_of_aliases_is_limited(#[case] level: &str) {
        let mut text = "l0: &l0 [x, x, x, x]\n".to_owned();
        for step in 1..12 {
            let level = level.replace("*a", &format!("*l{}", step - 1));
            text.push_str(&format!("l{step}: &l{step} {level}\n"));
        }
        error(&text);
    }

    #[test]
    fn the_expansion_of_long_texts_is_limited() {
        let anchors: String = (0..200).map(|count| format!("a{count}: &a{count} x\n")).collect();
        let aliases = "*long, ".repeat(1500);
        error(&format!(
            "{anchors}long: &long {}\nlist: [{aliases}]\n",
            "y".repeat(100_000)
        ));
    }

    #[rstest]
    #[case(".nan")]
    #[case("[.inf]")]
    #[case("{a: 1, a: 2}")]
    #[case("{[a]: 1}")]
    #[case("*a")]
    #[case("&a [*a]")]
    fn what_json_cannot_express_is_an_error(#[case] text: &str) {
        error(text);
    }
}
