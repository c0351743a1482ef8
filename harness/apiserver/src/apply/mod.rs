//! Server-side apply: who owns which fields of an object, and what follows for writes.
//!
//! An ordinary write takes ownership of the fields that it changes ([`track`]). An applied configuration states all
//! fields that its manager wants ([`apply`]): it conflicts with other managers of fields that it changes, and removes
//! the fields that it no longer mentions. All functions are pure. The rules are those of structured-merge-diff and of
//! `k8s.io/apimachinery/pkg/util/managedfields`.

mod compare;
mod configuration;
mod conflict;
mod conform;
mod kind;
mod last_applied;
mod managers;
mod merge;
mod owned;
mod path;
mod reconcile;
mod remove;
mod scale;
mod set;
#[cfg(test)]
mod tests;
mod tracking;

use std::borrow::Cow;

use serde_json::Value;

use self::kind::Kind;
use crate::resource;

pub(crate) use self::configuration::apply;
pub(crate) use self::conflict::{NotApplied, error as conflict_error};
pub(crate) use self::managers::{Managers, is_reset};
pub(crate) use self::scale::{ScaleWrite, apply_scale, stated_replicas, track_scale};
pub(crate) use self::set::FieldSet;
pub(crate) use self::tracking::{compare, record};

/// A write to an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    /// The manager, as the client calls itself.
    pub(crate) manager: &'a str,
    /// The `apiVersion` of the request.
    pub(crate) api_version: &'a str,
    /// The `apiVersion` of the objects before and after the write.
    pub(crate) form: &'a str,
    /// `status`, `scale`, or empty for the object itself.
    pub(crate) subresource: &'a str,
    /// The current time in Kubernetes format.
    pub(crate) now: &'a str,
    /// The versions of the resource.
    pub(crate) versions: &'a dyn Versions,
    /// The fields that the endpoint does not write.
    pub(crate) ignored: &'a FieldSet,
}

/// The versions of a resource.
pub(crate) trait Versions: std::fmt::Debug {
    /// The type of the objects in a version; `None` if it is not served any more.
    fn shape(&self, api_version: &str) -> Option<&resource::Shape>;

    /// Converts an object from one served version to another.
    fn convert<'v>(&self, object: &'v Value, from: &str, to: &str) -> Cow<'v, Value>;
}

/// The object of that type with the fields of a configuration, without managers.
///
/// # Errors
/// If the configuration does not have the type, or sets an atomic list or map, whose other members it cannot know.
pub(crate) fn merge_into(shape: &resource::Shape, object: &Value, configuration: &Value) -> Result<Value, String> {
    let kind = Kind::of(shape);
    if let Some(violation) = conform::violations(kind, configuration).into_iter().next() {
        return Err(violation);
    }
    let atomic = conform::atomic(kind, configuration);
    if !atomic.is_empty() {
        return Err(format!(
            "may not mutate atomic arrays, maps or structs: {}",
            atomic.join(", ")
        ));
    }
    Ok(merge::merge(kind, object, configuration))
}

/// Server-managed fields, which have no managers.
fn unmanaged() -> FieldSet {
    FieldSet::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
}

/// The object without its managers.
fn without_managers(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// The object with these managers.
pub(crate) fn set_managers(object: &mut Value, managers: &Managers) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    match managers.encode() {
        Some(encoded) => metadata.insert("managedFields".to_owned(), encoded),
        None => metadata.remove("managedFields"),
    };
}

/// The type of objects in the version of the request.
fn kind_of<'a>(write: &Write<'a>) -> Kind<'a> {
    write.versions.shape(write.api_version).map_or(Kind::Deduced, Kind::of)
}
