//! The scales of the controllers of a budget's pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use runtime::ownership::controller;

use crate::foundation::served;
use crate::{Cached, Caches, Object, ObjectKey, ResourceType, Target};
use quantity::Saturating as _;

/// The sum of the scales, as far as known.
#[derive(Debug, PartialEq)]
pub(super) enum Scales {
    /// All scales are known.
    Known {
        /// Their sum.
        sum: i32,
        /// Pods without a controller; they count as zero.
        unmanaged: usize,
    },
    /// Scales to read from the API server, by the uid of the controller.
    Unread(BTreeMap<String, Target>),
    /// A pod's controller has no scale.
    Failed(String),
}

/// The scale of one controller.
enum Scale {
    Known { uid: String, replicas: i32 },
    Unread(Target),
    None,
}

/// Sums up the scales. `answers` holds the scales read so far, by uid; `None` if the object has none.
pub(super) fn scales(pods: &[&Arc<Pod>], caches: &Caches, answers: &BTreeMap<String, Option<i32>>) -> Scales {
    let mut sum = BTreeMap::new();
    let mut unread = BTreeMap::new();
    let mut unmanaged = 0;
    let mut seen = BTreeSet::new();
    for pod in pods {
        let Some(owner) = controller(&pod.metadata) else {
            unmanaged.raise(1);
            continue;
        };
        if !seen.insert(owner.uid.clone()) {
            continue;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let replicas = match scale(owner, namespace, caches) {
            Scale::Known { uid, replicas } => Some((uid, replicas)),
            Scale::None => None,
            Scale::Unread(target) => match answers.get(&owner.uid) {
                Some(answer) => answer.map(|replicas| (owner.uid.clone(), replicas)),
                None => {
                    unread.insert(owner.uid.clone(), target);
                    continue;
                }
            },
        };
        match replicas {
            Some((uid, replicas)) => drop(sum.insert(uid, replicas)),
            None => {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                return Scales::Failed(format!("found no controllers for pod {name:?}"));
            }
        }
    }
    if !unread.is_empty() {
        return Scales::Unread(unread);
    }
    Scales::Known {
        sum: quantity::total(sum.values().copied()),
        unmanaged,
    }
}

fn scale(owner: &OwnerReference, namespace: &str, caches: &Caches) -> Scale {
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    match (group, owner.kind.as_str()) {
        ("", "ReplicationController") => {
            let replicas = |spec: Option<i32>| spec.unwrap_or(1);
            known(&caches.replication_controllers, owner, namespace, |controller| {
                replicas(controller.spec.as_ref().and_then(|spec| spec.replicas))
            })
        }
        ("apps", "StatefulSet") => known(&caches.stateful_sets, owner, namespace, |set| {
            set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
        }),
        ("apps", "ReplicaSet") => replica_set(owner, namespace, caches),
        _ => custom(group, owner, namespace, caches),
    }
}

/// The scale of a ReplicaSet counts only if no Deployment controls it.
fn replica_set(owner: &OwnerReference, namespace: &str, caches: &Caches) -> Scale {
    let Some(set) = caches
        .replica_sets
        .named(namespace, &owner.name)
        .filter(|set| set.uid() == owner.uid)
    else {
        return Scale::None;
    };
    match controller(&set.metadata) {
        Some(above) if above.kind == "Deployment" => known(&caches.deployments, above, namespace, |deployment| {
            deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
        }),
        Some(above) => {
            let group = above.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            custom(group, above, namespace, caches)
        }
        None => Scale::Known {
            uid: owner.uid.clone(),
            replicas: set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        },
    }
}

fn known<K: Cached>(
    cache: &crate::Cache<K>,
    owner: &OwnerReference,
    namespace: &str,
    replicas: impl Fn(&K) -> i32,
) -> Scale {
    match cache
        .named(namespace, &owner.name)
        .filter(|found| found.uid() == owner.uid)
    {
        Some(found) => Scale::Known {
            uid: owner.uid.clone(),
            replicas: replicas(found),
        },
        None => Scale::None,
    }
}

fn custom(group: &str, owner: &OwnerReference, namespace: &str, caches: &Caches) -> Scale {
    let served = served(caches)
        .into_iter()
        .map(|served| served.resource)
        .find(|resource| resource.group == group && resource.kind == owner.kind.as_str());
    match served {
        Some(resource) => Scale::Unread(at(resource, namespace, &owner.name)),
        None => Scale::None,
    }
}

fn at(resource: ResourceType, namespace: &str, name: &str) -> Target {
    let namespace = if resource.namespaced { namespace } else { "" };
    Target {
        key: ObjectKey::new(namespace, name),
        resource,
    }
}
