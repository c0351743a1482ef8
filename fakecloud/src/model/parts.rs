//! Disks and network interfaces: objects of the ledger that are created and deleted with a VM, and that can be left
//! behind when one of the two fails.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::spec::{NicFlags, ProviderSpec};
use super::{Caller, Cloud, DuplicateCreates, Owner, Record, RecordKind, Vm};

/// A disk of a VM: its boot disk, or a local one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Unique in this cloud.
    pub id: String,
    /// Unique among the VM's disks.
    pub name: String,
    /// The machine that it was created for.
    pub owner: Owner,
    /// Its VM; none: it was left behind.
    pub vm: Option<String>,
    /// Its zone.
    pub zone: String,
    /// In Kubernetes' syntax.
    pub size: String,
    /// For example `standard` or `ssd`.
    pub kind: String,
    /// Whether the VM boots from it.
    pub boot: bool,
    /// The cloud's tags.
    pub tags: BTreeMap<String, String>,
    /// Creation time.
    pub created: Timestamp,
}

/// A network interface of a VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nic {
    /// Unique in this cloud.
    pub id: String,
    /// Unique among the VM's interfaces.
    pub name: String,
    /// The machine that it was created for.
    pub owner: Owner,
    /// Its VM; none: it was left behind.
    pub vm: Option<String>,
    /// The network's name.
    pub network: String,
    /// Flags that can be changed on an existing interface.
    pub flags: NicFlags,
    /// The cloud's tags.
    pub tags: BTreeMap<String, String>,
    /// Creation time.
    pub created: Timestamp,
}

