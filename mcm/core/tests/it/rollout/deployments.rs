//! Deployments: validation, the newest set, proportional scaling, rollback, pause, the autoscaler's list, nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::deployment::RollbackConfig;
use mcm_api::{MachineDeployment, MachineSet, Phase, keys};
use mcm_core::deployment::{NodesByName, Reason, Settings, View, decide, problems};
use mcm_core::steps::{Kind, OwnerAction, Plan};
use rstest::rstest;
use serde_json::{Value, json};

use super::sequences::{deployment, rolling};
use super::world::World;
use crate::fixtures::start;

fn ready(replicas: i32, strategy: Value) -> MachineDeployment {
    let mut deployment = deployment(replicas, strategy);
    deployment.metadata.uid = Some("uid-md".to_owned());
    deployment.metadata.finalizers = Some(vec![keys::MACHINE_FINALIZER.to_owned()]);
    deployment
}

#[rstest]
#[case::good(json!({}), None)]
#[case::recreate(json!({"strategy": {"type": "Recreate"}}), None)]
#[case::defaults(json!({"strategy": {"type": "", "rollingUpdate": {}}}), None)]
#[case::rolling_without_max_surge(json!({"strategy": {"rollingUpdate": {"maxSurge": null}}}), None)]
#[case::rolling_without_max_unavailable(json!({"strategy": {"rollingUpdate": {"maxUnavailable": null}}}), None)]
#[case::in_place(json!({"strategy": {"type": "InPlaceUpdate", "inPlaceUpdate": {"orchestrationType": "Auto", "maxSurge": 1, "maxUnavailable": 1}}}), None)]
#[case::in_place_without_max_surge(json!({"strategy": {"type": "InPlaceUpdate", "inPlaceUpdate": {"orchestrationType": "Auto", "maxUnavailable": 1}}}), None)]
#[case::in_place_without_max_unavailable(json!({"strategy": {"type": "InPlaceUpdate", "inPlaceUpdate": {"orchestrationType": "Manual", "maxSurge": 1}}}), None)]
#[case::unknown_orchestration_type(json!({"strategy": {"type": "InPlaceUpdate", "inPlaceUpdate": {"orchestrationType": "Sideways"}}}), Some("orchestrationType must be either Auto or Manual"))]
#[case::negative(json!({"replicas": -1}), Some("spec.replicas: -1 is negative"))]
#[case::unknown_strategy(json!({"strategy": {"type": "Sideways"}}), Some("strategy type must be one of [InPlaceUpdate Recreate RollingUpdate]"))]
#[case::not_a_number(json!({"strategy": {"rollingUpdate": {"maxSurge": "3"}}}), Some("unable to convert maxSurge to int32"))]
#[case::not_a_percentage(json!({"strategy": {"rollingUpdate": {"maxUnavailable": "some"}}}), Some("unable to convert maxUnavailable to int32"))]
#[case::neither_surge_nor_unavailable(json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}), None)]
#[case::no_orchestration_type(json!({"strategy": {"type": "InPlaceUpdate"}}), Some("orchestrationType must be either Auto or Manual"))]
#[case::no_selector(json!({"selector": null}), Some("spec.selector: Required"))]
#[case::no_match(json!({"selector": {"matchLabels": {"name": "other"}}}), Some("does not match"))]
#[case::no_kind(json!({"template": {"spec": {"class": {"kind": ""}}}}), Some("Kind is required"))]
#[case::no_class(json!({"template": {"spec": {"class": {"name": ""}}}}), Some("Name is required"))]
fn an_invalid_deployment_only_gets_a_condition_and_an_event(#[case] change: Value, #[case] expected: Option<&str>) {
    let mut value = serde_json::to_value(ready(1, rolling(1, 1))).unwrap();
    json_patch::merge(&mut value["spec"], &change);
    let deployment: MachineDeployment = serde_json::from_value(value).unwrap();
    let found = problems(&deployment);
    let Some(expected) = expected else {
        assert_eq!(found, Vec::<String>::new());
        return;
    };
    assert!(found.iter().any(|text| text.contains(expected)), "{found:?}");
    let plan = decided(View {
        deployment,
        nodes: Some(NodesByName::new_sync()),
        ..View::default()
    });
    assert_eq!(status(&plan)["conditions"][0]["type"], "Invalid");
    assert_eq!(plan.steps.len(), 2, "a status and an event");
}

fn decided(view: View) -> Plan<Reason> {
    decide(&view, Settings::default(), start())
}

