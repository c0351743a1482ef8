//! The caches of all kinds, and the changes that they report.
//!
//! One line in the table below makes a kind watchable. The feeds watch the kinds that the enabled controllers
//! request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clock::Clock;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, ResourceQuota,
    Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cache::{Cache, Step};
use super::feed::{self, FeedEvent, Selection};
use super::resource::{Metadata, Object, ObjectKey, ResourceType};

/// An update of the caches from a feed.
pub(crate) type Update = Box<dyn FnOnce(&mut Caches) -> Vec<Change> + Send>;

/// A kind that has a typed cache.
pub trait Cached: Object + DeserializeOwned + Sized {
    /// The kind.
    const KIND: Kind;
    /// The cache of this kind.
    fn cache(caches: &Caches) -> &Cache<Self>;
    /// The cache of this kind, for the feed and for tests.
    fn cache_mut(caches: &mut Caches) -> &mut Cache<Self>;
}

macro_rules! cached_kinds {
    ($($(#[$doc:meta])* $field:ident: $kind:ident, $selection:expr, $index:expr;)*) => {
        /// A kind that has a typed cache.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        /// The observed state of the cluster.
        #[derive(Debug)]
        pub struct Caches {
            $($(#[$doc])* pub $field: Cache<$kind>,)*
            /// Metadata of the kinds without an active typed cache, for controllers that [need all
            /// metadata](super::Controller::needs_all_metadata).
            pub metadata: BTreeMap<ResourceType, Cache<Metadata>>,
            /// The kinds that discovery found, without custom resources; `None` before discovery completes, and
            /// when no controller needs it.
            pub discovered: Option<Vec<super::Served>>,
        }

        impl Default for Caches {
            fn default() -> Self {
                Self {
                    $($field: Cache::new($index),)*
                    metadata: BTreeMap::new(),
                    discovered: None,
                }
            }
        }

        $(impl Cached for $kind {
            const KIND: Kind = Kind::$kind;
            fn cache(caches: &Caches) -> &Cache<Self> {
                &caches.$field
            }
            fn cache_mut(caches: &mut Caches) -> &mut Cache<Self> {
                &mut caches.$field
            }
        })*

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The resource type.
            pub fn resource(self) -> ResourceType {
                match self {
                    $(Self::$kind => ResourceType::of::<$kind>(),)*
                }
            }

            /// The subset of its objects that is watched.
            pub(crate) fn selection(self) -> Selection {
                match self {
                    $(Self::$kind => $selection,)*
                }
            }

            /// The endless stream of updates of this kind.
            pub(crate) fn updates(self, client: &Client, clock: &Clock) -> BoxStream<'static, Update> {
                match self {
                    $(Self::$kind => updates_of::<$kind>(client, clock, $selection),)*
                }
            }

            pub(crate) fn is_listed(self, caches: &Caches) -> bool {
                match self {
                    $(Self::$kind => caches.$field.is_listed(),)*
                }
            }

            fn count_in(self, caches: &Caches, namespace: &str) -> usize {
                match self {
                    $(Self::$kind => caches.$field.in_namespace(namespace).count(),)*
                }
            }

            /// All objects of this kind, as if they were new.
            fn everything(self, caches: &Caches) -> Vec<Change> {
                match self {
                    $(Self::$kind => all_new(&self.resource(), &caches.$field),)*
                }
            }

            fn accept(self, caches: &mut Caches, object: Value) -> Option<Change> {
                match self {
                    $(Self::$kind => accept_as::<$kind>(caches, object),)*
                }
            }

            fn record_deletion(self, caches: &mut Caches, key: &ObjectKey, uid: &str) -> Option<Change> {
                match self {
                    $(Self::$kind => {
                        let before = caches.$field.record_deletion(key, uid);
                        change(&Arc::new(self.resource()), (before, None))
                    })*
                }
            }
        }
    };
}

cached_kinds! {
    /// Namespaces.
    namespaces: Namespace, Selection::All, nothing;
    /// Service accounts.
    service_accounts: ServiceAccount, Selection::All, nothing;
    /// Config maps; only those named `kube-root-ca.crt` are watched.
    root_certificates: ConfigMap, Selection::Fields("metadata.name=kube-root-ca.crt"), nothing;
    /// Nodes, indexed by zone label.
    nodes: Node, Selection::All, |node| node.labels().get("topology.kubernetes.io/zone").cloned();
    /// Pods, indexed by node name.
    pods: Pod, Selection::All, |pod| pod.spec.as_ref()?.node_name.clone().filter(|name| !name.is_empty());
    /// Node leases, from `kube-node-lease`.
    node_leases: Lease, Selection::Namespace("kube-node-lease"), nothing;
    /// Services.
    services: Service, Selection::All, nothing;
    /// Endpoint slices, indexed by `NAMESPACE/SERVICE`.
    endpoint_slices: EndpointSlice, Selection::All, |slice| {
        let service = slice.labels().get("kubernetes.io/service-name")?;
        Some(format!("{}/{service}", slice.namespace().unwrap_or_default()))
    };
    /// Replication controllers.
    replication_controllers: ReplicationController, Selection::All, nothing;
    /// ReplicaSets.
    replica_sets: ReplicaSet, Selection::All, nothing;
    /// Deployments.
    deployments: Deployment, Selection::All, nothing;
    /// StatefulSets.
    stateful_sets: StatefulSet, Selection::All, nothing;
    /// DaemonSets.
    daemon_sets: DaemonSet, Selection::All, nothing;
    /// Controller revisions of DaemonSets and StatefulSets.
    controller_revisions: ControllerRevision, Selection::All, nothing;
    /// Jobs.
    jobs: Job, Selection::All, nothing;
    /// CronJobs.
    cron_jobs: CronJob, Selection::All, nothing;
    /// Pod disruption budgets.
    disruption_budgets: PodDisruptionBudget, Selection::All, nothing;
    /// Resource quotas.
    resource_quotas: ResourceQuota, Selection::All, nothing;
    /// Priority classes.
    priority_classes: PriorityClass, Selection::All, nothing;
    /// Persistent volumes, indexed by `NAMESPACE/CLAIM` of their claim reference.
    volumes: PersistentVolume, Selection::All, |volume| {
        let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
        Some(format!("{}/{}", claim.namespace.as_deref()?, claim.name.as_deref()?))
    };
    /// Persistent volume claims, indexed by volume name.
    claims: PersistentVolumeClaim, Selection::All, |claim| {
        claim.spec.as_ref()?.volume_name.clone().filter(|name| !name.is_empty())
    };
    /// Storage classes.
    storage_classes: StorageClass, Selection::All, nothing;
    /// CSI drivers.
    csi_drivers: CSIDriver, Selection::All, nothing;
    /// CSI nodes: the capabilities of the CSI drivers of each node.
    csi_nodes: CSINode, Selection::All, nothing;
    /// Volume attachments, indexed by node name.
    volume_attachments: VolumeAttachment, Selection::All, |attachment| Some(attachment.spec.node_name.clone());
    /// Custom resource definitions.
    definitions: CustomResourceDefinition, Selection::All, nothing;
}

fn nothing<K>(_: &K) -> Option<String> {
    None
}

/// The change of one object in the caches.
#[derive(Clone)]
pub struct Change {
    /// The object's type.
    pub resource: Arc<ResourceType>,
    /// The object's key.
    pub key: ObjectKey,
    before: Option<Arc<dyn Object>>,
    after: Option<Arc<dyn Object>>,
}

/// A [`Change`] of a typed kind.
#[derive(Debug)]
pub struct Transition<'a, K> {
    /// The object before the change; `None` when it was created.
    pub before: Option<&'a K>,
    /// The object after the change; `None` when it was deleted.
    pub after: Option<&'a K>,
}

// Implemented by hand: a derive would require `K: Clone`.
impl<K> Clone for Transition<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Transition<'_, K> {}

impl<'a, K> Transition<'a, K> {
    /// The newest state; for a deleted object its last state.
    pub fn latest(self) -> Option<&'a K> {
        self.after.or(self.before)
    }

    /// The old state, if any, then the new state, if any.
    pub fn both(self) -> impl Iterator<Item = &'a K> {
        self.before.into_iter().chain(self.after)
    }
}

