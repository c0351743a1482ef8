//! Volumes: binding claims to volumes, keeping both while they are used, and attaching volumes to the
//! nodes of their pods.
//!
//! [`binder`] moves claims and volumes through their phases, as kube-controller-manager's
//! persistentvolume-binder does; making and removing the volumes of a CSI driver is the business of
//! its provisioner. [`protection`] removes the finalizers that keep a claim or volume while it is in
//! use. [`attach_detach`] asks for attachments by VolumeAttachments and reports them on nodes; the
//! attaching itself is the business of the driver's attacher. [`ephemeral`] makes the claims of
//! pods' own volumes. What must not live here: any driver, any cloud.

pub mod attach_detach;
pub mod binder;
pub mod claims;
pub mod ephemeral;
pub mod fit;
pub mod protection;
mod users;

pub use attach_detach::AttachDetach;
pub use binder::Binder;
pub use ephemeral::EphemeralClaims;
pub use protection::{ClaimProtection, VolumeProtection};

use crate::foundation::{AnyWorker, Worker};
use crate::settings::{Name, Settings};

/// Adds those of the volume controllers that are enabled.
pub(crate) fn add(settings: &Settings, workers: &mut Vec<Box<dyn AnyWorker>>) {
    if settings.runs(Name::EphemeralVolumes) {
        workers.push(Box::new(Worker::new(EphemeralClaims)));
    }
    if settings.runs(Name::VolumeBinder) {
        workers.push(Box::new(Worker::new(Binder::default())));
    }
    if settings.runs(Name::VolumeProtection) {
        workers.push(Box::new(Worker::new(ClaimProtection::default())));
        workers.push(Box::new(Worker::new(VolumeProtection)));
    }
    if settings.runs(Name::AttachDetach) {
        workers.push(Box::new(Worker::new(AttachDetach::default())));
    }
}
