//! Controller references: adoption of orphans that match the selector, release of objects that no longer match
//! (kubernetes/community, controller-ref.md).

use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::meta::{self, Owner};
use super::plan::Plan;
use crate::Kind;

/// Plans adoptions and releases among `candidates`, and returns the owned objects.
///
/// A terminating owner neither adopts nor releases; a terminating object is not adopted. `mine` is an
/// additional condition for adoption, besides the selector.
pub fn claim<K: Metadata<Ty = ObjectMeta>>(
    plan: &mut Plan,
    kind: Kind,
    owner: &Owner,
    selector: &LabelSelector,
    candidates: &[Arc<K>],
    mine: impl Fn(&K) -> bool,
) -> Vec<Arc<K>> {
    let mut claimed = Vec::new();
    for candidate in candidates {
        let found = candidate.metadata();
        let matches = runtime::selector::selects(selector, found.labels.as_ref()) && mine(candidate);
        match runtime::ownership::controller(found) {
            Some(controller) if controller.uid != owner.uid => {}
            Some(_) if matches => claimed.push(Arc::clone(candidate)),
            Some(_) if owner.deleting => {}
            Some(_) => plan.release(kind, found, owner),
            None if !matches || owner.deleting || meta::is_deleting(found) => {}
            None => {
                plan.adopt(kind, found, owner);
                claimed.push(Arc::clone(candidate));
            }
        }
    }
    claimed
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::Pod;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::workloads::plan::Action;

    fn owner(deleting: bool) -> Owner {
        let mut set = ReplicaSet::default();
        set.metadata.name = Some("set".to_owned());
        set.metadata.uid = Some("u".to_owned());
        Owner {
            deleting,
            ..Owner::of(&set)
        }
    }

    #[rstest]
    #[case::owned_and_selected("u", "a", false, false, true, None)]
    #[case::owned_and_no_longer_selected("u", "b", false, false, false, Some("release"))]
    #[case::of_another_owner("v", "a", false, false, false, None)]
    #[case::an_orphan("", "a", false, false, true, Some("adopt"))]
    #[case::an_orphan_that_is_not_selected("", "b", false, false, false, None)]
    #[case::a_terminating_orphan("", "a", true, false, false, None)]
    #[case::a_terminating_owner_does_not_adopt("", "a", false, true, false, None)]
    #[case::a_terminating_owner_does_not_release("u", "b", false, true, false, None)]
    fn owners_claim_matching_objects(
        #[case] controller: &str,
        #[case] app: &str,
        #[case] pod_deleting: bool,
        #[case] owner_deleting: bool,
        #[case] claimed: bool,
        #[case] action: Option<&str>,
    ) {
        let mut pod = json!({ "metadata": {
            "name": "p", "uid": "p", "resourceVersion": "7", "labels": { "app": app },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o" }],
        } });
        if !controller.is_empty() {
            let reference = json!(
                { "apiVersion": "v1", "kind": "K", "name": "k", "uid": controller, "controller": true }
            );
            pod["metadata"]["ownerReferences"]
                .as_array_mut()
                .unwrap()
                .push(reference);
        }
        if pod_deleting {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let pod: Arc<Pod> = Arc::new(serde_json::from_value(pod).unwrap());
        let selector = serde_json::from_value(json!({ "matchLabels": { "app": "a" } })).unwrap();
        let mut plan = Plan::default();
        let kept = claim(&mut plan, Kind::Pod, &owner(owner_deleting), &selector, &[pod], |_| {
            true
        });
        assert_eq!(!kept.is_empty(), claimed);
        let owners: Option<Vec<Value>> = plan.actions.first().map(|action| match action {
            Action::Patch { patch, .. } => {
                assert_eq!(patch["metadata"]["resourceVersion"], "7");
                patch["metadata"]["ownerReferences"].as_array().unwrap().clone()
            }
            other => panic!("{other:?}"),
        });
        match action {
            None => assert_eq!(owners, None),
            Some("release") => assert_eq!(owners.unwrap().len(), 1, "other owners stay"),
            Some(_) => {
                let owners = owners.unwrap();
                assert_eq!(owners.len(), 2);
                assert_eq!(owners[1]["uid"], "u");
                assert_eq!(owners[1]["blockOwnerDeletion"], true);
            }
        }
    }
}