impl Change {
    /// The change as a transition of kind `K`; `None` when the object is of another kind.
    pub fn of<K: Object>(&self) -> Option<Transition<'_, K>> {
        let cast = |object: &'_ Arc<dyn Object>| object.as_ref().as_any().is::<K>();
        if !self.before.as_ref().or(self.after.as_ref()).is_some_and(cast) {
            return None;
        }
        Some(Transition {
            before: self
                .before
                .as_ref()
                .and_then(|object| object.as_ref().as_any().downcast_ref()),
            after: self
                .after
                .as_ref()
                .and_then(|object| object.as_ref().as_any().downcast_ref()),
        })
    }

    /// The object before the change.
    pub fn before(&self) -> Option<&dyn Object> {
        self.before.as_deref()
    }

    /// The object after the change.
    pub fn after(&self) -> Option<&dyn Object> {
        self.after.as_deref()
    }
}

impl std::fmt::Debug for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match (&self.before, &self.after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        };
        write!(formatter, "{} {} {what}", self.resource, self.key)
    }
}

fn change<K: Object>(resource: &Arc<ResourceType>, (before, after): Step<K>) -> Option<Change> {
    let key = ObjectKey::of(after.as_deref().or(before.as_deref())?);
    Some(Change {
        resource: Arc::clone(resource),
        key,
        before: before.map(|object| object as Arc<dyn Object>),
        after: after.map(|object| object as Arc<dyn Object>),
    })
}

