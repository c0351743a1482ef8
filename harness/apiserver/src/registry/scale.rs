//! The scale subresource: a view of an object's replicas.

use serde_json::{Value, json};

use super::apply::{check_type, parse};
use super::owners::Owners;
use super::patch::unreadable;
use super::review::let_perform;
use super::update::Change;
use super::{Entry, Part, PatchKind, Payload, Registry, WriteOptions, Written, attempt::Attempt, metadata};
use crate::apply::{self, Managers, NotApplied, ScaleWrite};
use crate::patch;
use crate::resource::{Resource, Shape, Subresource};
use crate::reviewer::{Operation, Subject};
use crate::selector::text_of;
use crate::status::{ApiError, FieldError};
use crate::store::{Key, Object};
use crate::types;

const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// How a write of a Scale is recorded.
#[derive(Clone, Copy)]
enum Recording {
    /// The writer owns a number of replicas that it changes.
    Writer,
    /// The writer owns the number of replicas that it states.
    Applied,
}

/// `managedFields` after a write of a Scale.
fn scale_managers(
    old: &Value,
    recording: Recording,
    write: ScaleWrite<'_>,
    force: bool,
) -> Result<Option<Value>, ApiError> {
    let managers = Managers::of(old);
    let managers = match recording {
        // An object without managers stays without.
        Recording::Writer if managers.is_empty() => managers,
        Recording::Writer => apply::track_scale(managers, write),
        Recording::Applied => apply::apply_scale(managers, write, force).map_err(|error| match error {
            NotApplied::Conflicts(conflicts) => apply::conflict_error(&conflicts),
            NotApplied::Mistyped(violations) => ApiError::new(500, "", violations.join("; ")),
        })?,
    };
    Ok(managers.encode())
}

struct Paths<'a> {
    spec_replicas: &'a str,
    status_replicas: &'a str,
    selector: Option<&'a str>,
}

impl Registry {
    /// The Scale of an object.
    ///
    /// # Errors
    /// 404.
    pub fn scale(&self, entry: &Entry, key: &Key) -> Result<Value, ApiError> {
        view(entry, &*self.get(entry, key)?)
    }

    /// Replaces a Scale (PUT).
    ///
    /// # Errors
    /// As [`Registry::update`].
    pub fn update_scale(
        &self,
        entry: &Entry,
        key: &Key,
        scale: &Value,
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        let mut scale = scale.clone();
        types::check(SCALE, &mut scale)?;
        self.write_scale(entry, key, options, Recording::Writer, |_| Ok(scale.clone()))
    }

    /// Applies a Scale.
    ///
    /// # Errors
    /// As [`Registry::apply`].
    pub fn apply_scale(
        &self,
        entry: &Entry,
        key: &Key,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        let (applied, _) = parse(body)?;
        check_type(&applied, "autoscaling/v1", "Scale")?;
        let states_replicas = apply::stated_replicas(&applied).is_some();
        let recording = if states_replicas {
            Recording::Applied
        } else {
            Recording::Writer
        };
        self.write_scale(entry, key, options, recording, |mut scale| {
            patch::merge(&mut scale, &applied);
            types::check(SCALE, &mut scale)?;
            Ok(scale)
        })
    }

    /// Patches a Scale.
    ///
    /// # Errors
    /// As [`Registry::patch`].
    pub fn patch_scale(
        &self,
        entry: &Entry,
        key: &Key,
        kind: PatchKind,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        self.write_scale(entry, key, options, Recording::Writer, |mut scale| {
            kind.apply(&mut scale, body, &Shape::BuiltIn(SCALE))?;
            let patched = scale.clone();
            types::check(SCALE, &mut scale).map_err(|error| unreadable("Scale", "v1", &patched, error))?;
            Ok(scale)
        })
    }

