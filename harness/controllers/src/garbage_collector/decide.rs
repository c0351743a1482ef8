//! The decision about one object. The rules are those of
//! <https://kubernetes.io/docs/concepts/architecture/garbage-collection/>.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::graph::{FOREGROUND, Graph, Node, ORPHAN};
use crate::foundation::reference_of;
use crate::{Action, Deletion, ObjectKey, Patch, Plan, Preconditions, Propagation, ResourceType, Severity, Target};

/// Why the garbage collector acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All owners are gone.
    OwnersGone,
    /// Its only owners wait in foreground deletion for this object.
    OwnerWaits,
    /// Other owners remain; references to absent or waiting owners are removed.
    OtherOwnersStay,
    /// The object and its dependents block each other's deletion.
    Cycle,
    /// The owner orphans this object.
    Orphaned,
    /// All dependents are orphaned.
    DependentsOrphaned,
    /// All dependents are gone.
    DependentsGone,
    /// The API server must be asked whether an owner exists.
    OwnerUnknown,
    /// An owner is in another namespace, which is invalid.
    OwnerElsewhere,
}

/// Knowledge that is not in the graph.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    /// Types by group and kind.
    pub types: BTreeMap<(String, String), ResourceType>,
    /// Results of existence checks of owners that are not in the graph.
    pub answers: BTreeMap<String, bool>,
    /// Objects for which an event about an owner in another namespace was emitted.
    pub reported: BTreeSet<String>,
}

/// The state of an owner, as seen by a dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Solid,
    Waiting,
    Gone,
    /// Must be checked on the server.
    Unknown,
    /// The owner's kind is not served, or cannot own this object: no decision is possible.
    Unclear,
}

/// Decides about the object with this uid.
pub(super) fn decide(uid: &str, graph: &Graph, knowledge: &Knowledge) -> Plan<Reason> {
    let Some(node) = graph.get(uid) else {
        return Plan::nothing();
    };
    if node.orphans_dependents() {
        return orphan(uid, node, graph);
    }
    if node.waits_for_dependents() {
        let held = graph.dependents(uid).any(|(_, dependent)| dependent.blocks(uid));
        return if held {
            Plan::nothing()
        } else {
            Plan::act(Reason::DependentsGone, without_finalizer(uid, node, FOREGROUND))
        };
    }
    if node.deleting || node.owners.is_empty() {
        return Plan::nothing();
    }
    collect(uid, node, graph, knowledge)
}

/// Orphans the dependents, then removes the finalizer.
fn orphan(uid: &str, node: &Node, graph: &Graph) -> Plan<Reason> {
    let mut plan = Plan::nothing();
    for (dependent_uid, dependent) in graph.dependents(uid) {
        let gone = BTreeSet::from([uid]);
        plan.push(Reason::Orphaned, without_owners(dependent_uid, dependent, &gone));
    }
    plan.push(Reason::DependentsOrphaned, without_finalizer(uid, node, ORPHAN));
    plan
}

fn collect(uid: &str, node: &Node, graph: &Graph, knowledge: &Knowledge) -> Plan<Reason> {
    let standings: Vec<(&OwnerReference, Standing)> = node
        .owners
        .iter()
        .map(|owner| (owner, standing(owner, node, graph, knowledge)))
        .collect();
    let are = |wanted: Standing| standings.iter().any(|(_, standing)| *standing == wanted);
    let mut plan = report_foreign_owner(uid, node, graph, knowledge);
    if are(Standing::Unclear) {
        return plan;
    }
    if are(Standing::Unknown) {
        for (owner, _) in standings.iter().filter(|(_, standing)| *standing == Standing::Unknown) {
            if let Some(read) = check_existence(owner, node, knowledge) {
                plan.push(Reason::OwnerUnknown, read);
            }
        }
        return plan;
    }
    let lost: BTreeSet<&str> = standings
        .iter()
        .filter(|(_, standing)| *standing != Standing::Solid)
        .map(|(owner, _)| owner.uid.as_str())
        .collect();
    if lost.is_empty() {
        return plan;
    }
    if are(Standing::Solid) {
        plan.push(Reason::OtherOwnersStay, without_owners(uid, node, &lost));
        return plan;
    }
    if are(Standing::Waiting) && graph.has_dependents(uid) {
        if graph
            .dependents(uid)
            .any(|(_, dependent)| dependent.waits_for_dependents())
        {
            plan.push(Reason::Cycle, unblocked(uid, node));
            // The next step is decided after this write is observed.
            if node.owners.iter().any(|owner| owner.block_owner_deletion == Some(true)) {
                return plan;
            }
            plan.actions.pop();
            plan.reasons.pop();
        }
        plan.push(Reason::OwnerWaits, delete(uid, node, Propagation::Foreground));
        return plan;
    }
    let has = |finalizer: &str| node.finalizers.iter().any(|present| present == finalizer);
    let propagation = if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    plan.push(Reason::OwnersGone, delete(uid, node, propagation));
    plan
}

