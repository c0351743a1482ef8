//! The audit of the ledger: states and calls that are illegal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use mcm_driver::MachineRequest;
use serde::{Deserialize, Serialize};

use super::{Cloud, CloudCall, VmState, later};

/// Maximum number of recorded findings about past calls; later ones are only counted.
const REMEMBERED: usize = 10_000;

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FindingKind {
    /// A live VM whose machine does not exist.
    OrphanVm,
    /// A disk without a VM.
    OrphanDisk,
    /// A network interface without a VM.
    OrphanNic,
    /// Several live VMs of one machine.
    DuplicateVm,
    /// A driver deleted a running VM whose Node had joined, for a machine that was not being deleted.
    HealthyVmDeleted,
    /// A driver created or deleted a VM while that was forbidden.
    CallWhileFrozen,
}

impl FindingKind {
    /// The name of the kind in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::OrphanVm => "orphan VM",
            Self::OrphanDisk => "orphan disk",
            Self::OrphanNic => "orphan network interface",
            Self::DuplicateVm => "duplicate VM",
            Self::HealthyVmDeleted => "healthy VM deleted",
            Self::CallWhileFrozen => "call while frozen",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A finding of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Kind of the finding.
    pub kind: FindingKind,
    /// ID of the VM, disk or interface; name of the call.
    pub subject: String,
    /// `NAMESPACE/NAME` of the machine.
    pub machine: String,
    /// The machine's uid.
    pub machine_uid: String,
    /// Time of the event, or start of the state.
    pub time: Timestamp,
    /// A human-readable message.
    pub message: String,
}

/// Parameters of an audit.
#[derive(Clone, Debug, Default)]
pub struct Looking {
    /// The uids of all machines; absent: VMs without a machine are not reported.
    pub machine_uids: Option<BTreeSet<String>>,
    /// Objects without an owner for less than this time are not reported.
    pub grace: Duration,
}

/// Findings about past calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Remembered {
    pub(super) findings: Vec<Finding>,
    /// Number of findings that are not in the list.
    pub(super) more: u64,
    /// Since when creating and deleting VMs is forbidden.
    pub(super) frozen: Option<Timestamp>,
}

impl Cloud {
    /// All findings, by kind and then by time.
    pub fn audit_ledger(&mut self, looking: &Looking, now: Timestamp) -> Vec<Finding> {
        self.advance(now);
        let settled = |since: Timestamp| later(since, looking.grace) <= now;
        let mut found = self.remembered.findings.clone();
        if let Some(uids) = &looking.machine_uids {
            // A deletion for a removed machine is legal: the VM was an orphan.
            found
                .retain(|finding| finding.kind != FindingKind::HealthyVmDeleted || uids.contains(&finding.machine_uid));
        }
        let live: Vec<_> = self
            .live
            .values()
            .flatten()
            .filter_map(|ordinal| self.vms.get(ordinal))
            .collect();
        if let Some(uids) = &looking.machine_uids {
            // Nodes without a machine have no class.
            let orphan = live
                .iter()
                .filter(|vm| !vm.owner.class.is_empty() && !uids.contains(&vm.owner.uid));
            found.extend(orphan.filter(|vm| settled(vm.created)).map(|vm| Finding {
                kind: FindingKind::OrphanVm,
                subject: vm.id.clone(),
                machine: vm.owner.key(),
                machine_uid: vm.owner.uid.clone(),
                time: vm.created,
                message: format!("VM {} is {}, and its machine does not exist", vm.id, vm.state),
            }));
        }
        let mut of_machine: BTreeMap<(&str, String), Vec<&super::Vm>> = BTreeMap::new();
        for vm in &live {
            of_machine.entry((&vm.owner.uid, vm.owner.key())).or_default().push(vm);
        }
        for ((uid, machine), vms) in of_machine {
            for surplus in vms.iter().skip(1) {
                found.push(Finding {
                    kind: FindingKind::DuplicateVm,
                    subject: surplus.id.clone(),
                    machine: machine.clone(),
                    machine_uid: uid.to_owned(),
                    time: surplus.created,
                    message: format!("machine {machine} has {} live VMs", vms.len()),
                });
            }
        }
        let disks = self
            .disks
            .values()
            .filter(|disk| disk.vm.is_none() && settled(disk.created));
        found.extend(disks.map(|disk| Finding {
            kind: FindingKind::OrphanDisk,
            subject: disk.id.clone(),
            machine: disk.owner.key(),
            machine_uid: disk.owner.uid.clone(),
            time: disk.created,
            message: format!("disk {} ({}) belongs to no VM", disk.id, disk.name),
        }));
        let nics = self
            .nics
            .values()
            .filter(|nic| nic.vm.is_none() && settled(nic.created));
        found.extend(nics.map(|nic| Finding {
            kind: FindingKind::OrphanNic,
            subject: nic.id.clone(),
            machine: nic.owner.key(),
            machine_uid: nic.owner.uid.clone(),
            time: nic.created,
            message: format!("network interface {} ({}) belongs to no VM", nic.id, nic.name),
        }));
        found.sort_by(|a, b| (a.kind, a.time, &a.subject).cmp(&(b.kind, b.time, &b.subject)));
        found
    }

    /// Forbids or allows drivers to create and delete VMs. Forbidden calls are answered and reported.
    pub fn set_frozen(&mut self, frozen: bool, now: Timestamp) {
        self.advance(now);
        self.note("SetFrozen", if frozen { "frozen" } else { "not frozen" }, now);
        self.remembered.frozen = frozen.then(|| self.remembered.frozen.unwrap_or(now));
    }

    /// Since when drivers must neither create nor delete VMs.
    pub fn frozen(&self) -> Option<Timestamp> {
        self.remembered.frozen
    }

    /// Records findings about a driver's call that changes VMs, because the ledger does not show them later.
    pub(super) fn watch_call(&mut self, call: CloudCall, request: &MachineRequest, client: &str, now: Timestamp) {
        let owner = super::calls::owner(request);
        let by = if client.is_empty() {
            String::new()
        } else {
            format!(" by {client}")
        };
        if self.remembered.frozen.is_some() {
            self.remember(Finding {
                kind: FindingKind::CallWhileFrozen,
                subject: call.rpc().to_owned(),
                machine: owner.key(),
                machine_uid: owner.uid.clone(),
                time: now,
                message: format!("{call}{by} while creations and deletions are forbidden"),
            });
        }
        if call != CloudCall::DeleteMachine || request.machine.metadata.deletion_timestamp.is_some() {
            return;
        }
        let healthy: Vec<String> = self
            .live_of(&owner.key())
            .into_iter()
            .filter(|vm| {
                vm.state == VmState::Running && vm.joined && vm.kubelet.availability(now).0 == super::Availability::Up
            })
            .map(|vm| vm.id.clone())
            .collect();
        for id in healthy {
            let machine_uid = self.vm(&id).map(|vm| vm.owner.uid.clone()).unwrap_or_default();
            self.remember(Finding {
                kind: FindingKind::HealthyVmDeleted,
                message: format!("VM {id} ran and was deleted{by}, although its machine was not being deleted"),
                subject: id,
                machine: owner.key(),
                machine_uid,
                time: now,
            });
        }
    }

    fn remember(&mut self, finding: Finding) {
        if self.remembered.findings.len() < REMEMBERED {
            self.remembered.findings.push(finding);
        } else {
            self.remembered.more += 1;
        }
    }
}
