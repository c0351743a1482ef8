//! A machine and a set refer to a class of a provider-specific kind, as was usual until 2023: the driver
//! generates a MachineClass from it, and `mcm` changes the references. An operator who still has such classes
//! has granted the permissions.

use mcm_api::{Phase, keys};
use scenario::builder::{all, apply, create_machine, delete, delete_machine, exists, field, phase, slack};
use scenario::step::Step;
use scenario::{Scenario, fixtures};
use serde_json::{Value, json};

use super::{joining, nothing_left, only_in_a_cluster_of_its_own};

const KIND: &str = "AWSMachineClass";
const CLASS: &str = "class-of-old";
const GROUP: &str = "machine.sapcloud.io";
const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn scenario() -> Scenario {
    story(
        "class_migration",
        "A machine refers to a class of a legacy kind: the driver generates a MachineClass, and the machine becomes \
         Running.",
    )
}

/// The steps, which do not depend on how mcm and the driver find each other.
pub(super) fn story(name: &str, about: &str) -> Scenario {
    let migrated = |kind, name, at: &str| field(kind, name, &format!("{at}/class/kind"), "MachineClass");
    let filled = |pointer, is: Value| field("MachineClass", CLASS, pointer, is);
    let story = Scenario::new(name, about)
        .step(apply(definition()))
        .steps(role_and_binding())
        .step(apply(old_class()))
        .step(apply(set()))
        .step(apply(machine()))
        .eventually(joining() + slack(), phase("m-1", Phase::Running))
        .eventually(
            slack(),
            all([
                migrated("Machine", "m-1", "/spec"),
                migrated("MachineSet", "set-1", "/spec/template/spec"),
                filled("/providerSpec/machineType", json!("small")),
                filled("/provider", json!("fakecloud")),
                filled("/secretRef/name", json!(fixtures::SECRET)),
                filled("/metadata/finalizers", json!([keys::MACHINE_FINALIZER])),
            ]),
        )
        // The finalizer is gone and no machine uses the class, so it is deleted immediately.
        .step(delete(KIND, CLASS))
        .step(create_machine("m-2"))
        .step(delete_machine("m-1"))
        .eventually(joining(), all([nothing_left("m-1"), phase("m-2", Phase::Running)]))
        .always(slack(), exists("MachineClass", CLASS));
    only_in_a_cluster_of_its_own(story)
}

/// The legacy kind.
fn definition() -> Value {
    let any_object = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("awsmachineclasses.{GROUP}") },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": { "kind": KIND, "plural": "awsmachineclasses", "singular": "awsmachineclass" },
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": any_object } } },
            }],
        },
    })
}

/// The permissions that `mcm` needs beyond its role, see docs/using/operating.md.
fn role_and_binding() -> [Step; 2] {
    let named = json!({ "name": "class-migration" });
    let rule = |resource: &str, verbs: Value| json!({ "apiGroups": [GROUP], "resources": [resource], "verbs": verbs });
    [
        apply(json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "Role",
            "metadata": named,
            "rules": [
                rule("awsmachineclasses", json!(["get", "patch"])),
                rule("machineclasses", json!(["get", "create", "update"])),
            ],
        })),
        apply(json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "RoleBinding",
            "metadata": named,
            "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": "class-migration" },
            "subjects": [{ "apiGroup": RBAC, "kind": "Group", "name": "system:serviceaccounts" }],
        })),
    ]
}

fn old_class() -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": KIND,
        "metadata": { "name": CLASS, "finalizers": [keys::MACHINE_FINALIZER] },
        "spec": {
            "machineType": "small",
            "image": "linux-1",
            "zone": "z1",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
            "secretRef": { "name": fixtures::SECRET },
        },
    })
}

/// A set with zero replicas, of which only the template matters.
fn set() -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "MachineSet",
        "metadata": { "name": "set-1" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "set": "set-1" } },
            "template": {
                "metadata": { "labels": { "set": "set-1" } },
                "spec": { "class": { "kind": KIND, "name": CLASS } },
            },
        },
    })
}

fn machine() -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "Machine",
        "metadata": { "name": "m-1" },
        "spec": { "class": { "kind": KIND, "name": CLASS } },
    })
}
