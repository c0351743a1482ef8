//! The kubelets' model in virtual time: API calls and their times.

mod modes;
mod pods;
mod properties;
mod scale;
mod world;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use rstest::rstest;
use serde_json::json;

use self::world::{World, at};
use super::conditions::{self, Readiness};
use super::facts::NodeFacts;
use super::objects::{Host, PodStatusData, Renewal};
use crate::Config;
use crate::model::test_request as request;

const TOKEN_SECRET: &str = "0123456789abcdef";

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
    assert_eq!(world.log(), expected);
    assert!(world.cloud.vms().all(|vm| vm.joined));
    world.until(310);
    assert_eq!(
        world
            .log()
            .iter()
            .filter(|line| line.ends_with("status a"))
            .collect::<Vec<_>>(),
        ["305 status a"]
    );
}

#[test]
fn a_valid_token_lets_the_kubelet_join() {
    let mut world = World::with_machine(&user_data());
    world.secret = secret("2100-01-01T00:00:00Z");
    world.until(6);
    assert_eq!(
        world.log()[..3],
        [
            "4 Started: the kubelet starts",
            "5 read bootstrap-token-abc123",
            "5 register a"
        ]
    );
}

#[test]
fn a_rejected_kubelet_reports_the_reason_once_and_retries_every_ten_seconds() {
    let mut world = World::with_machine(&user_data());
    world.until(16);
    world.secret = secret("2000-01-01T00:00:00Z");
    world.until(26);
    world.secret = secret("2100-01-01T00:00:00Z");
    world.until(35);
    let log = world.log();
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
    assert_eq!(log[..expected.len()], expected);
}

#[test]
fn user_data_with_a_placeholder_never_lets_a_kubelet_join() {
    let mut world = World::with_machine("--token <<BOOTSTRAP_TOKEN>>");
    world.until(3600);
    let log = world.log();
    assert_eq!(log.len(), 2);
    assert!(log[1].contains("was not templated"), "{log:?}");
}

#[test]
fn a_node_of_another_vm_is_not_changed() {
    let mut world = World::with_machine("");
    let other = NodeFacts {
        uid: "1".to_owned(),
        provider_id: "fakecloud:///z/other".to_owned(),
        ..Default::default()
    };
    world.nodes.insert("a".to_owned(), other);
    world.until(30);
    let log = world.log();
    assert!(
        log[2].contains("a Node a exists with the provider id \"fakecloud:///z/other\""),
        "{log:?}"
    );
    assert!(
        log.iter()
            .all(|line| !line.ends_with("lease a") && !line.ends_with("status a")),
        "{log:?}"
    );
    world.nodes.clear();
    world.until(36);
    assert_eq!(world.log(), ["35 register a", "35 lease a", "35 status a"]);
}

#[test]
fn a_vm_that_stops_writes_nothing_and_comes_back_as_the_same_node() {
    let mut world = World::joined();
    world.vm(|cloud, vm, now| drop(cloud.kill_vm(vm, now).map(|_| ())));
    world.until(100);
    assert_eq!(world.log(), ["10 Ended: the kubelet has stopped"]);
    world.vm(|cloud, vm, now| drop(cloud.start_vm(vm, now).map(|_| ())));
    world.until(102);
    let expected = [
        "100 Started: the kubelet starts",
        "101 register a",
        "101 lease a",
        "101 status a",
    ];
    assert_eq!(world.log(), expected);
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
    world.log();
    world.vm(|cloud, vm, now| drop(cloud.set_kubelet(vm, true, now).map(|_| ())));
    world.until(62);
    assert_eq!(world.log()[1..], ["61 register a", "61 lease a", "61 status a"]);
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
    assert_eq!(world.log(), expected);
}

#[test]
fn a_status_changed_by_others_is_reverted_within_ten_seconds() {
    let mut world = World::joined();
    let node = world.nodes.get_mut("a").unwrap();
    node.conditions.insert("Ready".to_owned(), "Unknown".to_owned());
    let facts = node.clone();
    world.fleet.node_seen("a", &facts, world.now);
    world.until(20);
    assert_eq!(world.log(), ["15 lease a", "15 status a"]);
    assert_eq!(world.nodes["a"].conditions["Ready"], "True");
}

#[test]
fn a_kubelet_whose_node_is_deleted_waits_for_its_restart() {
    let mut world = World::joined();
    world.nodes.clear();
    world.fleet.node_gone("a", "another-uid", world.now);
    assert_eq!(world.log(), [""; 0]);
    world.fleet.node_gone("a", "node-1", world.now);
    world.until(600);
    assert_eq!(
        world.log(),
        ["10 NodeGone: its Node was deleted; it registers again when it is restarted"]
    );
    world.vm(|cloud, vm, now| drop(cloud.reboot_vm(vm, now).map(|_| ())));
    world.until(602);
    assert!(world.log().contains(&"601 register a".to_owned()));
}

#[test]
fn failed_calls_are_retried_with_growing_pauses() {
    let mut world = World::joined();
    world.failing = true;
    world.until(34);
    assert_eq!(
        world.log(),
        ["15 lease a", "16 lease a", "18 lease a", "22 lease a", "30 lease a"]
    );
    world.failing = false;
    world.until(60);
    assert_eq!(world.log(), ["40 lease a", "50 lease a", "60 lease a"]);
}

