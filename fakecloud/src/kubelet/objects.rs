//! The API objects that a kubelet writes: Node, Lease, and the Node's status.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use runtime::time::micro_time_text;
use serde_json::{Value, json};

use super::conditions::{self, DesiredConditions, Readiness};
use super::facts::NodeFacts;
use super::settings::Settings;
use crate::SIMULATED;
use crate::model::{MachineType, Taint, Vm};

/// The version that simulated kubelets report.
const VERSION: &str = "v1.36.0";
/// Lets the control plane attach and detach this node's volumes.
const MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// Marks a Node that the cloud controller has not initialized.
pub(crate) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Identifies the cloud whose kubelet registered a Node.
pub(crate) const CLOUD: &str = "fakecloud.drydock.dev/cloud";
/// Maximum number of images in a Node's status, like upstream's `--node-status-max-images`.
const IMAGES: usize = 50;
/// Size of an image in a Node's status.
const IMAGE_BYTES: u64 = 10_000_000;

/// A kubelet's view of its VM.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Host {
    /// The VM's ID.
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
    /// The view of a VM. A machine type that is no longer configured has no capacity.
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

    /// The Node that the kubelet of a cloud registers; `external`: a cloud controller initializes it.
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
        let conditions = conditions::desired(Readiness::Starting, &none);
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

    /// A strategic merge patch of the status of the Node that was observed as `known`.
    pub(super) fn status_patch(
        &self,
        external: bool,
        wanted: &DesiredConditions<'_>,
        known: &NodeFacts,
        pods: &PodStatusData<'_>,
        now: Timestamp,
    ) -> Value {
        let mut status = self.status(external, wanted, known, now);
        // Upstream leaves empty lists out.
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

    fn status(&self, external: bool, wanted: &DesiredConditions<'_>, known: &NodeFacts, now: Timestamp) -> Value {
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

    /// The IP of the host's `number`-th pod: from the Node's pod CIDR if it has one, otherwise from a range of the
    /// host.
    pub(super) fn pod_ip(&self, range: &str, number: u64) -> String {
        match range_of(range) {
            Some((base, size)) => {
                // The first address is the network address, the last one the broadcast address.
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

/// The pod data in a Node's status.
#[derive(Debug, Default)]
pub(super) struct PodStatusData<'a> {
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
    /// Name of the Node.
    pub(super) uid: String,
    pub(super) duration_seconds: u64,
    /// Renewal time by the kubelet's clock.
    pub(super) time: Timestamp,
    /// Whether this kubelet has written the Lease before, so that its owner is correct.
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

    /// A minimal merge patch.
    pub(super) fn patch(&self) -> Value {
        if self.known {
            json!({"spec": {"holderIdentity": self.node, "renewTime": micro_time_text(self.time)}})
        } else {
            self.whole()
        }
    }

    /// The complete Lease after the renewal, for creation.
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