fn status(plan: &Plan<Reason>) -> Value {
    let mut written = plan.steps.iter().filter_map(|step| match &step.action {
        OwnerAction::WriteStatus { patch, .. } => Some(patch["status"].clone()),
        _ => None,
    });
    written.next().unwrap_or(Value::Null)
}

/// A set of that class and size, with the recorded desired and maximum replicas of the deployment.
fn sized(number: i32, class: &str, size: i32, recorded: Option<(i32, i32)>) -> Arc<MachineSet> {
    let mut annotations = json!({ "deployment.kubernetes.io/revision": number.to_string() });
    if let Some((desired, most)) = recorded {
        annotations[keys::DESIRED_REPLICAS_ANNOTATION] = json!(desired.to_string());
        annotations[keys::MAX_REPLICAS_ANNOTATION] = json!(most.to_string());
    }
    let set = json!({
        "metadata": {
            "name": format!("ms{number}"), "uid": format!("uid-ms{number}"), "resourceVersion": "5",
            "labels": { "name": "md", "machine-template-hash": number.to_string() },
            "annotations": annotations,
            "creationTimestamp": format!("2027-01-01T00:00:0{number}Z"),
            "ownerReferences": [{
                "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment", "name": "md",
                "uid": "uid-md", "controller": true,
            }],
        },
        "spec": {
            "replicas": size,
            "selector": { "matchLabels": { "name": "md", "machine-template-hash": number.to_string() } },
            "template": {
                "metadata": { "labels": { "name": "md", "machine-template-hash": number.to_string() } },
                "spec": { "class": { "kind": "MachineClass", "name": class } },
            },
        },
    });
    Arc::new(serde_json::from_value(set).unwrap())
}

/// The size and the recorded desired and maximum replicas of each set after the plan.
fn sizes(sets: &[Arc<MachineSet>], plan: &Plan<Reason>) -> Vec<(i64, String, String)> {
    sets.iter()
        .map(|set| {
            let mut value = serde_json::to_value(&**set).unwrap();
            for step in &plan.steps {
                if let OwnerAction::Patch {
                    kind: Kind::Set,
                    name,
                    patch,
                } = &step.action
                    && Some(name) == set.metadata.name.as_ref()
                {
                    json_patch::merge(&mut value, patch);
                }
            }
            let annotations = &value["metadata"]["annotations"];
            let text = |key: &str| annotations[key].as_str().unwrap_or_default().to_owned();
            let size = value["spec"]["replicas"].as_i64().unwrap_or_default();
            (
                size,
                text(keys::DESIRED_REPLICAS_ANNOTATION),
                text(keys::MAX_REPLICAS_ANNOTATION),
            )
        })
        .collect()
}

#[rstest]
#[case::up([1, 3, 5], (7, 9), 10, [1, 3, 8])]
#[case::down([1, 3, 5], (7, 9), 3, [1, 2, 2])]
#[case::down_again([1, 3, 6], (8, 10), 5, [1, 2, 4])]
fn a_rollout_is_scaled_in_proportion(
    #[case] before: [i32; 3],
    #[case] recorded: (i32, i32),
    #[case] replicas: i32,
    #[case] after: [i64; 3],
) {
    let sets = vec![
        sized(1, "class-x", before[0], Some(recorded)),
        sized(2, "class-y", before[1], Some(recorded)),
        sized(3, "class-a", before[2], Some(recorded)),
    ];
    let plan = decided(View {
        deployment: ready(replicas, rolling(2, 0)),
        sets: sets.clone(),
        nodes: Some(NodesByName::new_sync()),
        ..View::default()
    });
    let (desired, most) = (replicas.to_string(), (replicas + 2).to_string());
    let expected: Vec<_> = after
        .iter()
        .map(|size| (*size, desired.clone(), most.clone()))
        .collect();
    assert_eq!(sizes(&sets, &plan), expected);
}

#[test]
fn a_paused_deployment_without_a_newest_set_scales_its_old_one() {
    let sets = vec![sized(1, "class-x", 1, Some((2, 3)))];
    let mut deployment = ready(1, rolling(2, 0));
    deployment.spec.paused = true;
    let view = View {
        deployment,
        sets: sets.clone(),
        ..View::default()
    };
    assert_eq!(sizes(&sets, &decided(view)), [(1, "1".to_owned(), "3".to_owned())]);
}

