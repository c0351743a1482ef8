//! Why a node cannot take a pod, in kube-scheduler's words, and which changes help.

/// Why a pod cannot be on a node, or on any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The node is cordoned.
    Unschedulable,
    /// A taint that the pod does not tolerate.
    Taint,
    /// The pod names other nodes.
    NotNamed,
    /// The pod's node selector or node affinity.
    NodeAffinity,
    /// A port of the node is taken.
    Ports,
    /// The node has as many pods as it may have.
    TooManyPods,
    /// Not enough of a resource is free.
    Insufficient {
        /// Its name.
        resource: String,
        /// Even the empty node has not enough.
        hopeless: bool,
    },
    /// Another pod uses a claim that only one may use.
    ClaimInUse,
    /// The node can attach no more volumes.
    VolumeLimit,
    /// A claim's volume does not exist.
    BoundVolumeMissing,
    /// A volume cannot be reached from the node.
    VolumeNodeAffinity,
    /// A claim that waits for its first consumer would get no volume on the node.
    NoVolumeToBind,
    /// A volume is in another zone.
    VolumeZone,
    /// The node lacks a label that the pod's spreading goes by.
    SpreadLabelMissing,
    /// The pod would make the spreading worse than it may be.
    Spread,
    /// A pod that must be near is not.
    Affinity,
    /// A pod that must not be near is.
    AntiAffinity,
    /// A pod that is near wants this one not to be.
    ExistingAntiAffinity,
    /// A claim does not exist.
    ClaimMissing(String),
    /// A claim of an ephemeral volume does not exist yet.
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
    /// A claim waits for nothing but has no volume.
    UnboundImmediateClaims,
}

/// What can make a pod schedulable that was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node came or changed its labels, taints, or what it offers.
    Node,
    /// A node went, and with it a domain over which pods are spread.
    NodeGone,
    /// A pod that had a node is gone, or is going.
    PodGone,
    /// A pod got a node, or its labels changed.
    PodPlaced,
    /// A claim, volume, class, CSI node or attachment changed.
    Storage,
}

impl Reason {
    /// kube-scheduler's words.
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

    /// Whether the node might take the pod once other pods have left it.
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

    /// Whether a change can make the reason go away.
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
