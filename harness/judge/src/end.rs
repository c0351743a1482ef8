//! What is left at the end of a run: for comparing the ends of disturbed runs with that of an undisturbed one. What of it
//! differs between two clean runs is `campaign::mask`'s.

use std::collections::BTreeMap;

use scenario::cloud::VmState;
use serde_json::Value;

use super::world::WorldState;
use crate::object::text;

/// Objects (less Events, whose number tells how a run went and not how it ended) and VMs, by name.
pub fn of_world(world: &WorldState) -> BTreeMap<String, String> {
    let mut end = BTreeMap::new();
    let mut drawn: BTreeMap<(&str, String), Vec<(&str, &Value)>> = BTreeMap::new();
    for ((kind, namespace, name), object) in world.objects.iter().filter(|((kind, ..), _)| *kind != "Event") {
        match without_drawn_end(kind, name, object) {
            Some(kin) => drawn
                .entry((kind, format!("{namespace}/{kin}")))
                .or_default()
                .push((name, object)),
            None => {
                let object = without_order_of_creation(kind, &without_steps(kind, object));
                end.insert(format!("{kind} {namespace}/{name}"), object.to_string());
            }
        }
    }
    for ((kind, kin), mut objects) in drawn {
        objects.sort_by_key(|(name, object)| (likeness(object), *name));
        for (number, (_, object)) in objects.into_iter().enumerate() {
            let name = format!("{kind} {kin}#{}", number + 1);
            end.insert(name, without_order_of_creation(kind, object).to_string());
        }
    }
    let mut vms: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in world.machines.keys() {
        let made = world.vms.values().filter(|vm| vm.machine == *name);
        let left: Vec<VmState> = world.vms_of(name).map(|vm| vm.state).collect();
        let words = format!("{} made, left: {left:?}", made.count());
        match beginning(name) {
            Some(beginning) => vms.entry(beginning).or_default().push(words),
            None => drop(end.insert(format!("VMs of {name}"), words)),
        }
    }
    for (beginning, mut words) in vms {
        words.sort_unstable();
        end.insert(format!("VMs of {beginning}*"), words.join("; "));
    }
    end
}

/// The beginning of a machine's name, and of all that is called after it, whose end is drawn as API servers draw theirs;
/// `None`: it is somebody's choice.
fn beginning(name: &str) -> Option<&str> {
    const DRAWN: &str = "bcdfghjklmnpqrstvwxz2456789";
    let (beginning, end) = name.split_at_checked(name.rfind('-')? + 1)?;
    (end.len() == 5 && end.chars().all(|letter| DRAWN.contains(letter))).then_some(beginning)
}

/// What names of objects have in common whose ends are drawn; `None`: this one's is not. They are told apart by where they
/// are, and counted.
fn without_drawn_end(kind: &str, name: &str, object: &Value) -> Option<String> {
    match kind {
        "PersistentVolume" => Some(format!("of {}", text(object, "/spec/claimRef/name"))),
        "VolumeAttachment" => Some(format!("to {}", text(object, "/spec/nodeName"))),
        "Node" | "Lease" => beginning(name).map(str::to_owned),
        _ => {
            let beginning = text(object, "/metadata/generateName");
            (!beginning.is_empty() && name.starts_with(beginning)).then(|| beginning.to_owned())
        }
    }
}

/// Less what tells only which of several alike was made first, or took which pods: the addresses of a Node and of a Pod,
/// which are given from rows, and the images that a Node has run. Conditions stand in the order of their types.
fn without_order_of_creation(kind: &str, object: &Value) -> Value {
    let rows: &[&str] = match kind {
        "Node" => &["addresses", "images"],
        "Pod" => &["podIP", "podIPs", "hostIP", "hostIPs"],
        _ => &[],
    };
    let mut object = object.clone();
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|field, _| !rows.contains(&field.as_str()));
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            conditions.sort_by_key(|condition| text(condition, "/type").to_owned());
        }
    }
    object
}

/// Less what tells only in how many steps it got there: the generation of a MachineSet whose deployment sizes it. Whether its
/// status is about its newest spec is kept.
fn without_steps(kind: &str, object: &Value) -> Value {
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

/// What tells objects of drawn names apart: where one is, as far as it is anywhere, how it is, what was last done with it, and
/// what was written on it.
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
    fn machines_of_drawn_names_are_told_apart_by_what_was_last_done_with_them() {
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
    fn which_of_several_alike_was_made_first_says_nothing() {
        let node = serde_json::json!({ "status": {
            "addresses": [{ "address": "10.0.0.4" }],
            "images": [{ "names": ["example.com/main"] }],
            "phase": "Running",
        } });
        let rest = serde_json::json!({ "status": { "phase": "Running" } });
        assert_eq!(without_order_of_creation("Node", &node), rest);
        assert_eq!(without_order_of_creation("Machine", &node), node);
        let pod = serde_json::json!({ "status": { "podIP": "100.64.2.2", "hostIP": "10.0.0.4", "phase": "Running" } });
        assert_eq!(without_order_of_creation("Pod", &pod), rest);
    }

    #[rstest]
    #[case::seen(3, 3, 2, 2, true)]
    #[case::not_seen(3, 3, 3, 2, false)]
    fn in_how_many_steps_a_set_was_sized_says_nothing(
        #[case] generation: u64,
        #[case] observed: u64,
        #[case] other_generation: u64,
        #[case] other_observed: u64,
        #[case] alike: bool,
    ) {
        let set = |owner: &str, generation: u64, observed: u64| {
            let set = serde_json::json!({
                "metadata": { "generation": generation, "ownerReferences": [{ "kind": owner }] },
                "status": { "observedGeneration": observed },
            });
            without_steps("MachineSet", &set)
        };
        let is_alike = |owner: &str| set(owner, generation, observed) == set(owner, other_generation, other_observed);
        assert_eq!(is_alike("MachineDeployment"), alike);
        assert!(!is_alike("Nobody"), "then each step was a person's");
    }

    #[rstest]
    #[case::of_a_set("md-a-6d8d7-x2k4p", Some("md-a-6d8d7-"))]
    #[case::chosen("md-a-1", None)]
    #[case::a_word("machine-alpha", None)]
    #[case::without_a_beginning("x2k4p", None)]
    fn names_whose_end_is_drawn_are_known(#[case] name: &str, #[case] is: Option<&str>) {
        assert_eq!(beginning(name), is);
    }
}
