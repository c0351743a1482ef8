//! Decides about a Node, as a pure function of Node and ledger.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

use crate::kubelet::{CLOUD, UNINITIALIZED};
use crate::model::{Vm, VmState};

/// The taint of a Node whose VM is stopped.
pub(super) const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// Prefix of the provider IDs of this kind of cloud.
const SCHEME: &str = "fakecloud://";

/// Relevant facts of a Node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeView {
    pub(super) uid: String,
    pub(super) version: String,
    /// The provider ID; while it is not set, from what its kubelet wrote.
    pub(super) provider_id: String,
    pub(super) taints: Vec<Taint>,
    pub(super) ready: bool,
    pub(super) created: Option<Timestamp>,
    pub(super) deleting: bool,
    /// The cloud whose kubelet registered it.
    pub(super) cloud: Option<String>,
}

impl NodeView {
    /// The view of a Node of this kind of cloud; `None` for other Nodes.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.as_ref();
        let taints = spec.taints.unwrap_or_default();
        let uninitialized = taints.iter().any(|taint| taint.key == UNINITIALIZED);
        let kubelet_provider_id = status
            .and_then(|status| status.node_info.as_ref())
            .map(|info| info.system_uuid.clone())
            .filter(|_| uninitialized);
        let provider_id = spec.provider_id.filter(|id| !id.is_empty()).or(kubelet_provider_id)?;
        let mut conditions = status
            .and_then(|status| status.conditions.as_ref())
            .into_iter()
            .flatten();
        let metadata = &node.metadata;
        provider_id.starts_with(SCHEME).then(|| Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            provider_id,
            taints,
            ready: conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            cloud: metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(CLOUD))
                .cloned(),
        })
    }

    fn has(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| taint.key == key)
    }

    fn without(&self, key: &str) -> Vec<Taint> {
        self.taints.iter().filter(|taint| taint.key != key).cloned().collect()
    }
}

/// Facts of the ledger about a Node's VM, and about itself.
#[derive(Clone, Debug)]
pub(super) struct Ledger<'a> {
    /// The VM with the Node's provider ID.
    pub(super) vm: Option<&'a Vm>,
    /// The ID of this cloud.
    pub(super) cloud: &'a str,
    /// Creation time of the ledger.
    pub(super) opened: Timestamp,
    /// Whether it ever had a VM.
    pub(super) used: bool,
}

/// An action on a Node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Initialize it with the cloud's data.
    Initialize(Box<Completion>),
    /// Delete it.
    Delete(Reason),
    /// Set exactly these taints.
    Taint(Reason, Vec<Taint>),
}

/// The cloud's data of a Node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Completion {
    pub(super) provider_id: String,
    pub(super) addresses: Value,
    pub(super) labels: Value,
}

/// The reason of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Reason {
    #[error("its VM is terminated")]
    Terminated,
    #[error("its VM does not exist")]
    Absent,
    #[error("its VM is stopped")]
    Stopped,
    #[error("its VM is no longer stopped")]
    Started,
}

