//! A stored object: its encoded JSON and the few parsed fields that selectors and deletion need.
//!
//! The positions of `apiVersion` and `metadata.resourceVersion` in the text are known, so that both can be replaced
//! without parsing. This module has no rules for single kinds.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::forms::Forms;

/// The key of an object in its table. The namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// `namespace/name`, or `name` without a namespace.
    pub fn path(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// The parsed part of an object's metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The label and value of each selectable field.
    pub fields: Vec<(String, String)>,
}

/// A committed object. Immutable; shared by table, history and watches.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its key in the table.
    pub key: Key,
    /// `metadata.resourceVersion`.
    pub revision: u64,
    /// Parsed metadata.
    pub meta: Meta,
    bytes: Bytes,
    version_at: Range<usize>,
    metadata_at: Range<usize>,
    revision_at: Range<usize>,
    /// The object in another encoding, as soon as a client has requested it. Lives as long as this revision.
    encoding: OnceLock<Bytes>,
    other_versions: Forms<Self>,
}

impl Object {
    /// The `apiVersion` in the text.
    pub fn api_version(&self) -> &str {
        let version = self.bytes.get(self.version_at.clone()).unwrap_or_default();
        std::str::from_utf8(version).unwrap_or_default()
    }

    /// The object in another version, if it was kept for that revision of the definition.
    pub fn in_other_version(&self, api_version: &str, definition: u64) -> Option<Arc<Self>> {
        self.other_versions
            .get(definition, |form| form.api_version() == api_version)
    }

    /// Keeps the object in another version, until a later revision of the definition replaces it.
    pub fn keep_other_version(&self, definition: u64, object: Arc<Self>) {
        let version = Arc::clone(&object);
        self.other_versions
            .keep(definition, object, |form| form.api_version() == version.api_version());
    }

    /// The object in another encoding than JSON. `encode` runs once per revision, or twice if two clients are the first
    /// ones at the same time; all watches and lists share the result.
    ///
    /// # Errors
    /// Those of `encode`.
    pub fn in_other_encoding<E>(&self, encode: impl FnOnce() -> Result<Bytes, E>) -> Result<Bytes, E> {
        if let Some(encoded) = self.encoding.get() {
            return Ok(encoded.clone());
        }
        let encoded = encode()?;
        Ok(self.encoding.get_or_init(|| encoded).clone())
    }

    /// The encoded object.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The object as a tree.
    ///
    /// # Errors
    /// None for an object built from a [`Draft`].
    pub fn value(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.bytes)
    }

    /// The encoded `metadata`, with another `resourceVersion`.
    pub fn metadata(&self, revision: u64) -> Vec<u8> {
        let Range { start, end } = self.metadata_at;
        let mut out = Vec::with_capacity(end.saturating_sub(start).saturating_add(16));
        out.extend_from_slice(self.bytes.get(start..self.revision_at.start).unwrap_or_default());
        out.extend_from_slice(revision.to_string().as_bytes());
        out.extend_from_slice(self.bytes.get(self.revision_at.end..end).unwrap_or_default());
        out
    }

    /// The encoded object with another `apiVersion` and `resourceVersion`; shares the stored text if both are
    /// unchanged.
    pub fn encoded(&self, api_version: &str, revision: u64) -> Bytes {
        let stored = self.bytes.get(self.version_at.clone()).unwrap_or_default();
        if stored == api_version.as_bytes() && revision == self.revision {
            return self.bytes.clone();
        }
        let mut out = Vec::with_capacity(self.bytes.len().saturating_add(16));
        let mut at = 0;
        let revision = revision.to_string();
        for (range, text) in [(&self.version_at, api_version), (&self.revision_at, revision.as_str())] {
            out.extend_from_slice(self.bytes.get(at..range.start).unwrap_or_default());
            out.extend_from_slice(text.as_bytes());
            at = range.end;
        }
        out.extend_from_slice(self.bytes.get(at..).unwrap_or_default());
        out.into()
    }
}

/// An encoded object without a revision.
///
/// Encoding happens outside the store's lock; the commit inserts the revision.
#[derive(Clone, Debug)]
pub struct Draft {
    key: Key,
    meta: Meta,
    text: Vec<u8>,
    version_at: Range<usize>,
    metadata_at: Range<usize>,
    revision_at: usize,
}