fn all_new<K: Object>(resource: &ResourceType, cache: &Cache<K>) -> Vec<Change> {
    let resource = Arc::new(resource.clone());
    let steps = cache.iter().map(|(_, object)| (None, Some(Arc::clone(object))));
    steps.filter_map(|step| change(&resource, step)).collect()
}

/// All objects of these kinds, as if they were new, for a controller that starts again.
pub(super) fn everything(kinds: &BTreeSet<Kind>, metadata: bool, caches: &Caches) -> Vec<Change> {
    let mut changes: Vec<Change> = kinds.iter().flat_map(|kind| kind.everything(caches)).collect();
    if metadata {
        // Such a controller also observes the kinds of all others.
        let others = Kind::ALL.iter().filter(|kind| !kinds.contains(kind));
        changes.extend(others.flat_map(|kind| kind.everything(caches)));
        for (resource, cache) in &caches.metadata {
            changes.extend(all_new(resource, cache));
        }
    }
    changes
}

/// Applies a feed event to a cache.
fn apply_feed_event<K: Object>(
    cache: &mut Cache<K>,
    resource: &Arc<ResourceType>,
    feed_event: FeedEvent<K>,
) -> Vec<Change> {
    let steps = match feed_event {
        FeedEvent::Listed { objects, revision } => cache.replace(objects, revision),
        FeedEvent::NotServed => cache.clear(),
        FeedEvent::Applied(object) => cache
            .apply_event(object)
            .map(|(before, after)| (before, Some(after)))
            .into_iter()
            .collect(),
        FeedEvent::Deleted(object) => cache
            .remove(&object)
            .map(|before| (Some(before), None))
            .into_iter()
            .collect(),
    };
    steps.into_iter().filter_map(|step| change(resource, step)).collect()
}

fn updates_of<K: Cached>(client: &Client, clock: &Clock, selection: Selection) -> BoxStream<'static, Update> {
    let resource = Arc::new(K::KIND.resource());
    feed::feed_events::<K>(client.clone(), clock.clone(), Arc::clone(&resource), selection, false)
        .map(move |feed_event| {
            let resource = Arc::clone(&resource);
            Box::new(move |caches: &mut Caches| apply_feed_event(K::cache_mut(caches), &resource, feed_event)) as Update
        })
        .boxed()
}

/// The updates of the metadata of all objects of a type.
pub(crate) fn metadata_updates(
    client: &Client,
    clock: &Clock,
    resource: &Arc<ResourceType>,
) -> BoxStream<'static, Update> {
    let (client, clock, resource) = (client.clone(), clock.clone(), Arc::clone(resource));
    feed::feed_events::<Metadata>(client, clock, Arc::clone(&resource), Selection::All, true)
        .map(move |feed_event| {
            let resource = Arc::clone(&resource);
            Box::new(move |caches: &mut Caches| match caches.metadata.get_mut(&*resource) {
                Some(cache) => apply_feed_event(cache, &resource, feed_event),
                None => Vec::new(),
            }) as Update
        })
        .boxed()
}

