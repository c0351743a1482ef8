//! Why a node cannot run a pod, in kube-scheduler's words, and which changes can resolve it.

/// Why a pod cannot run on a node, or on any node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The node is cordoned.
    Unschedulable,
    /// The pod does not tolerate a taint.
    Taint,
    /// The pod names other nodes (`metadata.name` fields).
    NotNamed,
    /// The node does not match the pod's node selector or node affinity.
    NodeAffinity,
    /// A host port is in use.
    Ports,
    /// The node has its maximum number of pods.
    TooManyPods,
    /// A resource is insufficient.
    Insufficient {
        /// The resource's name.
        resource: String,
        /// Even the empty node has too little.
        hopeless: bool,
    },
    /// Another pod uses a ReadWriteOncePod claim.
    ClaimInUse,
    /// The node cannot attach more volumes.
    VolumeLimit,
    /// A claim's volume does not exist.
    BoundVolumeMissing,
    /// The node does not match a volume's node affinity.
    VolumeNodeAffinity,
    /// A `WaitForFirstConsumer` claim finds no volume for the node.
    NoVolumeToBind,
    /// A volume is in another zone.
    VolumeZone,
    /// The node has no label for a topology key.
    SpreadLabelMissing,
    /// The pod would exceed the maximum skew.
    Spread,
    /// A required pod affinity is not met.
    Affinity,
    /// A required pod anti-affinity is violated.
    AntiAffinity,
    /// An existing pod's anti-affinity is violated.
    ExistingAntiAffinity,
    /// A claim does not exist.
    ClaimMissing(String),
    /// The claim of an ephemeral volume does not exist yet.
    EphemeralClaimMissing(String),
    /// A claim is being deleted.
    ClaimDeleting(String),
    /// A claim has lost its volume.
    ClaimLost {
        /// The claim.
        claim: String,
        /// The volume that is gone.
        volume: String,
    },
    /// An immediate claim is not bound.
    UnboundImmediateClaims,
}

/// A change that can make a pod schedulable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node was added, or its labels, taints or allocatable resources changed.
    Node,
    /// A node was deleted, and with it a topology domain.
    NodeGone,
    /// A scheduled pod is gone or terminating.
    PodGone,
    /// A pod was scheduled, or its labels changed.
    PodPlaced,
    /// A claim, volume, class, CSI node or attachment changed.
    Storage,
}

impl Reason {
    /// kube-scheduler's text.
    pub fn text(&self) -> String {
        let fixed = match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::Taint => "node(s) had untolerated taint(s)",
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::Insufficient { resource, .. } => return format!("Insufficient {resource}"),
            Self::ClaimInUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Self::VolumeLimit => "node(s) exceed max volume count",
            Self::BoundVolumeMissing => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Self::VolumeNodeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoVolumeToBind => "node(s) didn't find available persistent volumes to bind",
            Self::VolumeZone => "node(s) had no available volume zone",
            Self::SpreadLabelMissing => "node(s) didn't match pod topology spread constraints (missing required label)",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::Affinity => "node(s) didn't match pod affinity rules",
            Self::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::ClaimMissing(claim) => return format!("persistentvolumeclaim {claim:?} not found"),
            Self::EphemeralClaimMissing(claim) => {
                return format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {claim:?}"
                );
            }
            Self::ClaimDeleting(claim) => return format!("persistentvolumeclaim {claim:?} is being deleted"),
            Self::ClaimLost { claim, volume } => {
                return format!("persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}");
            }
            Self::UnboundImmediateClaims => "pod has unbound immediate PersistentVolumeClaims",
        };
        fixed.to_owned()
    }

    /// Whether preemption can resolve the reason.
    pub fn is_resolvable(&self) -> bool {
        match self {
            Self::Ports
            | Self::TooManyPods
            | Self::ClaimInUse
            | Self::VolumeLimit
            | Self::Spread
            | Self::AntiAffinity
            | Self::ExistingAntiAffinity => true,
            Self::Insufficient { hopeless, .. } => !hopeless,
            _ => false,
        }
    }

    /// Whether a change can resolve the reason.
    pub fn is_helped_by(&self, change: Change) -> bool {
        match self {
            Self::Unschedulable | Self::Taint | Self::NodeAffinity | Self::NotNamed => change == Change::Node,
            Self::Ports | Self::TooManyPods | Self::Insufficient { .. } => {
                matches!(change, Change::Node | Change::PodGone)
            }
            Self::ClaimInUse => matches!(change, Change::PodGone | Change::Storage),
            Self::VolumeLimit => !matches!(change, Change::PodPlaced | Change::NodeGone),
            Self::VolumeNodeAffinity | Self::NoVolumeToBind | Self::VolumeZone => {
                matches!(change, Change::Node | Change::Storage)
            }
            Self::Spread => change != Change::Storage,
            Self::SpreadLabelMissing | Self::Affinity | Self::AntiAffinity | Self::ExistingAntiAffinity => {
                !matches!(change, Change::Storage | Change::NodeGone)
            }
            Self::BoundVolumeMissing
            | Self::ClaimMissing(_)
            | Self::EphemeralClaimMissing(_)
            | Self::ClaimDeleting(_)
            | Self::ClaimLost { .. }
            | Self::UnboundImmediateClaims => change == Change::Storage,
        }
    }
}
