//! The cloud as a pure model: a ledger of VMs that calls, commands and time change.
//!
//! This module holds every rule of the cloud's behaviour. Each step gets an event and the time, commits its effect at
//! once and logs it. It does not use a clock, runtime, gRPC or the Kubernetes API.

mod calls;
mod command_error;
mod commands;
mod events;
mod faults;
mod findings;
mod kubelet;
mod kubelet_commands;
mod late;
mod limits;
mod nodes;
mod part_limits;
mod parts;
mod record;
mod settings;
mod spec;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod update;
mod vm;
mod volumes;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use clock::{Seed, Stream};
pub use fakecloud_api::{
    Action, At, CloudCall, CommonError, FaultRule, FaultRuleError, Match, Partial, RateError, Stale, Throttle, Window,
};
use jiff::{SignedDuration, Timestamp};

pub use calls::Reply;
pub use command_error::{CommandError, Reference};
pub use events::TERMINATION_SCHEDULED;
pub use faults::{Fault, FaultError, Faults};
pub use findings::{Finding, FindingKind, Looking};
pub use kubelet::{
    Availability, Down, FaultKind, Flapping, KubeletFault, KubeletFaultError, KubeletFaults, NodeCondition,
};
pub use late::{Creation, Ticket};
pub use limits::LimitKind;
pub use nodes::{NodesError, NodesSpec};
pub use part_limits::PartLimits;
pub use parts::{Disk, Nic};
pub use record::{Caller, Forgotten, Log, Record, RecordKind};
pub use settings::{
    BootDelay, DuplicateCreates, MachineType, PlannedKubeletFault, RateLimit, Settings, Token, VmLimit,
};
pub use spec::{DiskSpec, NicFlags, NicSpec, ProviderSpec, Taint};
pub use state::{Change, MAX_NUMBER, RowCounts, Snapshot, StateError};
#[cfg(test)]
pub(crate) use tests::request as test_request;
pub use update::VmUpdate;
pub use vm::{Owner, UserData, Vm, VmState};
pub use volumes::{StorageReply, Volume};
pub use zones::{ZoneFailure, ZoneOutage};

use self::kubelet_commands::Planned;
use self::table::Table;

use crate::glob;

/// Number of terminated VMs that are kept for the record.
const TERMINATED_KEPT: usize = 10_000;

/// The cloud.
#[derive(Debug)]
pub struct Cloud {
    settings: Settings,
    seed: Seed,
    /// When the ledger was created; windows of fault rules count from it.
    opened: Timestamp,
    vms: Table<u64, Vm>,
    disks: Table<String, Disk>,
    nics: Table<String, Nic>,
    volumes: Table<String, Volume>,
    /// The disks and interfaces of each machine, by `NAMESPACE/NAME`.
    parts_of: BTreeMap<String, BTreeSet<String>>,
    ids: BTreeMap<String, u64>,
    /// The live VMs of each machine, by `NAMESPACE/NAME`.
    live: BTreeMap<String, BTreeSet<u64>>,
    terminated: BTreeSet<u64>,
    /// Times of the next transitions of VMs. Held VMs have none.
    deadlines: BTreeSet<(Timestamp, u64)>,
    /// When faults of kubelets begin and end.
    planned: BTreeSet<(Timestamp, u64, Planned)>,
    holds: BTreeSet<String>,
    faults: Faults,
    outages: BTreeMap<String, ZoneOutage>,
    buckets: Vec<limits::Bucket>,
    remembered: findings::Remembered,
    late: late::Late,
    log: Log,
    last_ordinal: u64,
    /// Number of VMs that each machine ever had, and of each part: it names the next random stream.
    created_counts: Table<String, u64>,
    /// Settings that were changed at run time and override the configuration.
    overrides: state::Overrides,
    /// The small state as it was last written; none: there is no journal.
    written: Option<state::Small>,
}

impl Cloud {
    /// An empty cloud. A configured fault rule with a duplicate ID is skipped.
    pub fn new(settings: Settings, seed: Seed, opened: Timestamp) -> Self {
        let mut faults = Faults::default();
        for rule in &settings.faults {
            if let Err(error) = faults.add(rule.clone(), opened) {
                tracing::warn!(%error, "skipping a configured fault rule");
            }
        }
        Self {
            settings,
            seed,
            opened,
            vms: Table::default(),
            disks: Table::default(),
            nics: Table::default(),
            volumes: Table::default(),
            parts_of: BTreeMap::new(),
            ids: BTreeMap::new(),
            live: BTreeMap::new(),
            terminated: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            planned: BTreeSet::new(),
            holds: BTreeSet::new(),
            faults,
            outages: BTreeMap::new(),
            buckets: Vec::new(),
            remembered: findings::Remembered::default(),
            late: late::Late::default(),
            log: Log::default(),
            last_ordinal: 0,
            created_counts: Table::default(),
            overrides: state::Overrides::default(),
            written: None,
        }
    }

    /// The current settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The log of all events.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The fault rules with their counters.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The active holds.
    pub fn holds(&self) -> &BTreeSet<String> {
        &self.holds
    }

