//! Renders objects, lists and watch events in the negotiated form.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::negotiate::{Encoding, Form};
use super::protobuf as protobuf_form;
use super::version::{encoded, stored, versioned};
use crate::protobuf::response;
use crate::registry::{Entry, Event, Page};
use crate::status::ApiError;
use crate::store::Object;
use crate::table::{self, Include};

/// The form of the responses to one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Presentation {
    pub(super) form: Form,
    pub(super) encoding: Encoding,
    pub(super) pretty: bool,
    pub(super) include: Include,
}

impl Presentation {
    pub(super) fn object(&self, entry: &Entry, object: &Object, now: Timestamp) -> Result<Bytes, ApiError> {
        if self.encoding == Encoding::Protobuf {
            return protobuf_form::object(entry, object, object.revision, self.form);
        }
        let version = entry.resource.api_version();
        match self.form {
            Form::Plain | Form::Aggregated(_) if !self.pretty => {
                Ok(line(&encoded(entry, object, &version, object.revision)?))
            }
            Form::Plain | Form::Aggregated(_) => Ok(self.value(&versioned(entry, object, object.revision)?)),
            Form::Metadata if !self.pretty => Ok(line(&metadata_of(object, object.revision))),
            Form::Metadata => Ok(self.value(&partial(object)?)),
            Form::Table(_) => {
                let metadata = json!({ "resourceVersion": object.revision.to_string() });
                let objects = [stored(object, object.revision)?];
                Ok(self.value(&self.table(entry, &objects, metadata, now, true)))
            }
        }
    }

    pub(super) fn list(&self, entry: &Entry, page: &Page, now: Timestamp) -> Result<Bytes, ApiError> {
        let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
        if let Some(token) = &page.continue_token {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        if self.encoding == Encoding::Protobuf {
            return protobuf_form::list(entry, page, &metadata, self.form);
        }
        match self.form {
            Form::Table(_) => {
                let objects: Result<Vec<Value>, ApiError> = page
                    .objects
                    .iter()
                    .map(|object| stored(object, object.revision))
                    .collect();
                Ok(self.value(&self.table(entry, &objects?, metadata, now, true)))
            }
            Form::Metadata => {
                let items: Result<Vec<Value>, ApiError> = page.objects.iter().map(|object| partial(object)).collect();
                Ok(self.value(&json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata, "items": items?,
                })))
            }
            Form::Plain | Form::Aggregated(_) => {
                let text = plain_list(entry, page, &metadata)?;
                if !self.pretty {
                    return Ok(text);
                }
                let value: Value = serde_json::from_slice(&text).map_err(ApiError::internal)?;
                Ok(self.value(&value))
            }
        }
    }

    /// One line of a watch: event type and object.
    pub(super) fn event(&self, entry: &Entry, event: &Event, now: Timestamp, first: bool) -> Result<Bytes, ApiError> {
        match event {
            Event::Object { kind, object, revision } if self.encoding == Encoding::Protobuf => {
                let object = protobuf_form::object(entry, object, *revision, self.form)?;
                Ok(response::frame(kind.event(), &object).into())
            }
            Event::Object { kind, object, revision } => {
                let version = entry.resource.api_version();
                let encoded = match self.form {
                    Form::Plain | Form::Aggregated(_) => encoded(entry, object, &version, *revision)?,
                    Form::Metadata => metadata_of(object, *revision).into(),
                    Form::Table(_) => {
                        let metadata = json!({ "resourceVersion": revision.to_string() });
                        let objects = [stored(object, *revision)?];
                        self.table(entry, &objects, metadata, now, first).to_string().into()
                    }
                };
                Ok(event_line(kind.event(), &encoded))
            }
            Event::Bookmark {
                revision,
                initial_events_end,
            } => {
                let mut metadata = json!({ "resourceVersion": revision.to_string() });
                if *initial_events_end {
                    metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
                }
                if self.encoding == Encoding::Protobuf {
                    let object = protobuf_form::bookmark(entry, &metadata, self.form);
                    return Ok(response::frame("BOOKMARK", &object).into());
                }
                let object = match self.form {
                    Form::Plain | Form::Aggregated(_) => json!({
                        "kind": entry.resource.kind, "apiVersion": entry.resource.api_version(), "metadata": metadata,
                    }),
                    Form::Metadata => json!({
                        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                    }),
                    Form::Table(_) => self.table(entry, &[], metadata, now, first),
                };
                Ok(event_line("BOOKMARK", object.to_string().as_bytes()))
            }
        }
    }

    /// Renders an object or a list that the server computes.
    pub(super) fn computed(&self, entry: &Entry, value: Value, now: Timestamp) -> Bytes {
        if !matches!(self.form, Form::Table(_)) {
            return self.value(&value);
        }
        let objects = match value.get("items").and_then(Value::as_array) {
            Some(items) => items.clone(),
            None => vec![value],
        };
        self.value(&self.table(entry, &objects, json!({}), now, true))
    }

    /// Renders any other document. Those of kinds that protobuf does not know are JSON.
    pub(super) fn value(&self, value: &Value) -> Bytes {
        if self.encoding == Encoding::Protobuf
            && let Some(encoded) = response::object(value)
        {
            return encoded.into();
        }
        let mut text = Vec::with_capacity(512);
        // A tree of strings, numbers and maps with string keys can always be encoded.
        let written = if self.pretty {
            serde_json::to_writer_pretty(&mut text, value)
        } else {
            serde_json::to_writer(&mut text, value)
        };
        if let Err(error) = written {
            tracing::error!(%error, "a document could not be encoded");
        }
        text.push(b'\n');
        text.into()
    }

    /// The table of objects in their stored form, which the columns show.
    fn table(&self, entry: &Entry, objects: &[Value], metadata: Value, now: Timestamp, columns: bool) -> Value {
        let mut table = table::render(
            &entry.resource,
            objects,
            metadata,
            self.include,
            now.as_second(),
            columns,
        );
        let rows = table.get_mut("rows").and_then(Value::as_array_mut);
        for row in rows.into_iter().flatten() {
            if self.include == Include::Object
                && let Some(object) = row.get_mut("object")
            {
                entry.convert_from_stored(object);
            }
        }
        if let Form::Table("v1beta1") = self.form {
            table["apiVersion"] = "meta.k8s.io/v1beta1".into();
        }
        table
    }
}