/// Decides about a Node; at most one action at a time. `wait_for_not_ready`: as in upstream, Ready Nodes are not
/// deleted.
///
/// A Node whose VM the ledger does not know is deleted only if this cloud's kubelet registered it; or if its origin is
/// unknown, the ledger has had VMs, and it is older than the Node. So a cloud with an empty ledger deletes no Nodes of
/// its predecessor or of another cloud.
pub(super) fn decide(node: &NodeView, ledger: &Ledger<'_>, wait_for_not_ready: bool) -> Option<Action> {
    if node.deleting {
        return None;
    }
    let waits = wait_for_not_ready && node.ready;
    let Some(vm) = ledger.vm else {
        let ours = match &node.cloud {
            Some(cloud) => cloud == ledger.cloud,
            // Creation times have whole seconds.
            None => {
                let younger = node
                    .created
                    .is_some_and(|created| created.as_second() > ledger.opened.as_second());
                ledger.used && younger
            }
        };
        return (ours && !waits).then_some(Action::Delete(Reason::Absent));
    };
    match vm.state {
        VmState::Terminated if waits => None,
        VmState::Terminated => Some(Action::Delete(Reason::Terminated)),
        VmState::Stopped if waits || node.has(SHUTDOWN) => None,
        VmState::Stopped => {
            let mut taints = node.taints.clone();
            taints.push(Taint {
                key: SHUTDOWN.to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            });
            Some(Action::Taint(Reason::Stopped, taints))
        }
        VmState::Pending | VmState::Running | VmState::Stopping if node.has(UNINITIALIZED) => {
            Some(Action::Initialize(Box::new(complete(vm))))
        }
        VmState::Pending | VmState::Running if node.has(SHUTDOWN) => {
            Some(Action::Taint(Reason::Started, node.without(SHUTDOWN)))
        }
        VmState::Pending | VmState::Running | VmState::Stopping => None,
    }
}

fn complete(vm: &Vm) -> Completion {
    Completion {
        provider_id: vm.provider_id.clone(),
        addresses: json!([
            {"type": "InternalIP", "address": vm.address()},
            {"type": "Hostname", "address": vm.node_name},
        ]),
        labels: json!({
            "node.kubernetes.io/instance-type": vm.machine_type,
            "topology.kubernetes.io/zone": vm.zone,
            "topology.kubernetes.io/region": vm.region,
        }),
    }
}

#[cfg(test)]
mod tests {
    use clock::Seed;
    use jiff::SignedDuration;
    use rstest::rstest;

