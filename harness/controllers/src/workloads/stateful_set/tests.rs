use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use serde_json::{Value, json};

use super::{View, decide, identity};
use crate::workloads::world::World;
use crate::workloads::{meta, pods};

fn stateful(change: &Value) -> StatefulSet {
    let mut set = json!({
        "metadata": { "name": "s", "namespace": "n" },
        "spec": {
            "replicas": 4, "serviceName": "s",
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{ "name": "c", "image": "1" }] },
            },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {} }],
        },
    });
    for (field, value) in change.as_object().unwrap() {
        set["spec"][field] = value.clone();
    }
    serde_json::from_value(set).unwrap()
}

fn look(world: &mut World) -> usize {
    let view = View {
        set: world.get("s"),
        pods: world.all(),
        claims: world.all::<PersistentVolumeClaim>(),
        revisions: world.all::<ControllerRevision>(),
    };
    let plan = decide(&view, world.now);
    world.perform(&plan);
    plan.actions.len()
}

fn settle(world: &mut World, check: impl Fn(&World)) {
    for _ in 0..1000 {
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

fn change(world: &mut World, change: impl Fn(&mut StatefulSet)) {
    let mut set = StatefulSet::clone(&world.get::<StatefulSet>("s"));
    change(&mut set);
    world.update(set);
}

fn images(world: &World) -> Vec<String> {
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
    world.all::<Pod>().iter().map(|pod| image(pod)).collect()
}

#[test]
fn an_ordered_set_creates_no_pod_before_its_predecessors_are_ready() {
    for seed in 0..25 {
        let mut world = World::new(seed);
        world.create(stateful(&json!({})));
        settle(&mut world, |world| {
            let unready = world.all::<Pod>().iter().filter(|pod| !pods::is_ready(pod)).count();
            assert!(unready <= 1, "seed {seed}");
        });
        assert_eq!(world.all::<Pod>().len(), 4);
        assert_eq!(world.all::<PersistentVolumeClaim>().len(), 4);
        change(&mut world, |set| set.spec.as_mut().unwrap().replicas = Some(1));
        settle(&mut world, |_| {});
        assert_eq!(world.all::<Pod>().len(), 1);
        assert_eq!(world.all::<PersistentVolumeClaim>().len(), 4, "claims stay");
    }
}

#[rstest]
#[case::in_order(json!({ "podManagementPolicy": "OrderedReady" }))]
#[case::in_parallel(json!({ "podManagementPolicy": "Parallel" }))]
fn an_update_takes_one_pod_at_a_time(#[case] policy: Value) {
    for seed in 0..25 {
        let mut world = World::new(seed);
        world.create(stateful(&policy));
        settle(&mut world, |_| {});
        change(&mut world, |set| {
            let template = &mut set.spec.as_mut().unwrap().template;
            template.spec.as_mut().unwrap().containers[0].image = Some("2".to_owned());
        });
        settle(&mut world, |world| {
            let ready = world.all::<Pod>().iter().filter(|pod| pods::is_ready(pod)).count();
            assert!(ready >= 3, "seed {seed}: {ready} ready");
        });
        assert_eq!(images(&world), ["2"; 4]);
        let set = world.get::<StatefulSet>("s");
        let status = set.status.clone().unwrap();
        assert_eq!(status.current_revision, status.update_revision);
        assert_eq!((status.updated_replicas, status.current_replicas), (Some(4), Some(4)));
    }
}

#[test]
fn an_update_goes_down_to_the_partition() {
    let mut world = World::new(1);
    let strategy = json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } } });
    world.create(stateful(&strategy));
    settle(&mut world, |_| {});
    change(&mut world, |set| {
        let template = &mut set.spec.as_mut().unwrap().template;
        template.spec.as_mut().unwrap().containers[0].image = Some("2".to_owned());
    });
    settle(&mut world, |_| {});
    assert_eq!(images(&world), ["1", "1", "2", "2"]);
    let lost = meta::name(&world.all::<Pod>()[0].metadata).to_owned();
    world.delete(crate::Kind::Pod, &lost);
    settle(&mut world, |_| {});
    assert_eq!(
        images(&world),
        ["1", "1", "2", "2"],
        "below the partition the old version is restored"
    );
}

#[rstest]
#[case::deleted(true)]
#[case::orphaned(false)]
fn a_terminating_set_does_not_recreate_a_revision(#[case] deleted: bool) {
    let mut world = World::new(1);
    world.create(stateful(&json!({})));
    settle(&mut world, |_| {});
    change(&mut world, |set| {
        set.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
        set.metadata.finalizers = Some(vec!["foregroundDeletion".to_owned()]);
    });
    let mut revision = ControllerRevision::clone(&world.all::<ControllerRevision>()[0]);
    if deleted {
        world.delete(crate::Kind::ControllerRevision, meta::name(&revision.metadata));
    } else {
        revision.metadata.owner_references = None;
        world.update(revision);
    }
    let before = world.get::<StatefulSet>("s").status.clone();
    assert_eq!(look(&mut world), 0);
    assert_eq!(world.get::<StatefulSet>("s").status, before);
    assert_eq!(world.all::<ControllerRevision>().len(), usize::from(!deleted));
}

#[rstest]
#[case("s-0", Some(0))]
#[case("s-12", Some(12))]
#[case("s-", None)]
#[case("s-x", None)]
#[case("s-+1", None)]
#[case("t-1", None)]
#[case("s-1-2", None)]
fn an_ordinal_is_the_suffix_of_the_name(#[case] name: &str, #[case] expected: Option<i32>) {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned());
    assert_eq!(identity::ordinal_of("s", &pod), expected);
}