fn accept_as<K: Cached>(caches: &mut Caches, object: Value) -> Option<Change> {
    match serde_json::from_value::<K>(object) {
        Ok(object) => {
            let (before, after) = K::cache_mut(caches).apply_response(object)?;
            change(&Arc::new(K::KIND.resource()), (before, Some(after)))
        }
        Err(error) => {
            tracing::debug!(kind = ?K::KIND, %error, "a response does not parse as its kind");
            None
        }
    }
}

impl Caches {
    /// Whether changes of a resource, `PLURAL.GROUP`, are watched.
    pub fn watches(&self, resource: &str) -> bool {
        self.whole_kind(resource).is_some() || self.metadata.keys().any(|known| known.to_string() == resource)
    }

    /// The number of objects of a resource, `PLURAL.GROUP`, in a namespace; `None` if the resource is not watched.
    pub fn count_in(&self, resource: &str, namespace: &str) -> Option<usize> {
        if let Some(kind) = self.whole_kind(resource) {
            return Some(kind.count_in(self, namespace));
        }
        let mut others = self.metadata.iter();
        let (_, cache) = others.find(|(known, _)| known.to_string() == resource)?;
        Some(cache.in_namespace(namespace).count())
    }

    /// The typed kind of a resource whose objects are all in their cache.
    fn whole_kind(&self, resource: &str) -> Option<Kind> {
        let mut kinds = Kind::ALL.iter().copied();
        kinds.find(|kind| {
            kind.selection() == Selection::All && kind.resource().to_string() == resource && kind.is_listed(self)
        })
    }

    /// The typed kind of a resource type.
    fn typed(resource: &ResourceType) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| {
            let own = kind.resource();
            own.group == resource.group && own.kind == resource.kind && own.version == resource.version
        })
    }

    /// Stores the response to a write of this process.
    pub(crate) fn accept(&mut self, resource: &ResourceType, object: &Value) -> Vec<Change> {
        if object.get("kind").and_then(Value::as_str) != Some(&*resource.kind) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        if let Some(kind) = Self::typed(resource)
            && kind.is_listed(self)
            && kind.selection().covers(object)
        {
            changes.extend(kind.accept(self, object.clone()));
        }
        if let Some(cache) = self.metadata.get_mut(resource)
            && let Ok(metadata) = serde_json::from_value::<Metadata>(object.clone())
            && let Some((before, after)) = cache.apply_response(metadata)
        {
            changes.extend(change(&Arc::new(resource.clone()), (before, Some(after))));
        }
        changes
    }

    /// Records that a deletion by this process removed the object.
    pub(crate) fn accept_removal(&mut self, resource: &ResourceType, key: &ObjectKey, uid: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        if let Some(kind) = Self::typed(resource) {
            changes.extend(kind.record_deletion(self, key, uid));
        }
        if let Some(cache) = self.metadata.get_mut(resource) {
            let before = cache.record_deletion(key, uid);
            changes.extend(change(&Arc::new(resource.clone()), (before, None)));
        }
        changes
    }

    /// Puts an object into its cache, for decision tests; returns the change for `observe`.
    pub fn put<K: Cached>(&mut self, object: K) -> Option<Change> {
        let (before, after) = K::cache_mut(self).apply(object)?;
        change(&Arc::new(K::KIND.resource()), (before, Some(after)))
    }

    /// Removes an object from its cache, for decision tests; returns the change for `observe`.
    pub fn take<K: Cached>(&mut self, object: &K) -> Option<Change> {
        let before = K::cache_mut(self).remove(object)?;
        change(&Arc::new(K::KIND.resource()), (Some(before), None))
    }

    /// Drops the metadata of a type that is no longer served.
    pub(crate) fn drop_metadata(&mut self, resource: &ResourceType) -> Vec<Change> {
        let Some(mut cache) = self.metadata.remove(resource) else {
            return Vec::new();
        };
        let resource = Arc::new(resource.clone());
        cache
            .clear()
            .into_iter()
            .filter_map(|step| change(&resource, step))
            .collect()
    }
}
