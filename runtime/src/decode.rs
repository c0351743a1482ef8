//! Decodes the objects of a list or watch one by one: an object that does not fit its type does not end the watch of all
//! others.
//!
//! A schema may accept what a type cannot hold: an annotation that is not a string, a number beyond 32 bits, a value with
//! more levels than the parser follows. Such fields are left out, and the object carries the [`Problem`]s. The managed
//! fields of an object are never decoded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment};

use crate::lean::without_managed_fields;

/// The maximum number of fields that are left out of one object.
const MAX_PROBLEMS: usize = 16;
/// The maximum number of names in [`Problem::field`].
const MAX_NAMES: usize = 8;
/// The beginnings of serde's messages.
const KNOWN: [&str; 7] = [
    "invalid type: ",
    "invalid value: ",
    "invalid length ",
    "missing field ",
    "duplicate field ",
    "recursion limit exceeded",
    "number out of range",
];
/// The maximum length of [`Problem::message`] in characters.
const MAX_MESSAGE: usize = 200;

/// A field that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path of the field, for example `spec.replicas`; shortened if it is deep. Empty: the whole object.
    pub field: String,
    /// What is wrong with its value. Contains no text value of the object, which may be long or secret.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

/// The fields of one object that could not be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

/// An object that was decoded on its own.
#[derive(Clone, Debug)]
pub enum Decoded<K> {
    /// The object.
    Whole(K),
    /// The object without the fields that could not be decoded.
    Partial(K, Problems),
    /// Only the metadata: a required field could not be decoded.
    Metadata(Box<ObjectMeta>, Problems),
}

impl<K> From<K> for Decoded<K> {
    fn from(object: K) -> Self {
        Self::Whole(object)
    }
}

impl<K> Decoded<K> {
    /// The object, unless only its metadata could be decoded, and what could not be decoded.
    pub fn into_parts(self) -> (Option<K>, Problems) {
        match self {
            Self::Whole(object) => (Some(object), Problems::default()),
            Self::Partial(object, problems) => (Some(object), problems),
            Self::Metadata(_, problems) => (None, problems),
        }
    }
}

impl<K: Resource> Resource for Decoded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(type_: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(type_)
    }

    fn group(type_: &Self::DynamicType) -> Cow<'_, str> {
        K::group(type_)
    }

    fn version(type_: &Self::DynamicType) -> Cow<'_, str> {
        K::version(type_)
    }

    fn plural(type_: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(type_)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Whole(object) | Self::Partial(object, _) => object.meta(),
            Self::Metadata(metadata, _) => metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Whole(object) | Self::Partial(object, _) => object.meta_mut(),
            Self::Metadata(metadata, _) => metadata,
        }
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Decoded<K> {
    /// # Errors
    /// If the text is not JSON, or has no usable metadata. Works with `serde_json` only.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        decode(&without_managed_fields(text.get())).map_err(D::Error::custom)
    }
}

/// Decodes one object.
fn decode<K: DeserializeOwned>(text: &str) -> serde_json::Result<Decoded<K>> {
    if let Ok(object) = serde_json::from_str(text) {
        return Ok(Decoded::Whole(object));
    }
    let mut rest = Cow::Borrowed(text);
    let mut problems = Problems::default();
    while problems.0.len() < MAX_PROBLEMS {
        let error = match serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(&rest)) {
            Ok(object) => return Ok(Decoded::Partial(object, problems)),
            Err(error) => error,
        };
        let names = names(error.path());
        problems.0.push(Problem {
            field: field(&names),
            message: message(error.inner()),
        });
        match without(&rest, &names) {
            Some(shorter) => rest = Cow::Owned(shorter),
            None => break,
        }
    }
    #[derive(Deserialize)]
    struct Named {
        metadata: Box<ObjectMeta>,
    }
    let named: Named = serde_json::from_str(&rest)?;
    Ok(Decoded::Metadata(named.metadata, problems))
}

/// The names of the fields that lead to the error. A list is left out as a whole, so the path ends before an index.
fn names(path: &Path) -> Vec<&str> {
    let names = path.iter().map_while(|segment| match segment {
        Segment::Map { key } => Some(key.as_str()),
        Segment::Seq { .. } | Segment::Enum { .. } | Segment::Unknown => None,
    });
    names.collect()
}

fn field(names: &[&str]) -> String {
    let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(".");
    let more = if names.len() > MAX_NAMES { "…" } else { "" };
    format!("{shown}{more}")
}

/// The error without its position, which would refer to a text that was not published, and without text from the object.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    let kind = text.split_once(": string \"").map(|(kind, _)| kind);
    let expected = text.rsplit_once("\", expected ").map(|(_, expected)| expected);
    let text = match (kind, expected) {
        (Some(kind), Some(expected)) => format!("{kind}: a string, expected {expected}"),
        _ if KNOWN.iter().any(|known| text.starts_with(known)) => text.to_owned(),
        // The errors of durations and times quote the value.
        _ => "invalid value".to_owned(),
    };
    text.chars().take(MAX_MESSAGE).collect()
}

