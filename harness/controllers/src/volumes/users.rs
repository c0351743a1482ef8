//! An index of the scheduled pods that use each claim.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::claims::claims;
use crate::foundation::{ObjectKey, Transition};

/// Scheduled pods, by the claims that they use.
#[derive(Debug, Default)]
pub struct ClaimUsers(BTreeMap<ObjectKey, BTreeSet<ObjectKey>>);

impl ClaimUsers {
    /// Updates a pod; returns the claims that it may no longer use.
    pub fn observe(&mut self, pod: Transition<'_, Pod>, key: &ObjectKey) -> Vec<ObjectKey> {
        let before = pod.before.map(claims_of).unwrap_or_default();
        for claim in &before {
            if let Some(users) = self.0.get_mut(claim) {
                users.remove(key);
                if users.is_empty() {
                    self.0.remove(claim);
                }
            }
        }
        // A kubelet uses a pod's claims only after the pod is scheduled.
        if let Some(pod) = pod.after.filter(|pod| node_of(pod).is_some()) {
            for claim in claims_of(pod) {
                self.0.entry(claim).or_default().insert(key.clone());
            }
        }
        before
    }

    /// Whether a scheduled pod uses the claim.
    pub fn any(&self, claim: &ObjectKey) -> bool {
        self.0.contains_key(claim)
    }

    /// The pods that use the claim.
    pub fn of(&self, claim: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.0.get(claim).into_iter().flatten()
    }
}

/// The node of a pod.
pub fn node_of(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    (!node.is_empty()).then_some(node)
}

/// The claims of a pod.
pub fn claims_of(pod: &Pod) -> Vec<ObjectKey> {
    let namespace = pod.namespace().unwrap_or_default();
    let spec = pod.spec.as_ref();
    spec.map(|spec| claims(spec, &pod.name_any()))
        .unwrap_or_default()
        .into_iter()
        .map(|(claim, _)| ObjectKey::new(namespace.clone(), claim))
        .collect()
}
