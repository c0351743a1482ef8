//! Workloads in scenarios, and the objects that they expand to.
//!
//! Pods run on simulated nodes only: the own nodes of an existing cluster must not accept them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::duration::{DurationExpression, Timeouts};

/// The CSI driver of the simulated cloud, and the name of the StorageClass of fixtures.
pub const STORAGE: &str = "csi.fakecloud.drydock";
/// The label of simulated nodes.
pub const SIMULATED: &str = "node.drydock.dev/simulated";
/// The label of pods, workloads and their related objects; its value is the workload's name.
pub const APP: &str = "app";
/// CPU request of a pod whose workload sets none.
const CPU: &str = "100m";

/// A Deployment, StatefulSet or DaemonSet whose pods have one container and run on any simulated node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workload {
    /// Its name; its pods have the label `app` with it.
    pub name: String,
    /// Its namespace; absent: the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Number of pods; absent: one. A DaemonSet has one on each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// CPU request of each pod, for example `900m`; absent: `100m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// The priority class of its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// How long its pods stay on an unreachable node; absent: the Kubernetes default of five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration: Option<DurationExpression>,
    /// Each pod of a StatefulSet has a claim `data-POD` for a volume of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

/// A disruption budget for a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// Name of the workload and of the budget.
    pub of: String,
    /// Number of its pods that may be missing or not ready.
    pub max_unavailable: u32,
}

/// A priority class. Pods with it may be preempted and never preempt others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Priority {
    /// Name of the class.
    pub name: String,
    /// The higher, the more important; pods without a class have 0.
    pub value: i32,
}

/// Kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
}

impl Workload {
    /// The API object of the given kind.
    pub(crate) fn object(&self, kind: Kind, timeouts: &Timeouts) -> Value {
        let labels = json!({ APP: self.name });
        let mut spec = json!({ "selector": { "matchLabels": labels }, "template": self.template(timeouts) });
        if kind != Kind::DaemonSet {
            spec["replicas"] = self.replicas.unwrap_or(1).into();
        }
        if kind == Kind::StatefulSet {
            spec["serviceName"] = self.name.as_str().into();
        }
        if let Some(size) = &self.volume {
            spec["volumeClaimTemplates"] = json!([{
                "metadata": { "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": STORAGE,
                    "resources": { "requests": { "storage": size } },
                },
            }]);
        }
        let mut metadata = json!({ "name": self.name, "labels": labels });
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = namespace.as_str().into();
        }
        let kind = match kind {
            Kind::Deployment => "Deployment",
            Kind::StatefulSet => "StatefulSet",
            Kind::DaemonSet => "DaemonSet",
        };
        json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec })
    }

    fn template(&self, timeouts: &Timeouts) -> Value {
        let cpu = self.cpu.as_deref().unwrap_or(CPU);
        let mut container = json!({
            "name": "main", "image": "example.com/main", "resources": { "requests": { "cpu": cpu } },
        });
        if self.volume.is_some() {
            container["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
        }
        let mut spec = json!({ "nodeSelector": { SIMULATED: "true" }, "containers": [container] });
        if let Some(class) = &self.priority_class {
            spec["priorityClassName"] = class.as_str().into();
        }
        if let Some(time) = &self.toleration {
            let seconds = time.value(timeouts).as_secs();
            let taint = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds });
            spec["tolerations"] = json!([
                taint("node.kubernetes.io/not-ready"),
                taint("node.kubernetes.io/unreachable"),
            ]);
        }
        json!({ "metadata": { "labels": { APP: self.name } }, "spec": spec })
    }

    /// Checks rules that the types do not express. Returns the field and the fix.
    pub(super) fn validate(&self, kind: Kind) -> Result<(), (&'static str, &'static str)> {
        if self.replicas.is_some() && kind == Kind::DaemonSet {
            return Err(("replicas", "a daemonSet has one pod on each node: omit the field"));
        }
        if self.volume.is_some() && kind != Kind::StatefulSet {
            return Err(("volume", "only the pods of a statefulSet have volumes: omit the field"));
        }
        Ok(())
    }
}

impl Budget {
    /// The API object.
    pub(crate) fn object(&self) -> Value {
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": { "name": self.of },
            "spec": { "maxUnavailable": self.max_unavailable, "selector": { "matchLabels": { APP: self.of } } },
        })
    }
}

impl Priority {
    /// The API object.
    pub(crate) fn object(&self) -> Value {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": { "name": self.name },
            "value": self.value,
            "preemptionPolicy": "Never",
        })
    }
}

/// The StorageClass of the simulated cloud; volumes are created where their first pod runs.
pub(crate) fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": STORAGE },
        "provisioner": STORAGE,
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// A Namespace object.
pub(crate) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_toleration_has_the_value_of_the_stage() {
        let workload = Workload {
            name: "web".to_owned(),
            toleration: Some(super::super::Named::PodToleration.into()),
            ..Workload::default()
        };
        let seconds = |timeouts: &Timeouts| {
            let object = workload.object(Kind::Deployment, timeouts);
            object["spec"]["template"]["spec"]["tolerations"][1]["tolerationSeconds"].as_u64()
        };
        assert_eq!(seconds(&Timeouts::production()), Some(300));
        assert_eq!(seconds(&Timeouts::short()), Some(5));
    }

    #[test]
    fn each_pod_of_a_stateful_set_mounts_its_own_claim() {
        let workload = Workload {
            name: "db".to_owned(),
            volume: Some("1Gi".to_owned()),
            ..Workload::default()
        };
        let object = workload.object(Kind::StatefulSet, &Timeouts::short());
        let mount = object.pointer("/spec/template/spec/containers/0/volumeMounts/0/name");
        let claim = object.pointer("/spec/volumeClaimTemplates/0/metadata/name");
        assert!(mount.is_some() && mount == claim, "{object}");
    }
}
