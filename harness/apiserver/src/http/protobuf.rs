//! Renders objects, lists and watch events in protobuf. The encoded objects are shared by all clients.

use bytes::Bytes;
use serde_json::{Value, json};

use super::negotiate::Form;
use super::version::versioned;
use crate::protobuf::response;
use crate::registry::{Entry, Page};
use crate::resource::Shape;
use crate::status::ApiError;
use crate::store::Object;

/// An object at that revision, in its envelope.
///
/// # Errors
/// 500, which indicates a bug.
pub(super) fn object(entry: &Entry, object: &Object, revision: u64, form: Form) -> Result<Bytes, ApiError> {
    let raw = raw(entry, object, revision, form)?;
    Ok(match form {
        Form::Metadata => response::partial_object(&raw),
        _ => response::enveloped(&entry.resource.api_version(), &entry.resource.kind, &raw),
    }
    .into())
}

/// A list in its envelope.
///
/// # Errors
/// 500, which indicates a bug.
pub(super) fn list(entry: &Entry, page: &Page, metadata: &Value, form: Form) -> Result<Bytes, ApiError> {
    let objects = page.objects.iter();
    let items: Vec<Bytes> = objects
        .map(|object| raw(entry, object, object.revision, form))
        .collect::<Result<_, _>>()?;
    let raw = response::list(metadata, items.iter().map(AsRef::as_ref));
    Ok(match form {
        Form::Metadata => response::partial_list(&raw),
        _ => response::enveloped(&entry.resource.api_version(), &entry.resource.list_kind, &raw),
    }
    .into())
}

/// The object of a bookmark, which has only metadata, in its envelope.
pub(super) fn bookmark(entry: &Entry, metadata: &Value, form: Form) -> Bytes {
    match (form, &entry.resource.shape) {
        (Form::Plain, Shape::BuiltIn(name)) => {
            let raw = response::raw(name, &json!({ "metadata": metadata })).unwrap_or_default();
            response::enveloped(&entry.resource.api_version(), &entry.resource.kind, &raw)
        }
        _ => response::partial_object(&response::partial(metadata)),
    }
    .into()
}

/// An object without an envelope. Whole objects at their own revision are encoded once.
fn raw(entry: &Entry, object: &Object, revision: u64, form: Form) -> Result<Bytes, ApiError> {
    let name = match (form, &entry.resource.shape) {
        (Form::Plain, Shape::BuiltIn(name)) => *name,
        _ => {
            let metadata: Value = serde_json::from_slice(&object.metadata(revision)).map_err(ApiError::internal)?;
            return Ok(response::partial(&metadata).into());
        }
    };
    let encode = |value: &Value| {
        response::raw(name, value)
            .map(Bytes::from)
            .ok_or_else(|| ApiError::internal(format!("{name} is not in the table of types")))
    };
    if entry.resource.conversion.is_some() || revision != object.revision {
        return encode(&versioned(entry, object, revision)?);
    }
    object.in_other_encoding(|| encode(&versioned(entry, object, revision)?))
}
