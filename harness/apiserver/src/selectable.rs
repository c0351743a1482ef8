//! The fields of a resource that clients can select.

/// A selectable field in addition to `metadata.name` and `metadata.namespace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    /// The name in selectors, for instance `spec.nodeName`.
    pub label: String,
    /// JSON pointer into the object: `/spec/nodeName`.
    pub pointer: String,
    /// The value of objects without the field.
    pub missing: String,
    /// The label of the field in the storage version, if that is another one.
    pub stored_label: Option<String>,
}

impl Selectable {
    /// The label under which stored objects are indexed.
    pub fn stored_label(&self) -> &str {
        self.stored_label.as_deref().unwrap_or(&self.label)
    }
}
