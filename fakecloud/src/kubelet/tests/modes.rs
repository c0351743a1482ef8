//! Faults of kubelets, one after the other.

use std::time::Duration;

use clock::Pulses;
use jiff::SignedDuration;
use serde_json::json;

use super::world::{World, at};
use crate::Config;
use crate::kubelet::facts::NodeFacts;
use crate::model::{Down, Flapping, KubeletFault, NodeCondition};

fn leases(world: &mut World) -> Vec<i64> {
    let log = world.log();
    let leases = log.iter().filter_map(|line| line.strip_suffix(" lease a"));
    leases.map(|second| second.parse().unwrap()).collect()
}

#[test]
fn a_healthy_kubelet_uses_a_pulse_until_a_fault_begins() {
    let mut world = World::with_machine("");
    let pulses = Pulses::default();
    world.fleet.pulses = Some(pulses.clone());
    world.until(3600);
    assert_eq!(leases(&mut world).len(), 1);
    let last = |now| pulses.last(&world.nodes["a"].uid, now);
    assert_eq!(last(at(3600)), Some(at(3595)));
    world.breaks(KubeletFault::Stopped);
    world.until(3700);
    assert_eq!(pulses.last(&world.nodes["a"].uid, at(3700)), Some(at(3595)));
    assert_eq!(leases(&mut world), [0; 0]);
    world.remove_faults();
    world.until(3800);
    assert_eq!(leases(&mut world).len(), 1, "after its start it renews the Lease once");
}

#[test]
fn a_kubelet_with_a_pulse_repeats_its_status_again_after_a_fault_begins() {
    let mut world = World::with_machine("");
    world.fleet.pulses = Some(Pulses::default());
    world.until(400);
    let statuses = |world: &mut World| {
        let log = world.log();
        let statuses = log.iter().filter_map(|line| line.strip_suffix(" status a"));
        statuses
            .map(|second| second.parse::<i64>().unwrap())
            .collect::<Vec<_>>()
    };
    let first = statuses(&mut world)[0];
    world.until(3600);
    assert_eq!(statuses(&mut world), [0; 0]);
    world.breaks(KubeletFault::ClockSkew(SignedDuration::from_secs(60)));
    world.until(3600 + 600);
    let repeated = statuses(&mut world);
    assert_eq!(repeated.len(), 2, "{repeated:?}");
    assert!(
        repeated.iter().all(|second| (second - first) % 300 == 0),
        "{first}: {repeated:?}"
    );
}

#[test]
fn a_partitioned_kubelet_is_silent_and_its_pods_continue() {
    let mut world = World::joined();
    world.pod("p", &[("run-for", "30s")]);
    world.until(20);
    world.breaks(KubeletFault::Partitioned);
    world.log();
    world.pod("q", &[]);
    world.until(100);
    assert_eq!(world.log(), [""; 0]);
    world.remove_faults();
    world.until(110);
    let log = world.log();
    assert!(log.iter().any(|line| line.ends_with("lease a")), "{log:?}");
    assert_eq!(world.main("q").1, "running");
    // The container ended at second 41, and its kubelet restarted it at that time.
    assert_eq!(world.main("p").0, 2);
    let started = &world.status_of("p")["containerStatuses"][0]["state"]["running"]["startedAt"];
    assert!(started.as_str().unwrap() < at(100).to_string().as_str(), "{started}");
}

#[test]
fn a_partitioned_kubelet_catches_up_after_the_partition() {
    let mut world = World::joined();
    world.pod("p", &[]);
    world.pod("q", &[]);
    world.until(20);
    world.breaks(KubeletFault::Partitioned);
    world.delete_pod("p", 25);
    world.remove_pod("q");
    world.until(60);
    assert_eq!(world.main("p").1, "running");
    world.log();
    world.remove_faults();
    world.until(65);
    assert!(world.log_of_pods().contains(&"60 end pod p".to_owned()));
    assert!(world.pods.is_empty());
    assert_eq!(world.fleet.pods_on("a"), 0);
}

