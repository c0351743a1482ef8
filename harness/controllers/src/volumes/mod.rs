//! Volumes: binds claims to volumes, protects both while in use, and attaches volumes to the nodes of their
//! pods.
//!
//! [`binder`] moves claims and volumes through their phases, as kube-controller-manager's
//! persistentvolume-binder; the provisioner of a CSI driver creates and deletes volumes. [`protection`] removes
//! the finalizers that protect claims and volumes in use. [`attach_detach`] creates VolumeAttachments and
//! reports them on nodes; the attacher of a driver performs them. [`ephemeral`] creates the claims of ephemeral
//! volumes. Nothing here may depend on a driver or a cloud.

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

use crate::Name;
use crate::foundation::{AnyWorker, Worker};
use crate::settings::Settings;

/// Adds the enabled volume controllers.
pub(crate) fn add(settings: &Settings, workers: &mut Vec<Box<dyn AnyWorker>>) {
    if settings.runs(Name::EphemeralVolumes) {
        workers.push(Box::new(Worker::new(|| EphemeralClaims)));
    }
    if settings.runs(Name::VolumeBinder) {
        workers.push(Box::new(Worker::new(Binder::default)));
    }
    if settings.runs(Name::VolumeProtection) {
        workers.push(Box::new(Worker::new(ClaimProtection::default)));
        workers.push(Box::new(Worker::new(|| VolumeProtection)));
    }
    if settings.runs(Name::AttachDetach) {
        workers.push(Box::new(Worker::new(AttachDetach::default)));
    }
}