#[test]
fn a_node_and_its_lease_look_like_those_of_a_kubelet() {
    let mut world = World::new();
    let mut request = request("a");
    request.class.provider_spec["taints"] = json!([{"key": "starting", "effect": "NoSchedule"}]);
    request.class.provider_spec["labels"] = json!({"pool": "a"});
    world.cloud.create_machine(&request, at(0)).result.unwrap();
    world.cloud.advance(at(4));
    let vm = world.cloud.vms().next().unwrap();
    let host = Host::of(vm, world.cloud.settings().machine_types.get("small"));
    let node = host.node("c1", false, at(5)).unwrap();
    let labels = node.metadata.labels.clone().unwrap();
    assert_eq!(labels["topology.kubernetes.io/zone"], "local-1");
    assert_eq!(labels["topology.kubernetes.io/region"], "local");
    assert_eq!(labels["node.kubernetes.io/instance-type"], "small");
    assert_eq!(labels["node.drydock.dev/simulated"], "true");
    assert_eq!(labels["kubernetes.io/hostname"], "a");
    assert_eq!(labels["pool"], "a");
    assert_eq!(
        node.metadata.annotations.clone().unwrap()["fakecloud.drydock.dev/cloud"],
        "c1"
    );
    let spec = node.spec.clone().unwrap();
    assert_eq!(spec.provider_id.as_deref(), Some(vm.provider_id.as_str()));
    assert_eq!(spec.taints.unwrap()[0].key, "starting");
    let known = NodeFacts {
        uid: "1".to_owned(),
        ..NodeFacts::of(&node)
    };
    let none = BTreeMap::new();
    let desired = conditions::desired(Readiness::Ready, &none);
    assert!(!conditions::are_current(&desired, &known));
    let pods = PodStatusData {
        images: ["nginx"].into(),
        volumes: ["kubernetes.io/csi/d^1"].into(),
    };
    let patch = host.status_patch(false, &desired, &known, &pods, at(6));
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    let moved = conditions
        .iter()
        .filter(|condition| condition.get("lastTransitionTime").is_some());
    assert_eq!(moved.map(|condition| &condition["type"]).collect::<Vec<_>>(), ["Ready"]);
    assert_eq!(patch["status"]["capacity"]["memory"], "8Gi");
    assert_eq!(patch["status"]["images"][0]["names"][0], "nginx");
    assert_eq!(patch["status"]["volumesInUse"], json!(["kubernetes.io/csi/d^1"]));
    let lease = Renewal::new("a", "1", &Config::default().settings().kubelet, false, at(6));
    assert_eq!(lease.patch(), lease.whole());
    let whole = lease.whole();
    assert_eq!(whole["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(whole["spec"]["renewTime"], "2027-01-15T08:00:06.000000Z");
    assert_eq!(whole["metadata"]["ownerReferences"][0]["uid"], "1");
    let again = Renewal::new("a", "1", &Config::default().settings().kubelet, true, at(16));
    assert_eq!(
        again.patch(),
        json!({"spec": {"holderIdentity": "a", "renewTime": "2027-01-15T08:00:16.000000Z"}})
    );
}

#[test]
fn with_an_external_cloud_provider_a_node_registers_without_cloud_data() {
    let mut world = World::with_machine("");
    world.until(4);
    let vm = world.cloud.vms().next().unwrap();
    let node = Host::of(vm, None).node("c1", true, at(5)).unwrap();
    let spec = node.spec.clone().unwrap();
    assert_eq!(spec.provider_id, None);
    assert_eq!(
        spec.taints.unwrap()[0].key,
        "node.cloudprovider.kubernetes.io/uninitialized"
    );
    assert!(
        !node
            .metadata
            .labels
            .clone()
            .unwrap()
            .contains_key("topology.kubernetes.io/zone")
    );
    let addresses = node.status.clone().unwrap().addresses.unwrap();
    assert_eq!(
        addresses
            .iter()
            .map(|address| address.type_.as_str())
            .collect::<Vec<_>>(),
        ["Hostname"]
    );
    let facts = NodeFacts::of(&node);
    assert!(facts.belongs_to(&vm.provider_id) && !facts.belongs_to("fakecloud:///z/other"));
}

#[rstest]
#[case::own_range("", 0, "100.64.1.1")]
#[case::wraps("", 254, "100.64.1.1")]
#[case::of_the_node("10.96.4.0/24", 0, "10.96.4.1")]
#[case::last_of_the_node("10.96.4.0/24", 253, "10.96.4.254")]
#[case::wraps_in_the_node("10.96.4.0/24", 254, "10.96.4.1")]
#[case::no_range("fd00::/64", 0, "100.64.1.1")]
fn pods_get_addresses_from_the_range_of_their_node(#[case] range: &str, #[case] number: u64, #[case] expected: &str) {
    let mut world = World::with_machine("");
    world.until(4);
    let host = Host::of(world.cloud.vms().next().unwrap(), None);
    assert_eq!(host.pod_ip(range, number), expected);
}