    use super::*;
    use crate::Config;
    use crate::model::{Cloud, Reference, test_request as request};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
    }

    fn node(provider_id: &str) -> NodeView {
        NodeView {
            uid: "1".to_owned(),
            version: "7".to_owned(),
            provider_id: provider_id.to_owned(),
            taints: Vec::new(),
            ready: false,
            created: Some(at(100)),
            deleting: false,
            cloud: Some("ours".to_owned()),
        }
    }

    fn taint(key: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        }
    }

    fn ledger(vm: Option<&Vm>) -> Ledger<'_> {
        Ledger {
            vm,
            cloud: "ours",
            opened: at(0),
            used: true,
        }
    }

    /// The VM of machine `a`, after `command`.
    fn vm(command: impl FnOnce(&mut Cloud, &Reference)) -> Vm {
        let mut cloud = Cloud::new(Config::default().settings().cloud, Seed::new(1), at(0));
        cloud.create_machine(&request("a"), at(0)).result.unwrap();
        cloud.advance(at(10));
        command(&mut cloud, &Reference::Machine("a".to_owned()));
        cloud.vms().next().unwrap().clone()
    }

    fn running() -> Vm {
        vm(|_, _| {})
    }

    fn stopped() -> Vm {
        vm(|cloud, a| drop(cloud.kill_vm(a, at(11)).unwrap().id.clone()))
    }

    fn terminated() -> Vm {
        vm(|cloud, a| drop(cloud.delete_vm(a, at(11)).unwrap().id.clone()))
    }

    #[test]
    fn a_node_of_a_running_vm_is_not_changed() {
        let vm = running();
        assert_eq!(decide(&node(&vm.provider_id), &ledger(Some(&vm)), true), None);
    }

    #[rstest]
    #[case::not_ready(false, true, true)]
    #[case::ready_waits(true, true, false)]
    #[case::ready_without_waiting(true, false, true)]
    fn a_node_is_deleted_after_its_vm(#[case] ready: bool, #[case] wait: bool, #[case] deleted: bool) {
        let vm = terminated();
        let mut node = node(&vm.provider_id);
        node.ready = ready;
        let expected = deleted.then_some(Action::Delete(Reason::Terminated));
        assert_eq!(decide(&node, &ledger(Some(&vm)), wait), expected);
        node.deleting = true;
        assert_eq!(decide(&node, &ledger(Some(&vm)), wait), None);
    }

    #[test]
    fn a_stopped_vm_taints_its_node_and_a_started_one_removes_the_taint() {
        let (stopped, running) = (stopped(), running());
        let mut node = node(&stopped.provider_id);
        node.taints = vec![taint("other")];
        let Some(Action::Taint(Reason::Stopped, taints)) = decide(&node, &ledger(Some(&stopped)), true) else {
            panic!("no taint");
        };
        assert_eq!(taints, [taint("other"), taint(SHUTDOWN)]);
        node.taints = taints;
        assert_eq!(decide(&node, &ledger(Some(&stopped)), true), None);
        node.ready = true;
        let cleaned = decide(&node, &ledger(Some(&running)), true);
        assert_eq!(cleaned, Some(Action::Taint(Reason::Started, vec![taint("other")])));
    }

    #[test]
    fn an_uninitialized_node_is_initialized_from_its_vm() {
        let vm = running();
        let mut node = node(&vm.provider_id);
        node.taints = vec![taint(UNINITIALIZED)];
        let Some(Action::Initialize(completion)) = decide(&node, &ledger(Some(&vm)), true) else {
            panic!("not initialized");
        };
        assert_eq!(completion.provider_id, vm.provider_id);
        assert_eq!(completion.addresses[0]["address"], vm.address());
        assert_eq!(completion.labels["topology.kubernetes.io/zone"], "local-1");
    }

    #[rstest]
    #[case::our_own(Some("ours"), 100, true, true)]
    #[case::our_own_though_old(Some("ours"), -100, true, true)]
    #[case::of_another_cloud(Some("other"), 100, true, false)]
    #[case::created_by_hand(None, 100, true, true)]
    #[case::older_than_the_ledger(None, -100, true, false)]
    #[case::within_the_second_of_the_opening(None, 0, true, false)]
    #[case::the_ledger_was_never_used(None, 100, false, false)]
    fn a_node_without_a_vm_is_deleted_only_if_this_ledger_would_contain_the_vm(
        #[case] cloud: Option<&str>,
        #[case] created: i64,
        #[case] used: bool,
        #[case] deleted: bool,
    ) {
        let mut node = node("fakecloud:///z/vm-x");
        node.cloud = cloud.map(str::to_owned);
        node.created = Some(at(created));
        let ledger = Ledger { used, ..ledger(None) };
        assert_eq!(
            decide(&node, &ledger, true),
            deleted.then_some(Action::Delete(Reason::Absent))
        );
        node.ready = true;
        assert_eq!(decide(&node, &ledger, true), None);
    }

    #[rstest]
    #[case::ours(json!({"providerID": "fakecloud:///z/vm-1"}), "", Some("fakecloud:///z/vm-1"))]
    #[case::of_another_cloud(json!({"providerID": "aws:///z/i-1"}), "fakecloud:///z/vm-1", None)]
    #[case::of_no_cloud(json!({}), "fakecloud:///z/vm-1", None)]
    #[case::uninitialized(
        json!({"taints": [{"key": UNINITIALIZED, "effect": "NoSchedule"}]}),
        "fakecloud:///z/vm-1",
        Some("fakecloud:///z/vm-1")
    )]
    #[case::uninitialized_of_another(json!({"taints": [{"key": UNINITIALIZED, "effect": "NoSchedule"}]}), "4711", None)]
    fn only_nodes_of_this_kind_of_cloud_are_considered(
        #[case] spec: Value,
        #[case] uuid: &str,
        #[case] expected: Option<&str>,
    ) {
        let node = json!({
            "metadata": {"name": "a"}, "spec": spec,
            "status": {"nodeInfo": {
                "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
                "osImage": "", "systemUUID": uuid,
            }},
        });
        let node: Node = serde_json::from_value(node).unwrap();
        let seen = NodeView::of(&node).map(|view| view.provider_id);
        assert_eq!(seen.as_deref(), expected);
    }
}
