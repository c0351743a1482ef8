//! The names that a scenario creates, as globs, and the check that a reference can match one of them.

mod glob;
mod resources;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use self::glob::overlap;
pub(crate) use self::resources::references_of_api_rule;
pub use self::resources::{UnknownResource, check_resource};
use crate::closest::closest;
use crate::kinds::{Kind, Kinds};
use crate::workload::APP;
use crate::{Problem, World, fixtures};

/// The kind of thing that a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameOf {
    /// An object of that kind.
    Object(&'static str),
    /// The machine that a VM is created for; VMs may exist without a Machine.
    Vm,
    /// The value of the pods' label `app`.
    Workload,
    /// A zone of the cloud.
    Zone,
    /// A fault rule of the cloud.
    CloudFault,
    /// A fault rule of the API server.
    ApiFault,
    /// A fault rule of either.
    Fault,
}

/// A Machine.
pub(crate) const MACHINE: NameOf = NameOf::Object("Machine");
/// A Node.
pub(crate) const NODE: NameOf = NameOf::Object("Node");
/// A claim.
pub(crate) const CLAIM: NameOf = NameOf::Object("PersistentVolumeClaim");

/// Kinds whose objects other components create under names that no scenario determines.
const OPEN_KINDS: [&str; 10] = [
    "ControllerRevision.apps",
    "CSINode.storage.k8s.io",
    "Endpoints",
    "EndpointSlice.discovery.k8s.io",
    "Event",
    "Event.events.k8s.io",
    "Lease",
    "PersistentVolume",
    "ReplicaSet.apps",
    "VolumeAttachment",
];

/// Objects that exist in every world, besides the class and its Secret.
const EXISTING: [(&str, &[&str]); 11] = [
    (
        "Namespace",
        &["default", "drydock", "kube-node-lease", "kube-public", "kube-system"],
    ),
    ("ConfigMap", &["kube-root-ca.crt"]),
    ("Service", &["kubernetes"]),
    (
        "ServiceAccount",
        &["default", "fakecloud", "machine-controller-manager"],
    ),
    ("PriorityClass", &["system-*"]),
    ("Secret", &["bootstrap-token-*"]),
    ("CustomResourceDefinition", &["machine*.machine.sapcloud.io"]),
    (
        "Role",
        &["fakecloud", "machine-controller-manager", "preservation-operator"],
    ),
    (
        "RoleBinding",
        &["fakecloud", "machine-controller-manager", "preservation-operator"],
    ),
    ("ClusterRole", &["drydock:*"]),
    ("ClusterRoleBinding", &["drydock:*"]),
];

/// The class of VMs that are created without a Machine.
const MANUAL_CLASS: &str = "by-hand";

/// A name in a step or condition that must belong to something that the scenario creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Path of the field with the name.
    pub(crate) field: String,
    /// What the name belongs to.
    pub(crate) of: NameOf,
    /// The name, or the glob.
    pub(crate) name: String,
    /// Whether it is a glob.
    pub(crate) is_glob: bool,
}

impl Reference {
    /// A name.
    pub(crate) fn name(field: impl Into<String>, of: NameOf, name: &str) -> Self {
        Self {
            field: field.into(),
            of,
            name: name.to_owned(),
            is_glob: false,
        }
    }

    /// The same reference, with its field below `field`.
    pub(crate) fn below(self, field: &str) -> Self {
        Self {
            field: format!("{field}.{}", self.field),
            ..self
        }
    }

    /// A glob.
    pub(crate) fn glob(field: impl Into<String>, of: NameOf, glob: &str) -> Self {
        Self {
            is_glob: true,
            ..Self::name(field, of, glob)
        }
    }

    /// An object in the fields `apiVersion`, `kind` and `name` below `path`.
    ///
    /// # Errors
    /// There is no such kind.
    pub(crate) fn object(
        kinds: &Kinds,
        path: &str,
        api_version: Option<&str>,
        kind: &str,
        name: &str,
    ) -> Result<Self, Problem> {
        let of = find_kind(kinds, path, api_version, kind)?;
        Ok(Self::name(format!("{path}.name"), NameOf::Object(of.key), name))
    }
}

