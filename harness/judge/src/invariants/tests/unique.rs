//! I20 and I21: pods of one ordinal, and users of one volume, on two running VMs.

use super::*;

/// A pod of a StatefulSet with the claim `data`.
fn pod(uid: &str, node: &str) -> Value {
    json!({
        "metadata": {
            "name": "db-0",
            "namespace": "shop",
            "uid": uid,
            "ownerReferences": [{ "kind": "StatefulSet", "name": "db", "controller": true }],
        },
        "spec": { "nodeName": node, "volumes": [{ "persistentVolumeClaim": { "claimName": "data" } }] },
        "status": { "phase": "Running", "containerStatuses": [{ "state": { "running": {} } }] },
    })
}

fn other_node() -> Value {
    with(
        node(json!({})),
        json!({
            "metadata": { "name": "o", "labels": { "node.gardener.cloud/machine-name": "o" } },
            "spec": { "providerID": "fakecloud:///z/b" },
        }),
    )
}

fn attachment(node: &str, attached: bool) -> Value {
    json!({
        "metadata": { "name": format!("at-{node}") },
        "spec": { "nodeName": node, "source": { "persistentVolumeName": "pv" } },
        "status": { "attached": attached },
    })
}

fn on_other_vm(state: VmState) -> Seen {
    let Seen::Cloud(CloudEvent::Vm(of_first)) = vm("b", "v", state) else {
        unreachable!("it is a VM");
    };
    Seen::Cloud(CloudEvent::Vm(Vm {
        machine: "o".to_owned(),
        node: "o".to_owned(),
        ..of_first
    }))
}

/// An event of the kubelet of the first VM.
fn kubelet(what: &str) -> Seen {
    Seen::Cloud(CloudEvent::Kubelet(Kubelet {
        machine: "m".to_owned(),
        what: what.to_owned(),
        message: String::new(),
    }))
}

fn silent() -> Value {
    json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown", "lastTransitionTime": "1969-12-31T23:00:00Z" }] } })
}

/// Two running VMs; the Node of the first does not answer, and the pod is on it.
fn begun() -> Story {
    let volume = json!({
        "metadata": { "name": "pv" },
        "spec": { "accessModes": ["ReadWriteOnce"], "claimRef": { "namespace": "shop", "name": "data" } },
    });
    Story::new()
        .vm("a", VmState::Running)
        .observe(on_other_vm(VmState::Running))
        .apply("Machine", machine("Running"))
        .apply("Node", node(silent()))
        .apply("Node", other_node())
        .apply("PersistentVolume", volume)
        .apply("Pod", pod("1", "n"))
}

/// What happens to the first pod and its VM before the successor runs.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It leaves the API.
    Removed,
    /// Its containers end first.
    Confirmed,
    /// Its VM stops first.
    VmStopsBefore,
    /// Its VM stops afterwards, before the successor runs.
    VmStopsAfter,
    /// Its Node answers again before the successor runs.
    NodeAnswers,
    /// Its kubelet is back before it leaves the API, and its Node is Ready later.
    KubeletIsBack,
    /// Its kubelet was back and is cut off again before it leaves the API.
    KubeletIsCutOffAgain,
    /// A user removes it.
    ByUser,
    /// A user declares its Node to be out of service.
    OutOfService,
    /// Its Machine has the label that forces a drain.
    Forced,
    /// Its Node does not exist any more.
    WithoutNode,
}

