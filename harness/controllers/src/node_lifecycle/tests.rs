//! Observations and decision together, as a sequence over a kubelet's life; no client, no clock.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::api::ObjectMeta;

use super::*;

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn at(second: i64) -> Timestamp {
    START + SignedDuration::from_secs(second)
}

/// One node `a`, the writes applied to it as an API server applies them, and a log of the decisions.
struct World {
    observations: Observations,
    settings: Settings,
    node: Node,
    revision: u64,
    narrative: Vec<String>,
}

impl World {
    fn new() -> Self {
        let settings = Settings::default();
        let mut world = Self {
            observations: Observations::new(START, settings.monitor_period),
            settings,
            node: created("first", START),
            revision: 0,
            narrative: Vec::new(),
        };
        world.show(START);
        world
    }

    fn show(&mut self, now: Timestamp) {
        self.revision += 1;
        self.node.metadata.resource_version = Some(self.revision.to_string());
        self.observations.node_seen(&self.node, now);
        self.observations.permitted("a", zones::Permission::Granted);
    }

    /// The kubelet posts Ready with a heartbeat of its own clock, which is years off.
    fn post(&mut self, second: i64, ready: &str) {
        let conditions = [
            ("Ready", ready),
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
        ];
        let skewed = Time(at(second + 1_000_000_000));
        let condition = |(kind, status): (&str, &str)| NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            last_heartbeat_time: Some(skewed.clone()),
            ..Default::default()
        };
        self.node.status = Some(NodeStatus {
            conditions: Some(conditions.map(condition).to_vec()),
            ..Default::default()
        });
        self.show(at(second));
    }

    fn renew(&mut self, second: i64, renewed: i64) {
        let spec = LeaseSpec {
            renew_time: Some(MicroTime(at(renewed))),
            ..Default::default()
        };
        let metadata = ObjectMeta {
            name: Some("a".to_owned()),
            ..Default::default()
        };
        self.observations.lease_seen(
            &Lease {
                metadata,
                spec: Some(spec),
            },
            at(second),
        );
    }

    /// Decides once a second until `second`, applying every action.
    fn run(&mut self, seconds: std::ops::RangeInclusive<i64>) {
        for second in seconds {
            while self.step(second) {}
        }
    }

    fn step(&mut self, second: i64) -> bool {
        let view = self.observations.view(&self.node, at(second)).unwrap();
        let Some(action) = decide(&view, at(second), &self.settings).decisions.into_iter().next() else {
            return false;
        };
        match action {
            Decision::SetConditions { conditions, silence } => {
                let status = self.node.status.get_or_insert_default();
                let present = status.conditions.get_or_insert_default();
                present.retain(|old| conditions.iter().all(|new| new.type_ != old.type_));
                present.extend(conditions);
                self.narrative.push(format!("{second} {silence:?}"));
            }
            Decision::SetTaints(taints) => {
                let keys: Vec<_> = taints
                    .iter()
                    .map(|taint| taint.key.trim_start_matches("node.kubernetes.io/"))
                    .collect();
                self.narrative.push(format!("{second} taints [{}]", keys.join(" ")));
                self.node.spec = Some(NodeSpec {
                    taints: Some(taints),
                    ..Default::default()
                });
            }
            Decision::MarkPodsNotReady { since } => {
                self.narrative.push(format!("{second} pods not ready"));
                self.observations.pods_marked_not_ready("a", Some(since));
            }
        }
        self.show(at(second));
        true
    }
}

fn created(uid: &str, at: Timestamp) -> Node {
    let metadata = ObjectMeta {
        name: Some("a".to_owned()),
        uid: Some(uid.to_owned()),
        creation_timestamp: Some(Time(at)),
        ..Default::default()
    };
    Node {
        metadata,
        ..Default::default()
    }
}

