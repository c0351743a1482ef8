//! Drains a node as `kubectl drain` does: the step `drain`.

use std::collections::BTreeMap;

use clock::Clock;
use futures::channel::mpsc::UnboundedSender;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use scenario::{DurationExpression, Timeouts};
use serde_json::{Value, json};

use super::action_error::{ActionError, cannot};

/// The annotation of mirror pods, which cannot be evicted.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Poll period (kubectl's value).
const POLL_PERIOD: std::time::Duration = std::time::Duration::from_secs(1);

/// Cordons a node and evicts its pods.
pub(super) struct NodeDrain {
    pub(super) client: kube::Client,
    pub(super) clock: Clock,
    pub(super) timeouts: Timeouts,
    /// Receives notes about its actions.
    pub(super) notes: UnboundedSender<String>,
}

impl NodeDrain {
    /// Cordons the node and evicts its pods until all are removed. Retries an eviction that a disruption budget refuses
    /// (429) after the short retry period, and fails with any other error.
    pub(super) async fn run(&self, node: &str, within: &DurationExpression) -> Result<(), ActionError> {
        let limit = within.value(&self.timeouts);
        let deadline = self.after(limit);
        self.cordon(node).await?;
        let mut refused = BTreeMap::new();
        loop {
            let pods = self.pods_on(node).await?;
            let left = evictable(&pods);
            if left.is_empty() {
                self.note(format!("drain: node {node} is empty"));
                return Ok(());
            }
            let now = self.clock.now();
            if now >= deadline {
                let names: Vec<String> = left.iter().map(|pod| pod.name_any()).collect();
                return Err(ActionError::NotEmpty {
                    node: node.to_owned(),
                    limit,
                    pods: names.join(", "),
                });
            }
            for pod in due(&left, &refused, now) {
                if self.evict(pod).await? {
                    refused.remove(&uid(pod));
                } else {
                    refused.insert(uid(pod), self.after(self.timeouts.short_retry));
                }
            }
            let next = refused
                .values()
                .copied()
                .chain([self.after(POLL_PERIOD), deadline])
                .min();
            let next = next
                .unwrap_or(deadline)
                .max(self.after(std::time::Duration::from_millis(1)));
            self.clock.sleep_until(next).await;
        }
    }

    async fn cordon(&self, node: &str) -> Result<(), ActionError> {
        let cordon = json!({ "spec": { "unschedulable": true } });
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patched = nodes.patch(node, &PatchParams::default(), &Patch::Merge(cordon)).await;
        patched.map_err(cannot(format!("cordon node {node}")))?;
        self.note(format!("drain: node {node} is cordoned"));
        Ok(())
    }

    async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, ActionError> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let listed = pods.list(&on_node).await;
        listed
            .map(|listed| listed.items)
            .map_err(cannot(format!("list the pods on node {node}")))
    }

    /// Requests the eviction of a pod. Returns false if a disruption budget refuses it.
    async fn evict(&self, pod: &Pod) -> Result<bool, ActionError> {
        let name = pod.name_any();
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": pod.namespace() },
            // A pod with the same name on another node must not be evicted instead.
            "deleteOptions": { "preconditions": { "uid": pod.uid() } },
        });
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let evicted: Result<Status, kube::Error> = pods
            .create_subresource::<Value, Status>("eviction", &name, &PostParams::default(), &eviction)
            .await;
        match evicted {
            Ok(_) => {
                self.note(format!("drain: pod {name} is evicted"));
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 429 => {
                let reason = refusal_reason(&status);
                self.note(format!("drain: the eviction of pod {name} is refused: {reason}"));
                Ok(false)
            }
            // The pod no longer exists, or another pod has its name.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(true),
            Err(error) => Err(cannot(format!("evict pod {name}"))(error)),
        }
    }

    fn note(&self, what: String) {
        // The receiver is dropped when the run has ended.
        let _ = self.notes.unbounded_send(what);
    }

    fn after(&self, time: std::time::Duration) -> Timestamp {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        self.clock.now().saturating_add(time).unwrap_or(Timestamp::MAX)
    }
}

/// Why a disruption budget refuses an eviction.
fn refusal_reason(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<&str> = causes.map(|cause| cause.message.as_str()).collect();
    match causes.is_empty() {
        true => status.message.clone(),
        false => causes.join("; "),
    }
}

fn uid(pod: &Pod) -> String {
    pod.uid().unwrap_or_default()
}

/// The pods to evict: all except pods of DaemonSets, which would be created again, mirror pods, and pods that have
/// ended.
fn evictable(pods: &[Pod]) -> Vec<&Pod> {
    let of_daemon_set = |pod: &Pod| pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
    let ended = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    };
    let stays = |pod: &Pod| of_daemon_set(pod) || pod.annotations().contains_key(MIRROR) || ended(pod);
    pods.iter().filter(|pod| !stays(pod)).collect()
}

/// The pods to evict now: they were not refused, or their retry period has passed.
fn due<'a>(left: &[&'a Pod], refused: &BTreeMap<String, Timestamp>, now: Timestamp) -> Vec<&'a Pod> {
    let backs_off = |pod: &Pod| refused.get(&uid(pod)).is_some_and(|until| *until > now);
    let left = left.iter().copied();
    left.filter(|pod| pod.metadata.deletion_timestamp.is_none() && !backs_off(pod))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, metadata: Value, phase: &str) -> Pod {
        let mut pod = json!({ "metadata": metadata, "status": { "phase": phase } });
        pod["metadata"]["name"] = name.into();
        pod["metadata"]["uid"] = name.into();
        serde_json::from_value(pod).unwrap()
    }

    fn owned_by(kind: &str) -> Value {
        json!({ "ownerReferences": [{ "apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "o" }] })
    }

    #[test]
    fn pods_of_daemon_sets_mirror_pods_and_ended_pods_are_not_evicted() {
        let pods = [
            pod("bare", json!({}), "Running"),
            pod("of-set", owned_by("ReplicaSet"), "Pending"),
            pod("of-daemon-set", owned_by("DaemonSet"), "Running"),
            pod("mirror", json!({ "annotations": { MIRROR: "h" } }), "Running"),
            pod("ended", json!({}), "Succeeded"),
        ];
        let names: Vec<String> = evictable(&pods).into_iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["bare", "of-set"]);
    }

    #[test]
    fn a_pod_that_is_being_deleted_or_was_just_refused_is_not_evicted() {
        let pods = [
            pod("a", json!({}), "Running"),
            pod("b", json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), "Running"),
            pod("c", json!({}), "Running"),
            pod("d", json!({}), "Running"),
        ];
        let second = |second| Timestamp::from_second(second).unwrap();
        let refused = BTreeMap::from([("c".to_owned(), second(6)), ("d".to_owned(), second(5))]);
        let left: Vec<&Pod> = pods.iter().collect();
        let names: Vec<String> = due(&left, &refused, second(5))
            .into_iter()
            .map(ResourceExt::name_any)
            .collect();
        assert_eq!(names, ["a", "d"]);
    }
}