#[rstest]
#[case::rolling(rolling(1, 0), 1)]
#[case::rolling_without_surge(rolling(0, 1), 0)]
#[case::recreate(json!({"type": "Recreate"}), 0)]
#[case::in_place_manual(json!({"type": "InPlaceUpdate", "inPlaceUpdate": {"orchestrationType": "Manual"}}), 0)]
#[case::in_place(json!({"type": "InPlaceUpdate", "inPlaceUpdate": {"orchestrationType": "Auto", "maxSurge": 2}}), 2)]
fn the_initial_size_of_a_new_set(#[case] strategy: Value, #[case] expected: i32) {
    let mut world = World::new(deployment(5, strategy));
    world.settle();
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned()
    });
    let plan = decided(world.deployment_view().unwrap());
    let created = plan.steps.iter().find_map(|step| match &step.action {
        OwnerAction::CreateSet(set) => Some(set.spec.replicas),
        _ => None,
    });
    // Recreate creates the set after the last old machine is deleted.
    assert_eq!(created.unwrap_or_default(), expected);
}

#[test]
fn an_equal_set_is_reused_and_gets_changes_that_need_no_new_machines() {
    let mut world = World::new(deployment(1, rolling(1, 0)));
    world.settle();
    let name = world.sets.keys().next().cloned().unwrap();
    world.edit("settings", |one| {
        one.spec.template.spec.configuration.drain_timeout = Some("1h".parse().unwrap());
        one.spec.template.spec.node_template =
            serde_json::from_value(json!({"metadata": {"labels": {"x": "y"}}})).unwrap();
    });
    world.settle();
    assert_eq!(world.sets.keys().cloned().collect::<Vec<_>>(), [name]);
    assert_eq!(world.created_machines, 1);
    let machine = world.machines.values().next().unwrap();
    assert_eq!(machine.spec.configuration.drain_timeout, Some("1h".parse().unwrap()));
    assert!(machine.spec.node_template.is_some());
}

#[test]
fn a_rollback_to_a_revision_restores_its_template() {
    let mut world = World::new(deployment(1, rolling(1, 0)));
    for class in ["class-a", "class-b", "class-c"] {
        world.edit(class, |one| one.spec.template.spec.class.name = class.to_owned());
        world.settle();
    }
    world.edit("rollback", |one| {
        one.spec.rollback_to = Some(RollbackConfig { revision: 1 })
    });
    world.settle();
    world.assert_settled("class-a");
    let deployment = world.deployment.as_ref().unwrap();
    assert!(deployment.spec.rollback_to.is_none());
    assert_eq!(
        deployment.metadata.annotations.as_ref().unwrap()[keys::REVISION_ANNOTATION],
        "4"
    );
    let newest = world.sets.values().find(|set| set.spec.replicas == 1).unwrap();
    assert_eq!(
        newest.metadata.annotations.as_ref().unwrap()[keys::REVISION_HISTORY_ANNOTATION],
        "1"
    );
}

#[rstest]
#[case::unknown(9, "Unable to find the revision to rollback to.")]
#[case::the_same(1, "contains the same template")]
#[case::no_previous(0, "Unable to find last revision.")]
fn an_impossible_rollback_is_reported_and_dropped(#[case] revision: i64, #[case] expected: &str) {
    let mut world = World::new(deployment(1, rolling(1, 0)));
    world.settle();
    world.edit("rollback", |one| {
        one.spec.rollback_to = Some(RollbackConfig { revision })
    });
    let plan = decided(world.deployment_view().unwrap());
    let reported = plan
        .steps
        .iter()
        .any(|step| matches!(&step.action, OwnerAction::RecordEvent { message, .. } if message.contains(expected)));
    assert!(reported, "{plan:#?}");
    world.settle();
    assert!(world.deployment.as_ref().unwrap().spec.rollback_to.is_none());
}

#[test]
fn a_paused_deployment_creates_no_new_set() {
    let mut world = World::new(deployment(2, rolling(1, 0)));
    world.settle();
    world.edit("pause", |one| one.spec.paused = true);
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned()
    });
    world.settle();
    assert_eq!(world.sets.len(), 1);
    let conditions = &world.deployment.as_ref().unwrap().status.conditions;
    assert!(
        conditions
            .iter()
            .any(|condition| condition.reason == "DeploymentPaused")
    );
}