#[test]
fn a_kubelet_becomes_silent_and_recovers() {
    let mut world = World::new();
    world.post(12, "True");
    world.run(0..=60);
    world.renew(61, 61);
    world.run(61..=200);
    world.post(201, "True");
    world.run(201..=240);
    // Observed at 61, noticed in the round at 65, more than 50 s ago.
    assert_eq!(
        world.narrative,
        [
            "115 StoppedPosting",
            "115 taints [unreachable unreachable]",
            "115 pods not ready",
            "201 taints []",
        ]
    );
}

#[test]
fn pulses_count_as_renewals_until_they_stop() {
    let pulses = clock::Pulses::default();
    let mut world = World::new();
    world.observations = Observations::new(START, world.settings.monitor_period).with_pulses(Some(pulses.clone()));
    world.show(START);
    world.post(2, "True");
    pulses.begin("first", at(2), Duration::from_secs(10));
    world.run(0..=600);
    assert!(world.narrative.is_empty(), "{:?}", world.narrative);
    pulses.end("first", at(609));
    world.run(601..=700);
    // The last pulse came at 602 and is noticed in the round at 605; the grace of 50 s starts there.
    assert_eq!(world.narrative[0], "655 StoppedPosting");
}

#[test]
fn lease_and_heartbeat_each_keep_a_node_alive() {
    let mut world = World::new();
    world.post(0, "True");
    for second in (0..400).step_by(10) {
        match second / 200 {
            0 => world.renew(second, second),
            _ => world.post(second, "True"),
        }
        world.run(second..=second + 9);
    }
    assert!(world.narrative.is_empty(), "{:?}", world.narrative);
}

#[test]
fn a_lease_event_without_a_renewal_is_no_sign_of_life() {
    let mut world = World::new();
    world.post(0, "True");
    world.renew(0, 0);
    for second in (0..60).step_by(10) {
        world.renew(second, 0);
        world.run(second..=second + 9);
    }
    assert_eq!(world.narrative[0], "50 StoppedPosting");
}

#[test]
fn cpu_starvation_of_the_host_extends_the_grace_period() {
    let mut world = World::new();
    world.settings.lost_time = LostTime::known(&[(at(20), Duration::from_secs(7))]);
    world.post(0, "True");
    world.run(0..=60);
    assert_eq!(world.narrative[0], "57 StoppedPosting");
}

#[test]
fn a_kubelet_that_never_posts_turns_unknown_after_the_startup_grace_period_and_may_recover() {
    let mut world = World::new();
    world.run(0..=300);
    assert_eq!(
        world.narrative,
        [
            "60 NeverPosted",
            "60 taints [unreachable unreachable]",
            "60 pods not ready"
        ]
    );
    world.post(301, "False");
    world.run(301..=310);
    world.post(311, "True");
    world.run(311..=320);
    assert_eq!(
        world.narrative[3..],
        ["301 taints [not-ready not-ready]", "311 taints []"]
    );
}

#[test]
fn a_restarted_controller_gives_a_silent_node_the_full_grace_period() {
    let mut world = World::new();
    world.post(0, "True");
    world.observations = Observations::new(at(1000), world.settings.monitor_period);
    world.show(at(1002));
    world.run(1002..=1100);
    assert_eq!(world.narrative[0], "1055 StoppedPosting");
}

#[test]
fn a_recreated_node_of_the_same_name_starts_without_observations() {
    let mut world = World::new();
    world.post(0, "True");
    world.run(0..=40);
    world.node = created("second", at(41));
    world.show(at(41));
    world.run(41..=150);
    assert_eq!(world.narrative[0], "101 NeverPosted");
}

#[test]
fn monitor_rounds_are_multiples_of_the_period_from_the_start() {
    let observations = Observations::new(at(3), Duration::from_secs(5));
    let looks = [3, 4, 8, 9].map(|second| observations.round_at_or_after(at(second)));
    assert_eq!(looks, [3, 8, 8, 13].map(at));
    assert_eq!(Observations::new(at(3), Duration::ZERO).round_at_or_after(at(4)), at(4));
}
