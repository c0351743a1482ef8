//! Discovery: the served groups, versions and resources, as legacy documents and as the aggregated document. Derived
//! from the resource definitions only.

mod aggregated;
mod order;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

pub use self::aggregated::aggregated;
pub(crate) use self::order::priorities;
use self::order::{groups, in_version, versions};
use crate::resource::{Endpoint, Resource, Subresource};

/// The verbs of a resource in discovery.
const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// A group version that another API server serves.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// Of the group, and of the version in it.
    pub priorities: (u32, u32),
    /// The resources as items of the aggregated document; `None`: the server is not available.
    pub items: Option<Vec<Value>>,
}

/// `GET /api`.
pub fn api_versions() -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

/// `GET /apis`.
pub fn group_list(resources: &[Arc<Resource>], remotes: &[Remote]) -> Value {
    let list: Vec<Value> = groups(resources, remotes)
        .into_iter()
        .map(|group| group_entry(resources, remotes, group))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": list })
}

/// `GET /apis/{group}`; `None` if the group is not served.
pub fn group(resources: &[Arc<Resource>], remotes: &[Remote], group: &str) -> Option<Value> {
    if group.is_empty() || versions(resources, remotes, group).is_empty() {
        return None;
    }
    let mut document = group_entry(resources, remotes, group);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

fn group_entry(resources: &[Arc<Resource>], remotes: &[Remote], group: &str) -> Value {
    let versions: Vec<Value> = versions(resources, remotes, group)
        .into_iter()
        .map(|version| json!({ "groupVersion": format!("{group}/{version}"), "version": version }))
        .collect();
    json!({ "name": group, "preferredVersion": versions.first(), "versions": versions })
}

/// `GET /api/v1` (an empty group) and `GET /apis/{group}/{version}`; `None` if the version is not served.
pub fn resource_list(resources: &[Arc<Resource>], group: &str, version: &str) -> Option<Value> {
    let resources = in_version(resources, group, version);
    let first = resources.first()?;
    let mut entries = Vec::new();
    for resource in &resources {
        entries.push(main_entry(resource));
        entries.extend(
            sorted_subresources(resource)
                .into_iter()
                .map(|subresource| subresource_entry(resource, subresource)),
        );
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": first.api_version(),
        "resources": entries,
    }))
}

fn main_entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs(resource),
    });
    if resource.is_stored() {
        entry["storageVersionHash"] = storage_version_hash(resource).into();
    }
    insert_texts(&mut entry, "shortNames", &resource.short_names);
    insert_texts(&mut entry, "categories", &resource.categories);
    entry
}

fn subresource_entry(resource: &Resource, subresource: &Subresource) -> Value {
    let mut entry = Map::new();
    entry.insert(
        "name".into(),
        format!("{}/{}", resource.plural, subresource.name()).into(),
    );
    entry.insert("singularName".into(), "".into());
    entry.insert("namespaced".into(), resource.namespaced.into());
    let served = Served::of(resource, subresource);
    if served.foreign {
        entry.insert("group".into(), served.group.into());
        entry.insert("version".into(), served.version.into());
    }
    entry.insert("kind".into(), served.kind.into());
    entry.insert("verbs".into(), served.verbs.into());
    entry.into()
}

/// The kind and verbs of a subresource's endpoint.
struct Served<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    verbs: &'static [&'static str],
    /// Whether the kind belongs to another group than the resource.
    foreign: bool,
}

impl<'a> Served<'a> {
    fn of(resource: &'a Resource, subresource: &Subresource) -> Self {
        const CHANGE: &[&str] = &["get", "patch", "update"];
        let own = |kind: &'a str, verbs| Self {
            group: &resource.group,
            version: &resource.version,
            kind,
            verbs,
            foreign: false,
        };
        match subresource {
            Subresource::Status => own(&resource.kind, CHANGE),
            Subresource::Finalize => own(&resource.kind, &["update"]),
            Subresource::Binding => own("Binding", &["create"]),
            Subresource::Log => own(&resource.kind, &["get"]),
            Subresource::Connect { name: "proxy", kind } => own(kind, &["create", "delete", "get", "patch", "update"]),
            Subresource::Connect { kind, .. } => own(kind, &["create", "get"]),
            Subresource::Approval | Subresource::EphemeralContainers | Subresource::Resize => {
                own(&resource.kind, CHANGE)
            }
            Subresource::Scale { .. } => Self {
                group: "autoscaling",
                version: "v1",
                kind: "Scale",
                verbs: CHANGE,
                foreign: true,
            },
            Subresource::Token => Self {
                group: "authentication.k8s.io",
                version: "v1",
                kind: "TokenRequest",
                verbs: &["create"],
                foreign: true,
            },
            Subresource::Eviction => Self {
                group: "policy",
                version: "v1",
                kind: "Eviction",
                verbs: &["create"],
                foreign: true,
            },
        }
    }
}

fn sorted_subresources(resource: &Resource) -> Vec<&Subresource> {
    let mut subresources: Vec<&Subresource> = resource.subresources.iter().collect();
    subresources.sort_by_key(|subresource| subresource.name());
    subresources
}

/// Namespaces have no deletecollection: upstream's registry does not offer it.
fn verbs(resource: &Resource) -> Vec<&'static str> {
    match resource.endpoint {
        Endpoint::Stored => {}
        Endpoint::Review => return vec!["create"],
        Endpoint::Computed => return vec!["get", "list"],
    }
    let one_by_one = resource.group.is_empty() && resource.plural == "namespaces";
    VERBS
        .into_iter()
        .filter(|verb| !one_by_one || *verb != "deletecollection")
        .collect()
}

fn insert_texts(entry: &mut Value, field: &str, texts: &[String]) {
    if !texts.is_empty() {
        entry[field] = texts.into();
    }
}

fn storage_version_hash(resource: &Resource) -> String {
    let (group, version) = match &resource.conversion {
        Some(conversion) => (conversion.group, conversion.version),
        None => (resource.group.as_str(), resource.version.as_str()),
    };
    let text = format!("{group}/{version}/{}", resource.kind);
    STANDARD.encode(Sha256::digest(text).iter().take(8).copied().collect::<Vec<u8>>())
}

/// The ETag of a document, without quotes; changes with the document.
pub fn etag(document: &Value) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(128);
    for byte in Sha256::digest(document.to_string()) {
        let _ = write!(text, "{byte:02X}");
    }
    text
}
