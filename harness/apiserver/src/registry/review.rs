//! Where policies and webhooks decide about writes.

use serde_json::{Map, Value};

use super::{Entry, FieldValidation, Registry, WriteOptions, metadata};
use crate::patch;
use crate::reviewer::{Operation, Reviewer, Subject};
use crate::status::ApiError;

impl Registry {
    /// Lets policies and webhooks change an admitted object before it is prepared for storage. They see it with its
    /// defaults; only what they change goes into `new`. Returns their warnings.
    pub(super) fn let_mutate(
        &self,
        entry: &Entry,
        (namespace, name): (&str, &str),
        (new, old): (&mut Value, Option<&Value>),
        options: &WriteOptions,
    ) -> Result<Vec<String>, ApiError> {
        let mut warnings = Vec::new();
        let Some(reviewer) = &options.reviewer else {
            return Ok(warnings);
        };
        let mut shown = new.clone();
        self.complete(entry, &mut shown, old)?;
        let subject = Subject {
            operation: operation(old),
            namespace,
            name,
            new: Some(&shown),
            old,
        };
        let Some(changed) = reviewer.mutate(subject, &mut warnings)? else {
            return Ok(warnings);
        };
        if let Some(changes) = difference(&shown, &changed) {
            patch::merge(new, &changes);
            let options = WriteOptions {
                field_validation: FieldValidation::Ignore,
                duplicates: Vec::new(),
                ..options.clone()
            };
            self.admit(entry, new, &options)
                .map_err(|error| ApiError::internal(error.message))?;
        }
        Ok(warnings)
    }
}

/// Lets policies and webhooks check the final object. Returns their warnings.
pub(super) fn let_validate(
    (namespace, new): (&str, &Value),
    old: Option<&Value>,
    options: &WriteOptions,
) -> Result<Vec<String>, ApiError> {
    let subject = Subject {
        operation: operation(old),
        namespace,
        name: metadata::text(new, "name"),
        new: Some(new),
        old,
    };
    validate(options.reviewer.as_deref(), subject)
}

/// Lets policies and webhooks decide about the deletion of an object. Returns their warnings.
pub(super) fn let_delete(
    (namespace, name): (&str, &str),
    old: &Value,
    reviewer: Option<&dyn Reviewer>,
) -> Result<Vec<String>, ApiError> {
    let subject = Subject {
        operation: Operation::Delete,
        namespace,
        name,
        new: None,
        old: Some(old),
    };
    let mut warnings = Vec::new();
    if let Some(reviewer) = reviewer {
        reviewer.mutate(subject, &mut warnings)?;
    }
    warnings.extend(validate(reviewer, subject)?);
    Ok(warnings)
}

/// Lets policies and webhooks decide about an object of a subresource that is not stored, such as an Eviction.
pub(crate) fn let_perform(
    subject: Subject<'_>,
    value: &mut Value,
    options: &WriteOptions,
) -> Result<Vec<String>, ApiError> {
    let mut warnings = Vec::new();
    let Some(reviewer) = &options.reviewer else {
        return Ok(warnings);
    };
    let shown = value.clone();
    let before = Subject {
        new: Some(&shown),
        ..subject
    };
    if let Some(changed) = reviewer.mutate(before, &mut warnings)? {
        *value = changed;
    }
    let after = Subject {
        new: Some(value),
        ..subject
    };
    reviewer.validate(after, &mut warnings)?;
    Ok(warnings)
}

fn validate(reviewer: Option<&dyn Reviewer>, subject: Subject<'_>) -> Result<Vec<String>, ApiError> {
    let mut warnings = Vec::new();
    if let Some(reviewer) = reviewer {
        reviewer.validate(subject, &mut warnings)?;
    }
    Ok(warnings)
}

fn operation(old: Option<&Value>) -> Operation {
    match old {
        Some(_) => Operation::Update,
        None => Operation::Create,
    }
}

/// The merge patch from one value to another; `None` if they are equal.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return Some(after.clone());
    };
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    let mut patch: Map<String, Value> = removed.map(|name| (name.clone(), Value::Null)).collect();
    for (name, value) in new {
        let change = match old.get(name) {
            Some(before) => difference(before, value),
            None => Some(value.clone()),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    Some(patch.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        leaf.prop_recursive(3, 20, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(|members| json!(members)),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_difference_leads_from_one_value_to_the_other(before in tree(), after in tree()) {
            let mut value = before.clone();
            if let Some(changes) = difference(&before, &after) {
                patch::merge(&mut value, &changes);
            }
            prop_assert_eq!(value, after);
        }
    }
}