#[test]
fn old_sets_beyond_the_history_limit_are_deleted() {
    let mut deployment = deployment(1, rolling(1, 0));
    deployment.spec.revision_history_limit = Some(1);
    let mut world = World::new(deployment);
    for class in ["class-a", "class-b", "class-c", "class-d"] {
        world.edit(class, |one| one.spec.template.spec.class.name = class.to_owned());
        world.settle();
    }
    assert_eq!(world.sets.len(), 2, "the newest and one old set");
}

#[test]
fn a_reverted_template_leaves_no_taint_and_its_set_can_grow() {
    let mut world = World::new(deployment(
        3,
        json!({"type": "InPlaceUpdate", "inPlaceUpdate": {"orchestrationType": "Manual"}}),
    ));
    world.settle();
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned()
    });
    world.settle();
    world.edit("class a", |one| {
        one.spec.template.spec.class.name = "class-a".to_owned()
    });
    world.settle();
    world.edit("more", |one| one.spec.replicas = 5);
    world.settle();
    world.assert_settled("class-a");
}

#[test]
fn a_terminating_machine_is_counted_in_addition_to_its_replacement() {
    let mut world = World::new(deployment(2, rolling(0, 2)));
    world.settle();
    world.drain = 50;
    let roll_to = |world: &mut World, class: &str| {
        world.edit(class, |one| one.spec.template.spec.class.name = class.to_owned());
        for _ in 0..6 {
            for actor in world.actors() {
                // The second decision changes sizes before machines follow the first.
                world.act(&actor);
                world.act(&actor);
                assert!(world.machines.len() <= 2, "{}", world.tail());
            }
        }
    };
    roll_to(&mut world, "class-b");
    let deleted = world.machines.keys().next().cloned().unwrap();
    world.machines.remove(&deleted);
    world.nodes.remove(&deleted);
    roll_to(&mut world, "class-a");
    assert_eq!(world.machines.len(), 2, "one machine is terminating, and one is new");
    world.settle();
    world.assert_settled("class-a");
}

#[test]
fn a_node_cordoned_by_a_user_before_its_update_stays_cordoned() {
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "orchestrationType": "Auto", "maxSurge": 0, "maxUnavailable": 1 },
    });
    let mut world = World::new(deployment(3, strategy));
    world.settle();
    let names: Vec<String> = world.machines.keys().cloned().collect();
    world.edit_node(&names[1], |node| {
        node.spec.get_or_insert_default().unschedulable = Some(true);
    });
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned()
    });
    world.settle();
    world.assert_settled("class-b");
    let cordoned = |name: &String| world.nodes[name].spec.as_ref().and_then(|spec| spec.unschedulable);
    let after: Vec<_> = names.iter().map(cordoned).collect();
    assert_eq!(after, [None, Some(true), None]);
    let annotated = |name: &String| {
        let annotations = world.nodes[name].metadata.annotations.clone().unwrap_or_default();
        annotations.contains_key(keys::CORDONED_BEFORE_UPDATE_ANNOTATION)
    };
    assert!(
        !names.iter().any(annotated),
        "the annotation is removed after the update"
    );
}

/// The autoscaler writes its list, the scale time and the replicas in one request.
fn choose(world: &mut World, names: &[&str], replicas: i32) {
    let time = world.now.to_string();
    let list = names
        .iter()
        .map(|name| format!("{name}~{time}"))
        .collect::<Vec<_>>()
        .join(",");
    world.edit("the autoscaler chooses", |one| {
        let annotations = one.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::TRIGGER_DELETION_ANNOTATION.to_owned(), list.clone());
        annotations.insert(keys::LAST_SCALE_ANNOTATION.to_owned(), time.clone());
        one.spec.replicas = replicas;
    });
}

#[test]
fn only_the_machines_chosen_by_the_autoscaler_are_deleted() {
    let mut world = World::new(deployment(6, rolling(1, 0)));
    world.settle();
    let names: Vec<String> = world.machines.keys().cloned().collect();
    choose(&mut world, &[&names[4], &names[1]], 4);
    world.settle();
    let left: Vec<String> = world.machines.keys().cloned().collect();
    let expected: Vec<String> = names
        .iter()
        .enumerate()
        .filter(|(index, _)| ![1, 4].contains(index))
        .map(|(_, name)| name.clone())
        .collect();
    assert_eq!(left, expected);
    assert_eq!(world.created_machines, 6, "no further machine is created");
    let annotations = world.deployment.as_ref().unwrap().metadata.annotations.clone().unwrap();
    assert!(
        !annotations.contains_key(keys::TRIGGER_DELETION_ANNOTATION),
        "the list is removed"
    );
}