    /// All VMs in the order of their creation, including terminated ones.
    pub fn vms(&self) -> impl Iterator<Item = &Vm> {
        self.vms.values()
    }

    /// The VM with an ID.
    pub fn vm(&self, id: &str) -> Option<&Vm> {
        self.ids.get(id).and_then(|ordinal| self.vms.get(ordinal))
    }

    /// Whether a hold prevents transitions of the VM.
    pub fn is_held(&self, vm: &Vm) -> bool {
        let machine = vm.owner.key();
        self.holds
            .iter()
            .any(|pattern| *pattern == vm.id || glob::matches_machine(pattern, &machine))
    }

    /// Whether any VM ever existed.
    pub fn has_had_vms(&self) -> bool {
        self.last_ordinal > 0
    }

    /// Number of pending, running and stopped VMs.
    pub fn live_count(&self) -> usize {
        self.live.values().map(BTreeSet::len).sum()
    }

    /// Time of the next transition.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let planned = self.planned.first().map(|(at, ..)| *at);
        let all = [deadline, planned, self.late.next(), self.next_return()];
        all.into_iter().flatten().min()
    }

    /// Advances time: every VM whose deadline has passed makes its transition, in order and at its own time.
    pub fn advance(&mut self, now: Timestamp) {
        while let Some(next) = self.next_deadline().filter(|at| *at <= now) {
            if self.late.next() == Some(next) {
                self.carry_out_late();
            } else if self.next_return() == Some(next) {
                self.end_outages(next);
            } else if self.planned.first().is_some_and(|(at, ..)| *at == next) {
                if let Some((at, ordinal, planned)) = self.planned.pop_first() {
                    self.perform_scheduled(ordinal, planned, at);
                }
            } else if let Some((at, ordinal)) = self.deadlines.pop_first() {
                self.progress(ordinal, Caller::Cloud, at);
            }
        }
    }

    /// The live VMs of a machine.
    fn live_of(&self, machine: &str) -> Vec<&Vm> {
        let ordinals = self.live.get(machine).into_iter().flatten();
        ordinals.filter_map(|ordinal| self.vms.get(ordinal)).collect()
    }

    /// Creates a VM with existing or new parts, pending until its boot delay ends.
    fn create_from_parts(&mut self, owner: Owner, spec: ProviderSpec, user_data: UserData, now: Timestamp) -> u64 {
        self.last_ordinal += 1;
        let ordinal = self.last_ordinal;
        let machine = owner.key();
        self.make_nics(&owner, &spec, now);
        self.make_disks(&owner, &spec, now);
        let number = self.count_up(machine.clone());
        let mut stream = self.seed.stream(&format!("vm/{machine}/{number}"));
        let id = self.unused_id(&mut stream);
        self.take_parts(&machine, &spec, &id);
        let delay = self
            .settings
            .boot_delay_of(&spec.machine_type, &spec.zone)
            .draw(&mut stream);
        let vm = Vm {
            ordinal,
            provider_id: format!("fakecloud:///{}/{id}", spec.zone),
            id: id.clone(),
            node_name: format!("{}{}", spec.node_name_prefix, owner.name),
            owner,
            state: VmState::Pending,
            reason: "it was created".to_owned(),
            initialized: !self.settings.require_initialize,
            region: spec.region.unwrap_or_else(|| self.settings.region_of(&spec.zone)),
            zone: spec.zone,
            machine_type: spec.machine_type,
            image: spec.image,
            tags: spec.tags,
            node_labels: spec.labels,
            node_taints: spec.taints,
            user_data,
            boot_id: String::new(),
            created: now,
            changed: now,
            kubelet: KubeletFaults::default(),
            conditions: BTreeMap::new(),
            joined: false,
            removed: None,
            preempted: None,
            returns: false,
            panicked: false,
            first_boot: None,
            deadline: Some(later(now, delay)),
            boots: 0,
            fault_ends: BTreeMap::new(),
        };
        let record = Record::new(RecordKind::Transition, Caller::Cloud, "Pending", now);
        self.log.append(record.about(&vm).saying(vm.reason.clone()));
        self.ids.insert(id, ordinal);
        self.live.entry(machine).or_default().insert(ordinal);
        self.vms.insert(ordinal, vm);
        self.schedule(ordinal, now);
        ordinal
    }

    /// Increments the counter of a name and returns it.
    fn count_up(&mut self, name: String) -> u64 {
        let count = self.created_counts.get(&name).copied().unwrap_or_default() + 1;
        self.created_counts.insert(name, count);
        count
    }

    fn unused_id(&self, stream: &mut Stream) -> String {
        loop {
            let id = format!("vm-{}", stream.text(10, b"0123456789abcdef"));
            if !self.ids.contains_key(&id) {
                return id;
            }
        }
    }

    /// Adds the VM's deadline, unless it has none or is held. An overdue one is due now.
    fn schedule(&mut self, ordinal: u64, now: Timestamp) {
        let Some(vm) = self.vms.get(&ordinal) else { return };
        let Some(deadline) = vm.deadline.map(|deadline| deadline.max(now)) else {
            return;
        };
        if self.is_held(vm) || vm.state != VmState::Stopping && self.is_down(&vm.zone) {
            return;
        }
        self.deadlines.insert((deadline, ordinal));
        if let Some(vm) = self.vms.get_mut(&ordinal) {
            vm.deadline = Some(deadline);
        }
    }

    /// Removes the VM's deadline; the VM keeps it.
    fn unschedule(&mut self, ordinal: u64) {
        if let Some(deadline) = self.vms.get(&ordinal).and_then(|vm| vm.deadline) {
            self.deadlines.remove(&(deadline, ordinal));
        }
    }

    /// The next transition of a VM: pending to running, stopping to terminated.
    fn progress(&mut self, ordinal: u64, caller: Caller, now: Timestamp) {
        match self.vms.get(&ordinal).map(|vm| vm.state) {
            Some(VmState::Pending) => self.boot(ordinal, "it booted", caller, now),
            Some(VmState::Stopping) => self.terminate(ordinal, caller, now),
            Some(VmState::Stopped) => self.boot(ordinal, "its zone is back", caller, now),
            Some(VmState::Running | VmState::Terminated) | None => {}
        }
    }

    /// The VM boots, with a new boot ID.
    fn boot(&mut self, ordinal: u64, reason: &str, caller: Caller, now: Timestamp) {
        let Some(vm) = self.vms.get_mut(&ordinal) else { return };
        vm.boots += 1;
        vm.boot_id = self.seed.stream(&format!("boot/{}/{}", vm.id, vm.boots)).uuid();
        let first = vm.boots == 1;
        if first {
            vm.first_boot = Some(now);
        }
        if std::mem::take(&mut vm.panicked) {
            self.restore_now(ordinal, FaultKind::Outage);
        }
        self.transition(ordinal, VmState::Running, reason, caller, now);
        if first {
            self.plan_faults(ordinal, now);
        }
    }

    /// Starts to delete the VM; without a delay and a hold it is terminated at once.
    fn remove(&mut self, ordinal: u64, reason: &str, caller: Caller, now: Timestamp) {
        let delay = self.settings.termination_delay;
        self.remove_after(ordinal, Some(delay), reason, caller, now);
    }

    /// Starts to delete the VM with a delay; `None`: the deletion never ends by itself.
    fn remove_after(
        &mut self,
        ordinal: u64,
        delay: Option<std::time::Duration>,
        reason: &str,
        caller: Caller,
        now: Timestamp,
    ) {
        self.transition(ordinal, VmState::Stopping, reason, caller, now);
        let Some(vm) = self.vms.get_mut(&ordinal) else { return };
        vm.removed = Some(now);
        vm.deadline = delay.map(|delay| later(now, delay));
        let machine = vm.owner.key();
        if let Some(live) = self.live.get_mut(&machine) {
            live.remove(&ordinal);
            if live.is_empty() {
                self.live.remove(&machine);
            }
        }
        self.schedule(ordinal, now);
        self.advance(now);
    }

    fn terminate(&mut self, ordinal: u64, caller: Caller, now: Timestamp) {
        self.transition(ordinal, VmState::Terminated, "its deletion is complete", caller, now);
        if let Some(vm) = self.vms.get_mut(&ordinal) {
            vm.user_data = UserData::default();
            vm.conditions.clear();
            let (machine, id) = (vm.owner.key(), vm.id.clone());
            self.remove_parts(&machine, Some(&id), now);
            self.free_volumes(&id);
        }
        self.terminated.insert(ordinal);
        if self.terminated.len() > TERMINATED_KEPT
            && let Some(oldest) = self.terminated.pop_first()
            && let Some(vm) = self.vms.remove(&oldest)
        {
            self.ids.remove(&vm.id);
        }
    }

    /// Changes the state and logs it. A scheduled transition is cancelled.
    fn transition(&mut self, ordinal: u64, state: VmState, reason: &str, caller: Caller, now: Timestamp) {
        self.unschedule(ordinal);
        let Some(vm) = self.vms.get_mut(&ordinal) else { return };
        let previous = std::mem::replace(&mut vm.state, state);
        vm.deadline = None;
        vm.returns = false;
        vm.changed = now;
        reason.clone_into(&mut vm.reason);
        let operation = match state {
            VmState::Pending => "Pending",
            VmState::Running => "Running",
            VmState::Stopped => "Stopped",
            VmState::Stopping => "Stopping",
            VmState::Terminated => "Terminated",
        };
        let mut record = Record::new(RecordKind::Transition, caller, operation, now)
            .about(vm)
            .saying(reason);
        record.previous = Some(previous);
        self.log.append(record);
    }
}

/// `now + delay`, saturating.
pub(crate) fn later(now: Timestamp, delay: std::time::Duration) -> Timestamp {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    now.saturating_add(delay).unwrap_or(Timestamp::MAX)
}
