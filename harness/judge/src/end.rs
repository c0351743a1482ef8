//! The final state of a run, for comparing disturbed runs with an undisturbed one. `campaign::mask` masks what differs
//! between two clean runs.

use std::collections::BTreeMap;

use scenario::cloud::VmState;
use serde_json::Value;

use super::world::WorldState;
use crate::object::text;

/// Final objects and VMs by name.
pub fn of_world(world: &WorldState) -> BTreeMap<String, String> {
    let mut end = BTreeMap::new();
    let mut generated: BTreeMap<(&str, String), Vec<(&str, &Value)>> = BTreeMap::new();
    let compared = world
        .objects
        .iter()
        .filter(|((kind, _, name), _)| is_compared(kind, name));
    for ((kind, namespace, name), object) in compared {
        match common_name(kind, name, object) {
            Some(common) => generated
                .entry((kind, format!("{namespace}/{common}")))
                .or_default()
                .push((name, object)),
            None => {
                let object = without_creation_order(kind, &without_intermediate_steps(kind, object));
                end.insert(format!("{kind} {namespace}/{name}"), object.to_string());
            }
        }
    }
    for ((kind, common), mut objects) in generated {
        objects.sort_by_key(|(name, object)| (likeness(object), *name));
        for (number, (_, object)) in objects.into_iter().enumerate() {
            let name = format!("{kind} {common}#{}", number + 1);
            end.insert(name, without_creation_order(kind, object).to_string());
        }
    }
    let mut vms: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in world.machines.keys() {
        let created = world.vms.values().filter(|vm| vm.machine == *name);
        let existing: Vec<VmState> = world.vms_of(name).map(|vm| vm.state).collect();
        let summary = format!("{} created, existing: {existing:?}", created.count());
        match generated_prefix(name) {
            Some(prefix) => vms.entry(prefix).or_default().push(summary),
            None => drop(end.insert(format!("VMs of {name}"), summary)),
        }
    }
    for (prefix, mut summary) in vms {
        summary.sort_unstable();
        end.insert(format!("VMs of {prefix}*"), summary.join("; "));
    }
    end
}

/// Events are left out: their number depends on the course of a run, not on its result. So is the certificate of the API
/// server, which each server creates for itself.
fn is_compared(kind: &str, name: &str) -> bool {
    kind != "Event" && (kind, name) != ("ConfigMap", "kube-root-ca.crt")
}

/// The prefix of a name whose suffix is generated as by an API server; `None`: the name is not generated.
fn generated_prefix(name: &str) -> Option<&str> {
    const SUFFIX_CHARACTERS: &str = "bcdfghjklmnpqrstvwxz2456789";
    let (prefix, end) = name.split_at_checked(name.rfind('-')? + 1)?;
    (end.len() == 5 && end.chars().all(|letter| SUFFIX_CHARACTERS.contains(letter))).then_some(prefix)
}

/// The common name of objects with generated names; `None`: the name is not generated. Objects with the same common
/// name are numbered in the order of [`likeness`].
fn common_name(kind: &str, name: &str, object: &Value) -> Option<String> {
    match kind {
        "PersistentVolume" => Some(format!("of {}", text(object, "/spec/claimRef/name"))),
        "VolumeAttachment" => Some(format!("to {}", text(object, "/spec/nodeName"))),
        "Node" | "Lease" => generated_prefix(name).map(str::to_owned),
        _ => {
            let prefix = text(object, "/metadata/generateName");
            (!prefix.is_empty() && name.starts_with(prefix)).then(|| prefix.to_owned())
        }
    }
}

/// Removes fields that only depend on the order in which similar objects were created or scheduled: addresses of Nodes
/// and Pods, which come from pools, and the images that a Node has run. Sorts conditions by type.
fn without_creation_order(kind: &str, object: &Value) -> Value {
    let pool_fields: &[&str] = match kind {
        "Node" => &["addresses", "images"],
        "Pod" => &["podIP", "podIPs", "hostIP", "hostIPs"],
        _ => &[],
    };
    let mut object = object.clone();
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|field, _| !pool_fields.contains(&field.as_str()));
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            conditions.sort_by_key(|condition| text(condition, "/type").to_owned());
        }
    }
    object
}

