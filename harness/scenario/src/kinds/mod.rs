//! The kinds of objects that scenarios use: those of Kubernetes, those of the machine API, and those of a scenario's own
//! CustomResourceDefinitions.

mod custom;
mod table;

use std::fmt;

use serde_json::Value;

use self::table::{KINDS, OTHERS};
use crate::closest::similar;

/// A kind and its API.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// For example `v1` or `machine.sapcloud.io/v1alpha1`.
    pub api_version: &'static str,
    /// For example `Machine`.
    pub kind: &'static str,
    /// Identifies the kind among all kinds of a world: `Machine` for the machine API, `Machine.cluster.x-k8s.io` for a
    /// kind of the same name in another group.
    pub key: &'static str,
    /// For example `machines`.
    pub plural: &'static str,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// Whether every run that knows the kind watches it. Others are watched if a condition needs it.
    pub watched: bool,
    /// The cluster with its objects, if control and target cluster are different.
    pub side: Side,
}

/// The cluster with the objects of a kind, if control and target cluster are different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The cluster that holds the machines.
    Control,
    /// The cluster that the nodes join.
    Target,
    /// Both, for events: each is in the cluster of its object.
    Both,
}

impl Kind {
    /// Its API group; empty: core.
    pub fn group(&self) -> &'static str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// The key of the Leases that tell the engine who leads.
const LEADERSHIP: &str = "Lease";

/// The key of a kind that the harness does not work with itself.
fn key(kind: &str, group: &str) -> String {
    match group {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    }
}

/// The kinds that the harness works with.
pub fn all() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter()
}

/// The kinds that every run watches.
pub fn watched() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.watched)
}

/// A kind that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownKind {
    /// No API has it.
    #[error("unknown kind {name:?}; {hint}")]
    Name {
        /// Its name.
        name: String,
        /// The closest kind.
        hint: String,
    },
    /// It exists in other versions only.
    #[error("{api_version:?} has no kind {name}; write {versions}")]
    Version {
        /// Its name.
        name: String,
        /// The version.
        api_version: String,
        /// The existing ones.
        versions: Versions,
    },
    /// Several groups have it.
    #[error("the kind {name} exists in several groups: set `apiVersion` to {versions}")]
    Ambiguous {
        /// Its name.
        name: String,
        /// The versions.
        versions: Versions,
    },
}

impl UnknownKind {
    /// The field with the error, of `apiVersion` and `kind`.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Name { .. } => "kind",
            Self::Version { .. } | Self::Ambiguous { .. } => "apiVersion",
        }
    }
}

/// API versions, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions(Vec<&'static str>);

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted: Vec<String> = self.0.iter().map(|version| format!("{version:?}")).collect();
        f.write_str(&quoted.join(" or "))
    }
}

/// The kind of that name among those of Kubernetes and of the machine API.
///
/// # Errors
/// [`UnknownKind`], which names the closest known kind.
pub fn find(name: &str) -> Result<&'static Kind, UnknownKind> {
    // The kinds that the harness works with have precedence over those of the same name in other groups.
    match KINDS.iter().find(|kind| kind.kind == name) {
        Some(kind) => Ok(kind),
        None => Kinds::default().find(None, name),
    }
}

/// The kinds of a world: all of Kubernetes and of the machine API, and those of its CustomResourceDefinitions.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// The stored version of each definition before the other served ones.
    custom: Vec<&'static Kind>,
}

impl Kinds {
    /// Adds the kind of a CustomResourceDefinition in all its versions. Definitions of kinds that are known already, and
    /// objects that are no valid definitions, add nothing.
    pub fn add_definition(&mut self, object: &Value) {
        for kind in custom::of_definition(object) {
            let is_same = |known: &&Kind| known.kind == kind.kind && known.api_version == kind.api_version;
            if !KINDS.iter().any(|known| is_same(&known)) && !self.custom.iter().any(is_same) {
                self.custom.push(custom::interned(kind));
            }
        }
    }

