//! The ledger as data that survives a process: the changes of a step, the whole state, and a cloud restored from it.

mod check;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use clock::Seed;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::check::{MAX_NUMBER, StateError};
use super::faults::Fault;
use super::findings::Remembered;
use super::kubelet_commands::Planned;
use super::settings::{DuplicateCreates, Settings, Token, VmLimit};
use super::{Cloud, Disk, Log, Nic, Record, Vm, VmState, Volume, ZoneOutage, later};

/// A change of the ledger: a new row, or its removal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// A VM, by its number.
    Vm(u64, Option<Box<Vm>>),
    /// A disk, by its id.
    Disk(String, Option<Disk>),
    /// A network interface, by its id.
    Nic(String, Option<Nic>),
    /// A volume, by its id.
    Volume(String, Option<Volume>),
    /// Number of objects created with a name.
    #[serde(rename = "Made")]
    Created(String, Option<u64>),
    /// The small state.
    Small(Box<Small>),
}

/// Settings that were changed at run time and override the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Overrides {
    pub(super) quotas: Option<Vec<VmLimit>>,
    pub(super) capacity: Option<Vec<VmLimit>>,
    pub(super) duplicate_creates: Option<DuplicateCreates>,
    pub(super) api_tokens: Option<Vec<Token>>,
}

/// The small part of the state, which is written as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Small {
    last_ordinal: u64,
    holds: BTreeSet<String>,
    faults: Vec<Fault>,
    fault_ids: u64,
    outages: Vec<ZoneOutage>,
    overrides: Overrides,
    remembered: Remembered,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When the ledger was created.
    pub opened: Timestamp,
    /// Identifies this cloud.
    pub instance: String,
    /// Time of the snapshot.
    pub time: Timestamp,
    /// Number of the log's last record.
    pub log: u64,
    vms: BTreeMap<u64, Vm>,
    disks: BTreeMap<String, Disk>,
    nics: BTreeMap<String, Nic>,
    volumes: BTreeMap<String, Volume>,
    #[serde(rename = "made")]
    created_counts: BTreeMap<String, u64>,
    small: Small,
}

/// Numbers of rows of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RowCounts {
    /// VMs, including terminated ones.
    pub vms: u64,
    /// Disks.
    pub disks: u64,
    /// Network interfaces.
    pub nics: u64,
    /// Volumes.
    pub volumes: u64,
    /// Names with which objects were created.
    pub names: u64,
}

impl RowCounts {
    /// All rows together; at most `u64::MAX`.
    pub fn total(&self) -> u64 {
        let counts = [self.vms, self.disks, self.nics, self.volumes, self.names];
        counts.into_iter().fold(0, u64::saturating_add)
    }

    /// How many rows `other` has less; no fewer than none.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        Self {
            vms: self.vms.saturating_sub(other.vms),
            disks: self.disks.saturating_sub(other.disks),
            nics: self.nics.saturating_sub(other.nics),
            volumes: self.volumes.saturating_sub(other.volumes),
            names: self.names.saturating_sub(other.names),
        }
    }
}

impl RowCounts {
    /// The numbers that are not 0: "3 VMs", "1 volume".
    pub fn present(&self) -> Vec<String> {
        let all = self.objects().into_iter().chain([(self.names, "creation counter")]);
        all.filter(|(count, _)| *count > 0)
            .map(|(count, name)| counted(count, name))
            .collect()
    }

    fn objects(&self) -> [(u64, &'static str); 4] {
        [
            (self.vms, "VM"),
            (self.disks, "disk"),
            (self.nics, "network interface"),
            (self.volumes, "volume"),
        ]
    }
}

fn counted(count: u64, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {name}{plural}")
}

/// "3 VMs, 3 disks, 3 network interfaces, 1 volume".
impl fmt::Display for RowCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.objects().map(|(count, name)| counted(count, name));
        f.write_str(&parts.join(", "))
    }
}

impl Snapshot {
    /// The state of an empty ledger.
    pub fn empty(instance: String, opened: Timestamp) -> Self {
        Self {
            opened,
            instance,
            time: opened,
            log: 0,
            vms: BTreeMap::new(),
            disks: BTreeMap::new(),
            nics: BTreeMap::new(),
            volumes: BTreeMap::new(),
            created_counts: BTreeMap::new(),
            small: Small::default(),
        }
    }

