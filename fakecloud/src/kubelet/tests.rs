//! The kubelets' model with virtual time: what is asked of the API server, and when.

use std::collections::BTreeMap;

use clock::Seed;
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use rstest::rstest;
use serde_json::json;

use super::facts::PodPhase;
use super::*;
use crate::Config;
use crate::config::KubeletSettings;
use crate::delay::Delay;
use crate::model::Reference;
use crate::model::test_request as request;

const TOKEN_SECRET: &str = "0123456789abcdef";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
}

/// A cloud, its fleet, and an API server with just enough memory to answer.
struct World {
    cloud: Cloud,
    fleet: Fleet,
    nodes: BTreeMap<String, NodeFacts>,
    secret: Option<BTreeMap<String, ByteString>>,
    failing: bool,
    now: Timestamp,
    uids: u32,
    narrative: Vec<String>,
}

impl World {
    fn new() -> Self {
        let config = Config {
            boot_delay: Delay::Constant(Duration::from_secs(4)),
            ..Config::default()
        };
        Self {
            cloud: Cloud::new(config, Seed::new(1)),
            fleet: Fleet::new(KubeletSettings::default()),
            nodes: BTreeMap::new(),
            secret: None,
            failing: false,
            now: at(0),
            uids: 0,
            narrative: Vec::new(),
        }
    }

    /// A world in which machine `a` has a VM that boots at second 4, with this user data.
    fn with_machine(user_data: &str) -> Self {
        let mut world = Self::new();
        world.create("a", user_data);
        world
    }

    /// A world in which machine `a` has joined, at second 10.
    fn joined() -> Self {
        let mut world = Self::with_machine("");
        world.until(10);
        world.narrative.clear();
        world
    }

    fn create(&mut self, machine: &str, user_data: &str) {
        let mut request = request(machine);
        request
            .secret
            .insert("userData".to_owned(), ByteString(user_data.as_bytes().to_vec()));
        self.cloud.create_machine(&request, self.now).result.unwrap();
    }

    fn vm(&mut self, command: impl FnOnce(&mut Cloud, &Reference, Timestamp)) {
        command(&mut self.cloud, &Reference::Machine("a".to_owned()), self.now);
        self.settle();
    }

    /// Lets time pass, deadline by deadline.
    fn until(&mut self, seconds: i64) {
        let end = at(seconds);
        loop {
            self.settle();
            let next = [self.cloud.next_deadline(), self.fleet.next_deadline()]
                .into_iter()
                .flatten()
                .min();
            match next {
                Some(next) if next <= end => self.now = next,
                _ => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// Carries out what is due now, calls included.
    fn settle(&mut self) {
        loop {
            self.cloud.advance(self.now);
            for vm in self.cloud.vms() {
                let machine_type = self.cloud.config().machine_types.get(&vm.machine_type);
                self.fleet.vm(vm, |vm| Host::of(vm, machine_type), self.now);
            }
            self.fleet.advance(self.now);
            let effects = self.fleet.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Joined { vm } => self.cloud.kubelet_joined(&vm, self.now),
                    Effect::Report { operation, message, .. } => self.say(format!("{operation}: {message}")),
                    Effect::Call(run, request) => {
                        let outcome = self.answer(&request);
                        self.fleet.done(&run, &request, outcome, self.now);
                    }
                }
            }
        }
    }

    fn answer(&mut self, request: &Request) -> Outcome {
        let (text, outcome) = match request {
            Request::ReadSecret { name } => (format!("read {name}"), Outcome::Secret(self.secret.clone())),
            Request::Register { node } => {
                let name = node.metadata.name.clone().unwrap();
                self.uids += 1;
                let uid = format!("node-{}", self.uids);
                let facts = NodeFacts {
                    uid,
                    ..NodeFacts::of(node)
                };
                let known = self.nodes.entry(name.clone()).or_insert(facts);
                (format!("register {name}"), Outcome::Node(known.clone()))
            }
            Request::RenewLease { name, .. } => (format!("lease {name}"), Outcome::Done),
            Request::NodeStatus { name, patch } => {
                let outcome = match self.nodes.get_mut(name) {
                    Some(node) if patch["metadata"]["uid"] == node.uid => {
                        for condition in patch["status"]["conditions"].as_array().unwrap() {
                            let text = |field: &str| condition[field].as_str().unwrap().to_owned();
                            node.conditions.insert(text("type"), text("status"));
                        }
                        Outcome::Node(node.clone())
                    }
                    _ => Outcome::Gone,
                };
                (format!("status {name}"), outcome)
            }
            Request::PodStatus { pod, patch } => {
                let status = &patch["status"];
                (
                    format!("pod {} {} {}", pod.1, status["phase"], status["podIP"]),
                    Outcome::Done,
                )
            }
            Request::EndPod { pod, .. } => (format!("end pod {}", pod.1), Outcome::Done),
        };
        self.say(text);
        if self.failing {
            Outcome::Failed("unavailable".to_owned())
        } else {
            outcome
        }
    }

    fn say(&mut self, text: String) {
        let seconds = self.now.duration_since(at(0)).as_secs();
        self.narrative.push(format!("{seconds} {text}"));
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.narrative)
    }

