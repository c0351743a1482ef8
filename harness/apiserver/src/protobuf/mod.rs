//! Protobuf, which Go clients send and prefer for built-in kinds: decodes the bodies of requests and encodes responses.

mod encode;
mod message;
pub mod response;
mod wire;
mod writer;

#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::wire::{Fields, Malformed};
use crate::json;
use crate::status::ApiError;
use crate::types::table::table;

/// The prefix of every body.
pub const MAGIC: &[u8] = b"k8s\0";

/// The envelope around an object.
#[derive(Debug, Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
    encoding: &'a str,
}

/// Decodes a body of media type `application/vnd.kubernetes.protobuf` to the object's JSON form, with `apiVersion`
/// and `kind`. Skips fields that are not in the table.
///
/// # Errors
/// 400 for a body without the envelope, of a kind that is not built in, or malformed.
pub fn decode(body: &[u8]) -> Result<Value, ApiError> {
    let Some(unknown) = body.strip_prefix(MAGIC) else {
        return Err(ApiError::bad_request(format!(
            "provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}"
        )));
    };
    let malformed = |error: Malformed| ApiError::bad_request(format!("the protobuf body cannot be decoded: {error}"));
    let envelope = Envelope::read(unknown).map_err(malformed)?;
    let Envelope {
        api_version,
        kind,
        raw,
        encoding,
    } = envelope;
    if !encoding.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the content encoding {encoding:?} of the body is not known"
        )));
    }
    let Some(type_) = table().of_kind(api_version, kind) else {
        return Err(ApiError::bad_request(format!(
            "no kind {kind:?} is registered for version {api_version:?}; send kinds that are not built in as JSON"
        )));
    };
    let mut object = message::object(type_, raw).map_err(|error| {
        let version = api_version.rsplit('/').next().unwrap_or(api_version);
        ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
        ))
    })?;
    if !json::fits(&object, json::MAX_DEPTH) {
        return Err(malformed(Malformed::Depth));
    }
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    Ok(object)
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut envelope = Self::default();
        for next in Fields::new(bytes) {
            match next? {
                (1, wire) => {
                    for next in Fields::new(wire.bytes("typeMeta")?) {
                        match next? {
                            (1, wire) => envelope.api_version = wire.text("apiVersion")?,
                            (2, wire) => envelope.kind = wire.text("kind")?,
                            _ => {}
                        }
                    }
                }
                (2, wire) => envelope.raw = wire.bytes("raw")?,
                (3, wire) => envelope.encoding = wire.text("contentEncoding")?,
                _ => {}
            }
        }
        Ok(envelope)
    }
}