fn standing(owner: &OwnerReference, node: &Node, graph: &Graph, knowledge: &Knowledge) -> Standing {
    if let Some(present) = graph.get(&owner.uid)
        && present.matches_reference(owner, node)
    {
        return if present.waits_for_dependents() {
            Standing::Waiting
        } else {
            Standing::Solid
        };
    }
    let Some(resource) = type_of(owner, knowledge) else {
        return Standing::Unclear;
    };
    if resource.namespaced && node.key.namespace.is_empty() {
        return Standing::Unclear;
    }
    if graph.is_absent(&owner.uid) {
        return Standing::Gone;
    }
    match knowledge.answers.get(&owner.uid) {
        Some(true) => Standing::Solid,
        Some(false) => Standing::Gone,
        None => Standing::Unknown,
    }
}

fn type_of<'a>(owner: &OwnerReference, knowledge: &'a Knowledge) -> Option<&'a ResourceType> {
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    knowledge.types.get(&(group.to_owned(), owner.kind.clone()))
}

fn check_existence(owner: &OwnerReference, node: &Node, knowledge: &Knowledge) -> Option<Action> {
    let resource = type_of(owner, knowledge)?.clone();
    let namespace = if resource.namespaced {
        node.key.namespace.as_str()
    } else {
        ""
    };
    Some(Action::Read {
        target: Target {
            key: ObjectKey::new(namespace, &owner.name),
            resource,
        },
        subresource: None,
    })
}

/// Emits an event on the dependent whose owner is in another namespace.
fn report_foreign_owner(uid: &str, node: &Node, graph: &Graph, knowledge: &Knowledge) -> Plan<Reason> {
    let mut plan = Plan::nothing();
    if knowledge.reported.contains(uid) {
        return plan;
    }
    let foreign = node.owners.iter().find(|owner| {
        graph
            .get(&owner.uid)
            .is_some_and(|known| known.resource.namespaced && known.key.namespace != node.key.namespace)
    });
    if let Some(owner) = foreign {
        let message = format!(
            "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {:?}",
            owner.api_version, owner.kind, node.key.namespace, owner.name, owner.uid, node.key.namespace
        );
        let event = Action::Event {
            about: Box::new(reference_of(&node.resource, &node.key, uid, &node.revision)),
            severity: Severity::Warning,
            reason: "OwnerRefInvalidNamespace",
            message,
        };
        plan.push(Reason::OwnerElsewhere, event);
    }
    plan
}

fn target(node: &Node) -> Target {
    Target {
        resource: (*node.resource).clone(),
        key: node.key.clone(),
    }
}

fn delete(uid: &str, node: &Node, propagation: Propagation) -> Action {
    Action::Delete {
        target: target(node),
        deletion: Deletion {
            preconditions: Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: Some(node.revision.clone()),
            },
            propagation: Some(propagation),
            grace_seconds: None,
        },
    }
}

/// A metadata patch with uid and resource version as preconditions.
fn change(uid: &str, node: &Node, field: &str, value: Value) -> Action {
    let mut metadata = json!({ "uid": uid, "resourceVersion": node.revision });
    metadata[field] = value;
    Action::Patch {
        target: target(node),
        subresource: None,
        patch: Patch::Merge(json!({ "metadata": metadata })),
    }
}

fn without_finalizer(uid: &str, node: &Node, finalizer: &str) -> Action {
    let left: Vec<&String> = node.finalizers.iter().filter(|present| *present != finalizer).collect();
    change(uid, node, "finalizers", json!(left))
}

fn without_owners(uid: &str, node: &Node, gone: &BTreeSet<&str>) -> Action {
    let left: Vec<&OwnerReference> = node
        .owners
        .iter()
        .filter(|owner| !gone.contains(owner.uid.as_str()))
        .collect();
    change(uid, node, "ownerReferences", json!(left))
}

fn unblocked(uid: &str, node: &Node) -> Action {
    let mut owners = node.owners.clone();
    for owner in &mut owners {
        owner.block_owner_deletion = Some(false);
    }
    change(uid, node, "ownerReferences", json!(owners))
}