    fn pod(&mut self, name: &str, phase: PodPhase, deletion: Option<i64>) {
        let facts = PodFacts {
            uid: format!("uid-{name}"),
            node: "a".to_owned(),
            phase,
            deletion: deletion.map(at),
            containers: vec![("main".to_owned(), "image".to_owned())],
            host_network: false,
        };
        self.fleet
            .pod_seen(("default".to_owned(), name.to_owned()), facts, self.now);
        self.settle();
    }
}

fn secret(expiration: &str) -> Option<BTreeMap<String, ByteString>> {
    let data = [("token-secret", TOKEN_SECRET), ("expiration", expiration)];
    Some(
        data.into_iter()
            .map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect(),
    )
}

fn user_data() -> String {
    format!("join --token abc123.{TOKEN_SECRET}")
}

#[test]
fn a_vm_without_a_token_joins_renews_its_lease_and_reports_its_status() {
    let mut world = World::with_machine("");
    world.until(26);
    let expected = [
        "4 Started: the kubelet starts",
        "5 register a",
        "5 lease a",
        "5 status a",
        "15 lease a",
        "25 lease a",
    ];
    assert_eq!(world.told(), expected);
    assert!(world.cloud.vms().all(|vm| vm.joined));
    world.until(310);
    assert_eq!(
        world
            .told()
            .iter()
            .filter(|line| line.ends_with("status a"))
            .collect::<Vec<_>>(),
        ["305 status a"]
    );
}

#[test]
fn a_good_token_lets_the_kubelet_in() {
    let mut world = World::with_machine(&user_data());
    world.secret = secret("2100-01-01T00:00:00Z");
    world.until(6);
    assert_eq!(
        world.told()[..3],
        [
            "4 Started: the kubelet starts",
            "5 read bootstrap-token-abc123",
            "5 register a"
        ]
    );
}

#[test]
fn a_kubelet_that_is_refused_says_why_once_and_tries_again_every_ten_seconds() {
    let mut world = World::with_machine(&user_data());
    world.until(16);
    world.secret = secret("2000-01-01T00:00:00Z");
    world.until(26);
    world.secret = secret("2100-01-01T00:00:00Z");
    world.until(35);
    let told = world.told();
    let expected = [
        "4 Started: the kubelet starts",
        "5 read bootstrap-token-abc123",
        "5 Refused: its bootstrap token is unknown: there is no such Secret in kube-system",
        "15 read bootstrap-token-abc123",
        "25 read bootstrap-token-abc123",
        "25 Refused: its bootstrap token has expired",
        "35 read bootstrap-token-abc123",
        "35 register a",
    ];
    assert_eq!(told[..expected.len()], expected);
}

#[test]
fn user_data_that_was_not_templated_never_lets_a_kubelet_in() {
    let mut world = World::with_machine("--token <<BOOTSTRAP_TOKEN>>");
    world.until(3600);
    let told = world.told();
    assert_eq!(told.len(), 2);
    assert!(told[1].contains("was not templated"), "{told:?}");
}

