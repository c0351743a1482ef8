//! The kinds of CustomResourceDefinitions.

use parking_lot::Mutex;
use serde_json::Value;

use super::{Kind, Side, key};

/// A kind of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CustomKind {
    pub(super) api_version: String,
    pub(super) kind: String,
    group: String,
    plural: String,
    namespaced: bool,
}

/// The served versions of a definition's kind, the stored one first; empty: it is not a complete definition.
pub(super) fn of_definition(object: &Value) -> Vec<CustomKind> {
    if object["kind"] != "CustomResourceDefinition" {
        return Vec::new();
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (Some(group), Some(kind), Some(plural)) = (
        text("/spec/group"),
        text("/spec/names/kind"),
        text("/spec/names/plural"),
    ) else {
        return Vec::new();
    };
    let versions = object.pointer("/spec/versions").and_then(Value::as_array);
    let mut versions: Vec<&Value> = versions.into_iter().flatten().collect();
    versions.retain(|version| version["served"] == true);
    versions.sort_by_key(|version| version["storage"] != true);
    let of_version = |version: &&Value| {
        Some(CustomKind {
            api_version: format!("{group}/{}", version["name"].as_str()?),
            kind: kind.to_owned(),
            group: group.to_owned(),
            plural: plural.to_owned(),
            namespaced: text("/spec/scope") != Some("Cluster"),
        })
    };
    versions.iter().filter_map(of_version).collect()
}

/// All kinds of definitions of this process.
static INTERNED: Mutex<Vec<&'static Kind>> = Mutex::new(Vec::new());

/// The kind with the lifetime of the process, as the kinds of Kubernetes have. Each different kind uses memory until its
/// end; a process reads few scenarios.
pub(super) fn interned(kind: CustomKind) -> &'static Kind {
    let mut interned = INTERNED.lock();
    let is_same = |known: &&&'static Kind| {
        known.api_version == kind.api_version
            && known.kind == kind.kind
            && known.plural == kind.plural
            && known.namespaced == kind.namespaced
    };
    if let Some(known) = interned.iter().find(is_same) {
        return known;
    }
    let new: &'static Kind = Box::leak(Box::new(Kind {
        key: key(&kind.kind, &kind.group).leak(),
        api_version: kind.api_version.leak(),
        kind: kind.kind.leak(),
        plural: kind.plural.leak(),
        namespaced: kind.namespaced,
        watched: true,
        side: Side::Control,
    }));
    interned.push(new);
    new
}
