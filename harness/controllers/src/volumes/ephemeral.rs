//! Creates the claims of ephemeral volumes (`spec.volumes[].ephemeral`), owned by their pods.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;

use crate::foundation::{Action, Change, Controller, Kind, ObjectKey, Plan, Queue, Severity, View};

/// Why a claim is created or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The claim is missing.
    Missing,
    /// A claim with this name belongs to another owner.
    Taken,
}

/// The claim controller of ephemeral volumes.
#[derive(Debug, Default)]
pub struct EphemeralClaims;

impl Controller for EphemeralClaims {
    type Key = ObjectKey;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "ephemeral-volume-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::Pod, Kind::PersistentVolumeClaim])
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>) {
        if let Some(pod) = change.of::<Pod>() {
            if pod.after.is_some_and(has_ephemeral_volumes) {
                queue.add(change.key.clone());
            }
        } else if let Some(claim) = change.of::<PersistentVolumeClaim>() {
            for owner in claim.before.into_iter().flat_map(|claim| claim.owner_references()) {
                let pod = ObjectKey::new(change.key.namespace.clone(), owner.name.clone());
                if owner.kind == "Pod" && view.caches.pods.get(&pod).is_some() {
                    queue.add(pod);
                }
            }
        }
    }

    fn decide(&mut self, key: &ObjectKey, view: View<'_>) -> Plan<Reason> {
        let mut plan = Plan::nothing();
        let Some(pod) = view
            .caches
            .pods
            .get(key)
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        else {
            return plan;
        };
        let volumes = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.volumes.as_deref())
            .unwrap_or_default();
        for volume in volumes {
            let Some(template) = volume
                .ephemeral
                .as_ref()
                .and_then(|ephemeral| ephemeral.volume_claim_template.as_ref())
            else {
                continue;
            };
            let name = format!("{}-{}", key.name, volume.name);
            match view.caches.claims.named(&key.namespace, &name) {
                None => {
                    let claim = claim_of(pod, &name, template);
                    plan.push(Reason::Missing, Action::create(&claim));
                }
                Some(claim) if !belongs_to(claim, pod) => {
                    let message = format!(
                        "ephemeral volume controller: create PVC {key}-{}: PVC {}/{name} was not created for pod {key} (pod is not owner)",
                        volume.name, key.namespace
                    );
                    let event = Action::event(&**pod, Severity::Warning, "EphemeralVolumeCreationFailed", message);
                    plan.push(Reason::Taken, event);
                }
                Some(_) => {}
            }
        }
        plan
    }
}

fn has_ephemeral_volumes(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().any(|volume| volume.ephemeral.is_some())
}

fn belongs_to(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let uid = pod.metadata.uid.as_deref();
    uid.is_some_and(|uid| runtime::ownership::is_controlled_by(&claim.metadata, uid))
}

fn claim_of(
    pod: &Pod,
    name: &str,
    template: &k8s_openapi::api::core::v1::PersistentVolumeClaimTemplate,
) -> PersistentVolumeClaim {
    let mut metadata = template.metadata.clone().unwrap_or_default();
    metadata.name = Some(name.to_owned());
    metadata.namespace = pod.namespace();
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    PersistentVolumeClaim {
        metadata,
        spec: Some(template.spec.clone()),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::foundation::Caches;

    #[test]
    fn a_claim_is_created_once_for_an_ephemeral_volume() {
        let mut caches = Caches::default();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "n", "uid": "u" },
            "spec": { "containers": [], "volumes": [{ "name": "v", "ephemeral": { "volumeClaimTemplate": { "spec": {
                "accessModes": ["ReadWriteOnce"],
            } } } }] },
        }))
        .unwrap();
        caches.put(pod).unwrap();
        let key = ObjectKey::new("n", "p");
        let now = Timestamp::UNIX_EPOCH;
        let plan = EphemeralClaims.decide(&key, View { caches: &caches, now });
        assert_eq!(plan.reasons, [Reason::Missing]);
        let [Action::Create { object, .. }] = plan.actions.as_slice() else {
            panic!("{plan:?}")
        };
        assert_eq!(object["metadata"]["name"], "p-v");
        let mut claim: PersistentVolumeClaim = serde_json::from_value(object.clone()).unwrap();
        caches.put(claim.clone()).unwrap();
        assert_eq!(
            EphemeralClaims.decide(&key, View { caches: &caches, now }),
            Plan::nothing()
        );
        claim.metadata.owner_references = None;
        claim.metadata.resource_version = Some("9".to_owned());
        caches.put(claim).unwrap();
        assert_eq!(
            EphemeralClaims.decide(&key, View { caches: &caches, now }).reasons,
            [Reason::Taken]
        );
    }
}
