//! Patches: read, change, update; repeat after a concurrent write.

use serde_json::Value;

use super::update::Change;
use super::{Entry, Part, Registry, WriteOptions, Written, attempt::Attempt, create, metadata};
use crate::json;
use crate::patch;
use crate::resource::{Resource, Shape};
use crate::status::{ApiError, FieldError};
use crate::store::Key;

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7396.
    Merge,
    /// Kubernetes' own format, which merges lists by key; built-in resources only.
    Strategic,
}

impl PatchKind {
    /// The format of a media type.
    ///
    /// # Errors
    /// 415; for custom resources with the media types that they accept.
    pub fn of(media_type: &str, resource: &Resource) -> Result<Self, ApiError> {
        match media_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !resource.is_custom() => Ok(Self::Strategic),
            _ if resource.is_custom() => Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(ApiError {
                details: Some(serde_json::json!({})),
                ..ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
            }),
        }
    }

    /// Applies a patch to an object.
    ///
    /// # Errors
    /// 400 for an invalid patch, 422 for one that cannot be applied.
    pub fn apply(self, value: &mut Value, body: &[u8], shape: &Shape) -> Result<(), ApiError> {
        let parse = || {
            let patch =
                json::parse(body).map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
            if patch.is_object() {
                Ok(patch)
            } else {
                Err(ApiError::bad_request(
                    "error decoding patch: the patch is not a JSON object",
                ))
            }
        };
        match (self, shape) {
            (Self::Json, _) => patch::json(value, body),
            (Self::Strategic, Shape::BuiltIn(name)) => patch::strategic(value, &parse()?, name),
            (Self::Merge | Self::Strategic, _) => {
                patch::merge(value, &parse()?);
                Ok(())
            }
        }
    }
}

impl Registry {
    /// Patches an object. A patch without a `resourceVersion` never conflicts: it is applied again to the newer
    /// object.
    ///
    /// # Errors
    /// 400, 404, 409 and 422 as in upstream.
    pub fn patch(
        &self,
        entry: &Entry,
        key: &Key,
        part: Part,
        kind: PatchKind,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        let resource = &entry.resource;
        let storage = entry.storage();
        loop {
            let current = self.get(&storage, key)?;
            let old = storage.decoded(&current)?;
            let mut new = old.clone();
            entry.convert_from_stored(&mut new);
            kind.apply(&mut new, body, &resource.shape)?;
            metadata::check_name(&new, &key.name)?;
            create::check_namespace(resource, &key.namespace, &new)?;
            let revision = new.pointer("/metadata/resourceVersion");
            if revision.is_none_or(|revision| revision.is_null() || revision.as_str() == Some("")) {
                let revision = current.revision.to_string();
                metadata::of_mut(&mut new).insert("resourceVersion".to_owned(), revision.into());
            }
            let warnings = self
                .admit(entry, &mut new, options)
                .map_err(|error| unreadable(&resource.kind, &resource.version, &new, error))?;
            entry.convert_to_stored(&mut new);
            let change = Change::by_writer(entry, new, warnings);
            match self.attempt(&storage, (&current, &old), part, change, options)? {
                Attempt::Done(written) => return Ok(written),
                Attempt::Raced => {}
            }
        }
    }
}

/// The error for a patch whose result is not an object of the kind: it blames the patch.
pub(super) fn unreadable(kind: &str, version: &str, patched: &Value, error: ApiError) -> ApiError {
    if error.code != 400 {
        return error;
    }
    let prefix = format!("{kind} in version {version:?} cannot be handled as a {kind}: ");
    let why = error.message.strip_prefix(&prefix).unwrap_or(&error.message);
    let cause = FieldError::invalid("patch", patched.to_string(), why);
    ApiError::invalid("", "", "", &[cause])
}