#[test]
fn a_frozen_kubelet_continues_as_if_no_time_had_passed() {
    let mut world = World::joined();
    world.until(14);
    world.breaks(KubeletFault::Frozen);
    world.log();
    world.until(500);
    assert_eq!(world.log(), [""; 0]);
    world.remove_faults();
    world.until(501);
    let log = world.log();
    assert_eq!(log, ["500 Resumed: the kubelet is back", "500 lease a", "500 status a"]);
    world.until(520);
    assert_eq!(leases(&mut world), [510, 520]);
}

#[test]
fn a_slow_kubelet_that_was_frozen_renews_its_lease_once_at_a_time() {
    let mut world = World::joined();
    world.breaks(KubeletFault::Slow(Duration::from_secs(15)));
    world.until(15);
    world.breaks(KubeletFault::Frozen);
    world.remove_faults();
    world.until(100);
    assert!(world.renewals.is_sorted(), "{:?}", world.renewals);
}

#[test]
fn a_slow_kubelet_makes_each_call_late() {
    let mut world = World::joined();
    world.breaks(KubeletFault::Slow(Duration::from_secs(3)));
    world.log();
    world.pod("p", &[]);
    world.until(35);
    let log = world.log();
    assert_eq!(log, ["14 pod p \"Running\" \"100.64.1.1\"", "18 lease a", "31 lease a"]);
}

#[test]
fn a_flapping_kubelet_alternates_between_down_and_up() {
    let mut world = World::joined();
    world.breaks(KubeletFault::Flapping(Flapping {
        period: Duration::from_secs(100),
        up_percent: 40,
        down: Down::Frozen,
    }));
    world.log();
    world.until(310);
    let leases = leases(&mut world);
    assert!(!leases.is_empty());
    for lease in leases {
        assert!((lease - 10) % 100 >= 60, "a lease at {lease}");
    }
}

#[test]
fn a_flapping_kubelet_that_stops_registers_each_time() {
    let mut world = World::joined();
    world.breaks(KubeletFault::Flapping(Flapping {
        period: Duration::from_secs(100),
        up_percent: 50,
        down: Down::Stopped,
    }));
    world.log();
    world.until(300);
    let log = world.log();
    assert_eq!(
        log.iter()
            .filter(|line| line.ends_with("register a"))
            .collect::<Vec<_>>(),
        ["61 register a", "161 register a", "261 register a"]
    );
}

#[test]
fn a_kubelet_that_recovers_slowly_has_a_lease_and_is_not_ready() {
    let mut world = World::joined();
    world.breaks(KubeletFault::SlowRecovery(Duration::from_secs(60)));
    world.breaks(KubeletFault::Stopped);
    world.vm(|cloud, vm, now| drop(cloud.set_kubelet(vm, true, now).unwrap().id.clone()));
    world.pod("p", &[]);
    world.until(60);
    assert_eq!(world.nodes["a"].conditions["Ready"], "False");
    assert!(leases(&mut world).len() > 3);
    assert!(world.status_of("p").is_null());
    world.until(75);
    assert_eq!(world.nodes["a"].conditions["Ready"], "True");
    assert_eq!(world.main("p").1, "running");
}

#[test]
fn a_kubelet_with_a_wrong_clock_writes_wrong_times() {
    let mut world = World::joined();
    world.breaks(KubeletFault::ClockSkew(SignedDuration::from_secs(-120)));
    world.pod("p", &[]);
    world.until(20);
    assert_eq!(world.renewals.last(), Some(&at(15 - 120)));
    let conditions = world.status_of("p")["conditions"].as_array().unwrap();
    assert_eq!(conditions[0]["lastTransitionTime"], at(11 - 120).to_string());
}

#[test]
fn a_zombie_registers_again_when_its_node_is_deleted() {
    let mut world = World::joined();
    world.breaks(KubeletFault::Zombie);
    world.pod("p", &[]);
    world.until(20);
    world.log();
    let uid = world.nodes.remove("a").unwrap().uid;
    world.fleet.node_gone("a", &uid, world.now);
    world.until(22);
    let log = world.log();
    let expected = [
        "20 NodeGone: its Node was deleted; it registers again",
        "21 register a",
        "21 lease a",
        "21 status a",
    ];
    assert_eq!(log, expected);
    assert_ne!(world.nodes["a"].uid, uid);
}

