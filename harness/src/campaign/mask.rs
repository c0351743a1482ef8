//! Masks values that differ between two undisturbed runs with different seeds, so that they do not count as differences
//! of a disturbed run.
//!
//! The mask is learned from two runs and may contain only four sorts of values: times, uids, revisions and random
//! suffixes of names. Any other difference between two undisturbed runs is a defect of the scenario or of the world and
//! is reported as an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use mcm_api::GoDuration;
use serde_json::Value;

/// The sort of a value that differs between runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// A time or duration.
    Time,
    /// A random id.
    Uid,
    /// A counter of writes.
    Revision,
    /// A name with a random suffix, alone or in a text.
    NameSuffix,
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "time",
            Self::Uid => "uid",
            Self::Revision => "revision",
            Self::NameSuffix => "name suffix",
        })
    }
}

/// Suffix of the pointers of fields that count every write to the cluster: of an object itself, and of objects that it
/// references.
const REVISION: &str = "/resourceVersion";

/// Fields by JSON pointer (an index is `*`), and the sorts of values in which they differ between runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask(BTreeMap<String, BTreeSet<Sort>>);

/// An unexpected difference between two undisturbed runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{object} differs between two undisturbed runs in {}: {one} and {other}, which is neither a time, a uid, a \
     revision nor the end of a name",
    shown(pointer)
)]
pub struct UnexplainedDifference {
    /// The object, by kind and name.
    pub object: String,
    /// The JSON pointer of the field; empty: the object is not JSON.
    pub pointer: String,
    /// The value in one run, shortened.
    pub one: String,
    /// The value in the other run, shortened.
    pub other: String,
}

/// The final state of a run: objects by kind and name, as JSON or plain text.
pub type End = BTreeMap<String, String>;

impl Mask {
    /// Learns the mask from two undisturbed runs.
    ///
    /// # Errors
    /// The first unexpected difference.
    pub fn learn(one: &End, other: &End) -> Result<Self, UnexplainedDifference> {
        let mut mask = Self::default();
        compare(one, other, |object, pointer, one, other| {
            let sorts = sorts(pointer, one, other).ok_or_else(|| UnexplainedDifference {
                object: object.to_owned(),
                pointer: pointer.to_owned(),
                one: brief(one),
                other: brief(other),
            })?;
            mask.0.entry(pointer.to_owned()).or_default().extend(sorts);
            Ok(())
        })?;
        // Two undisturbed runs may have the same number of writes, and a controller that acts as soon as it starts acts in
        // both at the same time. Therefore revisions and times are masked even if they are equal.
        for (pointer, value) in one.values().flat_map(|object| leaves(object)) {
            let time = value.as_str().is_some_and(|text| text.parse::<Timestamp>().is_ok());
            let sort = match (pointer.ends_with(REVISION), time) {
                (true, _) => Sort::Revision,
                (false, true) => Sort::Time,
                (false, false) => continue,
            };
            mask.0.entry(generalised(&pointer)).or_default().insert(sort);
        }
        Ok(mask)
    }

    /// The first difference between the final states of an undisturbed and a disturbed run.
    pub fn difference(&self, undisturbed: &End, disturbed: &End) -> Option<String> {
        let compared = compare(undisturbed, disturbed, |object, pointer, was, is| {
            let allowed = self.0.get(pointer);
            let sorts = sorts(pointer, was, is);
            if allowed
                .zip(sorts)
                .is_some_and(|(allowed, sorts)| sorts.is_subset(allowed))
            {
                return Ok(());
            }
            if pointer.is_empty() && was.is_boolean() {
                let (here, there) = if is == &Value::Bool(true) {
                    ("exists", "does not")
                } else {
                    ("does not exist", "does")
                };
                return Err(format!("{object} {here}, and {there} in the undisturbed run"));
            }
            Err(format!(
                "{object} has {}{}; undisturbed: {}",
                brief(is),
                if pointer.is_empty() {
                    String::new()
                } else {
                    format!(" in {pointer}")
                },
                brief(was)
            ))
        });
        compared.err()
    }

    /// One line for each field.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(pointer, sorts)| {
            let sorts: Vec<String> = sorts.iter().map(ToString::to_string).collect();
            format!("{}: {}", shown(pointer), sorts.join(", "))
        })
    }
}

fn shown(pointer: &str) -> &str {
    if pointer.is_empty() { "its text" } else { pointer }
}

