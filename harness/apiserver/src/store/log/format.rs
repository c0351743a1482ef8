//! The files of a log: lines of [`durable::lines`], of which the first is a header.

use durable::lines::{write_line, write_text};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::{Change, ChangeKind, Object};

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// Which file of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    /// All objects.
    Objects,
    /// The later changes.
    Changes,
}

impl Kind {
    /// The name of its file.
    pub(super) fn file(self, generation: u64) -> String {
        match self {
            Self::Objects => format!("objects-{generation}"),
            Self::Changes => format!("changes-{generation}"),
        }
    }

    /// The name of its file while it is being written.
    pub(super) fn unfinished(self, generation: u64) -> String {
        format!("{}.new", self.file(generation))
    }
}

/// The first line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) file: Kind,
    pub(super) generation: u64,
    /// The revision of the objects, or that before the first change.
    pub(super) revision: u64,
}

/// A line after the header.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Body<'a> {
    /// An object of the objects file, or its new state in the changes.
    #[serde(borrow)]
    Put(Stored<'a>),
    /// The last state of a deleted object.
    #[serde(borrow)]
    Delete(Stored<'a>),
    /// A table was retired: its objects disappeared.
    Retire(String),
    /// The end of the objects file, with their number.
    End(u64),
}

/// An object in its table.
#[derive(Debug, Deserialize)]
pub(super) struct Stored<'a> {
    pub(super) table: String,
    pub(super) revision: u64,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// The line of a header.
pub(super) fn header(file: Kind, generation: u64, revision: u64) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::new();
    let header = Header {
        version: VERSION,
        file,
        generation,
        revision,
    };
    write_line(&mut line, &header)?;
    Ok(line)
}

/// The line of a change.
pub(super) fn change(table: &str, change: &Change) -> Vec<u8> {
    let body = match change.kind {
        ChangeKind::Added | ChangeKind::Modified => "put",
        ChangeKind::Deleted => "delete",
    };
    stored(body, table, &change.object)
}

/// The line of an object in the objects file.
pub(super) fn object(table: &str, object: &Object) -> Vec<u8> {
    stored("put", table, object)
}

/// The object is text already: it is not encoded again.
fn stored(body: &str, table: &str, object: &Object) -> Vec<u8> {
    let table = serde_json::Value::from(table);
    let mut text = format!(
        r#"{{"{body}":{{"table":{table},"revision":{},"object":"#,
        object.revision
    )
    .into_bytes();
    text.extend_from_slice(object.bytes());
    text.extend_from_slice(b"}}");
    sealed(&text)
}

/// The line of a retired table.
pub(super) fn retired(table: &str) -> Vec<u8> {
    sealed(serde_json::json!({ "retire": table }).to_string().as_bytes())
}

/// The last line of the objects file.
pub(super) fn end(objects: u64) -> Vec<u8> {
    sealed(serde_json::json!({ "end": objects }).to_string().as_bytes())
}

fn sealed(text: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(text.len().saturating_add(32));
    write_text(&mut line, text);
    line
}