#[test]
fn a_node_of_another_vm_is_left_alone() {
    let mut world = World::with_machine("");
    let other = NodeFacts {
        uid: "1".to_owned(),
        provider_id: "fakecloud:///z/other".to_owned(),
        ..Default::default()
    };
    world.nodes.insert("a".to_owned(), other);
    world.until(30);
    let told = world.told();
    assert!(
        told[2].contains("a Node a is there with the provider id \"fakecloud:///z/other\""),
        "{told:?}"
    );
    assert!(
        told.iter()
            .all(|line| !line.ends_with("lease a") && !line.ends_with("status a")),
        "{told:?}"
    );
    world.nodes.clear();
    world.until(36);
    assert_eq!(world.told(), ["35 register a", "35 lease a", "35 status a"]);
}

#[test]
fn a_vm_that_stops_writes_nothing_and_comes_back_as_the_same_node() {
    let mut world = World::joined();
    world.vm(|cloud, vm, now| drop(cloud.kill_vm(vm, now).map(|_| ())));
    world.until(100);
    assert_eq!(world.told(), ["10 Ended: the kubelet has stopped"]);
    world.vm(|cloud, vm, now| drop(cloud.start_vm(vm, now).map(|_| ())));
    world.until(102);
    let expected = [
        "100 Started: the kubelet starts",
        "101 register a",
        "101 lease a",
        "101 status a",
    ];
    assert_eq!(world.told(), expected);
    assert_eq!(world.uids, 2, "the second registration found the Node");
    assert_eq!(world.nodes["a"].uid, "node-1");
}

#[test]
fn a_stopped_kubelet_comes_back_without_a_token() {
    let mut world = World::with_machine(&user_data());
    world.secret = secret("2100-01-01T00:00:00Z");
    world.until(10);
    world.secret = None;
    world.vm(|cloud, vm, now| drop(cloud.set_kubelet(vm, false, now).map(|_| ())));
    world.until(60);
    world.told();
    world.vm(|cloud, vm, now| drop(cloud.set_kubelet(vm, true, now).map(|_| ())));
    world.until(62);
    assert_eq!(world.told()[1..], ["61 register a", "61 lease a", "61 status a"]);
}

#[test]
fn a_reboot_restarts_the_kubelet() {
    let mut world = World::joined();
    world.vm(|cloud, vm, now| drop(cloud.reboot_vm(vm, now).map(|_| ())));
    world.until(11);
    let expected = [
        "10 Ended: the kubelet has stopped",
        "10 Started: the kubelet starts",
        "11 register a",
        "11 lease a",
        "11 status a",
    ];
    assert_eq!(world.told(), expected);
}

#[test]
fn a_status_that_others_changed_is_mended_within_ten_seconds() {
    let mut world = World::joined();
    let node = world.nodes.get_mut("a").unwrap();
    node.conditions.insert("Ready".to_owned(), "Unknown".to_owned());
    let facts = node.clone();
    world.fleet.node_seen("a", &facts, world.now);
    world.until(20);
    assert_eq!(world.told(), ["15 lease a", "15 status a"]);
    assert_eq!(world.nodes["a"].conditions["Ready"], "True");
}

#[test]
fn a_kubelet_whose_node_is_deleted_waits_for_its_restart() {
    let mut world = World::joined();
    world.nodes.clear();
    world.fleet.node_gone("a", "another-uid");
    assert_eq!(world.told(), [""; 0]);
    world.fleet.node_gone("a", "node-1");
    world.until(600);
    assert_eq!(
        world.told(),
        ["10 NodeGone: its Node was deleted; it registers again when it is restarted"]
    );
    world.vm(|cloud, vm, now| drop(cloud.reboot_vm(vm, now).map(|_| ())));
    world.until(602);
    assert!(world.told().contains(&"601 register a".to_owned()));
}