/// The kind in the fields `apiVersion` and `kind` below `path`.
///
/// # Errors
/// There is no such kind.
pub(crate) fn find_kind(
    kinds: &Kinds,
    path: &str,
    api_version: Option<&str>,
    kind: &str,
) -> Result<&'static Kind, Problem> {
    let found = kinds.find(api_version, kind);
    found.map_err(|unknown| (format!("{path}.{}", unknown.field()), unknown.to_string()))
}

/// The references of a cloud rule's conditions, which are globs; `path` is that of the rule.
pub(crate) fn references_of_cloud_rule<D>(path: &str, matches: &fakecloud_api::Match<D>) -> Vec<Reference> {
    // A machine is given by `NAME` or `NAMESPACE/NAME`.
    let name = |machine: &'_ String| machine.rsplit('/').next().unwrap_or(machine).to_owned();
    [
        ("machine", NameOf::Vm, matches.machine.as_ref().map(name)),
        ("class", NameOf::Object("MachineClass"), matches.class.clone()),
        ("zone", NameOf::Zone, matches.zone.clone()),
    ]
    .into_iter()
    .filter_map(|(field, of, glob)| Some(Reference::glob(format!("{path}.match.{field}"), of, &glob?)))
    .collect()
}

/// The names that a scenario creates, as globs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// The kinds of its world.
    pub(crate) kinds: Kinds,
    /// Whether the world has objects for a controller under test, which may create others.
    has_other_controller: bool,
    known: BTreeMap<NameOf, BTreeSet<String>>,
    /// Prefixes of node names, besides the empty one.
    node_prefixes: BTreeSet<String>,
}

impl Names {
    /// The names of a world before the first step.
    pub(crate) fn of_world(world: &World) -> Self {
        let mut names = Self::default();
        for object in world.objects() {
            names.add_object(object);
        }
        names.add(NameOf::Object("MachineClass"), fixtures::CLASS);
        names.add(NameOf::Object("Secret"), fixtures::SECRET);
        names.add(NameOf::Zone, fixtures::ZONE);
        for (kind, known) in EXISTING {
            known.iter().for_each(|name| names.add(NameOf::Object(kind), *name));
        }
        for number in 0..world.nodes {
            names.add(NODE, format!("node-{number}"));
            names.add(NameOf::Vm, format!("node-{number}"));
        }
        if let Some(keeper) = &world.keeper {
            names.add_machine(&format!("{}-*", keeper.label));
        }
        for object in &world.creates {
            if let Ok(kind) = names.kinds.find(object.api_version.as_deref(), &object.kind) {
                names.add(NameOf::Object(kind.key), &object.name);
            }
        }
        names.has_other_controller = !world.crds.is_empty() || !world.manifests.is_empty();
        if let Some(namespace) = &world.neighbour {
            names.add(NameOf::Object("Namespace"), namespace);
        }
        names
    }

    /// Adds a name or a glob.
    pub(crate) fn add(&mut self, of: NameOf, name: impl Into<String>) {
        self.known.entry(of).or_default().insert(name.into());
    }

    /// Adds a Machine, its VM and its node.
    pub(crate) fn add_machine(&mut self, name: &str) {
        self.add(MACHINE, name);
        self.add(NameOf::Vm, name);
        self.add(NODE, name);
    }

    /// Adds a VM without a Machine, and its node.
    pub(crate) fn add_manual_vm(&mut self, machine: &str) {
        self.add(NameOf::Vm, machine);
        self.add(NODE, machine);
        self.add(NameOf::Object("MachineClass"), MANUAL_CLASS);
    }

