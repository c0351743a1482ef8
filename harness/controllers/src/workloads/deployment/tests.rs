use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;
use serde_json::{Value, json};

use super::{View, decide, next_set_name};
use crate::workloads::world::World;
use crate::workloads::{meta, pods, replica_set};

fn deployment(replicas: i32, strategy: &Value) -> Deployment {
    serde_json::from_value(json!({
        "metadata": { "name": "d", "namespace": "n" },
        "spec": {
            "replicas": replicas, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 2,
            "selector": { "matchLabels": { "app": "a" } },
            "strategy": strategy,
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{ "name": "c", "image": "1" }] },
            },
        },
    }))
    .unwrap()
}

/// One pass of the deployment controller, and one of the ReplicaSet controller for each set.
fn look(world: &mut World) -> usize {
    let deployment = world.get::<Deployment>("d");
    let sets: Vec<Arc<ReplicaSet>> = world.all();
    let names: BTreeSet<String> = sets.iter().map(|set| meta::name(&set.metadata).to_owned()).collect();
    let view = View {
        names: next_set_name(&deployment)
            .into_iter()
            .filter(|name| names.contains(name))
            .collect(),
        deployment,
        sets,
        pods: world.all(),
        failure: None,
    };
    let plan = decide(&view, world.now);
    let mut actions = plan.actions.len();
    world.perform(&plan);
    for set in world.all::<ReplicaSet>() {
        let owned = |pod: &Arc<Pod>| {
            runtime::ownership::controller(&pod.metadata)
                .is_some_and(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
        };
        let view = replica_set::View {
            pods: world.all().into_iter().filter(owned).collect(),
            set,
            related: Vec::new(),
            failure: None,
        };
        let plan = replica_set::decide(&view, world.now);
        actions += plan.actions.len();
        world.perform(&plan);
    }
    actions
}

fn total(world: &World) -> i32 {
    world
        .all::<ReplicaSet>()
        .iter()
        .map(|set| set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default())
        .sum()
}

fn available(world: &World) -> i32 {
    meta::count(world.all::<Pod>().iter().filter(|pod| pods::is_ready(pod)).count())
}

fn change(world: &mut World, change: impl Fn(&mut Deployment)) {
    let mut deployment = Deployment::clone(&world.get::<Deployment>("d"));
    change(&mut deployment);
    world.update(deployment);
}

fn set_image(deployment: &mut Deployment, image: &str) {
    let template = &mut deployment.spec.as_mut().unwrap().template;
    template.spec.as_mut().unwrap().containers[0].image = Some(image.to_owned());
}

/// Runs controllers and pods until nothing changes.
fn settle(world: &mut World, check: impl Fn(&World)) {
    for _ in 0..2000 {
        let quiet = look(world) == 0;
        check(world);
        match world.any_pod(|pod| !pods::is_ready(pod)) {
            Some(pod) => world.run(&pod, true),
            None if quiet => return,
            None => {}
        }
        world.pass(1);
    }
    panic!("the world does not converge");
}

#[rstest]
#[case::quarters(json!({ "type": "RollingUpdate" }), 3, 2)]
#[case::surge_only(json!({ "rollingUpdate": { "maxSurge": 2, "maxUnavailable": 0 } }), 2, 0)]
#[case::unavailable_only(json!({ "rollingUpdate": { "maxSurge": 0, "maxUnavailable": "30%" } }), 0, 3)]
#[case::both_none(json!({ "rollingUpdate": { "maxSurge": "0%", "maxUnavailable": "0%" } }), 0, 1)]
fn a_rollout_keeps_its_bounds_and_converges(#[case] strategy: Value, #[case] surge: i32, #[case] unavailable: i32) {
    for seed in 0..25 {
        let mut world = World::new(seed);
        world.create(deployment(10, &strategy));
        settle(&mut world, |_| {});
        assert_eq!(available(&world), 10);
        change(&mut world, |deployment| set_image(deployment, "2"));
        // A second rollout starts at a random point of the first one.
        for _ in 0..world.chance.below(30) {
            look(&mut world);
            if let Some(pod) = world.any_pod(|pod| !pods::is_ready(pod)) {
                world.run(&pod, true);
            }
        }
        change(&mut world, |deployment| set_image(deployment, "3"));
        settle(&mut world, |world| {
            assert!(total(world) <= 10 + surge, "seed {seed}: {} pods", total(world));
            assert!(
                available(world) >= 10 - unavailable,
                "seed {seed}: {} available",
                available(world)
            );
        });
        let deployment = world.get::<Deployment>("d");
        let status = deployment.status.clone().unwrap();
        assert_eq!(
            (status.updated_replicas, status.available_replicas),
            (Some(10), Some(10)),
            "seed {seed}"
        );
        assert!(
            world
                .all::<Pod>()
                .iter()
                .all(|pod| { pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("3") })
        );
        let progressing = status
            .conditions
            .unwrap()
            .into_iter()
            .find(|condition| condition.type_ == "Progressing");
        assert_eq!(progressing.unwrap().reason.as_deref(), Some("NewReplicaSetAvailable"));
    }
}

#[test]
fn scaling_in_the_middle_of_a_rollout_converges() {
    for seed in 0..50 {
        let mut world = World::new(seed);
        world.create(deployment(8, &json!({ "type": "RollingUpdate" })));
        settle(&mut world, |_| {});
        change(&mut world, |deployment| set_image(deployment, "2"));
        for _ in 0..4 {
            for _ in 0..world.chance.below(6) {
                look(&mut world);
                if let Some(pod) = world.any_pod(|pod| !pods::is_ready(pod)) {
                    world.run(&pod, true);
                }
            }
            let replicas = i32::try_from(world.chance.below(20)).unwrap();
            change(&mut world, |deployment| {
                deployment.spec.as_mut().unwrap().replicas = Some(replicas)
            });
        }
        settle(&mut world, |_| {});
        let wanted = world.get::<Deployment>("d").spec.as_ref().unwrap().replicas.unwrap();
        assert_eq!((total(&world), available(&world)), (wanted, wanted), "seed {seed}");
    }
}

#[test]
fn recreate_never_has_pods_of_two_templates() {
    for seed in 0..25 {
        let mut world = World::new(seed);
        world.create(deployment(4, &json!({ "type": "Recreate" })));
        settle(&mut world, |_| {});
        change(&mut world, |deployment| set_image(deployment, "2"));
        settle(&mut world, |world| {
            let images: BTreeSet<Option<String>> = world
                .all::<Pod>()
                .iter()
                .map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone())
                .collect();
            assert!(images.len() <= 1, "seed {seed}: {images:?}");
        });
        assert_eq!(available(&world), 4);
    }
}

#[test]
fn history_is_kept_to_its_limit() {
    let mut world = World::new(1);
    world.create(deployment(1, &json!({ "type": "RollingUpdate" })));
    for image in ["2", "3", "4", "5", "6"] {
        settle(&mut world, |_| {});
        change(&mut world, |deployment| set_image(deployment, image));
    }
    settle(&mut world, |_| {});
    assert_eq!(world.all::<ReplicaSet>().len(), 3, "the current set and two old sets");
}

#[test]
fn a_name_collision_is_counted_and_avoided() {
    let mut world = World::new(1);
    world.create(deployment(1, &json!({ "type": "RollingUpdate" })));
    let taken = next_set_name(&world.get::<Deployment>("d")).unwrap();
    let mut foreign = ReplicaSet::default();
    foreign.metadata.name = Some(taken);
    world.create(foreign);
    settle(&mut world, |_| {});
    let deployment = world.get::<Deployment>("d");
    assert_eq!(deployment.status.as_ref().unwrap().collision_count, Some(1));
    assert_eq!(world.all::<ReplicaSet>().len(), 2);
    assert_eq!(available(&world), 1);
}
