//! Field selectors: parsing, selectable fields of a resource, and matching.

use serde_json::Value;

use crate::field_selector;
use crate::resource::{Resource, Selectable};
use crate::status::ApiError;
use crate::store::Object;

/// All terms must hold; without terms everything matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    equal: bool,
    value: String,
    /// The value of objects without the field.
    missing: String,
}

impl FieldSelector {
    /// Parses `a=b,c!=d` with the selectable fields of the resource.
    ///
    /// # Errors
    /// 400 for invalid text and for fields that are not selectable.
    pub fn parse(text: &str, resource: &Resource) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for field_selector::Term { field, equal, value } in field_selector::parse(text)? {
            let (stored_label, missing) = selectable(resource, &field)?;
            terms.push(Term {
                field: stored_label,
                equal,
                value,
                missing,
            });
        }
        Ok(Self(terms))
    }

    /// Whether there are no terms.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name, if the selector requires exactly one.
    pub fn name(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|term| term.equal && term.field == "metadata.name")
            .map(|term| term.value.as_str())
    }

    /// Whether the object matches.
    pub fn matches(&self, object: &Object) -> bool {
        self.0.iter().all(|term| {
            let value = match term.field.as_str() {
                "metadata.name" => object.key.name.as_str(),
                "metadata.namespace" => object.key.namespace.as_str(),
                field => {
                    let entry = object.meta.fields.iter().find(|(label, _)| label == field);
                    entry.map_or(term.missing.as_str(), |(_, value)| value.as_str())
                }
            };
            (value == term.value) == term.equal
        })
    }
}

/// The label and value of each of these fields of an object.
pub fn extract(fields: &[Selectable], value: &Value) -> Vec<(String, String)> {
    let texts = fields.iter().map(|field| {
        let text = match value.pointer(&field.pointer) {
            None | Some(Value::Null) => field.missing.clone(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        (field.stored_label().to_owned(), text)
    });
    texts.collect()
}

/// The label of a field in stored objects, and its value in objects without the field.
fn selectable(resource: &Resource, field: &str) -> Result<(String, String), ApiError> {
    if field == "metadata.name" || (field == "metadata.namespace" && resource.namespaced) {
        return Ok((field.to_owned(), String::new()));
    }
    match resource.selectable.iter().find(|selectable| selectable.label == field) {
        Some(selectable) => Ok((selectable.stored_label().to_owned(), selectable.missing.clone())),
        None if resource.selectable.is_empty() && !resource.is_custom() => Err(ApiError::bad_request(format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ))),
        None => Err(ApiError::bad_request(format!("field label not supported: {field}"))),
    }
}
