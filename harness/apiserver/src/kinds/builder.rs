//! Builds resource definitions from the common properties of built-in kinds.

use crate::resource::{
    Conversion, Endpoint, Generation, Prepare, Printer, Resource, Selectable, Shape, Subresource, Validate,
};

/// A resource definition under construction.
pub(super) struct ResourceBuilder(Resource);

impl ResourceBuilder {
    /// A namespaced kind without status, generation, defaults or checks.
    pub(super) fn new(api_version: &str, kind: &str, plural: &str, type_: &'static str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self(Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            subresources: Vec::new(),
            generation: Generation::Never,
            unconditional_update: true,
            graceful_deletion: false,
            endpoint: Endpoint::Stored,
            returns_deleted: false,
            selectable: Vec::new(),
            printer: Printer::Default,
            shape: Shape::BuiltIn(type_),
            prepare: None,
            validate: None,
            conversion: None,
            deprecation: None,
            versions: None,
        })
    }

    /// Marks the kind as cluster-scoped.
    pub(super) fn cluster(mut self) -> Self {
        self.0.namespaced = false;
        self
    }

    /// Marks the kind as a review: the server answers it without storing it.
    pub(super) fn review(mut self) -> Self {
        self.0.endpoint = Endpoint::Review;
        self
    }

    /// Marks the kind as computed for each request.
    pub(super) fn computed(mut self) -> Self {
        self.0.endpoint = Endpoint::Computed;
        self
    }

    pub(super) fn short(mut self, names: &[&str]) -> Self {
        self.0.short_names = names.iter().map(ToString::to_string).collect();
        self
    }

    pub(super) fn categories(mut self, names: &[&str]) -> Self {
        self.0.categories = names.iter().map(ToString::to_string).collect();
        self
    }

    pub(super) fn subresource(mut self, subresource: Subresource) -> Self {
        self.0.subresources.push(subresource);
        self
    }

    pub(super) fn status(self) -> Self {
        self.subresource(Subresource::Status)
    }

    /// Adds the scale subresource of the kinds in `apps`.
    pub(super) fn scale(self) -> Self {
        self.subresource(Subresource::Scale {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            selector: Some(".spec.selector".to_owned()),
        })
    }

    pub(super) fn generation(mut self, generation: Generation) -> Self {
        self.0.generation = generation;
        self
    }

    /// Requires a `resourceVersion` in updates.
    pub(super) fn requires_version(mut self) -> Self {
        self.0.unconditional_update = false;
        self
    }

    pub(super) fn graceful(mut self) -> Self {
        self.0.graceful_deletion = true;
        self
    }

    pub(super) fn returns_deleted(mut self) -> Self {
        self.0.returns_deleted = true;
        self
    }

    /// Adds a field for selectors, by label and JSON pointer.
    pub(super) fn selectable(mut self, label: &str, pointer: &str, missing: &str) -> Self {
        self.0.selectable.push(Selectable {
            label: label.to_owned(),
            pointer: pointer.to_owned(),
            missing: missing.to_owned(),
            stored_label: None,
        });
        self
    }

    /// Adds a field for selectors that has another label in the storage version.
    pub(super) fn selectable_as(mut self, label: &str, stored_label: &str, pointer: &str) -> Self {
        self.0.selectable.push(Selectable {
            label: label.to_owned(),
            pointer: pointer.to_owned(),
            missing: String::new(),
            stored_label: Some(stored_label.to_owned()),
        });
        self
    }

    /// Stores the objects in the form of another version.
    pub(super) fn stored_as(mut self, conversion: Conversion) -> Self {
        self.0.conversion = Some(conversion);
        self
    }

    pub(super) fn printer(mut self, printer: Printer) -> Self {
        self.0.printer = printer;
        self
    }

    pub(super) fn prepare(mut self, prepare: Prepare) -> Self {
        self.0.prepare = Some(prepare);
        self
    }

    pub(super) fn validate(mut self, validate: Validate) -> Self {
        self.0.validate = Some(validate);
        self
    }

    pub(super) fn build(self) -> Resource {
        self.0
    }
}
