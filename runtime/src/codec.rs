//! Decoding and encoding of the Kubernetes types that dependent crates use, compiled once.
//!
//! The compiler instantiates a generic function in the first crate that uses it with a type, and dependent crates share
//! the instance (below opt-level 2). The serialization code of these types is large: instantiated in `controllers`,
//! `fakecloud` and `mcm`, and again in the tests of each, it took more than half of the build time. No crate needs to
//! call these functions; their instances suffice.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Secret,
    Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::WatchEvent;
use kube::core::ObjectList;
use serde_json::{Result, Value};

/// The conversions of one type.
#[derive(Debug)]
pub struct Codec<T: Clone> {
    /// Decodes the body of a response.
    pub read: fn(&str) -> Result<T>,
    /// Decodes the body of a list.
    pub read_list: fn(&str) -> Result<ObjectList<T>>,
    /// Decodes a line of a watch.
    pub read_event: fn(&str) -> Result<WatchEvent<T>>,
    /// Converts from a dynamic value.
    pub from_value: fn(Value) -> Result<T>,
    /// Converts to a dynamic value.
    pub to_value: fn(&T) -> Result<Value>,
    /// Encodes the body of a request.
    pub write: fn(&T) -> Result<Vec<u8>>,
}

macro_rules! codecs {
    ($($name:ident: $kind:ty,)*) => {
        $(
            #[doc = concat!("The codec of ", stringify!($kind), ".")]
            pub static $name: Codec<$kind> = Codec {
                read: |text| serde_json::from_str(text),
                read_list: |text| serde_json::from_str(text),
                read_event: |text| serde_json::from_str(text),
                from_value: |value| serde_json::from_value(value),
                to_value: |object| serde_json::to_value(object),
                write: |object| serde_json::to_vec(object),
            };
        )*
    };
}

codecs! {
    CONFIG_MAP: ConfigMap,
    CONTROLLER_REVISION: ControllerRevision,
    CRON_JOB: CronJob,
    CSI_DRIVER: CSIDriver,
    CSI_NODE: CSINode,
    CUSTOM_RESOURCE_DEFINITION: CustomResourceDefinition,
    DAEMON_SET: DaemonSet,
    DEPLOYMENT: Deployment,
    ENDPOINT_SLICE: EndpointSlice,
    EVENT: Event,
    JOB: Job,
    LEASE: Lease,
    NAMESPACE: Namespace,
    NODE: Node,
    PERSISTENT_VOLUME: PersistentVolume,
    PERSISTENT_VOLUME_CLAIM: PersistentVolumeClaim,
    POD: Pod,
    POD_DISRUPTION_BUDGET: PodDisruptionBudget,
    PRIORITY_CLASS: PriorityClass,
    REPLICATION_CONTROLLER: ReplicationController,
    REPLICA_SET: ReplicaSet,
    SECRET: Secret,
    SERVICE: Service,
    SERVICE_ACCOUNT: ServiceAccount,
    STATEFUL_SET: StatefulSet,
    STORAGE_CLASS: StorageClass,
    VOLUME_ATTACHMENT: VolumeAttachment,
}
