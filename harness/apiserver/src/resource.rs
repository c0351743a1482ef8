//! The definition of a resource: all that the generic code knows about it.
//!
//! Built-in definitions are created at start; a CustomResourceDefinition adds definitions at run time. All code for
//! single kinds is in the functions that a definition contains.

mod refusals;

use std::sync::Arc;

use serde_json::Value;

pub use crate::selectable::Selectable;

use crate::conversion::Versions;
use crate::schema::StructuralSchema;
use crate::status::FieldError;

/// When `metadata.generation` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has no generation.
    Never,
    /// 1 at creation; +1 whenever `spec` changes.
    Spec,
    /// 1 at creation; +1 whenever a field outside metadata changes (and outside status, if that is a subresource):
    /// custom resources.
    Content,
}

/// A subresource and its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Subresource {
    /// `/status`: the main endpoint ignores changes of status, this endpoint all others.
    Status,
    /// `/scale` (autoscaling/v1), with its JSON paths.
    Scale {
        /// For instance `.spec.replicas`.
        spec_replicas: String,
        /// For instance `.status.replicas`.
        status_replicas: String,
        /// For instance `.status.selector`; upstream's machine kinds have none.
        selector: Option<String>,
    },
    /// `pods/eviction`.
    Eviction,
    /// `pods/binding`.
    Binding,
    /// `namespaces/finalize`.
    Finalize,
    /// `certificatesigningrequests/approval`: the conditions of its status.
    Approval,
    /// `pods/ephemeralcontainers`.
    EphemeralContainers,
    /// `pods/resize`: the resources of the containers.
    Resize,
    /// `serviceaccounts/token`.
    Token,
    /// `pods/log`.
    Log,
    /// A connection into a pod, node or service: `pods/exec`, `pods/attach`, `pods/portforward`, and the `proxy`
    /// subresources.
    Connect {
        /// The last segment of its path.
        name: &'static str,
        /// The kind of its options, such as `PodExecOptions`.
        kind: &'static str,
    },
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
            Self::Approval => "approval",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Token => "token",
            Self::Log => "log",
            Self::Connect { name, .. } => name,
        }
    }
}

/// How the server answers requests for a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// It stores the objects.
    #[default]
    Stored,
    /// It answers a created object without storing it: reviews.
    Review,
    /// It computes the objects for each request: usage of nodes and pods.
    Computed,
}

/// The conversion of a version whose objects are stored in the form of another version, possibly of another group.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// The group of the storage version.
    pub group: &'static str,
    /// The storage version; its resource has the same plural.
    pub version: &'static str,
    /// Converts an object of this version to the form of the storage version.
    pub to_stored: fn(&mut Value),
    /// Converts a stored object to this version.
    pub from_stored: fn(&mut Value),
}

/// A column of `kubectl get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading, for instance `Ready`.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    /// The OpenAPI format; `name` for the first column.
    pub format: String,
    /// The description for `kubectl explain`.
    pub description: String,
    /// 0: always shown; 1: with `-o wide`.
    pub priority: i32,
    /// The JSONPath of the cell (for instance `.spec.replicas`), if there is no printer function.
    pub json_path: String,
}

/// How the rows of `kubectl get` are rendered.
#[derive(Clone, Debug)]
pub enum Printer {
    /// The columns Name and Age.
    Default,
    /// Name, then columns with JSONPaths (CustomResourceDefinitions).
    Paths(Vec<Column>),
    /// Columns and a function from object and current time (Unix seconds) to cells.
    Cells(Vec<Column>, fn(&Value, i64) -> Vec<Value>),
}

/// The type of the objects.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A built-in type by its OpenAPI name, for instance `io.k8s.api.core.v1.Pod`.
    BuiltIn(&'static str),
    /// The schema of a CustomResourceDefinition.
    Custom(Arc<StructuralSchema>),
}

/// Validates an object; `old` is set on update. The field errors become one 422.
pub type Validate = fn(new: &Value, old: Option<&Value>) -> Vec<FieldError>;

/// Sets defaults and derived fields (stringData, qosClass); `old` is set on update.
pub type Prepare = fn(new: &mut Value, old: Option<&Value>);

/// The definition of a resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: String,
    /// For instance `v1`.
    pub version: String,
    /// For instance `Pod`.
    pub kind: String,
    /// For instance `PodList`.
    pub list_kind: String,
    /// For instance `pods`; the path segment.
    pub plural: String,
    /// For instance `pod`.
    pub singular: String,
    /// For instance `po`.
    pub short_names: Vec<String>,
    /// For instance `all`.
    pub categories: Vec<String>,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
    /// Served subresources.
    pub subresources: Vec<Subresource>,
    /// When `metadata.generation` changes.
    pub generation: Generation,
    /// Whether an update without `resourceVersion` is accepted.
    pub unconditional_update: bool,
    /// Whether deletion waits for a grace period (pods).
    pub graceful_deletion: bool,
    /// How the server answers requests for the kind.
    pub endpoint: Endpoint,
    /// Whether DELETE returns the object instead of a Status.
    pub returns_deleted: bool,
    /// The selectable fields. Their pointers refer to the stored form.
    pub selectable: Vec<Selectable>,
    /// How tables are rendered.
    pub printer: Printer,
    /// The type of the objects.
    pub shape: Shape,
    /// Sets defaults on create and update, before validation.
    pub prepare: Option<Prepare>,
    /// Validates beyond the type. A version with a conversion validates the stored form, instead of the storage
    /// version.
    pub validate: Option<Validate>,
    /// How objects are stored, unless in the form of this version.
    pub conversion: Option<Conversion>,
    /// The warning about a deprecated version of a custom resource.
    pub deprecation: Option<String>,
    /// The versions of a custom resource, between which its objects are converted.
    pub versions: Option<Arc<Versions>>,
}

impl Resource {
    /// The resource name in messages: `pods`, `machines.machine.sapcloud.io`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// For instance `v1` or `apps/v1`.
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

    /// Whether the server stores the objects.
    pub fn is_stored(&self) -> bool {
        self.endpoint == Endpoint::Stored
    }

    /// Whether `/status` is a subresource.
    pub fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }

    /// Whether a new object can contain a status: nodes, because kubelets register them with a status.
    pub fn keeps_status_on_create(&self) -> bool {
        self.group.is_empty() && self.plural == "nodes"
    }

    /// The subresource with that path segment.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name() == name)
    }
}
