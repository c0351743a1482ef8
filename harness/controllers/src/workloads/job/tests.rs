use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;
use serde_json::{Value, json};

use super::{View, decide};
use crate::workloads::pods;
use crate::workloads::world::World;

fn job(change: &Value) -> Job {
    let mut job = json!({
        "metadata": { "name": "j", "namespace": "n" },
        "spec": {
            "completions": 6, "parallelism": 2, "backoffLimit": 1000,
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "1" }] },
            },
        },
    });
    for (field, value) in change.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    serde_json::from_value(job).unwrap()
}

fn look(world: &mut World) -> Option<jiff::Timestamp> {
    let view = View {
        job: world.get("j"),
        pods: world.all(),
        failure: None,
    };
    let plan = decide(&view, world.now);
    world.perform(&plan);
    plan.deadline
}

fn has(world: &World, type_: &str) -> bool {
    let job = world.get::<Job>("j");
    let conditions = job.status.clone().unwrap_or_default().conditions.unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}

#[rstest]
#[case::plain(json!({}))]
#[case::indexed(json!({ "completionMode": "Indexed" }))]
#[case::replaced_when_failed(json!({ "podReplacementPolicy": "Failed" }))]
fn every_ended_pod_is_counted_once(#[case] change: Value) {
    for seed in 0..50 {
        let mut world = World::new(seed);
        world.create(job(&change));
        let (mut succeeded, mut failed) = (0, 0);
        for round in 0.. {
            assert!(round < 2000, "seed {seed}: the job does not finish");
            look(&mut world);
            let active = world.all::<Pod>().iter().filter(|pod| pods::is_active(pod)).count();
            assert!(active <= 2, "seed {seed}: {active} active");
            if has(&world, "Complete") {
                break;
            }
            if world.chance.chance(0.5)
                && let Some(pod) = world.any_pod(|_| true)
            {
                if world.chance.chance(0.7) {
                    world.end(&pod, "Succeeded");
                    succeeded += 1;
                } else {
                    world.end(&pod, "Failed");
                    failed += 1;
                }
            }
            world.pass(30);
        }
        let status = world.get::<Job>("j").status.clone().unwrap();
        assert_eq!(status.succeeded, Some(6), "seed {seed}");
        assert_eq!(succeeded, 6, "seed {seed}: no unnecessary pods are created");
        assert_eq!(status.failed.unwrap_or_default(), failed, "seed {seed}");
        let held = |pod: &Pod| {
            pod.metadata
                .finalizers
                .as_ref()
                .is_some_and(|finalizers| !finalizers.is_empty())
        };
        assert!(world.all::<Pod>().iter().all(|pod| !held(pod)), "seed {seed}");
    }
}

#[test]
fn the_backoff_doubles_with_each_failure_up_to_ten_minutes() {
    let mut world = World::new(1);
    world.create(job(&json!({ "completions": 1, "parallelism": 1 })));
    let mut waits = Vec::new();
    for _ in 0..8 {
        look(&mut world);
        let pod = world.any_pod(|_| true).expect("a pod");
        world.end(&pod, "Failed");
        let failed_at = world.now;
        let deadline = look(&mut world).expect("a deadline");
        // The world records no end time in its pods, so the backoff counts from their creation.
        waits.push(deadline.duration_since(failed_at).as_secs());
        assert_eq!(world.any_pod(|_| true), None);
        world.now = deadline;
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600]);
}

#[test]
fn a_job_fails_after_so_many_failures() {
    let mut world = World::new(1);
    world.create(job(&json!({ "backoffLimit": 2 })));
    for _ in 0..40 {
        look(&mut world);
        if let Some(pod) = world.any_pod(|_| true) {
            world.end(&pod, "Failed");
        }
        world.pass(1000);
    }
    assert!(has(&world, "FailureTarget") && has(&world, "Failed"));
    let status = world.get::<Job>("j").status.clone().unwrap();
    assert_eq!(status.active, None);
    assert!(status.failed >= Some(3));
    assert_eq!(world.any_pod(|_| true), None);
}