impl Cloud {
    /// All disks, in the order of their ids.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.disks.values()
    }

    /// All network interfaces, in the order of their ids.
    pub fn nics(&self) -> impl Iterator<Item = &Nic> {
        self.nics.values()
    }

    /// The disks of a VM.
    pub fn disks_of<'a>(&'a self, vm: &'a Vm) -> impl Iterator<Item = &'a Disk> {
        let ids = self.parts_of.get(&vm.owner.key()).into_iter().flatten();
        let all = ids.filter_map(|id| self.disks.get(id));
        all.filter(|disk| disk.vm.as_ref() == Some(&vm.id))
    }

    /// The network interfaces of a VM.
    pub fn nics_of<'a>(&'a self, vm: &'a Vm) -> impl Iterator<Item = &'a Nic> {
        let ids = self.parts_of.get(&vm.owner.key()).into_iter().flatten();
        let all = ids.filter_map(|id| self.nics.get(id));
        all.filter(|nic| nic.vm.as_ref() == Some(&vm.id))
    }

    /// Creates the interfaces in `spec` that the machine does not have, without a VM.
    pub(super) fn make_nics(&mut self, owner: &Owner, spec: &ProviderSpec, now: Timestamp) {
        let machine = owner.key();
        for part in &spec.nics {
            if self.reuses_leftovers() && self.leftover_nic(&machine, &part.name).is_some() {
                continue;
            }
            let id = self.part_id("nic", &machine, &part.name);
            let nic = Nic {
                id: id.clone(),
                name: part.name.clone(),
                owner: owner.clone(),
                vm: None,
                network: part.network.clone(),
                flags: if self.settings.require_initialize {
                    NicFlags::default()
                } else {
                    part.flags
                },
                tags: part.tags.clone(),
                created: now,
            };
            self.note_part("NicCreated", &machine, &id, now);
            self.nics.insert(id.clone(), nic);
            self.parts_of.entry(machine.clone()).or_default().insert(id);
        }
    }

    /// Creates the disks in `spec` that the machine does not have, without a VM.
    pub(super) fn make_disks(&mut self, owner: &Owner, spec: &ProviderSpec, now: Timestamp) {
        let machine = owner.key();
        for part in &spec.disks {
            if self.reuses_leftovers() && self.leftover_disk(&machine, &part.name).is_some() {
                continue;
            }
            let id = self.part_id("disk", &machine, &part.name);
            let disk = Disk {
                id: id.clone(),
                name: part.name.clone(),
                owner: owner.clone(),
                vm: None,
                zone: spec.zone.clone(),
                size: part.size.clone(),
                kind: part.kind.clone(),
                boot: part.boot,
                tags: part.tags.clone(),
                created: now,
            };
            self.note_part("DiskCreated", &machine, &id, now);
            self.disks.insert(id.clone(), disk);
            self.parts_of.entry(machine.clone()).or_default().insert(id);
        }
    }

    /// Assigns the machine's newest parts without a VM to `vm`, one for each name.
    pub(super) fn take_parts(&mut self, machine: &str, spec: &ProviderSpec, vm: &str) {
        let names = spec.nics.iter().map(|part| part.name.as_str());
        let nics: Vec<String> = names.filter_map(|name| self.leftover_nic(machine, name)).collect();
        for id in nics {
            if let Some(nic) = self.nics.get_mut(&id) {
                nic.vm = Some(vm.to_owned());
            }
        }
        let names = spec.disks.iter().map(|part| part.name.as_str());
        let disks: Vec<String> = names.filter_map(|name| self.leftover_disk(machine, name)).collect();
        for id in disks {
            if let Some(disk) = self.disks.get_mut(&id) {
                disk.vm = Some(vm.to_owned());
            }
        }
    }

    /// Detaches disks and interfaces from the VM and keeps them.
    pub(super) fn leave_parts(&mut self, machine: &str, vm: &str) {
        for id in self.part_ids(machine) {
            if let Some(nic) = self.nics.get_mut(&id).filter(|nic| nic.vm.as_deref() == Some(vm)) {
                nic.vm = None;
            }
            if let Some(disk) = self.disks.get_mut(&id).filter(|disk| disk.vm.as_deref() == Some(vm)) {
                disk.vm = None;
            }
        }
    }

    /// Removes the machine's parts that belong to `vm`, or those without a VM.
    pub(super) fn remove_parts(&mut self, machine: &str, vm: Option<&str>, now: Timestamp) {
        for id in self.part_ids(machine) {
            if self.nics.get(&id).is_some_and(|nic| nic.vm.as_deref() == vm) {
                self.nics.remove(&id);
                self.note_part("NicDeleted", machine, &id, now);
            } else if self.disks.get(&id).is_some_and(|disk| disk.vm.as_deref() == vm) {
                self.disks.remove(&id);
                self.note_part("DiskDeleted", machine, &id, now);
            } else {
                continue;
            }
            if let Some(ids) = self.parts_of.get_mut(machine) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.parts_of.remove(machine);
                }
            }
        }
    }

    fn part_ids(&self, machine: &str) -> Vec<String> {
        self.parts_of.get(machine).into_iter().flatten().cloned().collect()
    }

    /// A naive driver creates every part again at each attempt.
    fn reuses_leftovers(&self) -> bool {
        self.settings.duplicate_creates == DuplicateCreates::One
    }

    fn leftover_nic(&self, machine: &str, name: &str) -> Option<String> {
        let nics = self.part_ids(machine).into_iter().filter_map(|id| self.nics.get(&id));
        let free = nics.filter(|nic| nic.vm.is_none() && nic.name == name);
        free.max_by_key(|nic| nic.created).map(|nic| nic.id.clone())
    }

    fn leftover_disk(&self, machine: &str, name: &str) -> Option<String> {
        let disks = self.part_ids(machine).into_iter().filter_map(|id| self.disks.get(&id));
        let free = disks.filter(|disk| disk.vm.is_none() && disk.name == name);
        free.max_by_key(|disk| disk.created).map(|disk| disk.id.clone())
    }

    /// An ID from a separate random stream of the part, independent of other parts.
    fn part_id(&mut self, kind: &str, machine: &str, name: &str) -> String {
        let number = self.count_up(format!("{kind}/{machine}/{name}"));
        let mut stream = self.seed.stream(&format!("{kind}/{machine}/{name}/{number}"));
        loop {
            let id = format!("{kind}-{}", stream.text(10, b"0123456789abcdef"));
            if !self.nics.contains_key(&id) && !self.disks.contains_key(&id) {
                return id;
            }
        }
    }

    fn note_part(&mut self, operation: &'static str, machine: &str, id: &str, now: Timestamp) {
        let mut record = Record::new(RecordKind::Part, Caller::Cloud, operation, now).saying(id);
        machine.clone_into(&mut record.machine);
        self.log.append(record);
    }
}
