//! The indexes of every cached kind.

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use mcm_api::{Machine, MachineClass, MachineDeployment, MachineHealthCheck, MachineSet, keys};
use mcm_core::ownership::controller;

use crate::cache::{Indexed, not_indexed};

/// Indexes of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MachineIndex {
    /// By the label `node`.
    Node,
    /// By the label `name`, their deployment.
    Deployment,
    /// By the name of their class.
    Class,
    /// By the uid of their controller, empty for orphans.
    Owner,
}

impl Indexed for Machine {
    type Index = MachineIndex;
    const INDEXES: &'static [MachineIndex] = &[
        MachineIndex::Node,
        MachineIndex::Deployment,
        MachineIndex::Class,
        MachineIndex::Owner,
    ];

    fn value(&self, index: MachineIndex) -> Option<String> {
        match index {
            MachineIndex::Node => self.labels().get(keys::NODE_LABEL).cloned(),
            MachineIndex::Deployment => self.labels().get(keys::DEPLOYMENT_LABEL).cloned(),
            MachineIndex::Class => Some(self.spec.class.name.clone()),
            MachineIndex::Owner => Some(owner_uid(&self.metadata)),
        }
    }
}

/// Indexes of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SetIndex {
    /// By the uid of their controller, empty for orphans.
    Owner,
}

impl Indexed for MachineSet {
    type Index = SetIndex;
    const INDEXES: &'static [SetIndex] = &[SetIndex::Owner];

    fn value(&self, index: SetIndex) -> Option<String> {
        match index {
            SetIndex::Owner => Some(owner_uid(&self.metadata)),
        }
    }
}

/// Indexes of Nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeIndex {
    /// By the label that names their machine.
    Machine,
}

impl Indexed for Node {
    type Index = NodeIndex;
    const INDEXES: &'static [NodeIndex] = &[NodeIndex::Machine];

    fn value(&self, index: NodeIndex) -> Option<String> {
        match index {
            NodeIndex::Machine => self.labels().get(keys::MACHINE_NAME_LABEL).cloned(),
        }
    }
}

/// Indexes of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PodIndex {
    /// By their Node.
    Node,
}

impl Indexed for Pod {
    type Index = PodIndex;
    const INDEXES: &'static [PodIndex] = &[PodIndex::Node];

    fn value(&self, index: PodIndex) -> Option<String> {
        match index {
            PodIndex::Node => self.spec.as_ref()?.node_name.clone(),
        }
    }
}

/// Indexes of VolumeAttachments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AttachmentIndex {
    /// By their Node.
    Node,
    /// By their PersistentVolume.
    Volume,
}

impl Indexed for VolumeAttachment {
    type Index = AttachmentIndex;
    const INDEXES: &'static [AttachmentIndex] = &[AttachmentIndex::Node, AttachmentIndex::Volume];

    fn value(&self, index: AttachmentIndex) -> Option<String> {
        match index {
            AttachmentIndex::Node => Some(self.spec.node_name.clone()),
            AttachmentIndex::Volume => self.spec.source.persistent_volume_name.clone(),
        }
    }
}

/// Indexes of disruption budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BudgetIndex {
    /// By their namespace.
    Namespace,
}

impl Indexed for PodDisruptionBudget {
    type Index = BudgetIndex;
    const INDEXES: &'static [BudgetIndex] = &[BudgetIndex::Namespace];

    fn value(&self, index: BudgetIndex) -> Option<String> {
        match index {
            BudgetIndex::Namespace => self.namespace(),
        }
    }
}

not_indexed!(
    MachineClass,
    MachineDeployment,
    MachineHealthCheck,
    PersistentVolume,
    PersistentVolumeClaim,
    Secret
);

/// The uid of the controller; empty for orphans.
fn owner_uid(metadata: &ObjectMeta) -> String {
    controller(metadata)
        .map(|reference| reference.uid.clone())
        .unwrap_or_default()
}