/// Calls `differs` with every leaf that differs, until it fails: object, pointer and both values.
fn compare<E>(
    one: &End,
    other: &End,
    mut differs: impl FnMut(&str, &str, &Value, &Value) -> Result<(), E>,
) -> Result<(), E> {
    let nothing = Value::Null;
    let objects: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for object in objects {
        let (Some(one), Some(other)) = (one.get(object), other.get(object)) else {
            differs(object, "", &presence(one.get(object)), &presence(other.get(object)))?;
            continue;
        };
        let (one, other) = (leaves(one), leaves(other));
        let pointers: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        for pointer in pointers {
            let (a, b) = (
                one.get(pointer).unwrap_or(&nothing),
                other.get(pointer).unwrap_or(&nothing),
            );
            if a != b {
                differs(object, &generalised(pointer), a, b)?;
            }
        }
    }
    Ok(())
}

fn presence(object: Option<&String>) -> Value {
    object.is_some().into()
}

/// The values of a JSON text by pointer; a text that is not JSON is one value at the empty pointer. Without
/// `managedFields`, which say how an object came to be rather than what it is.
fn leaves(text: &str) -> BTreeMap<String, Value> {
    let mut value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let mut leaves = BTreeMap::new();
    collect(String::new(), &value, &mut leaves);
    leaves
}

fn collect(pointer: String, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(format!("{pointer}/{name}"), value, leaves);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                collect(format!("{pointer}/{index}"), value, leaves);
            }
        }
        value => {
            leaves.insert(pointer, value.clone());
        }
    }
}

