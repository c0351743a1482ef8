use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{Caches, Controller, ObjectKey, Plan, View};

#[rstest]
#[case::nothing_tolerated(json!([]), Verdict::Evict)]
#[case::by_key_and_value(json!([{ "key": "k", "value": "v", "effect": "NoExecute" }]), Verdict::Stays)]
#[case::another_value(json!([{ "key": "k", "value": "w", "effect": "NoExecute" }]), Verdict::Evict)]
#[case::by_existence(json!([{ "key": "k", "operator": "Exists" }]), Verdict::Stays)]
#[case::everything(json!([{ "operator": "Exists" }]), Verdict::Stays)]
#[case::another_effect(json!([{ "key": "k", "operator": "Exists", "effect": "NoSchedule" }]), Verdict::Evict)]
#[case::for_a_time(json!([{ "operator": "Exists", "tolerationSeconds": 9 }]), Verdict::StaysFor(SignedDuration::from_secs(9)))]
#[case::for_no_time(json!([{ "operator": "Exists", "tolerationSeconds": 0 }]), Verdict::Evict)]
#[case::for_less_than_no_time(json!([{ "operator": "Exists", "tolerationSeconds": -1 }]), Verdict::Evict)]
fn one_taint(#[case] tolerations: Value, #[case] expected: Verdict) {
    let taint: Taint = serde_json::from_value(json!({ "key": "k", "value": "v", "effect": "NoExecute" })).unwrap();
    let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
    assert_eq!(verdict(&[&taint], &tolerations), expected);
}

#[test]
fn the_shortest_toleration_counts() {
    let taints = ["a", "b"].map(|key| Taint {
        key: key.to_owned(),
        effect: "NoExecute".to_owned(),
        ..Taint::default()
    });
    let tolerations: Vec<Toleration> = serde_json::from_value(json!([
        { "key": "a", "operator": "Exists", "tolerationSeconds": 90 },
        { "key": "b", "operator": "Exists", "tolerationSeconds": 30 },
    ]))
    .unwrap();
    let both: Vec<&Taint> = taints.iter().collect();
    assert_eq!(
        verdict(&both, &tolerations),
        Verdict::StaysFor(SignedDuration::from_secs(30))
    );
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn look(controller: &mut TaintEviction, caches: &Caches, second: i64) -> Plan<Reason> {
    let view = View {
        caches,
        now: at(second),
    };
    controller.decide(&ObjectKey::new("n", "p"), view)
}

fn tainted(taints: Value, revision: &str) -> Node {
    serde_json::from_value(
        json!({ "metadata": { "name": "a", "resourceVersion": revision }, "spec": { "taints": taints } }),
    )
    .unwrap()
}

#[test]
fn a_pod_is_evicted_when_its_toleration_ends_and_a_cancelled_eviction_is_reported() {
    let mut caches = Caches::default();
    let pod = json!({
        "metadata": { "name": "p", "namespace": "n", "uid": "1" },
        "spec": {
            "nodeName": "a", "containers": [],
            "tolerations": [{ "key": "k", "operator": "Exists", "tolerationSeconds": 60 }],
        },
    });
    caches.put::<Pod>(serde_json::from_value(pod).unwrap());
    let taints = json!([{ "key": "k", "effect": "NoExecute" }]);
    caches.put(tainted(taints.clone(), "1"));
    let mut controller = TaintEviction::default();
    assert_eq!(look(&mut controller, &caches, 100), Plan::wait_until(at(160)));
    caches.put(tainted(json!([]), "2"));
    assert_eq!(look(&mut controller, &caches, 130).reasons, [Reason::Reprieved]);
    assert_eq!(look(&mut controller, &caches, 131), Plan::nothing());
    caches.put(tainted(taints, "3"));
    assert_eq!(look(&mut controller, &caches, 140), Plan::wait_until(at(200)));
    assert_eq!(look(&mut controller, &caches, 150), Plan::wait_until(at(200)));
    let plan = look(&mut controller, &caches, 200);
    assert_eq!(
        (plan.reasons.as_slice(), plan.actions.len()),
        ([Reason::Evicted].as_slice(), 3)
    );
}
