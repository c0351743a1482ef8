//! The API objects that a kubelet writes: Node, Lease, and the status of Node and pods.
//!
//! What lives here: their content, from values. What must not: when they are written.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::facts::{NodeFacts, PodFacts};
use crate::config::{KubeletSettings, MachineType};
use crate::model::{Taint, Vm};

/// The version that simulated kubelets report.
const VERSION: &str = "v1.36.0";
/// Marks the Nodes of simulated kubelets.
const SIMULATED: &str = "fakecloud.drydock/simulated";

/// A condition as a healthy kubelet reports it.
struct Condition {
    kind: &'static str,
    healthy: &'static str,
    reason: &'static str,
    message: &'static str,
}

const CONDITIONS: [Condition; 4] = [
    Condition {
        kind: "MemoryPressure",
        healthy: "False",
        reason: "KubeletHasSufficientMemory",
        message: "kubelet has sufficient memory available",
    },
    Condition {
        kind: "DiskPressure",
        healthy: "False",
        reason: "KubeletHasNoDiskPressure",
        message: "kubelet has no disk pressure",
    },
    Condition {
        kind: "PIDPressure",
        healthy: "False",
        reason: "KubeletHasSufficientPID",
        message: "kubelet has sufficient PID available",
    },
    Condition {
        kind: "Ready",
        healthy: "True",
        reason: "KubeletReady",
        message: "kubelet is posting ready status",
    },
];

/// What a kubelet knows of the VM that it runs on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Host {
    pub(super) node: String,
    pub(super) provider_id: String,
    pub(super) ordinal: u64,
    pub(super) boot_id: String,
    address: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    capacity: BTreeMap<&'static str, String>,
    architecture: String,
}

impl Host {
    /// The host that a VM is. A machine type that is no longer configured has no capacity.
    pub(super) fn of(vm: &Vm, machine_type: Option<&MachineType>) -> Self {
        let architecture = machine_type
            .map_or("amd64", |machine_type| &machine_type.architecture)
            .to_owned();
        let mut labels = vm.node_labels.clone();
        let standard = [
            ("kubernetes.io/hostname", &vm.owner.name),
            ("kubernetes.io/arch", &architecture),
            ("topology.kubernetes.io/zone", &vm.zone),
            ("topology.kubernetes.io/region", &vm.region),
            ("node.kubernetes.io/instance-type", &vm.machine_type),
        ];
        for (key, value) in standard {
            labels.insert(key.to_owned(), value.clone());
        }
        labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
        labels.insert(SIMULATED.to_owned(), "true".to_owned());
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
            node: vm.owner.name.clone(),
            provider_id: vm.provider_id.clone(),
            ordinal: vm.ordinal,
            boot_id: vm.boot_id.clone(),
            address: vm.address(),
            labels,
            taints: vm.node_taints.clone(),
            capacity,
            architecture,
        }
    }

    /// The Node as the kubelet registers it.
    pub(super) fn node(&self, now: Timestamp) -> Result<Node, serde_json::Error> {
        let taints: Vec<Value> = self
            .taints
            .iter()
            .map(|taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect}))
            .collect();
        let mut node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.node, "labels": self.labels},
            "spec": {"providerID": self.provider_id},
            "status": self.status(false, &NodeFacts::default(), now),
        });
        if !taints.is_empty() {
            node["spec"]["taints"] = Value::Array(taints);
        }
        serde_json::from_value(node)
    }

    /// A strategic merge patch of the status of the Node that was seen as `known`.
    pub(super) fn status_patch(&self, known: &NodeFacts, now: Timestamp) -> Value {
        json!({"metadata": {"uid": known.uid}, "status": self.status(true, known, now)})
    }

    /// Whether the Node shows the conditions of a healthy kubelet.
    pub(super) fn is_reported(known: &NodeFacts) -> bool {
        CONDITIONS.iter().all(|condition| {
            known
                .conditions
                .get(condition.kind)
                .is_some_and(|is| is == condition.healthy)
        })
    }

    /// A condition's transition time is given only where its status differs from what is known.
    fn status(&self, ready: bool, known: &NodeFacts, now: Timestamp) -> Value {
        let time = seconds(now);
        let conditions: Vec<Value> = CONDITIONS
            .iter()
            .map(
                |Condition {
                     kind,
                     healthy,
                     reason,
                     message,
                 }| {
                    let (status, reason, message) = if *kind == "Ready" && !ready {
                        ("False", "KubeletNotReady", "kubelet is starting")
                    } else {
                        (*healthy, *reason, *message)
                    };
                    let mut condition = json!({
                        "type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": time,
                    });
                    if known.conditions.get(*kind).is_none_or(|known| known != status) {
                        condition["lastTransitionTime"] = Value::String(time.clone());
                    }
                    condition
                },
            )
            .collect();
        json!({
            "capacity": self.capacity,
            "allocatable": self.capacity,
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self.node},
            ],
            "conditions": conditions,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": self.architecture, "operatingSystem": "linux", "osImage": "fakecloud",
                "kernelVersion": "6.12.0-fakecloud", "containerRuntimeVersion": "fakecloud://1.0.0",
                "kubeletVersion": VERSION, "kubeProxyVersion": "", "bootID": self.boot_id,
                "machineID": self.provider_id, "systemUUID": self.provider_id,
            },
        })
    }

    /// The Lease as it is after a renewal; complete, so that it can be created from it.
    pub(super) fn lease(&self, uid: &str, settings: &KubeletSettings, now: Timestamp) -> Value {
        let duration = settings.lease_duration.0;
        let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.node,
                "namespace": "kube-node-lease",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": uid}],
            },
            "spec": {
                "holderIdentity": self.node,
                "leaseDurationSeconds": seconds,
                "renewTime": micros(now),
            },
        })
    }

    /// The pod ip of the host's `number`-th pod.
    pub(super) fn pod_ip(&self, number: u64) -> String {
        let host = self.ordinal % (1 << 14);
        format!("100.{}.{}.{}", 64 + (host >> 8), host & 255, 1 + number % 254)
    }

    /// A strategic merge patch of a pod's status: it runs and is ready.
    pub(super) fn running_patch(&self, pod: &PodFacts, ip: &str, now: Timestamp) -> Value {
        let time = seconds(now);
        let ip = if pod.host_network { &self.address } else { ip };
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": time});
        let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"].map(condition);
        let containers: Vec<Value> = pod
            .containers
            .iter()
            .map(|(name, image)| {
                json!({
                    "name": name, "image": image, "imageID": "", "ready": true, "started": true, "restartCount": 0,
                    "state": {"running": {"startedAt": time}},
                    "containerID": format!("fakecloud://{}-{name}", pod.uid),
                })
            })
            .collect();
        json!({
            "metadata": {"uid": pod.uid},
            "status": {
                "phase": "Running",
                "conditions": conditions,
                "containerStatuses": containers,
                "hostIP": self.address,
                "hostIPs": [{"ip": self.address}],
                "podIP": ip,
                "podIPs": [{"ip": ip}],
                "startTime": time,
            },
        })
    }
}

/// A `metav1.Time`: whole seconds.
fn seconds(time: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(0)).timestamp_to_string(&time)
}

/// A `metav1.MicroTime`.
fn micros(time: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(6)).timestamp_to_string(&time)
}
