//! One entry of the registry's table: all that the generic code knows about a resource.
//!
//! Built-in kinds are rows made at start; a CustomResourceDefinition makes a row at run time.
//! There is no other per-kind code outside the functions that a row points to.

mod refusals;

use std::sync::Arc;

use serde_json::Value;

use crate::schema::StructuralSchema;
use crate::status::FieldError;

/// When `metadata.generation` moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has no generation.
    Never,
    /// 1 at creation; +1 whenever `spec` changes.
    Spec,
    /// 1 at creation; +1 whenever anything outside metadata (and outside status, where that is a
    /// subresource) changes: custom resources.
    Content,
}

/// A subresource and what it needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Subresource {
    /// `/status`: the main endpoint ignores status, this one everything else.
    Status,
    /// `/scale` (autoscaling/v1), with the JSON paths it maps to.
    Scale {
        /// As `.spec.replicas`.
        spec_replicas: String,
        /// As `.status.replicas`.
        status_replicas: String,
        /// As `.status.selector`; upstream's machine kinds have none.
        selector: Option<String>,
    },
    /// `pods/eviction`.
    Eviction,
    /// `pods/binding`.
    Binding,
    /// `namespaces/finalize`.
    Finalize,
    /// `serviceaccounts/token`.
    Token,
}

impl Subresource {
    /// The last segment of its path.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale { .. } => "scale",
            Self::Eviction => "eviction",
            Self::Binding => "binding",
            Self::Finalize => "finalize",
            Self::Token => "token",
        }
    }
}

/// A field that a field selector may name beside `metadata.name` and `metadata.namespace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    /// As clients write it: `spec.nodeName`.
    pub label: String,
    /// JSON pointer into the object: `/spec/nodeName`.
    pub pointer: String,
    /// The value of an object that lacks the field.
    pub missing: String,
}

/// A column of `kubectl get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading, as in `Ready`.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    /// OpenAPI format; `name` for the first column.
    pub format: String,
    /// For `kubectl explain`.
    pub description: String,
    /// 0: always shown; 1: with `-o wide`.
    pub priority: i32,
    /// JSONPath (as `.spec.replicas`) that gives the cell, where no printer does.
    pub json_path: String,
}

/// How rows of `kubectl get` are made.
#[derive(Clone, Debug)]
pub enum Printer {
    /// Name and Age.
    Default,
    /// Name, then the columns by their JSONPaths (CustomResourceDefinitions).
    Paths(Vec<Column>),
    /// Columns and a function from object and current time (Unix seconds) to cells.
    Cells(Vec<Column>, fn(&Value, i64) -> Vec<Value>),
}

/// What shape the objects have.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A built-in type by its OpenAPI name, as `io.k8s.api.core.v1.Pod`.
    BuiltIn(&'static str),
    /// A CustomResourceDefinition's schema.
    Custom(Arc<StructuralSchema>),
}

/// Checks an object; the old one is there on update. Field errors become one 422.
pub type Validate = fn(new: &Value, old: Option<&Value>) -> Vec<FieldError>;

/// Fills in defaults and what a write derives (stringData, qosClass); the old object is there on update.
pub type Prepare = fn(new: &mut Value, old: Option<&Value>);

/// One resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: String,
    /// As `v1`.
    pub version: String,
    /// As `Pod`.
    pub kind: String,
    /// As `PodList`.
    pub list_kind: String,
    /// As `pods`; the path segment.
    pub plural: String,
    /// As `pod`.
    pub singular: String,
    /// As `po`.
    pub short_names: Vec<String>,
    /// As `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Served subresources.
    pub subresources: Vec<Subresource>,
    /// When `metadata.generation` moves.
    pub generation: Generation,
    /// Whether an update without `resourceVersion` is accepted.
    pub unconditional_update: bool,
    /// Whether deletion waits for a grace period (pods).
    pub graceful_deletion: bool,
    /// Whether it is a question that is answered and not stored.
    pub review: bool,
    /// Whether DELETE answers the object instead of a Status.
    pub returns_deleted: bool,
    /// Fields for selectors.
    pub selectable: Vec<Selectable>,
    /// How tables are made.
    pub printer: Printer,
    /// The objects' shape.
    pub shape: Shape,
    /// Defaults, applied on create and update before validation.
    pub prepare: Option<Prepare>,
    /// Checks beyond the shape.
    pub validate: Option<Validate>,
}

impl Resource {
    /// `pods`, `machines.machine.sapcloud.io`: how messages name the resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether the kind comes from a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        matches!(self.shape, Shape::Custom(_))
    }

    /// Whether `/status` is a subresource.
    pub fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }

    /// Whether a new object may bring its status along: nodes, which their kubelets register.
    pub fn keeps_status_on_create(&self) -> bool {
        self.group.is_empty() && self.plural == "nodes"
    }

    /// The subresource of that path segment.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name() == name)
    }
}