#[test]
fn calls_that_fail_are_repeated_with_growing_pauses() {
    let mut world = World::joined();
    world.failing = true;
    world.until(34);
    assert_eq!(
        world.told(),
        ["15 lease a", "16 lease a", "18 lease a", "22 lease a", "30 lease a"]
    );
    world.failing = false;
    world.until(60);
    assert_eq!(world.told(), ["40 lease a", "50 lease a", "60 lease a"]);
}

#[test]
fn a_pod_runs_is_mended_and_ends() {
    let mut world = World::joined();
    world.pod("p", PodPhase::Pending, None);
    world.until(12);
    assert_eq!(world.told(), ["11 pod p \"Running\" \"100.64.1.1\""]);
    world.pod("p", PodPhase::Running(true), None);
    world.until(13);
    world.pod("p", PodPhase::Running(false), None);
    world.until(14);
    assert_eq!(world.told(), ["14 pod p \"Running\" \"100.64.1.1\""]);
    world.pod("p", PodPhase::Running(true), Some(44));
    world.until(16);
    assert_eq!(world.told(), ["15 lease a", "15 end pod p"]);
}

#[rstest]
#[case::long_grace(Some(40), "11 end pod p")]
#[case::no_grace_left(Some(10), "10 end pod p")]
fn a_pod_ends_within_its_grace(#[case] deletion: Option<i64>, #[case] expected: &str) {
    let mut world = World::joined();
    world.pod("p", PodPhase::Running(true), deletion);
    world.until(12);
    assert_eq!(world.told(), [expected]);
}

#[test]
fn pods_of_a_stopped_kubelet_wait_until_it_runs_again() {
    let mut world = World::joined();
    world.pod("p", PodPhase::Pending, None);
    world.vm(|cloud, vm, now| drop(cloud.set_kubelet(vm, false, now).map(|_| ())));
    world.pod("q", PodPhase::Running(true), Some(12));
    world.until(50);
    assert_eq!(world.told(), ["10 Ended: the kubelet has stopped"]);
    world.vm(|cloud, vm, now| drop(cloud.set_kubelet(vm, true, now).map(|_| ())));
    world.until(52);
    let told = world.told();
    assert!(told.contains(&"51 end pod q".to_owned()), "{told:?}");
    assert!(
        told.contains(&"52 pod p \"Running\" \"100.64.1.1\"".to_owned()),
        "{told:?}"
    );
}

#[test]
fn a_node_and_its_lease_look_as_a_kubelet_makes_them() {
    let mut world = World::new();
    let mut request = request("a");
    request.class.provider_spec["taints"] = json!([{"key": "starting", "effect": "NoSchedule"}]);
    request.class.provider_spec["labels"] = json!({"pool": "a"});
    world.cloud.create_machine(&request, at(0)).result.unwrap();
    world.cloud.advance(at(4));
    let vm = world.cloud.vms().next().unwrap();
    let host = Host::of(vm, world.cloud.config().machine_types.get("small"));
    let node = host.node(at(5)).unwrap();
    let labels = node.metadata.labels.clone().unwrap();
    assert_eq!(labels["topology.kubernetes.io/zone"], "local-1");
    assert_eq!(labels["node.kubernetes.io/instance-type"], "small");
    assert_eq!(labels["pool"], "a");
    let spec = node.spec.clone().unwrap();
    assert_eq!(spec.provider_id.as_deref(), Some(vm.provider_id.as_str()));
    assert_eq!(spec.taints.unwrap()[0].key, "starting");
    let known = NodeFacts {
        uid: "1".to_owned(),
        ..NodeFacts::of(&node)
    };
    assert!(!Host::is_reported(&known));
    let patch = host.status_patch(&known, at(6));
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    let moved = conditions
        .iter()
        .filter(|condition| condition.get("lastTransitionTime").is_some());
    assert_eq!(moved.map(|condition| &condition["type"]).collect::<Vec<_>>(), ["Ready"]);
    assert_eq!(patch["status"]["capacity"]["memory"], "8Gi");
    let lease = host.lease("1", &KubeletSettings::default(), at(6));
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(lease["spec"]["renewTime"], "2027-01-15T08:00:06.000000Z");
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], "1");
}
