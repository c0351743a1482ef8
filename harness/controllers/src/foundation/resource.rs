//! The common parts of all objects: type, key, metadata.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::fmt;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// The API collection of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceType {
    /// The API group; empty for core.
    pub group: Cow<'static, str>,
    /// The version for reads and writes.
    pub version: Cow<'static, str>,
    /// The plural name in paths, for example `pods`.
    pub plural: Cow<'static, str>,
    /// The kind, for example `Pod`.
    pub kind: Cow<'static, str>,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
}

impl ResourceType {
    /// The type of a built-in kind.
    pub fn of<K>() -> Self
    where
        K: kube::Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        Self {
            group: K::group(&()),
            version: K::version(&()),
            plural: K::plural(&()),
            kind: K::kind(&()),
            namespaced: TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>(),
        }
    }

    /// The `apiVersion`, for example `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of the collection; across all namespaces when `namespace` is empty.
    pub fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let version = self.api_version();
        let plural = &self.plural;
        if namespace.is_empty() || !self.namespaced {
            format!("{root}/{version}/{plural}")
        } else {
            format!("{root}/{version}/namespaces/{namespace}/{plural}")
        }
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            write!(formatter, "{}", self.plural)
        } else {
            write!(formatter, "{}.{}", self.plural, self.group)
        }
    }
}

/// Namespace and name of an object. The namespace is empty for cluster-scoped kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace, or empty.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self::new("", name)
    }

    /// The key of an object.
    pub fn of(object: &dyn Object) -> Self {
        let metadata = object.metadata();
        Self::new(
            metadata.namespace.clone().unwrap_or_default(),
            metadata.name.clone().unwrap_or_default(),
        )
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            formatter.write_str(&self.name)
        } else {
            write!(formatter, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Any object with metadata: a typed object or [`Metadata`] alone.
pub trait Object: Any + Send + Sync {
    /// The object's metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Mutable metadata, so that a cache can drop unused fields.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
    /// For [`super::Change::of`].
    fn as_any(&self) -> &dyn Any;

    /// The uid; empty for an object that is not stored.
    fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// The resource version as a number (Kubernetes KEP-5504); 0 if it is not a decimal number.
    fn revision(&self) -> u64 {
        revision(self.metadata())
    }

    /// Whether the object has a deletion timestamp.
    fn is_deleting(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }
}

fn revision(metadata: &ObjectMeta) -> u64 {
    metadata
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

impl<K> Object for K
where
    K: kube::Resource<DynamicType = ()> + Any + Send + Sync,
{
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.meta_mut()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An object of which only metadata is cached. Labels and annotations are dropped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Metadata {
    /// Name, uid, resource version, owner references, finalizers, deletion timestamp.
    pub metadata: ObjectMeta,
}

impl Object for Metadata {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.metadata.labels = None;
        self.metadata.annotations = None;
        &mut self.metadata
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
