//! Metadata access: names, owners, labels, and amounts that may be percentages.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::{Metadata, Resource};
use runtime::ownership::is_controlled_by;

/// The owner of pods, sets or revisions, for events and references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its group and version.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl Owner {
    /// Describes `object` as an owner.
    pub fn of<K: Resource + Metadata<Ty = ObjectMeta>>(object: &K) -> Self {
        let meta = object.metadata();
        Self {
            api_version: K::API_VERSION,
            kind: K::KIND,
            namespace: namespace(meta).to_owned(),
            name: name(meta).to_owned(),
            uid: uid(meta).to_owned(),
            deleting: is_deleting(meta),
        }
    }

    /// The controller reference to this owner.
    pub fn controller_reference(&self) -> OwnerReference {
        OwnerReference {
            controller: Some(true),
            block_owner_deletion: Some(true),
            ..self.reference()
        }
    }

    /// A plain owner reference to this owner.
    pub fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: None,
            block_owner_deletion: None,
        }
    }

    /// Whether it controls the object with `meta`.
    pub fn controls(&self, meta: &ObjectMeta) -> bool {
        is_controlled_by(meta, &self.uid)
    }
}

/// The name, or empty.
pub fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// The namespace, or empty.
pub fn namespace(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}

/// The uid, or empty.
pub fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

/// The creation time; the earliest time if unknown.
pub fn created(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp
        .as_ref()
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// Whether it has a deletion timestamp.
pub fn is_deleting(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// The value of a label.
pub fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

/// The value of an annotation.
pub fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The number in an annotation.
pub fn number(meta: &ObjectMeta, key: &str) -> Option<i64> {
    annotation(meta, key)?.parse().ok()
}

/// Sets an annotation; returns whether it changed.
pub fn annotate(meta: &mut ObjectMeta, key: &str, value: String) -> bool {
    let annotations = meta.annotations.get_or_insert_default();
    if annotations.get(key) == Some(&value) {
        return false;
    }
    annotations.insert(key.to_owned(), value);
    true
}

/// How fractions of a pod are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up.
    Up,
    /// Down.
    Down,
}

/// An absolute number, or a percentage of `total`. Invalid values count as zero.
pub fn amount(value: &IntOrString, total: i32, rounding: Rounding) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let Some(percent) = text.strip_suffix('%').and_then(|text| text.parse::<i64>().ok()) else {
                return 0;
            };
            let hundredths = percent.saturating_mul(i64::from(total));
            let whole = match rounding {
                Rounding::Up => hundredths
                    .div_euclid(100)
                    .saturating_add(i64::from(hundredths.rem_euclid(100) != 0)),
                Rounding::Down => hundredths.div_euclid(100),
            };
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}

/// `seconds` after `moment`.
pub fn later(moment: Timestamp, seconds: i64) -> Timestamp {
    moment
        .saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

/// A count as upstream writes it: omitted when zero.
pub fn counted(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

/// A number of items as an API count.
pub fn count(items: usize) -> i32 {
    i32::try_from(items).unwrap_or(i32::MAX)
}

/// A count as a number of items; negative counts become zero.
pub fn size(count: i32) -> usize {
    usize::try_from(count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(IntOrString::Int(3), 10, Rounding::Up, 3)]
    #[case(IntOrString::String("25%".to_owned()), 10, Rounding::Up, 3)]
    #[case(IntOrString::String("25%".to_owned()), 10, Rounding::Down, 2)]
    #[case(IntOrString::String("100%".to_owned()), 7, Rounding::Down, 7)]
    #[case(IntOrString::String("0%".to_owned()), 7, Rounding::Up, 0)]
    #[case(IntOrString::String("many".to_owned()), 7, Rounding::Up, 0)]
    fn percentages_are_of_the_total(
        #[case] value: IntOrString,
        #[case] total: i32,
        #[case] rounding: Rounding,
        #[case] expected: i32,
    ) {
        assert_eq!(amount(&value, total, rounding), expected);
    }
}