/// Replaces array indexes by `*`.
fn generalised(pointer: &str) -> String {
    let parts = pointer.split('/').map(|part| match part.parse::<usize>() {
        Ok(_) => "*",
        Err(_) => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// The sorts in which two values of a field differ; `None`: the difference cannot be masked.
fn sorts(pointer: &str, one: &Value, other: &Value) -> Option<BTreeSet<Sort>> {
    let field = pointer.rsplit('/').next().unwrap_or_default();
    let counts = ["resourceVersion", "generation", "observedGeneration"].contains(&field);
    let number = |value: &Value| value.is_u64() || value.as_str().is_some_and(|text| text.parse::<u64>().is_ok());
    if counts && number(one) && number(other) {
        return Some([Sort::Revision].into());
    }
    let (Value::String(one), Value::String(other)) = (one, other) else {
        return None;
    };
    // Words end at a space or at the `~` in `name~time`. Punctuation at the end of a word is a separate word.
    let words = |text: &'_ str| -> Vec<String> {
        let words = text.split_inclusive([' ', '~']).flat_map(|word| {
            let bare = word.trim_end_matches([' ', '~']);
            let bare = bare.strip_suffix(['.', ',', ';']).unwrap_or(bare);
            [bare, &word[bare.len()..]]
        });
        words.map(str::to_owned).collect()
    };
    let (one, other) = (words(one), words(other));
    if one.len() != other.len() {
        return None;
    }
    one.iter()
        .zip(&other)
        .filter(|(one, other)| one != other)
        .map(|(one, other)| sort_of_words(one, other))
        .collect()
}

fn sort_of_words(one: &str, other: &str) -> Option<Sort> {
    let time = |word: &str| word.parse::<Timestamp>().is_ok() || word.parse::<GoDuration>().is_ok();
    // A uid, or the last group of a uid as a shorter id.
    let uid = |word: &str| {
        let letters = word.bytes().filter(|byte| *byte != b'-');
        let length = letters.clone().count();
        (length == 32 || length == 12) && letters.clone().all(|byte| byte.is_ascii_hexdigit())
    };
    if time(one) && time(other) {
        Some(Sort::Time)
    } else if uid(one) && uid(other) {
        Some(Sort::Uid)
    } else {
        same_except_random_parts(one, other).then_some(Sort::NameSuffix)
    }
}

/// Whether two names are equal except for parts of random letters and digits: `i-7f3a` and `i-b2c4`.
fn same_except_random_parts(one: &str, other: &str) -> bool {
    let parts = |word: &str| -> Vec<String> {
        word.split(['-', '/', ':', '.', '_', ',', ';', '"', '\''])
            .map(str::to_owned)
            .collect()
    };
    let is_random = |part: &str| {
        part.len() >= 4
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let (one, other) = (parts(one), parts(other));
    let same_first_part = one.first() == other.first();
    let mut pairs = one.iter().zip(&other).filter(|(one, other)| one != other);
    one.len() == other.len() && same_first_part && pairs.all(|(one, other)| is_random(one) && is_random(other))
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 160 {
        format!("{}...", text.chars().take(160).collect::<String>())
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn end(object: &Value) -> End {
        End::from([("Node m-1".to_owned(), object.to_string())])
    }

    #[test]
    fn revisions_are_masked_even_if_they_are_equal_in_undisturbed_runs() {
        let run = |revision: &str, generation: u64| {
            end(&json!({
                "metadata": { "resourceVersion": revision, "generation": generation },
                "spec": { "claimRef": { "resourceVersion": revision } },
            }))
        };
        let undisturbed = run("17", 1);
        let mask = Mask::learn(&undisturbed, &undisturbed).unwrap();
        assert_eq!(mask.difference(&undisturbed, &run("18", 1)), None);
        assert!(mask.difference(&undisturbed, &run("18", 2)).is_some());
    }

    #[test]
    fn times_are_masked_even_if_they_are_equal_in_undisturbed_runs() {
        let run =
            |second: u64, count: u64| end(&json!({ "since": format!("2030-01-01T00:00:0{second}Z"), "count": count }));
        let mask = Mask::learn(&run(1, 1), &run(1, 1)).unwrap();
        assert_eq!(mask.difference(&run(1, 1), &run(2, 1)), None);
        assert!(mask.difference(&run(1, 1), &run(1, 2)).is_some());
    }

    #[test]
    fn times_uids_revisions_and_name_suffixes_are_learned() {
        let run = |uid: &str, revision: u64, second: u64, vm: &str| {
            end(&json!({
                "metadata": { "name": "m-1", "uid": uid, "resourceVersion": revision.to_string() },
                "spec": { "providerID": format!("fakecloud:///z1/{vm}") },
                "status": { "conditions": [{ "type": "Ready", "since": format!("2030-01-01T00:00:0{second}Z") }] },
            }))
        };
        let one = run("4f0c2a54-75a5-4f4e-9d4c-2a5475a54f4e", 17, 1, "i-abcd1234");
        let other = run("8e1d3b65-86b6-4a5f-8e5d-3b6586b65a5f", 19, 4, "i-ef567890");
        let mask = Mask::learn(&one, &other).unwrap();
        let lines: Vec<String> = mask.lines().collect();
        assert_eq!(
            lines,
            [
                "/metadata/resourceVersion: revision",
                "/metadata/uid: uid",
                "/spec/providerID: name suffix",
                "/status/conditions/*/since: time",
            ]
        );
        let third = run("0a1b2c3d-86b6-4a5f-8e5d-3b6586b65a5f", 23, 9, "i-0a0a0a0a");
        assert_eq!(mask.difference(&one, &third), None);
    }

    #[rstest]
    #[case::a_number(json!({ "replicas": 1 }), json!({ "replicas": 2 }))]
    #[case::a_word(json!({ "phase": "Running" }), json!({ "phase": "Failed" }))]
    #[case::a_field(json!({ "a": 1 }), json!({ "a": 1, "b": "x" }))]
    #[case::a_taint(json!({ "taints": [] }), json!({ "taints": [{ "key": "a" }] }))]
    #[case::a_name_with_a_suffix_and_one_without(json!({ "by": "ms-a~2030-01-01T00:00:01Z" }), json!({ "by": "ms~2030-01-01T00:00:04Z" }))]
    #[case::a_count(json!({ "text": "3 VMs were created" }), json!({ "text": "4 VMs were created" }))]
    fn any_other_difference_is_an_error_and_never_masked(#[case] one: Value, #[case] other: Value) {
        let error = Mask::learn(&end(&one), &end(&other)).unwrap_err().to_string();
        assert!(
            error.starts_with("Node m-1 differs between two undisturbed runs"),
            "{error}"
        );
        assert!(Mask::default().difference(&end(&one), &end(&other)).is_some());
        assert_eq!(Mask::default().difference(&end(&one), &end(&one)), None);
    }

    #[test]
    fn an_additional_object_is_a_difference() {
        let difference = Mask::default().difference(&End::new(), &end(&json!({ "a": 1 })));
        assert_eq!(
            difference.unwrap(),
            "Node m-1 exists, and does not in the undisturbed run"
        );
    }

    #[test]
    fn a_duration_is_a_time() {
        let object = |text: &str| end(&json!({ "text": text }));
        let mask = Mask::learn(&object("it joined in 15m9s"), &object("it joined in 3m"));
        assert_eq!(mask.unwrap().lines().collect::<Vec<_>>(), ["/text: time"]);
    }

    #[test]
    fn a_time_may_end_a_sentence() {
        let object = |text: &str| end(&json!({ "text": text }));
        let until = |second: u32| object(&format!("Preserved until 2030-01-01T00:00:0{second}Z."));
        let mask = Mask::learn(&until(1), &until(4)).unwrap();
        assert_eq!(mask.lines().collect::<Vec<_>>(), ["/text: time"]);
        let without_full_stop = object("Preserved until 2030-01-01T00:00:05Z");
        assert!(mask.difference(&until(1), &without_full_stop).is_some());
    }
}
