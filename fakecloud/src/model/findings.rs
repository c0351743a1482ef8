//! The ledger's own audit: what there should never be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use mcm_driver::MachineRequest;
use serde::{Deserialize, Serialize};

use super::{Cloud, CloudCall, VmState, later};

/// How many things are remembered of past calls; later ones are only counted.
const REMEMBERED: usize = 10_000;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FindingKind {
    /// A live VM of a machine that is not there.
    OrphanVm,
    /// A disk that no VM has.
    OrphanDisk,
    /// A network interface that no VM has.
    OrphanNic,
    /// Several live VMs of one machine.
    DuplicateVm,
    /// A driver deleted a running VM, whose Node had joined, for a machine that was not being deleted.
    HealthyVmDeleted,
    /// A driver made or deleted a VM while that was forbidden.
    CallWhileFrozen,
}

impl FindingKind {
    /// The finding as people write it.
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

/// Something that there should not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The VM's, disk's or interface's id; the call's name.
    pub subject: String,
    /// `NAMESPACE/NAME` of the machine.
    pub machine: String,
    /// The machine's uid.
    pub machine_uid: String,
    /// Since when, or when.
    pub time: Timestamp,
    /// For people.
    pub message: String,
}

/// What an audit is to look for.
#[derive(Clone, Debug, Default)]
pub struct Looking {
    /// The uids of the machines that there are; without them nothing is said of VMs without a machine.
    pub machine_uids: Option<BTreeSet<String>>,
    /// What has no owner for less than that is no finding yet.
    pub grace: Duration,
}

/// What is remembered of past calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Remembered {
    pub(super) findings: Vec<Finding>,
    /// How many there were that are not in the list.
    pub(super) more: u64,
    /// Since when no VM may be made or deleted.
    pub(super) frozen: Option<Timestamp>,
}

impl Cloud {
    /// Everything that there should not be, by kind and then by time.
    pub fn audit_ledger(&mut self, looking: &Looking, now: Timestamp) -> Vec<Finding> {
        self.advance(now);
        let settled = |since: Timestamp| later(since, looking.grace) <= now;
        let mut found = self.remembered.findings.clone();
        if let Some(uids) = &looking.machine_uids {
            // A deletion for a machine that is gone took what nobody owned.
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
            // Nodes of somebody else's have no class, and no machine.
            let orphan = live
                .iter()
                .filter(|vm| !vm.owner.class.is_empty() && !uids.contains(&vm.owner.uid));
            found.extend(orphan.filter(|vm| settled(vm.created)).map(|vm| Finding {
                kind: FindingKind::OrphanVm,
                subject: vm.id.clone(),
                machine: vm.owner.key(),
                machine_uid: vm.owner.uid.clone(),
                time: vm.created,
                message: format!("VM {} is {}, and its machine is not there", vm.id, vm.state),
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

    /// From now on drivers must neither make nor delete VMs, or may again. Those that do are answered, and found.
    pub fn set_frozen(&mut self, frozen: bool, now: Timestamp) {
        self.advance(now);
        self.note("SetFrozen", if frozen { "frozen" } else { "not frozen" }, now);
        self.remembered.frozen = frozen.then(|| self.remembered.frozen.unwrap_or(now));
    }

    /// Since when drivers must neither make nor delete VMs.
    pub fn frozen(&self) -> Option<Timestamp> {
        self.remembered.frozen
    }

    /// A driver's call changes VMs: what only this moment tells is remembered.
    pub(super) fn watch_call(&mut self, operation: CloudCall, request: &MachineRequest, caller: &str, now: Timestamp) {
        let owner = super::calls::owner(request);
        let by = if caller.is_empty() {
            String::new()
        } else {
            format!(" by {caller}")
        };
        if self.remembered.frozen.is_some() {
            self.remember(Finding {
                kind: FindingKind::CallWhileFrozen,
                subject: operation.rpc().to_owned(),
                machine: owner.key(),
                machine_uid: owner.uid.clone(),
                time: now,
                message: format!("{operation}{by} while no VM may be made or deleted"),
            });
        }
        if operation != CloudCall::DeleteMachine || request.machine.metadata.deletion_timestamp.is_some() {
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
                message: format!("VM {id} ran and was deleted{by}, though its machine was not being deleted"),
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