    /// Numbers of its rows.
    pub fn counts(&self) -> RowCounts {
        RowCounts {
            vms: self.vms.len() as u64,
            disks: self.disks.len() as u64,
            nics: self.nics.len() as u64,
            volumes: self.volumes.len() as u64,
            names: self.created_counts.len() as u64,
        }
    }

    /// All rows as changes of [`Snapshot::empty`], and the small state as the last one.
    pub fn into_changes(self) -> impl Iterator<Item = Change> {
        let vms = self
            .vms
            .into_iter()
            .map(|(key, row)| Change::Vm(key, Some(Box::new(row))));
        let disks = self.disks.into_iter().map(|(key, row)| Change::Disk(key, Some(row)));
        let nics = self.nics.into_iter().map(|(key, row)| Change::Nic(key, Some(row)));
        let volumes = self
            .volumes
            .into_iter()
            .map(|(key, row)| Change::Volume(key, Some(row)));
        let created = self
            .created_counts
            .into_iter()
            .map(|(key, row)| Change::Created(key, Some(row)));
        let small = Change::Small(Box::new(self.small));
        vms.chain(disks)
            .chain(nics)
            .chain(volumes)
            .chain(created)
            .chain([small])
    }

    /// All VMs, in the order of their numbers.
    pub fn vms(&self) -> impl Iterator<Item = &Vm> {
        self.vms.values()
    }

    /// Makes a state consistent whose small state is not as new as its rows: the next VM gets a new number.
    pub fn raise_last_ordinal(&mut self) {
        let last = self.vms.keys().next_back().copied().unwrap_or_default();
        self.small.last_ordinal = self.small.last_ordinal.max(last);
    }

    /// Applies a change.
    pub fn apply(&mut self, change: Change) {
        fn put<K: Ord, V>(rows: &mut BTreeMap<K, V>, key: K, row: Option<V>) {
            match row {
                Some(row) => drop(rows.insert(key, row)),
                None => drop(rows.remove(&key)),
            }
        }
        match change {
            Change::Vm(key, row) => put(&mut self.vms, key, row.map(|row| *row)),
            Change::Disk(key, row) => put(&mut self.disks, key, row),
            Change::Nic(key, row) => put(&mut self.nics, key, row),
            Change::Volume(key, row) => put(&mut self.volumes, key, row),
            Change::Created(key, row) => put(&mut self.created_counts, key, row),
            Change::Small(small) => self.small = *small,
        }
    }
}

impl Cloud {
    /// Restores a cloud from a state. `records` are the log's last records, as far as they exist. Overdue transitions
    /// happen in the next step. Rules of the settings that the ledger does not know are added; rules without an ID only
    /// to a new ledger.
    ///
    /// # Errors
    /// The state is inconsistent.
    pub fn restored(
        settings: Settings,
        seed: Seed,
        state: Snapshot,
        records: Vec<Record>,
        now: Timestamp,
    ) -> Result<Self, StateError> {
        state.check()?;
        let begun = state.log > 0;
        let mut named = settings.clone();
        if begun {
            let known = |name: &String| state.small.faults.iter().any(|fault| fault.rule.name == *name);
            named.faults.retain(|rule| !rule.name.is_empty() && !known(&rule.name));
        }
        let added = std::mem::take(&mut named.faults);
        let mut cloud = Self::new(named, seed, state.opened);
        cloud.faults.restore(state.small.faults, state.small.fault_ids);
        for rule in added {
            if let Err(error) = cloud.faults.add(rule, now) {
                tracing::warn!(%error, "skipping a configured fault rule");
            }
        }
        cloud.settings.faults = settings.faults;
        cloud.log = Log::restored(records, state.log);
        cloud.last_ordinal = state.small.last_ordinal;
        cloud.holds = state.small.holds;
        cloud.outages = state
            .small
            .outages
            .into_iter()
            .map(|outage| (outage.zone.clone(), outage))
            .collect();
        cloud.remembered = state.small.remembered;
        cloud.take_over(state.small.overrides);
        for (id, disk) in state.disks {
            cloud.parts_of.entry(disk.owner.key()).or_default().insert(id.clone());
            cloud.disks.insert(id, disk);
        }
        for (id, nic) in state.nics {
            cloud.parts_of.entry(nic.owner.key()).or_default().insert(id.clone());
            cloud.nics.insert(id, nic);
        }
        for (id, volume) in state.volumes {
            cloud.volumes.insert(id, volume);
        }
        for (name, count) in state.created_counts {
            cloud.created_counts.insert(name, count);
        }
        for (ordinal, vm) in state.vms {
            cloud.take_in(ordinal, vm, state.time, now);
        }
        cloud.note_changes();
        Ok(cloud)
    }

