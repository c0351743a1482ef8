//! Encodes responses: objects and lists in their envelope, and the frames of watches.

use serde_json::Value;

use super::{MAGIC, encode, writer::Writer};
use crate::types::table::{Type, table};

/// The media type of objects.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of watches.
pub const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const META_VERSION: &str = "meta.k8s.io/v1";

/// Encodes an object of a built-in type, without an envelope. `None` if the type is unknown.
pub fn raw(type_name: &str, value: &Value) -> Option<Vec<u8>> {
    table().find(type_name).map(|type_| encode::object(type_, value))
}

/// Encodes any object of a built-in kind in its envelope. `None` for other kinds.
pub fn object(value: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let type_: &Type = table().of_kind(text("apiVersion"), text("kind"))?;
    Some(enveloped(
        text("apiVersion"),
        text("kind"),
        &encode::object(type_, value),
    ))
}

/// The envelope around an encoded object.
pub fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut out = Writer::with_capacity(raw.len().saturating_add(64));
    out.message(1, |out| {
        out.text(1, api_version);
        out.text(2, kind);
    });
    out.bytes(2, raw);
    // The encoding and the type of the content, which are those of the envelope.
    out.text(3, "");
    out.text(4, "");
    let mut body = MAGIC.to_vec();
    body.extend_from_slice(&out.finish());
    body
}

/// A list of encoded objects, without an envelope.
pub fn list<'a>(metadata: &Value, items: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    let length = items
        .clone()
        .map(|item| item.len().saturating_add(8))
        .fold(64, usize::saturating_add);
    let mut out = Writer::with_capacity(length);
    out.bytes(1, &raw(LIST_META, metadata).unwrap_or_default());
    for item in items {
        out.bytes(2, item);
    }
    out.finish()
}

/// A `PartialObjectMetadata` with that metadata, without an envelope.
pub fn partial(metadata: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(1, &raw(OBJECT_META, metadata).unwrap_or_default());
    out.finish()
}

/// A `PartialObjectMetadata` in its envelope.
pub fn partial_object(raw: &[u8]) -> Vec<u8> {
    enveloped(META_VERSION, "PartialObjectMetadata", raw)
}

/// A `PartialObjectMetadataList` in its envelope.
pub fn partial_list(raw: &[u8]) -> Vec<u8> {
    enveloped(META_VERSION, "PartialObjectMetadataList", raw)
}

/// One frame of a watch: its length in four bytes, and the event with the object in its envelope.
pub fn frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Writer::with_capacity(object.len().saturating_add(32));
    out.text(1, event);
    out.message(2, |out| out.bytes(1, object));
    let event = out.finish();
    let mut frame = Vec::with_capacity(event.len().saturating_add(4));
    frame.extend_from_slice(&u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(&event);
    frame
}
