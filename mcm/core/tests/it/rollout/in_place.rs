//! Updates in place: who is chosen, and what a template that comes back takes back.

use mcm_api::{Phase, keys};
use rstest::rstest;
use serde_json::json;

use super::sequences::deployment;
use super::world::{Actor, World};

/// Machines of class a that run, of which two may be missing.
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

/// The deployment decides, and nobody else does anything.
fn decided(world: &mut World) {
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
#[case::it_serves(Phase::Running, true)]
#[case::it_serves_and_is_kept(Phase::RunningPreserved, true)]
#[case::it_says_nothing(Phase::Unknown, false)]
#[case::it_failed(Phase::Failed, false)]
#[case::it_failed_and_is_kept(Phase::FailedPreserved, false)]
#[case::it_joins(Phase::Pending, false)]
fn only_a_machine_that_runs_is_chosen(#[case] phase: Phase, #[case] is: bool) {
    let mut world = settled(4);
    let first = world.machines.keys().next().cloned().unwrap();
    world.enter(&first, phase);
    to_class(&mut world, "class-b");
    decided(&mut world);
    assert!(!selected(&world).is_empty(), "{}", world.tail());
    assert_eq!(selected(&world).contains(&&first), is, "{}", world.tail());
}

#[test]
fn a_machine_that_comes_back_to_life_is_updated_last() {
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
    assert_eq!(world.made, 4, "{}", world.tail());
}

#[test]
fn a_template_that_comes_back_lets_an_update_that_began_end() {
    let mut world = settled(4);
    to_class(&mut world, "class-b");
    decided(&mut world);
    let drains = selected(&world)[0].clone();
    assert_eq!(selected(&world).len(), 2);
    world.edit_node(&drains, |node| {
        node.spec.get_or_insert_default().unschedulable = Some(true);
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::CORDONED_BEFORE_UPDATE_ANNOTATION.to_owned(), "false".to_owned());
    });
    to_class(&mut world, "class-a");
    decided(&mut world);
    let candidates: Vec<&String> = world
        .nodes
        .keys()
        .filter(|name| has(&world, name, keys::CANDIDATE_FOR_UPDATE_LABEL))
        .collect();
    assert_eq!(candidates, selected(&world), "the others are candidates no more");
    assert!(selected(&world).contains(&&drains), "{}", world.tail());
    world.settle();
    world.assert_settled("class-a");
    let marked = |name: &String| {
        let closed = world.nodes[name].spec.as_ref().and_then(|spec| spec.unschedulable);
        closed.is_some() || has(&world, name, keys::CANDIDATE_FOR_UPDATE_LABEL)
    };
    assert!(!world.nodes.keys().any(marked), "all are used again: {}", world.tail());
    assert_eq!(world.made, 4, "{}", world.tail());
}

#[test]
fn what_an_update_that_was_taken_back_keeps_from_serving_is_missing() {
    let mut world = settled(4);
    to_class(&mut world, "class-b");
    decided(&mut world);
    let first: Vec<String> = selected(&world).into_iter().cloned().collect();
    let updated = |world: &World| {
        let marked = selected(world);
        marked.len() == 2 && !marked.iter().any(|name| first.contains(name))
    };
    while !updated(&world) {
        decided(&mut world);
        for name in &first {
            world.act(&Actor::Machine(name.clone()));
        }
    }
    to_class(&mut world, "class-a");
    decided(&mut world);
    assert!(updated(&world), "two of four may be missing, and are: {}", world.tail());
    world.settle();
    world.assert_settled("class-a");
}

#[rstest]
#[case::all_serve(None, [4, 3])]
#[case::one_is_dead(Some(Phase::Unknown), [3, 4])]
fn a_scale_down_in_the_midst_takes_machines_that_serve_nobody_first(
    #[case] first: Option<Phase>,
    #[case] expected: [i32; 2],
) {
    let mut world = settled(4);
    let name = world.machines.keys().next().cloned().unwrap();
    if let Some(phase) = first {
        world.enter(&name, phase);
    }
    to_class(&mut world, "class-b");
    decided(&mut world);
    for replicas in [9, 7] {
        world.edit("another size", |one| one.spec.replicas = replicas);
        decided(&mut world);
    }
    let of = |class: &str| {
        let mut sets = world.sets.values();
        let set = sets.find(|set| set.spec.template.spec.class.name == class);
        set.unwrap().spec.replicas
    };
    assert_eq!(["class-a", "class-b"].map(of), expected, "{}", world.tail());
}