/// The object without the field that `names` lead to; `None`: there is no such field.
fn without(text: &str, names: &[&str]) -> Option<String> {
    let (first, others) = names.split_first()?;
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).ok()?;
    let field = fields.remove(*first)?;
    if !others.is_empty() {
        let shorter = without(field.get(), others)?;
        fields.insert((*first).to_owned(), RawValue::from_string(shorter).ok()?);
    }
    serde_json::to_string(&fields).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node};
    use kube::core::{ObjectList, WatchEvent};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn decoded(object: &Value) -> Decoded<Node> {
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[rstest]
    #[case::a_label(
        json!({ "metadata": { "name": "n", "labels": { "a": "1", "b": true } } }),
        &["metadata.labels.b: invalid type: boolean `true`, expected a string"]
    )]
    #[case::two_fields(
        json!({ "metadata": { "name": "n", "generation": "x" }, "spec": { "unschedulable": 1 } }),
        &["metadata.generation: invalid type: a string, expected i64", "spec.unschedulable: invalid type: integer `1`, expected a boolean"]
    )]
    #[case::an_element_of_a_list(
        json!({ "metadata": { "name": "n" }, "spec": { "podCIDRs": ["a", 1] } }),
        &["spec.podCIDRs: invalid type: integer `1`, expected a string"]
    )]
    fn a_field_that_does_not_fit_is_left_out(#[case] object: Value, #[case] expected: &[&str]) {
        let Decoded::Partial(node, problems) = decoded(&object) else {
            panic!("{object}");
        };
        assert_eq!(node.metadata.name.as_deref(), Some("n"));
        assert_eq!(problems.to_string(), expected.join("; "));
    }

    #[test]
    fn the_other_fields_are_kept() {
        let object =
            json!({ "metadata": { "name": "n", "labels": { "a": "1", "b": true } }, "spec": { "providerID": "p" } });
        let (node, _) = decoded(&object).into_parts();
        let expected = json!({ "metadata": { "name": "n", "labels": { "a": "1" } }, "spec": { "providerID": "p" } });
        assert_eq!(node, serde_json::from_value(expected).unwrap());
    }

    /// An object with a required field of any depth.
    #[derive(Clone, Debug, Deserialize)]
    struct Deep {
        spec: Spec,
    }

    #[derive(Clone, Debug, Deserialize)]
    struct Spec {
        #[serde(default)]
        free: Value,
        name: String,
    }

    #[test]
    fn a_value_of_any_depth_is_left_out_and_named() {
        for levels in [127, 128, 1_000, 100_000] {
            let free = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
            let text = format!(r#"{{"metadata":{{"name":"n"}},"spec":{{"free":{free},"name":"x"}}}}"#);
            let Ok(Decoded::Partial(Deep { spec }, problems)) = decode(&text) else {
                panic!("{levels} levels");
            };
            assert_eq!(spec.name, "x");
            assert!(spec.free.is_object());
            assert_eq!(problems.to_string(), "spec.free.a.a.a.a.a.a…: recursion limit exceeded");
        }
    }

    #[test]
    fn an_object_without_a_required_field_has_only_metadata() {
        let text = r#"{"metadata":{"name":"n","resourceVersion":"7"},"spec":{"name":1}}"#;
        let Ok(Decoded::Metadata(metadata, problems)) = decode::<Deep>(text) else {
            panic!("{text}");
        };
        assert_eq!(metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(
            problems.to_string(),
            "spec.name: invalid type: integer `1`, expected a string; spec: missing field `name`; missing field `spec`"
        );
    }

    #[test]
    fn a_message_contains_no_text_from_the_object() {
        for secret in ["s3cret", "a\", expected b", &"x".repeat(100_000)] {
            let object = json!({ "metadata": { "name": "n", "generation": secret } });
            let (_, problems) = decoded(&object).into_parts();
            assert_eq!(
                problems.to_string(),
                "metadata.generation: invalid type: a string, expected i64"
            );
            let object = json!({ "metadata": { "name": "n", "creationTimestamp": secret } });
            let (_, problems) = decoded(&object).into_parts();
            assert_eq!(problems.to_string(), "metadata.creationTimestamp: invalid value");
        }
    }

    #[test]
    fn an_object_of_a_list_or_of_an_event_does_not_affect_the_others() {
        let good = r#"{"metadata":{"name":"good"},"data":{"a":"1"}}"#;
        let bad = r#"{"metadata":{"name":"bad"},"data":{"a":1}}"#;
        let list = format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{bad},{good}]}}"#);
        let list: ObjectList<Decoded<ConfigMap>> = serde_json::from_str(&list).unwrap();
        let problems = |decoded: &Decoded<ConfigMap>| decoded.clone().into_parts().1.0.len();
        assert_eq!(list.items.iter().map(problems).collect::<Vec<_>>(), [1, 0]);
        let event = format!(r#"{{"type":"ADDED","object":{bad}}}"#);
        let event: WatchEvent<Decoded<ConfigMap>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Added(object) = event else {
            panic!("{event:?}");
        };
        assert_eq!((object.meta().name.as_deref(), problems(&object)), (Some("bad"), 1));
    }
}