#[test]
fn a_chosen_machine_is_replaced_if_the_replicas_were_raised_again() {
    let mut world = World::new(deployment(6, rolling(1, 0)));
    world.settle();
    let name = world.machines.keys().next().cloned().unwrap();
    choose(&mut world, &[&name], 5);
    world.edit("a scale-up", |one| one.spec.replicas = 6);
    world.lenient = true;
    world.settle();
    assert!(!world.machines.contains_key(&name));
    assert_eq!((world.machines.len(), world.created_machines), (6, 7));
}

#[test]
fn a_second_choice_is_deleted_while_the_first_still_drains() {
    let mut world = World::new(deployment(6, rolling(1, 0)));
    world.settle();
    world.drain = 50;
    let names: Vec<String> = world.machines.keys().cloned().collect();
    choose(&mut world, &[&names[0]], 5);
    for _ in 0..4 {
        for actor in world.actors() {
            world.act(&actor);
        }
    }
    world.edit("a scale-up", |one| one.spec.replicas = 6);
    for _ in 0..4 {
        for actor in world.actors() {
            world.act(&actor);
        }
    }
    choose(&mut world, &[&names[1]], 5);
    world.settle();
    assert!(!world.machines.contains_key(&names[0]) && !world.machines.contains_key(&names[1]));
    assert!(
        names[2..].iter().all(|name| world.machines.contains_key(name)),
        "{}",
        world.tail()
    );
    assert_eq!(world.created_machines, 7);
}

#[test]
fn the_autoscalers_priority_is_reset_with_its_list_and_a_users_priority_stays() {
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle();
    let names: Vec<String> = world.machines.keys().cloned().collect();
    let mark = |machine: &mut mcm_api::Machine, time: Option<&str>| {
        let annotations = machine.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::PRIORITY_ANNOTATION.to_owned(), "1".to_owned());
        if let Some(time) = time {
            annotations.insert(keys::MARKED_ANNOTATION.to_owned(), time.to_owned());
        }
    };
    world.edit_machine(&names[0], |machine| mark(machine, Some("2027-01-15T08:00:00Z")));
    world.edit_machine(&names[1], |machine| mark(machine, None));
    world.settle();
    let priority = |world: &World, name: &str| {
        world.machines[name].metadata.annotations.clone().unwrap()[keys::PRIORITY_ANNOTATION].clone()
    };
    assert_eq!(
        (
            priority(&world, &names[0]).as_str(),
            priority(&world, &names[1]).as_str()
        ),
        ("3", "1")
    );
    world.edit("two", |one| one.spec.replicas = 2);
    world.settle();
    assert!(
        !world.machines.contains_key(&names[1]),
        "the user's priority determines the deletion"
    );
}

#[test]
fn a_users_scale_down_annotation_survives_a_rollout() {
    let mut world = World::new(deployment(2, rolling(1, 0)));
    world.settle();
    let name = world.machines.keys().next().cloned().unwrap();
    world.edit_node(&name, |node| {
        node.metadata.annotations = Some(BTreeMap::from([(
            keys::SCALE_DOWN_DISABLED_ANNOTATION.to_owned(),
            "false".to_owned(),
        )]));
    });
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned()
    });
    for _ in 0..3 {
        for actor in world.actors() {
            world.act(&actor);
        }
    }
    let annotations = world.nodes[&name].metadata.annotations.clone().unwrap();
    assert_eq!(
        annotations
            .get(keys::SCALE_DOWN_DISABLED_ANNOTATION)
            .map(String::as_str),
        Some("false")
    );
    assert!(!annotations.contains_key(keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION));
}

/// Whether cluster-autoscaler's scale-down is disabled on the machine's node.
fn is_protected(world: &World, machine: &str) -> bool {
    let node = &world.nodes[machine];
    let annotations = node.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(keys::SCALE_DOWN_DISABLED_ANNOTATION))
}

