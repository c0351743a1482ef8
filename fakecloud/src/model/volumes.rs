//! Volumes: disks that outlive VMs. The storage creates, attaches, detaches and deletes them.

use std::time::Duration;

use jiff::Timestamp;
use mcm_api::cloud::{Code, DriverError};
use serde::{Deserialize, Serialize};

use super::faults::{CallInfo, Effect, Hit};
use super::{Cloud, CloudCall, Record, Reference, Vm, later};
use crate::syntax::{is_quantity, is_zone};

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Its volume handle.
    pub id: String,
    /// Its zone; only VMs of this zone can attach it.
    pub zone: String,
    /// In Kubernetes' syntax.
    pub size: String,
    /// The VM that it is attached to.
    pub vm: Option<String>,
    /// Creation time.
    pub created: Timestamp,
}

/// What the cloud does with a request of a cluster's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageReply {
    /// It carries it out.
    Done,
    /// It carries it out after this delay.
    Later(Duration),
    /// A fault refuses it.
    Refused,
}

impl Cloud {
    /// All volumes, in the order of their ids.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.values()
    }

    /// The volumes that are attached to a VM.
    pub fn volumes_of<'a>(&'a self, vm: &'a Vm) -> impl Iterator<Item = &'a Volume> {
        self.volumes
            .values()
            .filter(|volume| volume.vm.as_ref() == Some(&vm.id))
    }

    /// Creates a volume, or returns the existing one if it is the same.
    ///
    /// # Errors
    /// `InvalidArgument` with the field; `AlreadyExists` if the existing one differs.
    pub fn create_volume(&mut self, id: &str, zone: &str, size: &str, now: Timestamp) -> Result<Volume, DriverError> {
        self.advance(now);
        let wrong = |text: String| Err(DriverError::new(Code::InvalidArgument, text));
        if id.is_empty() || id.len() > 253 {
            return wrong("id: must have 1 to 253 characters".to_owned());
        }
        if !is_zone(zone) {
            return wrong(format!(
                "zone: {zone:?} is not a valid zone: write lower-case letters, digits and dashes"
            ));
        }
        if !is_quantity(size) {
            return wrong(format!("size: {size:?} must be a positive quantity, for example 50Gi"));
        }
        if let Some(there) = self.volumes.get(id) {
            if there.zone == zone && there.size == size {
                return Ok(there.clone());
            }
            return Err(DriverError::new(
                Code::AlreadyExists,
                format!("volume {id} exists in zone {} with size {}", there.zone, there.size),
            ));
        }
        let volume = Volume {
            id: id.to_owned(),
            zone: zone.to_owned(),
            size: size.to_owned(),
            vm: None,
            created: now,
        };
        self.note("CreateVolume", id, now);
        self.volumes.insert(id.to_owned(), volume.clone());
        Ok(volume)
    }

    /// Attaches a volume to a VM; a volume that is already attached to it stays attached. If a rule delays the
    /// attachment, the volume in the reply is not attached yet.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` if the volume is attached to another VM, or the VM is in another zone or has
    /// too many volumes; or the error of a fault rule.
    pub fn attach_volume(&mut self, id: &str, vm: &Reference, now: Timestamp) -> Result<Volume, DriverError> {
        self.advance(now);
        let vm = self
            .find(vm)
            .map_err(|error| DriverError::new(Code::NotFound, error.to_string()))?;
        let vm = vm.clone();
        self.volume_call(
            CloudCall::AttachVolume,
            id,
            &vm.owner.key(),
            &vm.zone,
            now,
            |cloud, delay| match delay {
                None => cloud.attach(id, &vm),
                Some(delay) => {
                    if !cloud.check_attachment(id, &vm)? && cloud.late.attaching(id).is_none() {
                        cloud.late.attach(id, &vm.id, later(now, delay));
                    }
                    Ok(())
                }
            },
        )
    }

    /// Carries out a delayed attachment. Its client already has the reply, so that only the log has an error.
    pub(super) fn attach_later(&mut self, id: &str, vm: &str, now: Timestamp) {
        let found = self.vm(vm).cloned();
        let result = match &found {
            Some(vm) => self.attach(id, vm),
            None => Err(DriverError::new(Code::NotFound, format!("there is no VM {vm}"))),
        };
        let operation = CloudCall::AttachVolume.rpc();
        let mut record = Record::new(super::RecordKind::Part, super::Caller::Cloud, operation, now);
        record.machine = found.map(|vm| vm.owner.key()).unwrap_or_default();
        record.code = Some(result.as_ref().map_or_else(|error| error.code, |()| Code::Ok));
        self.log.append(record.saying(id));
    }

    fn attach(&mut self, id: &str, vm: &Vm) -> Result<(), DriverError> {
        if !self.check_attachment(id, vm)?
            && let Some(volume) = self.volumes.get_mut(&id.to_owned())
        {
            volume.vm = Some(vm.id.clone());
        }
        Ok(())
    }

    /// Whether the volume is already attached to the VM; otherwise it can be.
    fn check_attachment(&self, id: &str, vm: &Vm) -> Result<bool, DriverError> {
        let refused = |text: String| Err(DriverError::new(Code::FailedPrecondition, text));
        let attached = self
            .volumes
            .values()
            .filter(|volume| volume.vm.as_ref() == Some(&vm.id))
            .count();
        let limit = self.settings.volumes_per_vm;
        let Some(volume) = self.volumes.get(id) else {
            return Err(no_volume(id));
        };
        match &volume.vm {
            Some(other) if *other == vm.id => return Ok(true),
            Some(other) => return refused(format!("volume {id} is attached to VM {other}: detach it there first")),
            None => {}
        }
        if let Some(other) = self.late.attaching(id).filter(|other| *other != vm.id) {
            return refused(format!(
                "volume {id} is being attached to VM {other}: detach it there first"
            ));
        }
        if !vm.state.is_live() {
            return refused(format!("VM {} is {}", vm.id, vm.state));
        }
        if volume.zone != vm.zone {
            return refused(format!(
                "volume {id} is in zone {}, and VM {} in {}",
                volume.zone, vm.id, vm.zone
            ));
        }
        if attached >= limit {
            return refused(format!(
                "VM {} has {attached} volumes; at most {limit} are allowed",
                vm.id
            ));
        }
        Ok(false)
    }

    /// Detaches a volume from its VM, or cancels its delayed attachment.
    ///
    /// # Errors
    /// `NotFound`, or the error of a fault rule.
    pub fn detach_volume(&mut self, id: &str, now: Timestamp) -> Result<Volume, DriverError> {
        self.advance(now);
        let vm = self
            .volumes
            .get(id)
            .and_then(|volume| volume.vm.as_deref())
            .or_else(|| self.late.attaching(id))
            .and_then(|vm| self.vm(vm));
        let (machine, zone) = vm.map(|vm| (vm.owner.key(), vm.zone.clone())).unwrap_or_default();
        self.volume_call(CloudCall::DetachVolume, id, &machine, &zone, now, |cloud, _| {
            cloud.late.cancel_attachments(id);
            let volume = cloud.volumes.get_mut(&id.to_owned()).ok_or_else(|| no_volume(id))?;
            volume.vm = None;
            Ok(())
        })
    }

    /// Deletes a volume; a missing one counts as deleted.
    ///
    /// # Errors
    /// `FailedPrecondition` while it is attached.
    pub fn delete_volume(&mut self, id: &str, now: Timestamp) -> Result<(), DriverError> {
        self.advance(now);
        if let Some(vm) = self.volumes.get(id).and_then(|volume| volume.vm.as_ref()) {
            let text = format!("volume {id} is attached to VM {vm}: detach it first");
            return Err(DriverError::new(Code::FailedPrecondition, text));
        }
        self.late.cancel_attachments(id);
        if self.volumes.remove(&id.to_owned()).is_some() {
            self.note("DeleteVolume", id, now);
        }
        Ok(())
    }

    /// What the cloud does with a request of a cluster's storage: fault rules refuse and delay it, and they match
    /// the Node's name as that of a machine. The log has the request in any case.
    pub fn storage_reply(
        &mut self,
        call: CloudCall,
        volume: &str,
        node: &str,
        zone: &str,
        now: Timestamp,
    ) -> StorageReply {
        let hit = self.admit(&CallInfo {
            call,
            machine: Some(node),
            class: "",
            zone,
            client: "",
            now,
        });
        let delay = delay_of(hit.as_ref());
        let hit = hit.filter(|hit| hit.code != Code::Ok || delay.is_some());
        let reply = match (&hit, delay) {
            (None, _) => StorageReply::Done,
            (Some(_), Some(delay)) => StorageReply::Later(delay),
            (Some(_), None) => StorageReply::Refused,
        };
        let mut record = Record::new(super::RecordKind::Part, super::Caller::Cloud, call.rpc(), now);
        node.clone_into(&mut record.machine);
        record.code = Some(hit.as_ref().map_or(Code::Ok, |hit| hit.code));
        record.latency = delay.unwrap_or_default();
        record.fault = hit.map(|hit| hit.id);
        self.log.append(record.saying(volume));
        reply
    }

    /// Logs that a cluster's storage created or deleted a volume.
    pub fn note_storage(&mut self, operation: &'static str, volume: &str, now: Timestamp) {
        let record = Record::new(super::RecordKind::Part, super::Caller::Cloud, operation, now);
        self.log.append(record.saying(volume));
    }

    /// Detaches the volumes of a deleted VM.
    pub(super) fn free_volumes(&mut self, vm: &str) {
        let of_vm = |volume: &&Volume| volume.vm.as_deref() == Some(vm);
        let ids: Vec<String> = self
            .volumes
            .values()
            .filter(of_vm)
            .map(|volume| volume.id.clone())
            .collect();
        for id in ids {
            if let Some(volume) = self.volumes.get_mut(&id) {
                volume.vm = None;
            }
        }
    }

    fn volume_call(
        &mut self,
        call: CloudCall,
        id: &str,
        machine: &str,
        zone: &str,
        now: Timestamp,
        effect: impl FnOnce(&mut Self, Option<Duration>) -> Result<(), DriverError>,
    ) -> Result<Volume, DriverError> {
        let hit = self.admit(&CallInfo {
            call,
            machine: Some(machine).filter(|machine| !machine.is_empty()),
            class: "",
            zone,
            client: "",
            now,
        });
        let delay = delay_of(hit.as_ref());
        let refusal = hit.filter(|hit| hit.code != Code::Ok);
        let result = match refusal {
            Some(hit) if hit.effect == Effect::Done => {
                effect(self, None).and_then(|()| Err(DriverError::new(hit.code, hit.message)))
            }
            Some(hit) => Err(DriverError::new(hit.code, hit.message)),
            None => effect(self, delay),
        };
        let mut record = Record::new(super::RecordKind::Command, super::Caller::Control, call.rpc(), now);
        machine.clone_into(&mut record.machine);
        record.code = Some(result.as_ref().map_or_else(|error| error.code, |()| Code::Ok));
        self.log.append(record.saying(id));
        result?;
        self.volumes.get(id).cloned().ok_or_else(|| no_volume(id))
    }
}

/// The delay of the effect of a call.
fn delay_of(hit: Option<&Hit>) -> Option<Duration> {
    match hit?.effect {
        Effect::Later(delay) => Some(delay),
        _ => None,
    }
}

fn no_volume(id: &str) -> DriverError {
    DriverError::new(Code::NotFound, format!("there is no volume {id}"))
}