    /// The kinds of its CustomResourceDefinitions, each in one version.
    pub fn custom(&self) -> impl Iterator<Item = &'static Kind> {
        let firsts = self.custom.iter().enumerate();
        firsts.filter_map(|(index, kind)| {
            let is_first = self.custom[..index].iter().all(|earlier| earlier.key != kind.key);
            is_first.then_some(*kind)
        })
    }

    /// The kind of that name. Without `api_version` it must be the only one of that name; the kinds that the harness
    /// works with are preferred to other kinds of Kubernetes.
    ///
    /// # Errors
    /// [`UnknownKind`].
    pub fn find(&self, api_version: Option<&str>, name: &str) -> Result<&'static Kind, UnknownKind> {
        let own = || self.custom.iter().copied().filter(|kind| kind.kind == name);
        // The Lease among them is that of the leader; scenarios use Leases as any other kind.
        let ours = || KINDS.iter().filter(|kind| kind.kind == name && kind.key != LEADERSHIP);
        let others = || OTHERS.iter().filter(|kind| kind.kind == name);
        if let Some(version) = api_version {
            let is_of = |kind: &&Kind| kind.api_version == version;
            let found = ours().chain(own()).chain(others()).find(is_of);
            return found.ok_or_else(|| self.unknown(Some(version), name));
        }
        // The check of other groups is needed only if definitions have the same kind.
        let mut own = own().peekable();
        let first = match (ours().next(), own.peek()) {
            (Some(kind), None) => return Ok(kind),
            (Some(kind), Some(_)) => kind,
            (None, Some(kind)) => *kind,
            (None, None) => return others().next().ok_or_else(|| self.unknown(None, name)),
        };
        let mut versions: Vec<&'static str> = vec![first.api_version];
        versions.extend(own.filter(|kind| kind.key != first.key).map(|kind| kind.api_version));
        match versions.len() {
            1 => Ok(first),
            _ => Err(UnknownKind::Ambiguous {
                name: name.to_owned(),
                versions: Versions(versions),
            }),
        }
    }

    /// The kind of an object, by its `apiVersion` and `kind`.
    ///
    /// # Errors
    /// [`UnknownKind`].
    pub fn of_object(&self, object: &Value) -> Result<&'static Kind, UnknownKind> {
        let text = |field: &str| object.get(field).and_then(Value::as_str);
        self.find(text("apiVersion"), text("kind").unwrap_or_default())
    }

    /// The kind of the objects that a request to the API server is about; `None`: its path is no path of a known kind.
    pub fn of_path(&self, path: &str) -> Option<&'static Kind> {
        let path = path.split('?').next()?.trim_start_matches('/');
        let (api_version, rest) = match path.split_once('/')? {
            ("api", rest) => rest.split_once('/')?,
            ("apis", rest) => {
                let group = rest.find('/')?.saturating_add(1);
                let version = rest.get(group..)?.find('/')?.saturating_add(group);
                (rest.get(..version)?, rest.get(version.saturating_add(1)..)?)
            }
            _ => return None,
        };
        let parts: Vec<&str> = rest.split('/').collect();
        let plural = match parts.as_slice() {
            ["namespaces", _, plural, ..] => plural,
            [plural, ..] => plural,
            [] => return None,
        };
        self.every()
            .find(|kind| kind.api_version == api_version && kind.plural == *plural)
    }

    fn every(&self) -> impl Iterator<Item = &'static Kind> + Clone {
        KINDS.iter().chain(self.custom.iter().copied()).chain(OTHERS.iter())
    }

    fn unknown(&self, api_version: Option<&str>, name: &str) -> UnknownKind {
        let versions: Vec<&'static str> = self
            .every()
            .filter(|kind| kind.kind == name)
            .map(|kind| kind.api_version)
            .collect();
        match api_version {
            Some(version) if !versions.is_empty() => UnknownKind::Version {
                name: name.to_owned(),
                api_version: version.to_owned(),
                versions: Versions(versions),
            },
            _ => UnknownKind::Name {
                name: name.to_owned(),
                hint: self.hint(api_version, name),
            },
        }
    }

    /// The closest kind, or how to define a kind of a group that is unknown.
    fn hint(&self, api_version: Option<&str>, name: &str) -> String {
        let group = api_version.and_then(|version| version.split_once('/'));
        let has_group = group.is_none_or(|(group, _)| self.every().any(|kind| kind.group() == group));
        let near = similar(name, self.every().map(|kind| kind.kind));
        match near.first().filter(|_| has_group) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "the definition of a kind of your own belongs in `world.crds`".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn definition(group: &str, kind: &str) -> Value {
        let version = |name: &str, storage: bool| json!({ "name": name, "served": true, "storage": storage });
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{}s.{group}", kind.to_lowercase()) },
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": { "kind": kind, "plural": format!("{}s", kind.to_lowercase()) },
                "versions": [version("v1beta1", false), version("v1", true)],
            },
        })
    }

    fn kinds() -> Kinds {
        let mut kinds = Kinds::default();
        for (group, kind) in [
            ("example.com", "Widget"),
            ("cluster.x-k8s.io", "Machine"),
            ("a.io", "Twin"),
            ("b.io", "Twin"),
        ] {
            kinds.add_definition(&definition(group, kind));
        }
        kinds
    }

    #[rstest]
    #[case::of_the_machine_api(Some("machine.sapcloud.io/v1alpha1"), "Machine", "Machine")]
    #[case::of_the_same_name(Some("cluster.x-k8s.io/v1"), "Machine", "Machine.cluster.x-k8s.io")]
    #[case::of_its_own(None, "Widget", "Widget.example.com")]
    #[case::in_another_version(Some("example.com/v1beta1"), "Widget", "Widget.example.com")]
    #[case::of_kubernetes(None, "Job", "Job.batch")]
    #[case::of_the_core_group(None, "ServiceAccount", "ServiceAccount")]
    #[case::that_two_groups_of_kubernetes_have(None, "Event", "Event")]
    fn a_kind_is_found(#[case] version: Option<&str>, #[case] name: &str, #[case] key: &str) {
        assert_eq!(kinds().find(version, name).unwrap().key, key);
    }

    #[rstest]
    #[case::a_typo(None, "Machin", "unknown kind \"Machin\"; did you mean \"Machine\"?")]
    #[case::an_own_kind_with_a_typo(None, "Wigdet", "unknown kind \"Wigdet\"; did you mean \"Widget\"?")]
    #[case::a_missing_definition(
        Some("example.org/v1"),
        "ThermalProfile",
        "unknown kind \"ThermalProfile\"; the definition of a kind of your own belongs in `world.crds`"
    )]
    #[case::another_version(
        Some("example.com/v2"),
        "Widget",
        "\"example.com/v2\" has no kind Widget; write \"example.com/v1\" or \"example.com/v1beta1\""
    )]
    #[case::a_kind_of_two_groups(
        None,
        "Machine",
        "the kind Machine exists in several groups: set `apiVersion` to \"machine.sapcloud.io/v1alpha1\" or \
         \"cluster.x-k8s.io/v1\" or \"cluster.x-k8s.io/v1beta1\""
    )]
    fn an_unknown_kind_is_refused_with_the_fix(
        #[case] version: Option<&str>,
        #[case] name: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(kinds().find(version, name).unwrap_err().to_string(), expected);
    }

    #[rstest]
    #[case("/api/v1/namespaces/a/configmaps", Some("ConfigMap"))]
    #[case("/api/v1/namespaces/a/pods/b/eviction", Some("Pod"))]
    #[case("/api/v1/namespaces/a", Some("Namespace"))]
    #[case("/apis/example.com/v1/namespaces/a/widgets/b/status?fieldManager=c", Some("Widget"))]
    #[case("/apis/rbac.authorization.k8s.io/v1/clusterroles/a", Some("ClusterRole"))]
    #[case("/apis/example.com/v7/namespaces/a/widgets/b", None)]
    #[case("/healthz", None)]
    fn the_path_of_a_request_has_a_kind(#[case] path: &str, #[case] expected: Option<&str>) {
        assert_eq!(kinds().of_path(path).map(|kind| kind.kind), expected);
    }

    #[test]
    fn the_stored_version_of_a_definition_is_the_default() {
        assert_eq!(kinds().find(None, "Widget").unwrap().api_version, "example.com/v1");
        let keys: Vec<&str> = kinds().custom().map(|kind| kind.key).collect();
        assert_eq!(
            keys,
            [
                "Widget.example.com",
                "Machine.cluster.x-k8s.io",
                "Twin.a.io",
                "Twin.b.io"
            ]
        );
    }

    #[test]
    fn keys_identify_kinds() {
        let kinds = kinds();
        let mut keys: Vec<(&str, &str)> = kinds.every().map(|kind| (kind.key, kind.group())).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut names: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
        names.dedup();
        assert_eq!(names.len(), keys.len(), "two groups share a key: {keys:?}");
    }
}
