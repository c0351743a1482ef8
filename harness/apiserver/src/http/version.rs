//! Objects in the version of the API that a client requests, at the revision that it is to see.

use bytes::Bytes;
use serde_json::Value;

use crate::registry::{Entry, tree};
use crate::status::ApiError;
use crate::store::{Draft, Object};

/// The text of an object in the version of the entry, at that revision.
///
/// # Errors
/// 500, which indicates a bug.
pub(super) fn encoded(entry: &Entry, object: &Object, version: &str, revision: u64) -> Result<Bytes, ApiError> {
    if entry.resource.conversion.is_none() {
        return Ok(object.encoded(version, revision));
    }
    let text = Draft::new(&versioned(entry, object, revision)?, Vec::new()).map_err(ApiError::internal)?;
    Ok(text.finish(revision).bytes().clone())
}

/// The object at that revision, in the version of the entry.
///
/// # Errors
/// 500, which indicates a bug.
pub(super) fn versioned(entry: &Entry, object: &Object, revision: u64) -> Result<Value, ApiError> {
    let mut value = stored(object, revision)?;
    entry.convert_from_stored(&mut value);
    Ok(value)
}

/// The object at that revision, in the version in which it is stored.
///
/// # Errors
/// 500, which indicates a bug.
pub(super) fn stored(object: &Object, revision: u64) -> Result<Value, ApiError> {
    let mut value = tree(object)?;
    value["metadata"]["resourceVersion"] = revision.to_string().into();
    Ok(value)
}
