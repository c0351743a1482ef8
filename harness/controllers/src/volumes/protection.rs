//! Protects claims in use by pods, and bound volumes, by the finalizers `kubernetes.io/pvc-protection` and
//! `kubernetes.io/pv-protection`. The API server adds them to new objects; this controller adds them to older
//! objects and removes them when an object may be deleted.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::json;

use super::users::ClaimUsers;
use crate::foundation::{Action, Cached, Change, Controller, Kind, ObjectKey, Plan, Queue, View};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// Why a finalizer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The finalizer is missing.
    Unprotected,
    /// The object is being deleted and is unused.
    Unused,
}

/// The decision about an object's finalizer.
fn decide<K: Cached>(object: &K, finalizer: &str, is_used: impl FnOnce() -> bool) -> Plan<Reason> {
    let finalizers = object.metadata().finalizers.as_deref().unwrap_or_default();
    let protected = finalizers.iter().any(|known| known == finalizer);
    if !object.is_deleting() && !protected {
        let mut all = finalizers.to_vec();
        all.push(finalizer.to_owned());
        let patch = json!({ "metadata": { "finalizers": all } });
        return Plan::act(Reason::Unprotected, Action::merge_as_seen(object, patch));
    }
    if object.is_deleting() && protected && !is_used() {
        let rest: Vec<&String> = finalizers.iter().filter(|known| *known != finalizer).collect();
        let patch = json!({ "metadata": { "finalizers": rest } });
        return Plan::act(Reason::Unused, Action::merge_as_seen(object, patch));
    }
    Plan::nothing()
}

/// Protects claims in use by pods.
#[derive(Debug, Default)]
pub struct ClaimProtection {
    users: ClaimUsers,
}

impl Controller for ClaimProtection {
    type Key = ObjectKey;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "persistentvolumeclaim-protection-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::Pod, Kind::PersistentVolumeClaim])
    }

    fn observe(&mut self, change: &Change, _: View<'_>, queue: &mut Queue<ObjectKey>) {
        if change.of::<PersistentVolumeClaim>().is_some() {
            queue.add(change.key.clone());
        } else if let Some(pod) = change.of::<Pod>() {
            for claim in self.users.observe(pod, &change.key) {
                queue.add(claim);
            }
        }
    }

    fn decide(&mut self, key: &ObjectKey, view: View<'_>) -> Plan<Reason> {
        let Some(claim) = view.caches.claims.get(key) else {
            return Plan::nothing();
        };
        decide(&**claim, CLAIM_FINALIZER, || self.users.any(key))
    }
}

/// Protects bound volumes.
#[derive(Debug, Default)]
pub struct VolumeProtection;

impl Controller for VolumeProtection {
    type Key = ObjectKey;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "persistentvolume-protection-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::PersistentVolume])
    }

    fn observe(&mut self, change: &Change, _: View<'_>, queue: &mut Queue<ObjectKey>) {
        if change.of::<PersistentVolume>().is_some() {
            queue.add(change.key.clone());
        }
    }

    fn decide(&mut self, key: &ObjectKey, view: View<'_>) -> Plan<Reason> {
        let Some(volume) = view.caches.volumes.get(key) else {
            return Plan::nothing();
        };
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        decide(&**volume, VOLUME_FINALIZER, || phase == Some("Bound"))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::foundation::Caches;

    fn claim(deleting: bool, finalizers: &[&str]) -> Value {
        json!({ "metadata": {
            "name": "c", "namespace": "n", "uid": "u", "resourceVersion": "5", "finalizers": finalizers,
            "deletionTimestamp": deleting.then_some("2030-01-01T00:00:00Z"),
        } })
    }

    fn pod(node: &str) -> Value {
        json!({
            "metadata": { "name": "p", "namespace": "n", "uid": "p" },
            "spec": { "nodeName": node, "containers": [], "volumes": [
                { "name": "v", "persistentVolumeClaim": { "claimName": "c" } },
            ] },
        })
    }

    #[rstest]
    #[case::new(claim(false, &[]), None, Some(Reason::Unprotected))]
    #[case::kept(claim(false, &[CLAIM_FINALIZER]), None, None)]
    #[case::deleted_and_unused(claim(true, &[CLAIM_FINALIZER]), None, Some(Reason::Unused))]
    #[case::deleted_and_used(claim(true, &[CLAIM_FINALIZER]), Some(pod("a")), None)]
    #[case::used_by_a_pod_without_a_node(claim(true, &[CLAIM_FINALIZER]), Some(pod("")), Some(Reason::Unused))]
    #[case::of_others(claim(true, &["other"]), None, None)]
    fn claims_stay_while_pods_use_them(
        #[case] claim: Value,
        #[case] pod: Option<Value>,
        #[case] expected: Option<Reason>,
    ) {
        let mut caches = Caches::default();
        let mut controller = ClaimProtection::default();
        let mut queue = Queue::default();
        let now = Timestamp::UNIX_EPOCH;
        let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
        let mut changes = vec![caches.put(claim).unwrap()];
        if let Some(pod) = pod {
            let pod: Pod = serde_json::from_value(pod).unwrap();
            changes.push(caches.put(pod).unwrap());
        }
        let view = View { caches: &caches, now };
        for change in &changes {
            controller.observe(change, view, &mut queue);
        }
        let plan = controller.decide(&ObjectKey::new("n", "c"), view);
        assert_eq!(plan.reasons, expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn foreign_finalizers_stay() {
        let claim: PersistentVolumeClaim = serde_json::from_value(claim(true, &["other", CLAIM_FINALIZER])).unwrap();
        let plan = decide(&claim, CLAIM_FINALIZER, || false);
        let patch = json!({ "metadata": { "finalizers": ["other"] } });
        assert_eq!(plan.actions, [Action::merge_as_seen(&claim, patch)]);
    }
}