/// Removes the field that only depends on the number of intermediate steps: the generation of a MachineSet that its
/// deployment scales. The result still shows whether the status reflects the newest spec.
fn without_intermediate_steps(kind: &str, object: &Value) -> Value {
    let mut object = object.clone();
    if kind != "MachineSet" || text(&object, "/metadata/ownerReferences/0/kind") != "MachineDeployment" {
        return object;
    }
    let generation = object["metadata"]["generation"].take();
    if object["status"]["observedGeneration"] == generation {
        object["status"]["observedGeneration"] = Value::from("newest");
    }
    object
}

/// Sorts objects with generated names: by node, phase, last operation, annotations and conditions.
fn likeness(object: &Value) -> Vec<&str> {
    let fields = [
        "/spec/nodeName",
        "/status/phase",
        "/status/currentStatus/phase",
        "/status/lastOperation/type",
    ];
    let mut likeness: Vec<&str> = fields.map(|field| text(object, field)).to_vec();
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    likeness.extend(annotations.into_iter().flatten().map(|(key, _)| key.as_str()));
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    likeness.extend(
        conditions
            .into_iter()
            .flatten()
            .map(|condition| text(condition, "/type")),
    );
    likeness
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn machines_with_generated_names_are_sorted_by_their_last_operation() {
        let end = |first: &str, second: &str| {
            let mut world = WorldState::default();
            for (name, last) in [("md-a-x2k4p", first), ("md-a-z9k4p", second)] {
                let machine = serde_json::json!({
                    "metadata": { "generateName": "md-a-" },
                    "status": { "lastOperation": { "type": last } },
                });
                let key = ("Machine", "ns".to_owned(), name.to_owned());
                world.objects.insert(key, machine);
            }
            of_world(&world)
        };
        assert_eq!(end("Create", "HealthCheck"), end("HealthCheck", "Create"));
        assert_ne!(end("Create", "HealthCheck"), end("Create", "Create"));
    }

    #[test]
    fn the_creation_order_of_similar_objects_does_not_matter() {
        let node = serde_json::json!({ "status": {
            "addresses": [{ "address": "10.0.0.4" }],
            "images": [{ "names": ["example.com/main"] }],
            "phase": "Running",
        } });
        let rest = serde_json::json!({ "status": { "phase": "Running" } });
        assert_eq!(without_creation_order("Node", &node), rest);
        assert_eq!(without_creation_order("Machine", &node), node);
        let pod = serde_json::json!({ "status": { "podIP": "100.64.2.2", "hostIP": "10.0.0.4", "phase": "Running" } });
        assert_eq!(without_creation_order("Pod", &pod), rest);
    }

    #[rstest]
    #[case::seen(3, 3, 2, 2, true)]
    #[case::not_seen(3, 3, 3, 2, false)]
    fn the_number_of_steps_in_which_a_deployment_scales_a_set_does_not_matter(
        #[case] generation: u64,
        #[case] observed: u64,
        #[case] other_generation: u64,
        #[case] other_observed: u64,
        #[case] equal: bool,
    ) {
        let set = |owner: &str, generation: u64, observed: u64| {
            let set = serde_json::json!({
                "metadata": { "generation": generation, "ownerReferences": [{ "kind": owner }] },
                "status": { "observedGeneration": observed },
            });
            without_intermediate_steps("MachineSet", &set)
        };
        let is_equal = |owner: &str| set(owner, generation, observed) == set(owner, other_generation, other_observed);
        assert_eq!(is_equal("MachineDeployment"), equal);
        assert!(
            !is_equal("Other"),
            "without a deployment, each step is a change by a user"
        );
    }

    #[rstest]
    #[case::of_a_set("md-a-6d8d7-x2k4p", Some("md-a-6d8d7-"))]
    #[case::chosen_by_user("md-a-1", None)]
    #[case::a_word("machine-alpha", None)]
    #[case::without_a_prefix("x2k4p", None)]
    fn generated_names_are_recognized(#[case] name: &str, #[case] expected: Option<&str>) {
        assert_eq!(generated_prefix(name), expected);
    }
}
