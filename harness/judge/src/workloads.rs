//! Workloads in the world: their pods, and the volumes of their claims.

use std::collections::BTreeSet;

use scenario::expect::{Attached, Condition, FieldIs, PodState, Pods, PodsOn};
use scenario::workload::APP;
use serde_json::Value;

use super::world::WorldState;
use crate::object::text;

/// Whether `number` is within optional bounds.
pub(super) fn within(number: usize, minimum: Option<usize>, maximum: Option<usize>) -> bool {
    minimum.is_none_or(|minimum| number >= minimum) && maximum.is_none_or(|maximum| number <= maximum)
}

/// The objects of a kind in all namespaces.
fn all<'a>(kind: &'a str, world: &'a WorldState) -> impl Iterator<Item = &'a Value> {
    let objects = world.objects.iter();
    objects
        .filter(move |((of, _, _), _)| *of == kind)
        .map(|(_, object)| object)
}

fn pods_of<'a>(workload: &'a str, world: &'a WorldState) -> impl Iterator<Item = &'a Value> {
    all("Pod", world).filter(move |pod| pod["metadata"]["labels"][APP] == workload)
}

/// The pods that a condition selects.
pub(super) fn selected<'a>(pods: &'a Pods, world: &'a WorldState) -> impl Iterator<Item = &'a Value> {
    let on = |pod: &Value| {
        let node = pods.on.as_deref();
        node.is_none_or(|node| text(pod, "/spec/nodeName") == node)
    };
    pods_of(&pods.of, world).filter(move |pod| on(pod) && pods.are.is_none_or(|state| is(pod, state)))
}

fn is(pod: &Value, state: PodState) -> bool {
    let deleting = !text(pod, "/metadata/deletionTimestamp").is_empty();
    match state {
        PodState::Ready => !deleting && condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True"),
        PodState::Unschedulable => {
            !deleting && condition(pod, "PodScheduled").is_some_and(|found| found["reason"] == "Unschedulable")
        }
        PodState::Terminating => deleting,
    }
}

/// A condition of an object's status.
pub(super) fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)
}

/// The pods of a workload on a node.
pub(super) fn on_node<'a>(on: &'a PodsOn, world: &'a WorldState) -> impl Iterator<Item = &'a Value> {
    pods_of(&on.of, world).filter(|pod| text(pod, "/spec/nodeName") == on.on)
}

/// The condition that the current pods stay the same; false if there are none.
pub(super) fn unchanged_pods(on: &PodsOn, world: &WorldState) -> Condition {
    let mut unchanged_pods = Vec::new();
    for pod in on_node(on, world) {
        let has = |field: &str, is: Value| {
            Condition::Field(FieldIs {
                api_version: None,
                kind: "Pod".to_owned(),
                name: text(pod, "/metadata/name").to_owned(),
                field: field.to_owned(),
                is,
            })
        };
        unchanged_pods.push(has("/metadata/uid", pod["metadata"]["uid"].clone()));
        unchanged_pods.push(has("/metadata/deletionTimestamp", Value::Null));
    }
    match unchanged_pods.is_empty() {
        true => Condition::Any(unchanged_pods),
        false => Condition::All(unchanged_pods),
    }
}

/// The volumes of a claim.
pub(super) fn volumes_for<'a>(claim: &'a str, world: &'a WorldState) -> impl Iterator<Item = &'a Value> {
    all("PersistentVolume", world).filter(move |volume| text(volume, "/spec/claimRef/name") == claim)
}

/// The selected nodes to which a volume of the claim is attached.
pub(super) fn nodes_of<'a>(attached: &'a Attached, world: &'a WorldState) -> BTreeSet<&'a str> {
    let mut nodes = attachments_of(&attached.claim, world);
    if let Some(machine) = &attached.to {
        nodes.retain(|node| node == machine);
    }
    nodes
}

fn attachments_of<'a>(claim: &'a str, world: &'a WorldState) -> BTreeSet<&'a str> {
    let volumes: BTreeSet<&str> = volumes_for(claim, world)
        .map(|volume| text(volume, "/metadata/name"))
        .collect();
    all("VolumeAttachment", world)
        .filter(|attachment| attachment["status"]["attached"] == true)
        .filter(|attachment| volumes.contains(text(attachment, "/spec/source/persistentVolumeName")))
        .map(|attachment| text(attachment, "/spec/nodeName"))
        .collect()
}

/// Each pod of a workload with its node and state.
pub(super) fn describe_pods(workload: &str, world: &WorldState) -> String {
    let pods: Vec<String> = pods_of(workload, world)
        .map(|pod| {
            let node = match text(pod, "/spec/nodeName") {
                "" => "no node",
                node => node,
            };
            let states = [PodState::Ready, PodState::Unschedulable, PodState::Terminating];
            let state = states.into_iter().find(|state| is(pod, *state));
            let state = state.map_or(text(pod, "/status/phase").to_owned(), |state| state.to_string());
            format!("{} on {node} {state}", text(pod, "/metadata/name"))
        })
        .collect();
    format!("{workload} has {} pod(s): [{}]", pods.len(), pods.join(", "))
}

/// The volumes of a claim, and the nodes that they are attached to.
pub(super) fn describe_volumes(claim: &str, world: &WorldState) -> String {
    let nodes: Vec<&str> = attachments_of(claim, world).into_iter().collect();
    format!(
        "claim {claim} has {} volume(s), attached to [{}]",
        volumes_for(claim, world).count(),
        nodes.join(", ")
    )
}

#[cfg(test)]
#[path = "workloads_tests.rs"]
mod tests;
