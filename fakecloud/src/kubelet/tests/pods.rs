//! Pods on a simulated kubelet, against an API server that stores them.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{World, at};

fn annotated(annotations: &[(&str, &str)]) -> World {
    let mut world = World::joined();
    world.pod("p", annotations);
    world
}

fn with_spec(annotations: &[(&str, &str)], spec: Value) -> World {
    let mut world = World::joined();
    world.pod_of("p", annotations, spec);
    world
}

fn phase(world: &World) -> &Value {
    &world.status_of("p")["phase"]
}

#[test]
fn a_pod_runs_with_one_write_reverts_changes_and_ends() {
    let mut world = annotated(&[]);
    world.until(12);
    assert_eq!(world.log_of_pods(), ["11 pod p \"Running\" \"100.64.1.1\""]);
    let status = world.status_of("p");
    let conditions = status["conditions"].as_array().unwrap();
    let mut kinds: Vec<_> = conditions
        .iter()
        .map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
        .collect();
    kinds.sort_unstable();
    let all = [
        "ContainersReady",
        "Initialized",
        "PodReadyToStartContainers",
        "PodScheduled",
        "Ready",
    ];
    assert_eq!(kinds, all.map(|kind| (kind, "True")));
    assert_eq!(status["hostIP"], "10.0.0.1");
    world.change_pod("p", |pod| {
        let ready = pod["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .find(|c| c["type"] == "Ready");
        ready.unwrap()["status"] = json!("False");
    });
    world.until(14);
    assert_eq!(world.log_of_pods(), ["13 pod p \"Running\" \"100.64.1.1\""]);
    world.delete_pod("p", 44);
    world.until(16);
    assert_eq!(world.log_of_pods(), ["15 end pod p"]);
    assert!(world.pods.is_empty());
}

#[rstest]
#[case::at_once(&[], 60, 31, "Completed 0")]
#[case::as_annotated(&[("terminates-after", "8s")], 60, 38, "Completed 0")]
#[case::killed_when_the_grace_is_over(&[("terminates-after", "1m")], 50, 50, "Error 137")]
#[case::no_grace_left(&[], 30, 30, "Error 137")]
fn a_pod_ends_within_its_grace(
    #[case] annotations: &[(&str, &str)],
    #[case] deadline: i64,
    #[case] ended: i64,
    #[case] state: &str,
) {
    let mut world = annotated(annotations);
    world.until(30);
    world.change_pod("p", |pod| pod["metadata"]["finalizers"] = json!(["example.com/keep"]));
    world.log();
    world.delete_pod("p", deadline);
    world.until(100);
    let log = world.log_of_pods();
    assert_eq!(log.len(), 2, "{log:?}");
    assert_eq!(log[1], format!("{ended} end pod p"));
    assert_eq!(world.main("p").1, state);
    assert!(!world.is_ready("p"));
    world.remove_pod("p");
    assert_eq!(world.log_of_pods(), [""; 0]);
}

#[test]
fn a_pod_that_never_terminates_stays_until_it_is_removed_by_force() {
    let mut world = annotated(&[("never-terminates", "true")]);
    world.until(30);
    world.delete_pod("p", 60);
    world.until(5000);
    assert_eq!(world.main("p").1, "running");
    world.remove_pod("p");
    world.until(5100);
    assert_eq!(world.log_of_pods()[1..], [""; 0]);
}

#[test]
fn a_pod_that_never_ran_takes_a_moment_to_terminate() {
    let mut world = annotated(&[("image-pull-fails", "true")]);
    world.until(30);
    world.delete_pod("p", 60);
    world.until(100);
    assert_eq!(world.log_of_pods().last().unwrap(), "31 end pod p");
}

#[test]
fn a_shortened_grace_period_applies_at_once() {
    let mut world = annotated(&[("terminates-after", "10m")]);
    world.until(30);
    world.delete_pod("p", 600);
    world.until(40);
    world.delete_pod("p", 45);
    world.until(50);
    assert!(world.log_of_pods().contains(&"45 end pod p".to_owned()));
}

#[test]
fn a_container_that_crashes_backs_off_from_ten_seconds_to_five_minutes() {
    let mut world = annotated(&[("exit-code", "1"), ("run-for", "1s")]);
    // It starts at second 11; its first restart comes at once.
    let starts = [11, 12, 23, 44, 85, 166, 327, 628, 929];
    for (restarts, at) in starts.iter().enumerate() {
        world.until(*at);
        assert_eq!(world.main("p"), (restarts as u64, "running".to_owned()), "at {at}");
        if restarts >= 1 {
            world.until(at + 1);
            assert_eq!(world.main("p"), (restarts as u64, "CrashLoopBackOff".to_owned()));
        }
    }
    let status = world.status_of("p");
    assert_eq!(status["phase"], "Running");
    let container = &status["containerStatuses"][0];
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    let message = container["state"]["waiting"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("back-off 5m0s restarting failed container=main pod=p_default("),
        "{message}"
    );
}

#[test]
fn a_long_run_resets_the_back_off() {
    let mut world = annotated(&[("exit-code", "1"), ("run-for", "11m")]);
    world.until(10 + 5 * 700);
    let (restarts, state) = world.main("p");
    assert_eq!((restarts, state.as_str()), (5, "running"));
}

#[rstest]
#[case::always("Always", "0", "Running", 1, "running")]
#[case::on_failure_and_fine("OnFailure", "0", "Succeeded", 0, "Completed 0")]
#[case::on_failure("OnFailure", "3", "Running", 1, "running")]
#[case::never_and_fine("Never", "0", "Succeeded", 0, "Completed 0")]
#[case::never("Never", "3", "Failed", 0, "Error 3")]
fn restart_policies_are_followed(
    #[case] policy: &str,
    #[case] code: &str,
    #[case] expected: &str,
    #[case] restarts: u64,
    #[case] state: &str,
) {
    let spec = json!({"restartPolicy": policy, "containers": [{"name": "main"}]});
    let mut world = with_spec(&[("run-for", "5s"), ("exit-code", code)], spec);
    world.until(18);
    assert_eq!(phase(&world), expected);
    assert_eq!(world.main("p"), (restarts, state.to_owned()));
    world.until(100);
    world.log();
    world.until(5000);
    if expected != "Running" {
        assert_eq!(world.log_of_pods(), [""; 0], "nothing happens to a finished pod");
        world.delete_pod("p", 5030);
        assert_eq!(world.log_of_pods(), ["5000 end pod p"]);
    }
}

#[test]
fn init_containers_run_one_by_one_and_a_sidecar_beside_the_others() {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "first"}, {"name": "proxy", "restartPolicy": "Always"}, {"name": "second"},
        ],
        "containers": [{"name": "main"}],
    });
    let annotations = [
        ("run-for.first", "10s"),
        ("started-after.proxy", "5s"),
        ("run-for.second", "10s"),
        ("run-for.main", "20s"),
    ];
    let mut world = with_spec(&annotations, spec);
    let states = |world: &World| {
        let init = [0, 1, 2].map(|index| world.container("p", "initContainerStatuses", index).1);
        [&init[..], &[world.main("p").1]].concat().join(", ")
    };
    world.until(12);
    assert_eq!(
        states(&world),
        "running, ContainerCreating, ContainerCreating, PodInitializing"
    );
    assert_eq!(phase(&world), "Pending");
    world.until(22);
    assert_eq!(
        states(&world),
        "Completed 0, running, ContainerCreating, PodInitializing"
    );
    world.until(27);
    assert_eq!(states(&world), "Completed 0, running, running, PodInitializing");
    world.until(37);
    assert_eq!(states(&world), "Completed 0, running, Completed 0, running");
    assert!(world.is_ready("p"));
    world.until(60);
    assert_eq!(states(&world), "Completed 0, Completed 0, Completed 0, Completed 0");
    assert_eq!(phase(&world), "Succeeded");
}

