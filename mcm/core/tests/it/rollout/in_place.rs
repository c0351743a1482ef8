//! In-place updates: which machines are selected, and the effects of a reverted template.

use mcm_api::{Phase, keys};
use rstest::rstest;
use serde_json::json;

use super::sequences::deployment;
use super::world::{Actor, World};

/// Running machines of class a, of which two may be unavailable.
fn settled(replicas: i32) -> World {
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "orchestrationType": "Auto", "maxSurge": 0, "maxUnavailable": 2 },
    });
    let mut world = World::new(deployment(replicas, strategy));
    world.settle();
    world
}

fn to_class(world: &mut World, class: &str) {
    world.edit(class, |one| one.spec.template.spec.class.name = class.to_owned());
}

/// Performs decisions of the deployment until it has nothing to do; sets and machines do not act.
fn settle_deployment(world: &mut World) {
    while world.act(&Actor::Deployment) {}
}

fn has(world: &World, name: &str, label: &str) -> bool {
    let labels = world.nodes[name].metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(label))
}

fn selected(world: &World) -> Vec<&String> {
    let names = world.nodes.keys();
    names
        .filter(|name| has(world, name, keys::SELECTED_FOR_UPDATE_LABEL))
        .collect()
}

#[rstest]
#[case::running(Phase::Running, true)]
#[case::running_and_preserved(Phase::RunningPreserved, true)]
#[case::unknown(Phase::Unknown, false)]
#[case::failed(Phase::Failed, false)]
#[case::failed_and_preserved(Phase::FailedPreserved, false)]
#[case::pending(Phase::Pending, false)]
fn only_running_machines_are_selected(#[case] phase: Phase, #[case] expected: bool) {
    let mut world = settled(4);
    let first = world.machines.keys().next().cloned().unwrap();
    world.enter(&first, phase);
    to_class(&mut world, "class-b");
    settle_deployment(&mut world);
    assert!(!selected(&world).is_empty(), "{}", world.tail());
    assert_eq!(selected(&world).contains(&&first), expected, "{}", world.tail());
}

#[test]
fn a_recovered_machine_is_updated_last() {
    let mut world = settled(4);
    let first = world.machines.keys().next().cloned().unwrap();
    world.enter(&first, Phase::Unknown);
    to_class(&mut world, "class-b");
    world.settle();
    let class = |world: &World| {
        let owner = &world.machines[&first].metadata.owner_references.as_ref().unwrap()[0].name;
        world.sets[owner].spec.template.spec.class.name.clone()
    };
    assert_eq!(class(&world), "class-a");
    world.enter(&first, Phase::Running);
    world.settle();
    world.assert_settled("class-b");
    assert_eq!(world.created_machines, 4, "{}", world.tail());
}

#[test]
fn an_update_in_progress_completes_after_the_template_is_reverted() {
    let mut world = settled(4);
    to_class(&mut world, "class-b");
    settle_deployment(&mut world);
    let draining = selected(&world)[0].clone();
    assert_eq!(selected(&world).len(), 2);
    world.edit_node(&draining, |node| {
        node.spec.get_or_insert_default().unschedulable = Some(true);
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::CORDONED_BEFORE_UPDATE_ANNOTATION.to_owned(), "false".to_owned());
    });
    to_class(&mut world, "class-a");
    settle_deployment(&mut world);
    let candidates: Vec<&String> = world
        .nodes
        .keys()
        .filter(|name| has(&world, name, keys::CANDIDATE_FOR_UPDATE_LABEL))
        .collect();
    assert_eq!(candidates, selected(&world), "the other nodes are no longer candidates");
    assert!(selected(&world).contains(&&draining), "{}", world.tail());
    world.settle();
    world.assert_settled("class-a");
    let marked = |name: &String| {
        let unschedulable = world.nodes[name].spec.as_ref().and_then(|spec| spec.unschedulable);
        unschedulable.is_some() || has(&world, name, keys::CANDIDATE_FOR_UPDATE_LABEL)
    };
    assert!(
        !world.nodes.keys().any(marked),
        "all nodes are schedulable again: {}",
        world.tail()
    );
    assert_eq!(world.created_machines, 4, "{}", world.tail());
}

#[test]
fn machines_of_a_reverted_update_count_as_unavailable() {
    let mut world = settled(4);
    to_class(&mut world, "class-b");
    settle_deployment(&mut world);
    let first: Vec<String> = selected(&world).into_iter().cloned().collect();
    let updated = |world: &World| {
        let marked = selected(world);
        marked.len() == 2 && !marked.iter().any(|name| first.contains(name))
    };
    while !updated(&world) {
        settle_deployment(&mut world);
        for name in &first {
            world.act(&Actor::Machine(name.clone()));
        }
    }
    to_class(&mut world, "class-a");
    settle_deployment(&mut world);
    assert!(
        updated(&world),
        "the maximum of two machines is already unavailable: {}",
        world.tail()
    );
    world.settle();
    world.assert_settled("class-a");
}

#[rstest]
#[case::all_available(None, [4, 3])]
#[case::one_unknown(Some(Phase::Unknown), [3, 4])]
fn a_scale_down_during_an_update_removes_unavailable_machines_first(
    #[case] first: Option<Phase>,
    #[case] expected: [i32; 2],
) {
    let mut world = settled(4);
    let name = world.machines.keys().next().cloned().unwrap();
    if let Some(phase) = first {
        world.enter(&name, phase);
    }
    to_class(&mut world, "class-b");
    settle_deployment(&mut world);
    for replicas in [9, 7] {
        world.edit("replicas", |one| one.spec.replicas = replicas);
        settle_deployment(&mut world);
    }
    let of = |class: &str| {
        let mut sets = world.sets.values();
        let set = sets.find(|set| set.spec.template.spec.class.name == class);
        set.unwrap().spec.replicas
    };
    assert_eq!(["class-a", "class-b"].map(of), expected, "{}", world.tail());
}
