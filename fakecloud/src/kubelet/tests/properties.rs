//! Properties that hold for random events.

use std::time::Duration;

use clock::Pulses;
use proptest::prelude::*;
use serde_json::json;

use super::super::conditions::without_times;
use super::world::World;
use crate::model::{Down, Flapping, KubeletFault, VmState};

/// An event of a machine or its pods.
#[derive(Clone, Debug)]
enum Event {
    Break(KubeletFault),
    RemoveFaults,
    Reboot,
    Kill,
    Start,
    Pod(u8, bool),
    Delete(u8),
    Remove(u8),
    Crash(u8),
    Wait(u8),
}

fn fault() -> impl Strategy<Value = KubeletFault> {
    let down = prop_oneof![Just(Down::Stopped), Just(Down::Partitioned), Just(Down::Frozen)];
    let flapping = (10..200u64, 1..100u32, down).prop_map(|(period, up_percent, down)| {
        KubeletFault::Flapping(Flapping {
            period: Duration::from_secs(period),
            up_percent,
            down,
        })
    });
    prop_oneof![
        Just(KubeletFault::Stopped),
        Just(KubeletFault::Partitioned),
        Just(KubeletFault::Frozen),
        Just(KubeletFault::Zombie),
        flapping,
        (1..30u64).prop_map(|seconds| KubeletFault::Slow(Duration::from_secs(seconds))),
        (1..90u64).prop_map(|seconds| KubeletFault::SlowRecovery(Duration::from_secs(seconds))),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => fault().prop_map(Event::Break),
        3 => Just(Event::RemoveFaults),
        1 => Just(Event::Reboot),
        1 => Just(Event::Kill),
        2 => Just(Event::Start),
        3 => (0..3u8, any::<bool>()).prop_map(|(pod, crashes)| Event::Pod(pod, crashes)),
        1 => (0..3u8).prop_map(Event::Delete),
        1 => (0..3u8).prop_map(Event::Remove),
        2 => (0..3u8).prop_map(Event::Crash),
        6 => (1..120u8).prop_map(Event::Wait),
    ]
}

fn happen(world: &mut World, event: &Event, seconds: &mut i64) {
    let name = |pod: &u8| format!("p{pod}");
    let exists = |world: &World, pod: &u8| world.pods.contains_key(&("default".to_owned(), name(pod)));
    match event {
        Event::Break(fault) => world.breaks(*fault),
        Event::RemoveFaults => world.remove_faults(),
        Event::Reboot => world.vm(|cloud, vm, now| drop(cloud.reboot_vm(vm, now).map(|_| ()))),
        Event::Kill => world.vm(|cloud, vm, now| drop(cloud.kill_vm(vm, now).map(|_| ()))),
        Event::Start => world.vm(|cloud, vm, now| drop(cloud.start_vm(vm, now).map(|_| ()))),
        Event::Pod(pod, crashes) if !exists(world, pod) => {
            let annotations: &[(&str, &str)] = if *crashes {
                &[("run-for", "7s"), ("exit-code", "1")]
            } else {
                &[]
            };
            world.pod(&name(pod), annotations);
        }
        Event::Delete(pod) if exists(world, pod) => world.delete_pod(&name(pod), *seconds + 30),
        Event::Remove(pod) => world.remove_pod(&name(pod)),
        Event::Crash(pod) => {
            let key = ("default".to_owned(), name(pod));
            drop(world.fleet.kill_container(&key, "", "OOMKilled", world.now));
        }
        Event::Wait(wait) => {
            *seconds += i64::from(*wait);
            world.until(*seconds);
        }
        Event::Pod(..) | Event::Delete(_) => {}
    }
    world.settle();
}

fn running(world: &World) -> bool {
    world.cloud.vms().all(|vm| {
        let (availability, _) = vm.kubelet.availability(world.now);
        vm.state == VmState::Running && availability == crate::model::Availability::Up
    })
}

/// When the kubelet of machine `a` last gave a sign of life, the status of its Node, and its other writes.
fn signs(world: &mut World) -> (Option<jiff::Timestamp>, Option<String>, Vec<String>) {
    let uid = world.nodes.get("a").map(|node| node.uid.clone()).unwrap_or_default();
    let beat = world
        .fleet
        .pulses
        .as_ref()
        .and_then(|pulses| pulses.last(&uid, world.now));
    let mut log = world.log();
    log.retain(|line| !line.ends_with(" lease a") && !line.ends_with(" status a"));
    let status = world
        .statuses
        .last()
        .map(|status| without_times(&json!({ "status": status })));
    (world.last_renewal.max(beat), status, log)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn lease_renewals_and_pulses_give_the_same_signs_of_life(
        events in proptest::collection::vec(event(), 1..40),
    ) {
        let (mut with_renewals, mut with_pulse) = (World::joined(), World::joined());
        with_pulse.fleet.pulses = Some(Pulses::default());
        let (mut seconds, mut same) = (10, 10);
        for event in &events {
            happen(&mut with_renewals, event, &mut seconds);
            happen(&mut with_pulse, event, &mut same);
            prop_assert_eq!(signs(&mut with_renewals), signs(&mut with_pulse), "after {:?} at {} s", event, seconds);
        }
    }

    #[test]
    fn times_and_restarts_only_grow_and_a_stopped_kubelet_writes_nothing(
        events in proptest::collection::vec(event(), 1..40),
    ) {
        let mut world = World::joined();
        let mut seconds = 10;
        let mut restarts = std::collections::BTreeMap::new();
        for event in &events {
            let (down, writes) = (!running(&world), world.renewals.len() + world.statuses.len());
            let ready: Vec<_> = world.pods.keys().filter(|key| world.is_ready(&key.1)).cloned().collect();
            let begins = matches!(event, Event::Pod(..) | Event::Delete(_) | Event::Remove(_) | Event::Crash(_));
            happen(&mut world, event, &mut seconds);
            if down && begins {
                prop_assert_eq!(world.renewals.len() + world.statuses.len(), writes);
                let now: Vec<_> = world.pods.keys().filter(|key| world.is_ready(&key.1)).cloned().collect();
                prop_assert!(now.iter().all(|key| ready.contains(key)), "{:?} became ready", now);
            }
            prop_assert!(world.renewals.is_sorted(), "{:?}", world.renewals);
            restarts.retain(|key, _| world.pods.contains_key(key));
            for (key, pod) in &world.pods {
                let count = pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default();
                let before = restarts.insert(key.clone(), count).unwrap_or_default();
                prop_assert!(count >= before, "{:?} restarted {} times, then {}", key, before, count);
            }
        }
        // Without faults, every pod that should run runs.
        world.remove_faults();
        world.vm(|cloud, vm, now| drop(cloud.start_vm(vm, now).map(|_| ())));
        world.vm(|cloud, vm, now| drop(cloud.reboot_vm(vm, now).map(|_| ())));
        world.until(seconds + 400);
        for (key, pod) in &world.pods {
            prop_assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{:?} has not ended", key);
            prop_assert_eq!(&pod["status"]["phase"], "Running");
        }
    }
}