/// An ERROR event of a watch.
pub(super) fn error_event(error: &ApiError, encoding: Encoding) -> Bytes {
    let status = error.to_value();
    match (encoding, response::object(&status)) {
        (Encoding::Protobuf, Some(status)) => response::frame("ERROR", &status).into(),
        _ => event_line("ERROR", status.to_string().as_bytes()),
    }
}

fn event_line(kind: &str, object: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(object.len().saturating_add(40));
    text.extend_from_slice(b"{\"type\":\"");
    text.extend_from_slice(kind.as_bytes());
    text.extend_from_slice(b"\",\"object\":");
    text.extend_from_slice(object);
    text.extend_from_slice(b"}\n");
    text.into()
}

fn plain_list(entry: &Entry, page: &Page, metadata: &Value) -> Result<Bytes, ApiError> {
    let version = entry.resource.api_version();
    let length = quantity::total(page.objects.iter().map(|object| object.bytes().len().saturating_add(1)));
    let mut text = Vec::with_capacity(length.saturating_add(256));
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        Value::from(entry.resource.list_kind.as_str()),
        Value::from(version.as_str()),
    );
    text.extend_from_slice(head.as_bytes());
    let type_of_items = format!(
        "{{\"kind\":{},\"apiVersion\":{},",
        Value::from(entry.resource.kind.as_str()),
        Value::from(version.as_str()),
    );
    for (index, object) in page.objects.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        let item = encoded(entry, object, &version, object.revision)?;
        match item.strip_prefix(type_of_items.as_bytes()) {
            // Like upstream, built-in items omit the apiVersion and kind that the list implies.
            Some(rest) if !entry.resource.is_custom() => {
                text.push(b'{');
                text.extend_from_slice(rest);
            }
            _ => text.extend_from_slice(&item),
        }
    }
    text.extend_from_slice(b"]}\n");
    Ok(text.into())
}

fn line(bytes: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(bytes.len().saturating_add(1));
    text.extend_from_slice(bytes);
    text.push(b'\n');
    text.into()
}

/// The encoded `PartialObjectMetadata` of an object at that revision.
fn metadata_of(object: &Object, revision: u64) -> Vec<u8> {
    const HEAD: &[u8] = br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;
    let mut text = Vec::with_capacity(HEAD.len().saturating_add(512));
    text.extend_from_slice(HEAD);
    text.extend_from_slice(&object.metadata(revision));
    text.push(b'}');
    text
}

fn partial(object: &Object) -> Result<Value, ApiError> {
    serde_json::from_slice(&metadata_of(object, object.revision)).map_err(ApiError::internal)
}
