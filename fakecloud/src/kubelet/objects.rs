//! The API objects that a kubelet writes: Node, Lease, and the Node's status.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use runtime::time::micro_time_text;
use serde_json::{Value, json};

use super::conditions::{self, Readiness, Wanted};
use super::facts::NodeFacts;
use super::settings::Settings;
use crate::SIMULATED;
use crate::model::{MachineType, Taint, Vm};

/// The version that simulated kubelets report.
const VERSION: &str = "v1.36.0";
/// Tells the control plane to attach and detach this node's volumes.
const MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// Marks a Node that the cloud controller has not completed.
pub(crate) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The id of the cloud whose kubelet registered a Node.
pub(crate) const CLOUD: &str = "fakecloud.drydock.dev/cloud";
/// How many images a Node shows, as upstream's `--node-status-max-images`.
const IMAGES: usize = 50;
/// What an image is said to take.
const IMAGE_BYTES: u64 = 10_000_000;

/// What a kubelet knows of the VM that it runs on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Host {
    /// The VM's id.
    pub(super) vm: String,
    pub(super) node: String,
    pub(super) provider_id: String,
    pub(super) ordinal: u64,
    pub(super) boot_id: String,
    pub(super) address: String,
    machine_type: String,
    zone: String,
    region: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    pub(super) capacity: BTreeMap<&'static str, String>,
    architecture: String,
}

impl Host {
    /// The host that a VM is. A machine type that is no longer configured has no capacity.
    pub(super) fn of(vm: &Vm, machine_type: Option<&MachineType>) -> Self {
        let architecture = machine_type
            .map_or("amd64", |machine_type| &machine_type.architecture)
            .to_owned();
        let mut capacity = BTreeMap::new();
        if let Some(machine_type) = machine_type {
            capacity.insert("cpu", machine_type.cpu.clone());
            capacity.insert("memory", machine_type.memory.clone());
            capacity.insert("ephemeral-storage", "50Gi".to_owned());
            capacity.insert("pods", machine_type.pods.to_string());
            if let Some(gpu) = &machine_type.gpu {
                capacity.insert("nvidia.com/gpu", gpu.clone());
            }
        }
        Self {
            vm: vm.id.clone(),
            node: vm.node_name.clone(),
            provider_id: vm.provider_id.clone(),
            ordinal: vm.ordinal,
            boot_id: vm.boot_id.clone(),
            address: vm.address(),
            machine_type: vm.machine_type.clone(),
            zone: vm.zone.clone(),
            region: vm.region.clone(),
            labels: vm.node_labels.clone(),
            taints: vm.node_taints.clone(),
            capacity,
            architecture,
        }
    }