impl Draft {
    /// Encodes `value`. Keys are sorted, after `kind` and `apiVersion`.
    ///
    /// # Errors
    /// If `value` or its metadata is not a JSON object.
    pub fn new(value: &Value, fields: Vec<(String, String)>) -> Result<Self, serde_json::Error> {
        let empty = Map::new();
        let object = value.as_object().unwrap_or(&empty);
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let mut encoder = Encoder {
            text: Vec::with_capacity(1024),
            first: true,
        };
        encoder.text.push(b'{');
        if let Some(kind) = object.get("kind") {
            encoder.member("kind", kind)?;
        }
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        encoder.key("apiVersion")?;
        encoder.text.push(b'"');
        let version_start = encoder.text.len();
        encoder.text.extend_from_slice(version.as_bytes());
        let version_at = version_start..encoder.text.len();
        encoder.text.push(b'"');
        encoder.key("metadata")?;
        let metadata_start = encoder.text.len();
        let revision_at = encoder.metadata(metadata)?;
        let metadata_at = metadata_start..encoder.text.len();
        for (key, member) in object {
            if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
                encoder.member(key, member)?;
            }
        }
        encoder.text.push(b'}');
        let text = |name: &str| {
            metadata
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let key = Key {
            namespace: text("namespace"),
            name: text("name"),
        };
        let meta = Meta {
            uid: text("uid"),
            labels: string_map(metadata.get("labels")),
            finalizers: string_list(metadata.get("finalizers")),
            deleting: metadata.get("deletionTimestamp").is_some_and(|value| !value.is_null()),
            fields,
        };
        Ok(Self {
            key,
            meta,
            text: encoder.text,
            version_at,
            metadata_at,
            revision_at,
        })
    }

    /// Its key in the table.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The size of the text in bytes.
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// Whether `object` has the same content, regardless of the revision.
    pub fn same_content(&self, object: &Object) -> bool {
        object.bytes.get(..object.revision_at.start) == self.text.get(..self.revision_at)
            && object.bytes.get(object.revision_at.end..) == self.text.get(self.revision_at..)
    }

    /// The object at that revision. Revision 0 keeps it empty in the text, for an object that is not stored.
    pub fn finish(self, revision: u64) -> Object {
        let number = if revision == 0 {
            String::new()
        } else {
            revision.to_string()
        };
        let mut text = Vec::with_capacity(self.text.len().saturating_add(number.len()));
        text.extend_from_slice(self.text.get(..self.revision_at).unwrap_or_default());
        text.extend_from_slice(number.as_bytes());
        text.extend_from_slice(self.text.get(self.revision_at..).unwrap_or_default());
        Object {
            key: self.key,
            revision,
            meta: self.meta,
            bytes: text.into(),
            version_at: self.version_at,
            metadata_at: self.metadata_at.start..self.metadata_at.end.saturating_add(number.len()),
            revision_at: self.revision_at..self.revision_at.saturating_add(number.len()),
            encoding: OnceLock::new(),
            other_versions: Forms::default(),
        }
    }
}

struct Encoder {
    text: Vec<u8>,
    first: bool,
}

impl Encoder {
    fn key(&mut self, key: &str) -> Result<(), serde_json::Error> {
        if !std::mem::take(&mut self.first) {
            self.text.push(b',');
        }
        serde_json::to_writer(&mut self.text, key)?;
        self.text.push(b':');
        Ok(())
    }

    fn member(&mut self, key: &str, value: &Value) -> Result<(), serde_json::Error> {
        self.key(key)?;
        serde_json::to_writer(&mut self.text, value)
    }

    /// Writes the metadata with an empty `resourceVersion` at its sorted position; returns that position.
    fn metadata(&mut self, metadata: &Map<String, Value>) -> Result<usize, serde_json::Error> {
        const REVISION: &str = "resourceVersion";
        let mut at = None;
        self.text.push(b'{');
        self.first = true;
        for (key, value) in metadata {
            if at.is_none() && key.as_str() >= REVISION {
                at = Some(self.placeholder(REVISION)?);
            }
            if key != REVISION {
                self.member(key, value)?;
            }
        }
        let at = match at {
            Some(at) => at,
            None => self.placeholder(REVISION)?,
        };
        self.text.push(b'}');
        self.first = false;
        Ok(at)
    }

    fn placeholder(&mut self, key: &str) -> Result<usize, serde_json::Error> {
        self.key(key)?;
        self.text.extend_from_slice(b"\"\"");
        Ok(self.text.len().saturating_sub(1))
    }
}

fn string_map(value: Option<&Value>) -> BTreeMap<String, String> {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn string_list(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}