    /// Adds an object, and the objects that controllers create for it.
    pub(crate) fn add_object(&mut self, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        self.kinds.add_definition(object);
        let (Ok(kind), Some(name)) = (self.kinds.of_object(object), text("/metadata/name")) else {
            return;
        };
        self.add(NameOf::Object(kind.key), name);
        for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
            if let Some(workload) = text(&format!("{labels}/{APP}")) {
                self.add(NameOf::Workload, workload);
            }
        }
        match kind.key {
            "Machine" => self.add_machine(name),
            "MachineSet" => self.add_machine(&format!("{name}-*")),
            "MachineDeployment" => {
                self.add(NameOf::Object("MachineSet"), format!("{name}-*"));
                self.add_machine(&format!("{name}-*"));
            }
            // The driver generates a MachineClass of the same name.
            "AWSMachineClass" => self.add(NameOf::Object("MachineClass"), name),
            "Deployment" | "StatefulSet" | "DaemonSet" => self.add(NameOf::Object("Pod"), format!("{name}-*")),
            _ => {}
        }
        let templates = object.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
        for template in templates.into_iter().flatten() {
            let claim = template.pointer("/metadata/name").and_then(Value::as_str);
            self.add(CLAIM, format!("{}-{name}-*", claim.unwrap_or_default()));
        }
        self.add_class_fields(object);
    }

    /// Adds the zone and the prefix of node names in a machine class, or in a change of one.
    pub(crate) fn add_class_fields(&mut self, class: &Value) {
        let text = |pointer: &str| class.pointer(pointer).and_then(Value::as_str);
        for zone in ["/providerSpec/zone", "/spec/zone"].into_iter().filter_map(text) {
            self.add(NameOf::Zone, zone);
        }
        if let Some(prefix) = text("/providerSpec/nodeNamePrefix") {
            self.node_prefixes.insert(prefix.to_owned());
        }
    }

    /// Checks that the reference can match something.
    ///
    /// # Errors
    /// It matches nothing; the message contains the closest name.
    pub(crate) fn check(&self, reference: &Reference) -> Result<(), Problem> {
        let Reference {
            field,
            of,
            name,
            is_glob,
        } = reference;
        let wrong = |message: String| Err((field.clone(), message));
        if !is_glob && name.contains(['*', '?']) {
            return wrong(format!("{name:?} is a pattern, and this field takes one name"));
        }
        if matches!(of, NameOf::Object(kind) if OPEN_KINDS.contains(kind)) {
            return Ok(());
        }
        let known = self.matching(*of);
        if known.iter().any(|known| overlap(name, known)) {
            return Ok(());
        }
        let hint = match of {
            NameOf::Object(_) if self.has_other_controller => {
                "; add it to `world.creates` if the controller under test creates it"
            }
            _ => "",
        };
        let Some(near) = closest(name, known.iter().map(String::as_str)) else {
            return wrong(format!("{name:?} does not exist: the scenario creates no {of}{hint}"));
        };
        wrong(match is_glob {
            true => format!("no {of} of the scenario matches {name:?}; the closest is {near:?}{hint}"),
            false => format!("the scenario creates no {of} {name:?}; the closest is {near:?}{hint}"),
        })
    }

    fn matching(&self, of: NameOf) -> BTreeSet<String> {
        let get = |of: NameOf| self.known.get(&of).cloned().unwrap_or_default();
        match of {
            NameOf::Fault => &get(NameOf::CloudFault) | &get(NameOf::ApiFault),
            NODE => {
                let mut nodes = get(NODE);
                let prefixed = self
                    .node_prefixes
                    .iter()
                    .flat_map(|prefix| nodes.iter().map(move |node| format!("{prefix}{node}")));
                let prefixed: Vec<String> = prefixed.collect();
                nodes.extend(prefixed);
                nodes
            }
            of => get(of),
        }
    }
}

impl fmt::Display for NameOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object("Machine") => "machine",
            Self::Object("Node") => "node",
            // A key has the group of a kind after a point.
            Self::Object(key) => key.split('.').next().unwrap_or(key),
            Self::Vm => "machine or VM",
            Self::Workload => "workload",
            Self::Zone => "machine class in zone",
            Self::CloudFault => "cloud fault",
            Self::ApiFault => "API fault",
            Self::Fault => "fault",
        })
    }
}