#[rstest]
#[case::never("Never", "Failed", "Error 4")]
#[case::always("Always", "Pending", "CrashLoopBackOff")]
fn a_failing_init_container_blocks_the_others(#[case] policy: &str, #[case] expected: &str, #[case] state: &str) {
    let spec = json!({
        "restartPolicy": policy, "initContainers": [{"name": "init"}], "containers": [{"name": "main"}],
    });
    let mut world = with_spec(&[("exit-code.init", "4")], spec);
    world.until(15);
    assert_eq!(phase(&world), expected);
    assert_eq!(world.container("p", "initContainerStatuses", 0).1, state);
    assert!(!world.is_ready("p"));
}

#[test]
fn probes_follow_the_annotations() {
    let mut world = annotated(&[
        ("started-after", "5s"),
        ("ready-after", "10s"),
        ("not-ready-between", "30s-40s,1m-2m"),
    ]);
    let table = [
        (12, false),
        (20, false),
        (21, true),
        (40, true),
        (41, false),
        (50, false),
        (51, true),
        (71, false),
        (131, true),
    ];
    for (at, ready) in table {
        world.until(at);
        assert_eq!(world.is_ready("p"), ready, "at {at}");
    }
    let started = &world.status_of("p")["containerStatuses"][0]["started"];
    assert_eq!(started, true);
}