fn ended(end: End) -> Story {
    let story = begun();
    let ended = json!({ "status": { "containerStatuses": [{ "state": { "terminated": {} } }] } });
    let taint = json!({ "spec": { "taints": [{ "key": "node.kubernetes.io/out-of-service" }] } });
    let forced = json!({ "metadata": { "labels": { "force-drain": "True" } } });
    let removed = |story: Story| story.delete("Pod", pod("1", "n"));
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    match end {
        End::Removed => removed(story),
        End::Confirmed => story.delete("Pod", with(pod("1", "n"), ended)),
        End::VmStopsBefore => removed(story.vm("a", VmState::Stopped)),
        End::VmStopsAfter => removed(story).vm("a", VmState::Stopped),
        End::NodeAnswers => removed(story).apply("Node", node(ready)),
        End::KubeletIsBack => removed(story.observe(kubelet("Resumed"))),
        End::KubeletIsCutOffAgain => removed(story.observe(kubelet("Resumed")).observe(kubelet("Partitioned"))),
        End::ByUser => removed(story.touched("Pod", "db-0")),
        End::OutOfService => removed(story.apply("Node", with(node(silent()), taint))),
        End::Forced => removed(story.apply("Machine", with(machine("Running"), forced))),
        End::WithoutNode => removed(story.delete("Node", node(silent()))),
    }
}

#[rstest]
#[case::removed(End::Removed, Some("I20"))]
#[case::confirmed(End::Confirmed, None)]
#[case::its_vm_stopped_before(End::VmStopsBefore, None)]
#[case::its_vm_stopped_after(End::VmStopsAfter, None)]
#[case::its_node_answers(End::NodeAnswers, None)]
#[case::its_kubelet_is_back(End::KubeletIsBack, None)]
#[case::its_kubelet_is_cut_off_again(End::KubeletIsCutOffAgain, Some("I20"))]
#[case::by_a_user(End::ByUser, None)]
#[case::out_of_service(End::OutOfService, None)]
#[case::forced(End::Forced, None)]
#[case::without_a_node(End::WithoutNode, None)]
fn a_pod_of_a_stateful_set_runs_once(#[case] end: End, #[case] violated: Option<&str>) {
    ended(end).apply("Pod", pod("2", "o")).violates(violated);
}

#[test]
fn a_successor_that_does_not_run_yet_is_legal() {
    let pending = json!({ "status": { "phase": "Pending" } });
    ended(End::Removed)
        .apply("Pod", with(pod("2", "o"), pending))
        .violates(None);
}

#[test]
fn pods_of_other_owners_may_run_twice() {
    let owner =
        json!({ "metadata": { "ownerReferences": [{ "kind": "ReplicaSet", "name": "db", "controller": true }] } });
    let story = begun().apply("Pod", with(pod("1", "n"), owner.clone()));
    let story = story.delete("Pod", with(pod("1", "n"), owner.clone()));
    story.apply("Pod", with(pod("2", "o"), owner)).violates(None);
}

#[rstest]
#[case::used_by_a_pod_in_the_api(None, Some("I21"))]
#[case::removed(Some(End::Removed), Some("I21"))]
#[case::confirmed(Some(End::Confirmed), None)]
#[case::its_vm_stopped(Some(End::VmStopsAfter), None)]
#[case::by_a_user(Some(End::ByUser), None)]
fn a_volume_is_used_on_one_running_vm(#[case] end: Option<End>, #[case] violated: Option<&str>) {
    let story = end.map_or_else(begun, ended);
    story
        .apply("VolumeAttachment", attachment("o", false))
        .apply("VolumeAttachment", attachment("o", true))
        .violates(violated);
}

#[rstest]
#[case::to_the_same_vm("n", json!(["ReadWriteOnce"]), VmState::Running)]
#[case::of_many_nodes("o", json!(["ReadWriteMany"]), VmState::Running)]
#[case::to_a_stopped_vm("o", json!(["ReadWriteOnce"]), VmState::Stopped)]
fn other_attachments_are_legal(#[case] node: &str, #[case] modes: Value, #[case] state: VmState) {
    let volume = json!({
        "metadata": { "name": "pv" },
        "spec": { "accessModes": modes, "claimRef": { "namespace": "shop", "name": "data" } },
    });
    begun()
        .observe(on_other_vm(state))
        .apply("PersistentVolume", volume)
        .apply("VolumeAttachment", attachment(node, true))
        .violates(None);
}