    fn write_scale(
        &self,
        entry: &Entry,
        key: &Key,
        options: &WriteOptions,
        recording: Recording,
        change: impl Fn(Value) -> Result<Value, ApiError>,
    ) -> Result<Written, ApiError> {
        let resource = &entry.resource;
        loop {
            let current = self.get(entry, key)?;
            let before = view(entry, &current)?;
            let mut scale = change(before.clone())?;
            let subject = Subject {
                operation: Operation::Update,
                namespace: &key.namespace,
                name: &key.name,
                new: None,
                old: Some(&before),
            };
            let warnings = let_perform(subject, &mut scale, options)?;
            let name = metadata::text(&scale, "name");
            if !name.is_empty() {
                metadata::check_name(&scale, &key.name)?;
            }
            let invalid = |value: Value, detail: &str| {
                let error = FieldError::invalid("spec.replicas", value, detail);
                ApiError::invalid("autoscaling", "Scale", &key.name, &[error])
            };
            let replicas = match scale.pointer("/spec/replicas") {
                None | Some(Value::Null) => 0,
                Some(value) => value
                    .as_i64()
                    .ok_or_else(|| invalid(value.clone(), "must be an integer"))?,
            };
            if replicas < 0 {
                return Err(invalid(replicas.into(), "must be greater than or equal to 0"));
            }
            let old = entry.decoded(&current)?;
            let mut new = old.clone();
            let revision = match metadata::text(&scale, "resourceVersion") {
                "" => current.revision.to_string(),
                revision => revision.to_owned(),
            };
            let metadata = metadata::of_mut(&mut new);
            metadata.insert("resourceVersion".to_owned(), revision.into());
            let uid = metadata::text(&scale, "uid");
            if !uid.is_empty() {
                metadata.insert("uid".to_owned(), uid.into());
            }
            let path = paths(resource)?.spec_replicas;
            set(&mut new, path, replicas.into());
            let write = ScaleWrite {
                manager: options.manager.as_deref().unwrap_or_default(),
                api_version: &resource.api_version(),
                path,
                changes: new.pointer(&pointer(path)) != old.pointer(&pointer(path)),
            };
            let managers = scale_managers(&old, recording, write, options.force)?;
            let change = Change {
                owners: Owners::Given(managers),
                ..Change::by_writer(entry, new, warnings)
            };
            // They decide about the Scale, not about the object.
            let options = &WriteOptions {
                reviewer: None,
                ..options.clone()
            };
            match self.attempt(entry, (&current, &old), Part::Main, change, options)? {
                Attempt::Raced => {}
                Attempt::Done(written) => {
                    let payload = match written.payload {
                        Payload::Object(object) => Payload::Value(view(entry, &object)?),
                        other => other,
                    };
                    return Ok(Written { payload, ..written });
                }
            }
        }
    }
}

fn paths(resource: &Resource) -> Result<Paths<'_>, ApiError> {
    let paths = resource.subresources.iter().find_map(|subresource| match subresource {
        Subresource::Scale {
            spec_replicas,
            status_replicas,
            selector,
        } => Some(Paths {
            spec_replicas,
            status_replicas,
            selector: selector.as_deref(),
        }),
        _ => None,
    });
    paths.ok_or_else(|| ApiError::not_found(resource, "scale"))
}

fn view(entry: &Entry, object: &Object) -> Result<Value, ApiError> {
    let value = entry.decoded(object)?;
    let paths = paths(&entry.resource)?;
    let number = |path| {
        value
            .pointer(&pointer(path))
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    let mut status = json!({ "replicas": number(paths.status_replicas) });
    if let Some(selector) = paths.selector.and_then(|path| value.pointer(&pointer(path))) {
        status["selector"] = text_of(selector).into();
    }
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(found) = value.pointer(&format!("/metadata/{field}")) {
            metadata[field] = found.clone();
        }
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": { "replicas": number(paths.spec_replicas) }, "status": status,
    }))
}

/// The JSON pointer of a path such as `.spec.replicas`.
fn pointer(path: &str) -> String {
    path.replace('.', "/")
}

fn set(value: &mut Value, path: &str, new: Value) {
    let mut place = value;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = new;
}