#[test]
fn a_failing_liveness_probe_restarts_the_container() {
    let mut world = annotated(&[("liveness-fails-after", "30s")]);
    world.until(42);
    assert_eq!(world.main("p"), (1, "running".to_owned()));
    let last = &world.status_of("p")["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(
        (&last["exitCode"], &last["finishedAt"]),
        (&json!(137), &json!("2027-01-15T08:00:41Z"))
    );
}

#[test]
fn a_container_can_be_killed_from_outside() {
    let mut world = annotated(&[]);
    world.until(20);
    let key = ("default".to_owned(), "p".to_owned());
    let killed = world.fleet.kill_container(&key, "", "OOMKilled", world.now);
    assert_eq!(killed, Ok("main".to_owned()));
    world.until(21);
    assert_eq!(world.main("p"), (1, "running".to_owned()));
    let last = &world.status_of("p")["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!((&last["reason"], &last["exitCode"]), (&json!("OOMKilled"), &json!(137)));
    let missing = world
        .fleet
        .kill_container(&key, "side", "Error", world.now)
        .unwrap_err();
    assert_eq!(
        missing.to_string(),
        "pod default/p has no container \"side\"; it has main"
    );
    let gone = ("default".to_owned(), "q".to_owned());
    let missing = world.fleet.kill_container(&gone, "", "Error", world.now).unwrap_err();
    assert_eq!(missing.to_string(), "there is no pod default/q on a simulated Node");
}

#[test]
fn a_pod_waits_until_its_volumes_are_attached_and_releases_them_at_its_end() {
    let volume = "kubernetes.io/csi/csi.fakecloud.drydock^v1";
    let spec = json!({
        "containers": [{"name": "main"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    });
    let mut world = with_spec(&[], spec);
    world.until(12);
    assert_eq!(phase(&world), "Pending");
    assert_eq!(world.main("p").1, "ContainerCreating");
    world.volumes = Some(vec![volume.to_owned()]);
    world.until(30);
    assert_eq!(world.statuses.last().unwrap()["volumesInUse"], json!([volume]));
    assert_eq!(phase(&world), "Pending");
    world.attach(&["another", volume]);
    assert_eq!(phase(&world), "Running");
    world.until(40);
    world.delete_pod("p", 70);
    world.until(50);
    assert!(world.pods.is_empty());
    assert_eq!(world.statuses.last().unwrap()["volumesInUse"], Value::Null);
}

#[rstest]
#[case::unknown("sleep", "1s", "the key does not exist")]
#[case::bad_duration("run-for", "soon", "must be a Go duration")]
#[case::bad_code("exit-code", "256", "must be a number from 0 to 255")]
#[case::bad_window("not-ready-between", "30s-10s", "ends before it begins")]
#[case::bad_flag("never-terminates", "yes", "must be true or false")]
#[case::no_such_container("run-for.side", "1s", "the pod has no container \"side\"; it has main")]
#[case::not_about_containers("start-after.main", "1s", "the key does not exist")]
fn an_invalid_annotation_fails_the_pod_with_the_reason(#[case] key: &str, #[case] value: &str, #[case] expected: &str) {
    let mut world = annotated(&[(key, value)]);
    world.until(20);
    let status = world.status_of("p").clone();
    assert_eq!(status["reason"], "InvalidAnnotation");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("annotation fakecloud.drydock.dev/") && message.contains(expected),
        "{message}"
    );
    assert_eq!(world.log().iter().filter(|line| line.contains("PodRefused")).count(), 1);
    world.delete_pod("p", 50);
    assert!(world.pods.is_empty());
}

#[rstest]
#[case::cpu(json!({"cpu": "1500m"}), "OutOfcpu", "requested: 1500, used: 1500, capacity: 2000")]
#[case::memory(json!({"memory": "5Gi"}), "OutOfmemory", "used: 5368709120")]
fn a_pod_that_does_not_fit_is_rejected(#[case] requests: Value, #[case] reason: &str, #[case] message: &str) {
    let spec = json!({"containers": [{"name": "main", "resources": {"requests": requests}}]});
    let mut world = with_spec(&[], spec.clone());
    world.pod_of("q", &[], spec);
    world.until(12);
    assert_eq!(phase(&world), "Running");
    let status = world.status_of("q");
    assert_eq!(
        (&status["phase"], &status["reason"]),
        (&json!("Failed"), &json!(reason))
    );
    assert!(status["message"].as_str().unwrap().contains(message), "{status}");
}

#[test]
fn a_deleted_mirror_pod_is_created_again_and_its_container_continues() {
    let mut world = annotated(&[("kubernetes.io/config.mirror", "hash")]);
    world.until(20);
    world.log();
    world.delete_pod("p", 20);
    world.until(30);
    let log = world.log_of_pods();
    assert_eq!(log[0], "20 renew mirror p");
    assert_eq!(phase(&world), "Running");
}

#[test]
fn a_pod_whose_image_cannot_be_pulled_waits() {
    let mut world = annotated(&[("image-pull-fails", "true")]);
    world.until(600);
    assert_eq!(phase(&world), "Pending");
    assert_eq!(world.main("p").1, "ImagePullBackOff");
}

#[test]
fn a_pod_that_was_active_for_too_long_fails() {
    let spec = json!({"activeDeadlineSeconds": 60, "containers": [{"name": "main"}]});
    let mut world = with_spec(&[], spec);
    world.until(69);
    assert_eq!(phase(&world), "Running");
    world.until(71);
    assert_eq!(
        (phase(&world), &world.status_of("p")["reason"]),
        (&json!("Failed"), &json!("DeadlineExceeded"))
    );
}

#[test]
fn readiness_gates_keep_a_pod_from_being_ready() {
    let spec = json!({"readinessGates": [{"conditionType": "example.com/gate"}], "containers": [{"name": "main"}]});
    let mut world = with_spec(&[], spec);
    world.until(60);
    assert!(!world.is_ready("p"));
    assert_eq!(phase(&world), "Running");
    assert_eq!(world.log_of_pods().len(), 1, "it is written once");
    world.change_pod("p", |pod| {
        let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "example.com/gate", "status": "True"}));
    });
    world.until(70);
    assert!(world.is_ready("p"));
}