    fn take_over(&mut self, overrides: Overrides) {
        let settings = &mut self.settings;
        if let Some(quotas) = &overrides.quotas {
            settings.quotas.clone_from(quotas);
        }
        if let Some(capacity) = &overrides.capacity {
            settings.capacity.clone_from(capacity);
        }
        if let Some(duplicates) = overrides.duplicate_creates {
            settings.duplicate_creates = duplicates;
        }
        if let Some(tokens) = &overrides.api_tokens {
            settings.api_tokens.clone_from(tokens);
        }
        self.overrides = overrides;
    }

    /// Adds a VM and its derived state.
    fn take_in(&mut self, ordinal: u64, vm: Vm, then: Timestamp, now: Timestamp) {
        self.ids.insert(vm.id.clone(), ordinal);
        if vm.state.is_live() {
            self.live.entry(vm.owner.key()).or_default().insert(ordinal);
        } else if vm.state == VmState::Terminated {
            self.terminated.insert(ordinal);
        }
        for (kind, end) in &vm.fault_ends {
            self.planned.insert((*end, ordinal, Planned::End(*kind)));
        }
        if let Some(due) = vm.preempted {
            self.planned.insert((due, ordinal, Planned::Preempt));
        }
        if let Some(first) = vm.first_boot.filter(|_| vm.state.is_live()) {
            let machine = vm.owner.key();
            let matching = self.settings.kubelet_faults.iter().enumerate();
            let begins = matching
                .filter(|(_, rule)| rule.matches(&machine, &vm.zone))
                .map(|(index, rule)| (later(first, rule.after), ordinal, Planned::Begin(index)));
            // Earlier faults have already begun, and may have been removed since.
            self.planned.extend(begins.filter(|(at, ..)| *at > then));
        }
        self.vms.insert(ordinal, vm);
        self.schedule(ordinal, now);
    }

    /// Starts to record changes.
    fn note_changes(&mut self) {
        self.vms.note_changes();
        self.disks.note_changes();
        self.nics.note_changes();
        self.volumes.note_changes();
        self.created_counts.note_changes();
        self.written = Some(self.small());
    }

    fn small(&self) -> Small {
        Small {
            last_ordinal: self.last_ordinal,
            holds: self.holds.clone(),
            faults: self.faults.list().to_vec(),
            fault_ids: self.faults.given(),
            outages: self.outages.values().cloned().collect(),
            overrides: self.overrides.clone(),
            remembered: self.remembered.clone(),
        }
    }

    /// All changes since the last call; empty in a cloud that was not restored.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let Some(written) = &self.written else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        let small = self.small();
        if small != *written {
            changes.push(Change::Small(Box::new(small.clone())));
            self.written = Some(small);
        }
        for key in self.vms.take_touched() {
            changes.push(Change::Vm(key, self.vms.get(&key).cloned().map(Box::new)));
        }
        for key in self.disks.take_touched() {
            let row = self.disks.get(&key).cloned();
            changes.push(Change::Disk(key, row));
        }
        for key in self.nics.take_touched() {
            let row = self.nics.get(&key).cloned();
            changes.push(Change::Nic(key, row));
        }
        for key in self.volumes.take_touched() {
            let row = self.volumes.get(&key).cloned();
            changes.push(Change::Volume(key, row));
        }
        for key in self.created_counts.take_touched() {
            let row = self.created_counts.get(&key).copied();
            changes.push(Change::Created(key, row));
        }
        changes
    }

    /// The whole state.
    pub fn snapshot(&self, instance: &str, now: Timestamp) -> Snapshot {
        Snapshot {
            opened: self.opened,
            instance: instance.to_owned(),
            time: now,
            log: self.log.last(),
            vms: (*self.vms).clone(),
            disks: (*self.disks).clone(),
            nics: (*self.nics).clone(),
            volumes: (*self.volumes).clone(),
            created_counts: (*self.created_counts).clone(),
            small: self.small(),
        }
    }
}