    /// The Node as the kubelet of that cloud registers it; `external`: a cloud controller completes it.
    pub(super) fn node(&self, cloud: &str, external: bool, now: Timestamp) -> Result<Node, serde_json::Error> {
        let mut taints: Vec<Value> = self
            .taints
            .iter()
            .map(|taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect}))
            .collect();
        let mut labels = self.labels.clone();
        let standard = [
            ("kubernetes.io/hostname", self.node.as_str()),
            ("kubernetes.io/arch", &self.architecture),
            ("kubernetes.io/os", "linux"),
            (SIMULATED, "true"),
        ];
        let topology = [
            ("topology.kubernetes.io/zone", self.zone.as_str()),
            ("topology.kubernetes.io/region", &self.region),
            ("node.kubernetes.io/instance-type", &self.machine_type),
        ];
        let known = if external { &[][..] } else { &topology[..] };
        for (key, value) in standard.iter().chain(known) {
            labels.insert((*key).to_owned(), (*value).to_owned());
        }
        if external {
            taints.push(json!({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}));
        }
        let none = BTreeMap::new();
        let conditions = conditions::wanted(Readiness::Starting, &none);
        let mut node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.node, "labels": labels, "annotations": {CLOUD: cloud, MANAGED_ATTACH: "true"}},
            "spec": {},
            "status": self.status(external, &conditions, &NodeFacts::default(), now),
        });
        if !external {
            node["spec"]["providerID"] = json!(self.provider_id);
        }
        if !taints.is_empty() {
            node["spec"]["taints"] = Value::Array(taints);
        }
        serde_json::from_value(node)
    }

    /// A strategic merge patch of the status of the Node that was seen as `known`.
    pub(super) fn status_patch(
        &self,
        external: bool,
        wanted: &Wanted<'_>,
        known: &NodeFacts,
        pods: &OfPods<'_>,
        now: Timestamp,
    ) -> Value {
        let mut status = self.status(external, wanted, known, now);
        // A list that is empty is left out, as upstream encodes it.
        let list = |list: Vec<Value>| {
            if list.is_empty() {
                Value::Null
            } else {
                Value::Array(list)
            }
        };
        let images = pods.images.iter().take(IMAGES);
        status["images"] = list(
            images
                .map(|image| json!({"names": [image], "sizeBytes": IMAGE_BYTES}))
                .collect(),
        );
        status["volumesInUse"] = list(pods.volumes.iter().map(|volume| json!(volume)).collect());
        json!({"metadata": {"uid": known.uid}, "status": status})
    }

    fn status(&self, external: bool, wanted: &Wanted<'_>, known: &NodeFacts, now: Timestamp) -> Value {
        let mut addresses = vec![json!({"type": "Hostname", "address": self.node})];
        if !external {
            addresses.insert(0, json!({"type": "InternalIP", "address": self.address}));
        }
        json!({
            "capacity": self.capacity,
            "allocatable": self.capacity,
            "addresses": addresses,
            "conditions": conditions::patch(wanted, known, now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": self.architecture, "operatingSystem": "linux", "osImage": "fakecloud",
                "kernelVersion": "6.12.0-fakecloud", "containerRuntimeVersion": "fakecloud://1.0.0",
                "kubeletVersion": VERSION, "kubeProxyVersion": "", "bootID": self.boot_id,
                "machineID": self.provider_id, "systemUUID": self.provider_id,
            },
        })
    }

    /// The pod ip of the host's `number`-th pod: from the Node's range when it has one, else from a
    /// range of its own.
    pub(super) fn pod_ip(&self, range: &str, number: u64) -> String {
        match range_of(range) {
            Some((base, size)) => {
                // The first address is the network's, the last one is for all.
                let offset = 1 + number % (size - 2).max(1);
                std::net::Ipv4Addr::from(base.wrapping_add(u32::try_from(offset).unwrap_or_default())).to_string()
            }
            None => {
                let host = self.ordinal % (1 << 14);
                format!("100.{}.{}.{}", 64 + (host >> 8), host & 255, 1 + number % 254)
            }
        }
    }
}

/// What a Node's status says of its pods.
#[derive(Debug, Default)]
pub(super) struct OfPods<'a> {
    pub(super) images: BTreeSet<&'a str>,
    pub(super) volumes: BTreeSet<&'a str>,
}

/// First address and size of an IPv4 range such as `10.96.1.0/24`.
fn range_of(range: &str) -> Option<(u32, u64)> {
    let (address, prefix) = range.split_once('/')?;
    let address: std::net::Ipv4Addr = address.parse().ok()?;
    let prefix: u32 = prefix.parse().ok().filter(|prefix| (1..=30).contains(prefix))?;
    let mask = u32::MAX << (32 - prefix);
    Some((u32::from(address) & mask, 1 << (32 - prefix)))
}

/// A renewal of a Lease.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Renewal {
    pub(super) node: String,
    /// The Node's.
    pub(super) uid: String,
    pub(super) duration_seconds: u64,
    /// By the kubelet's clock.
    pub(super) time: Timestamp,
    /// Whether this kubelet has written the Lease before, so that its owner is right.
    pub(super) known: bool,
}

impl Renewal {
    pub(super) fn new(node: &str, uid: &str, settings: &Settings, known: bool, time: Timestamp) -> Self {
        let duration = settings.lease_duration;
        Self {
            node: node.to_owned(),
            uid: uid.to_owned(),
            duration_seconds: duration.as_secs() + u64::from(duration.subsec_nanos() > 0),
            time,
            known,
        }
    }

    /// A merge patch; as small as it can be.
    pub(super) fn patch(&self) -> Value {
        if self.known {
            json!({"spec": {"holderIdentity": self.node, "renewTime": micro_time_text(self.time)}})
        } else {
            self.whole()
        }
    }

    /// The Lease as it is after the renewal; complete, so that it can be created.
    pub(super) fn whole(&self) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.node,
                "namespace": "kube-node-lease",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": self.uid}],
            },
            "spec": {
                "holderIdentity": self.node,
                "leaseDurationSeconds": self.duration_seconds,
                "renewTime": micro_time_text(self.time),
            },
        })
    }
}
