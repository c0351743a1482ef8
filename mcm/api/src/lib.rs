//! The machine API: group `machine.sapcloud.io`, version `v1alpha1`.
//!
//! It contains the five kinds in their wire form, their CRDs, the keys of labels, annotations and
//! finalizers, Go-compatible durations, and the results of driver calls. It must not contain I/O,
//! clients, clocks or decisions.

pub mod class;
pub mod cloud;
pub mod crd;
pub mod deployment;
pub mod duration;
pub mod health_check;
pub mod keys;
pub mod machine;
pub mod names;
pub mod preservation;
pub mod set;
pub mod type_meta;
mod wire_enum;

pub use class::{MachineClass, NodeTemplate};
pub use cloud::{Code, DriverError, VmIdentity};
pub use deployment::MachineDeployment;
pub use duration::GoDuration;
pub use health_check::MachineHealthCheck;
pub use machine::{Machine, MachineSpec, MachineStatus, Operation, Phase, State};
pub use names::{MAX_LABEL_VALUE, MachineName, NodeName, ProviderId, is_label_value};
pub use preservation::{Fencing, FencingState, Preservation, PreservationEntry, PreservationStage, PreservedBy};
pub use set::MachineSet;

/// The API group of all kinds.
pub const GROUP: &str = "machine.sapcloud.io";
/// The only version, served and stored.
pub const VERSION: &str = "v1alpha1";

/// Implements the traits of a kind of the group for a struct with a `metadata` field.
macro_rules! kind {
    ($kind:ident, $plural:literal) => {
        impl k8s_openapi::Resource for $kind {
            const API_VERSION: &'static str = "machine.sapcloud.io/v1alpha1";
            const GROUP: &'static str = $crate::GROUP;
            const KIND: &'static str = stringify!($kind);
            const VERSION: &'static str = $crate::VERSION;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::NamespaceResourceScope;
        }

        impl k8s_openapi::Metadata for $kind {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use kind;