#[test]
fn a_node_deleted_during_a_partition_is_noticed_afterwards() {
    let mut world = World::joined();
    world.breaks(KubeletFault::Partitioned);
    let uid = world.nodes.remove("a").unwrap().uid;
    world.fleet.node_gone("a", &uid, world.now);
    world.until(60);
    world.log();
    world.remove_faults();
    world.until(120);
    let log = world.log();
    assert_eq!(
        log[1..],
        ["60 NodeGone: its Node was deleted; it registers again when it is restarted"]
    );
}

#[test]
fn a_new_vm_takes_over_the_node_of_its_predecessor_only_with_the_fault() {
    let mut world = World::with_machine("");
    let other = NodeFacts {
        uid: "1".to_owned(),
        provider_id: "fakecloud:///z/other".to_owned(),
        ..NodeFacts::default()
    };
    world.nodes.insert("a".to_owned(), other);
    world.until(10);
    assert_eq!(world.nodes["a"].uid, "1");
    world.breaks(KubeletFault::TakeOver);
    world.log();
    world.until(16);
    let log = world.log();
    let expected = [
        "15 register a",
        "15 TakesOver: it deletes the Node a of \"fakecloud:///z/other\"",
        "15 delete a",
        "15 register a",
        "15 lease a",
        "15 status a",
    ];
    assert_eq!(log, expected);
    assert!(world.nodes["a"].provider_id.starts_with("fakecloud:///local-1/vm-"));
}

#[test]
fn a_configured_fault_begins_and_ends() {
    let yaml = "kubelet: {faults: [{machine: a, mode: partitioned, after: 60s, lasts: 60s}]}";
    let mut world = World::with_config(Config::from_yaml("test", yaml).unwrap());
    world.create("a", "");
    world.until(64);
    world.log();
    world.until(123);
    assert_eq!(leases(&mut world), [0i64; 0]);
    world.until(135);
    assert!(!leases(&mut world).is_empty());
}

#[test]
fn conditions_are_set_and_cleared() {
    let mut world = World::joined();
    let condition = |status: &str| NodeCondition {
        status: status.to_owned(),
        reason: String::new(),
        message: String::new(),
    };
    for (kind, status) in [("DiskPressure", "True"), ("KernelDeadlock", "True"), ("Ready", "False")] {
        let condition = condition(status);
        world.vm(|cloud, vm, now| drop(cloud.set_node_condition(vm, kind, condition, now).unwrap().id.clone()));
        assert_eq!(world.nodes["a"].conditions[kind], status, "at once");
    }
    let deadlock = |world: &World| {
        let conditions = world.statuses.last().unwrap()["conditions"].as_array().unwrap().clone();
        conditions
            .into_iter()
            .find(|condition| condition["type"] == "KernelDeadlock")
            .unwrap()
    };
    assert_eq!(deadlock(&world)["reason"], "TaskHung");
    for kind in ["DiskPressure", "KernelDeadlock", "Ready"] {
        world.vm(|cloud, vm, now| drop(cloud.clear_node_condition(vm, kind, now).unwrap().id.clone()));
    }
    let conditions = &world.nodes["a"].conditions;
    assert_eq!(
        (&conditions["DiskPressure"], &conditions["Ready"]),
        (&"False".to_owned(), &"True".to_owned())
    );
    assert!(!conditions.contains_key("KernelDeadlock"));
}

#[test]
fn a_condition_that_was_set_while_the_kubelet_was_down_is_shown_when_it_is_back() {
    let mut world = World::joined();
    world.breaks(KubeletFault::Stopped);
    let condition = NodeCondition {
        status: "True".to_owned(),
        reason: "Planted".to_owned(),
        message: "m".to_owned(),
    };
    world.vm(|cloud, vm, now| {
        drop(
            cloud
                .set_node_condition(vm, "PIDPressure", condition, now)
                .unwrap()
                .id
                .clone(),
        )
    });
    assert_eq!(world.nodes["a"].conditions["PIDPressure"], "False");
    world.remove_faults();
    world.until(12);
    assert_eq!(world.nodes["a"].conditions["PIDPressure"], "True");
    let shown = world.statuses.last().unwrap()["conditions"].as_array().unwrap().clone();
    assert!(shown.iter().any(|condition| condition["reason"] == json!("Planted")));
}