#[test]
fn a_reboot_restarts_all_containers_and_gives_the_pod_another_address() {
    let spec = json!({"initContainers": [{"name": "init"}], "containers": [{"name": "main"}]});
    let mut world = with_spec(&[], spec);
    world.until(30);
    assert_eq!(world.main("p"), (0, "running".to_owned()));
    let ip = world.status_of("p")["podIP"].clone();
    world.vm(|cloud, vm, now| drop(cloud.reboot_vm(vm, now).unwrap().id.clone()));
    world.until(40);
    assert_eq!(world.main("p"), (1, "running".to_owned()));
    assert_eq!(
        world.container("p", "initContainerStatuses", 0),
        (1, "Completed 0".to_owned())
    );
    let last = &world.status_of("p")["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["reason"]), (&json!(255), &json!("Unknown")));
    assert_ne!(world.status_of("p")["podIP"], ip);
    assert!(world.is_ready("p"));
}

#[test]
fn containers_continue_while_their_kubelet_is_stopped_and_restart_when_it_is_back() {
    let mut world = annotated(&[("run-for", "30s")]);
    world.until(20);
    world.vm(|cloud, vm, now| drop(cloud.set_kubelet(vm, false, now).unwrap().id.clone()));
    world.log();
    world.until(60);
    assert_eq!(world.log_of_pods(), [""; 0]);
    world.vm(|cloud, vm, now| drop(cloud.set_kubelet(vm, true, now).unwrap().id.clone()));
    world.until(62);
    assert_eq!(world.main("p"), (1, "running".to_owned()));
    let last = &world.status_of("p")["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(last["finishedAt"], at(41).to_string());
}

#[test]
fn pods_of_a_stopped_kubelet_wait_until_it_runs_again() {
    let mut world = World::joined();
    world.vm(|cloud, vm, now| drop(cloud.set_kubelet(vm, false, now).unwrap().id.clone()));
    world.pod("p", &[]);
    world.pod("q", &[]);
    world.change_pod("q", |pod| pod["status"] = json!({"phase": "Running"}));
    world.delete_pod("q", 12);
    world.until(50);
    assert_eq!(world.log_of_pods(), [""; 0]);
    world.vm(|cloud, vm, now| drop(cloud.set_kubelet(vm, true, now).unwrap().id.clone()));
    world.until(52);
    assert_eq!(
        world.log_of_pods(),
        ["51 end pod q", "52 pod p \"Running\" \"100.64.1.1\""]
    );
}

#[test]
fn a_kubelet_adopts_running_pods_unchanged() {
    let mut world = annotated(&[("exit-code", "1"), ("run-for", "10s")]);
    world.until(25);
    let before = world.status_of("p").clone();
    world.fleet = crate::kubelet::fleet::Fleet::new(crate::Config::default().settings().kubelet, "c1".to_owned());
    world.settle();
    world.show();
    world.until(30);
    assert_eq!(*world.status_of("p"), before);
    world.until(40);
    assert_eq!(world.main("p").0, 2);
}