#[test]
fn a_replacement_is_protected_from_scale_down_until_its_predecessor_is_deleted() {
    let mut world = World::new(deployment(3, rolling(1, 0)));
    world.settle();
    world.drain = 30;
    let failing = world.machines.keys().next().unwrap().clone();
    let others: Vec<String> = world
        .machines
        .keys()
        .filter(|name| **name != failing)
        .cloned()
        .collect();
    world.enter(&failing, Phase::Failed);
    let mut protected = BTreeSet::new();
    for _ in 0..20 {
        for actor in world.actors() {
            world.act(&actor);
        }
        let nodes = world.nodes.keys().filter(|name| **name != failing);
        protected.extend(nodes.filter(|name| is_protected(&world, name)).cloned());
        if !protected.is_empty() {
            assert!(world.machines.contains_key(&failing), "the failed machine still drains");
        }
    }
    assert_eq!(protected.len(), 1, "only the replacement is protected");
    assert!(protected.iter().all(|name| !others.contains(name)));
    world.settle();
    assert!(!world.machines.contains_key(&failing));
    assert!(world.nodes.keys().all(|name| !is_protected(&world, name)));
}

#[test]
fn a_manually_created_set_is_adopted_with_its_machines() {
    let mut world = World::new(deployment(2, rolling(1, 0)));
    let mut set: MachineSet = serde_json::from_value(json!({
        "metadata": {
            "name": "by-hand", "uid": "uid-hand", "resourceVersion": "1", "generation": 1, "labels": { "name": "md" },
        },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "name": "md" } },
            "template": {
                "metadata": { "labels": { "name": "md" } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            },
        },
    }))
    .unwrap();
    set.metadata.creation_timestamp = Some(Time(start()));
    world.sets.insert("by-hand".to_owned(), Arc::new(set));
    world.settle();
    assert_eq!(world.sets.keys().collect::<Vec<_>>(), ["by-hand"]);
    let set = &world.sets["by-hand"];
    let hash = &set.metadata.labels.as_ref().unwrap()[keys::TEMPLATE_HASH_LABEL];
    let selected = set.spec.selector.as_ref().unwrap().match_labels.as_ref().unwrap();
    assert_eq!(selected[keys::TEMPLATE_HASH_LABEL], *hash);
    assert_eq!(set.metadata.owner_references.as_ref().unwrap()[0].name, "md");
    world.assert_settled("class-a");
}

#[test]
fn a_name_collision_is_counted_and_avoided() {
    let mut world = World::new(deployment(1, rolling(1, 0)));
    let name = mcm_core::template::set_name(
        "md",
        mcm_core::template::hash(&world.deployment.as_ref().unwrap().spec.template, None),
    );
    let unrelated: MachineSet = serde_json::from_value(json!({
        "metadata": { "name": name, "uid": "other", "resourceVersion": "1", "labels": { "other": "1" } },
        "spec": {
            "selector": { "matchLabels": { "other": "1" } },
            "template": {
                "metadata": { "labels": { "other": "1" } }, "spec": { "class": { "kind": "MachineClass", "name": "c" } },
            },
        },
    }))
    .unwrap();
    world.sets.insert(name, Arc::new(unrelated));
    world.settle();
    assert_eq!(world.deployment.as_ref().unwrap().status.collision_count, Some(1));
    assert_eq!(world.live().len(), 1);
}

#[test]
fn a_rollout_without_progress_exceeds_its_deadline() {
    let mut deployment = deployment(2, rolling(1, 0));
    deployment.spec.progress_deadline_seconds = Some(600);
    let mut world = World::new(deployment);
    world.settle();
    world.broken.insert("class-b".to_owned());
    world.edit("class b", |one| {
        one.spec.template.spec.class.name = "class-b".to_owned()
    });
    for _ in 0..3 {
        world.act(&super::world::Actor::Deployment);
    }
    world.now = world.now.checked_add(jiff::SignedDuration::from_secs(601)).unwrap();
    for _ in 0..3 {
        world.act(&super::world::Actor::Deployment);
    }
    let conditions = &world.deployment.as_ref().unwrap().status.conditions;
    let progressing = conditions
        .iter()
        .find(|condition| condition.type_ == "Progressing")
        .unwrap();
    assert_eq!(
        (progressing.status.as_str(), progressing.reason.as_str()),
        ("False", "ProgressDeadlineExceeded")
    );
}

#[test]
fn machines_that_fail_after_a_rollout_do_not_reopen_it() {
    let mut world = World::new(deployment(2, rolling(1, 0)));
    world.settle();
    let name = world.machines.keys().next().cloned().unwrap();
    world.enter(&name, Phase::Failed);
    world.act(&super::world::Actor::Deployment);
    let conditions = &world.deployment.as_ref().unwrap().status.conditions;
    assert!(
        conditions
            .iter()
            .any(|condition| condition.reason == "NewMachineSetAvailable")
    );
    world.settle();
    world.assert_settled("class-a");
}
