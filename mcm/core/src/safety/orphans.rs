//! Collection of orphan VMs: VMs that have this cluster's tags and that no Machine needs.
//!
//! The main risk is to observe the VMs but not their Machines. So no VM is collected after one observation, based on a
//! cache alone, or together with many others:
//!
//! 1. a pass lists the VMs of each class; VMs of a class whose list fails are ignored;
//! 2. a VM is a candidate if the cache has evidence against it, and due if an earlier pass, long enough ago, had the
//!    same evidence ([`Settings::double_check`], [`Settings::grace`]);
//! 3. if more VMs are due than [`Settings::maximum`], none is collected: it is more likely that the Machines are lost;
//! 4. at most a tenth of the VMs, at least one, is collected in a period ([`Plan::due`]), each only if a read from the
//!    API server at that moment gives the same evidence ([`confirm`]).
//!
//! A Machine that is being created, or names no VM yet, keeps every VM of its name, with one exception: if the cloud
//! reports several, all but one are surplus.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mcm_api::{Code, Machine, MachineName, Phase, ProviderId};

/// The timing and the limits of the collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The time between two passes.
    pub period: Duration,
    /// If more VMs than this are due at once, none is collected.
    pub maximum: usize,
}

impl Settings {
    /// How long a VM must be a candidate whose Machine names another VM.
    pub fn double_check(&self) -> Duration {
        self.period / 60
    }

    /// How long a VM without a Machine must be a candidate. A migration of the control plane may delete and restore
    /// Machines.
    pub fn absence_check(&self) -> Duration {
        self.period / 6
    }

    /// How long after its start a process collects no VM without a Machine: the Machines may still be restored.
    pub fn grace(&self) -> Duration {
        self.period
    }
}

/// Why a VM is surplus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// There is no Machine of its name.
    NoMachine,
    /// The Machine of its name has another VM.
    NamesAnother {
        /// The Machine's uid.
        uid: String,
        /// The VM that it has; `None` only with a planted defect.
        provider_id: Option<ProviderId>,
    },
    /// The Machine of its name names no VM yet, and the cloud reported several: one of them is kept.
    Duplicate {
        /// The Machine's uid.
        uid: String,
        /// The VM that is kept.
        keeps: ProviderId,
    },
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMachine => f.write_str("there is no Machine of its name"),
            Self::NamesAnother { provider_id, .. } => {
                let vm = provider_id.as_deref().unwrap_or_default();
                write!(f, "its Machine has the VM {vm}")
            }
            Self::Duplicate { keeps, .. } => write!(f, "its Machine has several VMs, and {keeps} is kept"),
        }
    }
}

/// An observation of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Why the VM is surplus.
    pub evidence: Evidence,
    /// Since when, without interruption and with the same evidence.
    pub since: Timestamp,
}

/// The fields of a Machine that the collection uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    uid: String,
    provider_id: Option<ProviderId>,
    creation: Creation,
    has_several: bool,
    deleting: bool,
}

/// The progress of a Machine's creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Creation {
    /// Not started, according to its status.
    #[default]
    New,
    /// A call failed and will be repeated.
    Retried,
    /// Completed.
    Over,
}

impl Known {
    /// Extracts the fields of a Machine.
    pub fn of(machine: &Machine) -> Self {
        let phase = &machine.status.current_status.phase;
        let operation = machine.status.last_operation.as_ref();
        Self {
            uid: machine.metadata.uid.clone().unwrap_or_default(),
            provider_id: ProviderId::new(machine.spec.provider_id.as_str()),
            creation: match phase {
                None => Creation::New,
                Some(Phase::CrashLoopBackOff) => Creation::Retried,
                Some(_) => Creation::Over,
            },
            has_several: operation.is_some_and(|operation| operation.error_code == Code::OutOfRange.name()),
            deleting: machine.metadata.deletion_timestamp.is_some(),
        }
    }

    /// Why a VM with this Machine's name is surplus; `None`: it is not, or that is unknown. `first` is the first of all
    /// VMs with that name.
    fn against(&self, provider_id: &ProviderId, first: Option<&ProviderId>) -> Option<Evidence> {
        let uid = self.uid.clone();
        let is_creating = self.creation != Creation::Over;
        let collected_too_early = defect!(OrphansKeptOnlyForUntriedMachines)
            && self.creation == Creation::Retried
            && Some(provider_id) != self.provider_id.as_ref();
        if collected_too_early {
            let provider_id = self.provider_id.clone();
            return Some(Evidence::NamesAnother { uid, provider_id });
        }
        if self.provider_id.is_none() {
            let keeps = first?.clone();
            let surplus = self.has_several && !self.deleting && *provider_id != keeps;
            return surplus.then_some(Evidence::Duplicate { uid, keeps });
        }
        (!is_creating && Some(provider_id) != self.provider_id.as_ref()).then(|| Evidence::NamesAnother {
            uid,
            provider_id: self.provider_id.clone(),
        })
    }
}

/// The VMs that the cloud lists for one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The class's name.
    pub class: String,
    /// Provider id to machine name.
    pub vms: BTreeMap<ProviderId, MachineName>,
}

/// The observations of one pass.
#[derive(Clone, Debug)]
pub struct View {
    /// Since when this process has observed the cluster without interruption.
    pub started: Timestamp,
    /// The successful lists; a class whose list failed is missing.
    pub listings: Vec<Listing>,
    /// Whether the list of a class failed, so that its VMs are unknown.
    pub incomplete: bool,
    /// The cached Machines by name.
    pub machines: BTreeMap<MachineName, Known>,
    /// The candidates of the previous pass, by provider ID.
    pub sightings: BTreeMap<ProviderId, Sighting>,
    /// The latest deletion of each VM that was requested in the last period.
    pub deletions: BTreeMap<ProviderId, Deletion>,
}

/// The request to delete an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// When it was sent.
    pub at: Timestamp,
    /// Whether the driver returned an error.
    pub failed: bool,
}

/// A VM that may be collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The VM.
    pub provider_id: ProviderId,
    /// The name of its Machine, according to the cloud.
    pub machine: MachineName,
    /// The class that lists it.
    pub class: String,
    /// Why the VM is surplus.
    pub evidence: Evidence,
    /// The first of the VMs that the cloud lists under that name.
    first: Option<ProviderId>,
}

/// The plan of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// VMs to collect, each after its confirmation.
    pub due: Vec<Candidate>,
    /// The number of due VMs if they are too many, so that none is collected.
    pub excess: Option<usize>,
    /// The candidates by provider ID, for the next pass.
    pub sightings: BTreeMap<ProviderId, Sighting>,
    /// When an additional pass is due before the regular one; `None`: none is needed.
    pub wake: Option<Duration>,
}

/// Determines the VMs that may be collected now.
pub fn examine(view: &View, now: Timestamp, settings: &Settings) -> Plan {
    let vms = by_provider_id(&view.listings);
    let first = first_of_each_machine(&vms);
    let mut plan = Plan {
        due: Vec::new(),
        excess: None,
        sightings: BTreeMap::new(),
        wake: None,
    };
    for (provider_id, (machine, class)) in &vms {
        let first = first.get(machine).copied();
        let Some(evidence) = evidence(provider_id, first, view.machines.get(*machine)) else {
            continue;
        };
        let before = view
            .sightings
            .get(*provider_id)
            .filter(|sighting| sighting.evidence == evidence);
        let since = before.map_or(now, |sighting| sighting.since);
        let due = due_at(&evidence, since, view.started, settings);
        if due <= now {
            plan.due.push(Candidate {
                provider_id: (*provider_id).clone(),
                machine: (*machine).clone(),
                class: (*class).to_owned(),
                evidence: evidence.clone(),
                first: first.cloned(),
            });
        } else {
            let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            plan.wake = Some(plan.wake.map_or(wait, |wake| wake.min(wait)));
        }
        plan.sightings
            .insert((*provider_id).clone(), Sighting { evidence, since });
    }
    let hidden = keep_hidden(&mut plan, view, &vms, now, settings);
    limit(&mut plan, hidden, view, &vms, now, settings);
    plan
}

/// Keeps the sightings of VMs whose list may have failed. Returns how many of them are due.
fn keep_hidden(plan: &mut Plan, view: &View, vms: &Vms<'_>, now: Timestamp, settings: &Settings) -> usize {
    let mut due = 0;
    let hidden = view
        .sightings
        .iter()
        .filter(|(id, _)| view.incomplete && !vms.contains_key(*id));
    for (provider_id, sighting) in hidden {
        due += usize::from(due_at(&sighting.evidence, sighting.since, view.started, settings) <= now);
        plan.sightings.insert(provider_id.clone(), sighting.clone());
    }
    due
}

/// Applies the maximum number of orphans, of which `hidden` are not listed, and the number of VMs that one period
/// collects: a tenth, at least one. If the collection is wrong, users have time to notice.
fn limit(plan: &mut Plan, hidden: usize, view: &View, vms: &Vms<'_>, now: Timestamp, settings: &Settings) {
    if defect!(
        OrphansCollectedOnFirstSightFromCache
            | OrphansCollectedBeforeMachinesAreListed
            | OrphansCollectedByYoungProcess
            | OrphansKeptOnlyForUntriedMachines
    ) {
        return;
    }
    let orphans = plan.due.len() + hidden;
    if orphans > settings.maximum {
        plan.excess = Some(orphans);
        plan.due.clear();
        return;
    }
    let has_failed = |id: &ProviderId| view.deletions.get(id).is_some_and(|deletion| deletion.failed);
    // A VM whose deletion fails must not block the others.
    plan.due.sort_by_key(|candidate| has_failed(&candidate.provider_id));
    // A deletion that failed counts if the VM is gone.
    let counts = |(id, deletion): &(&ProviderId, &Deletion)| !deletion.failed || !vms.contains_key(*id);
    let mut ends: Vec<Timestamp> = view
        .deletions
        .iter()
        .filter(counts)
        .map(|(_, deletion)| later(deletion.at, settings.period))
        .filter(|end| *end > now)
        .collect();
    ends.sort();
    let allowed = (vms.len() / 10).max(1).saturating_sub(ends.len());
    if plan.due.len() > allowed {
        plan.due.truncate(allowed);
        let wait = match ends.first() {
            Some(end) if allowed == 0 => Duration::try_from(end.duration_since(now)).unwrap_or_default(),
            _ => settings.double_check(),
        };
        plan.wake = Some(plan.wake.map_or(wait, |wake| wake.min(wait)));
    }
}

/// `time` after `from`.
fn later(from: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    from.saturating_add(time).unwrap_or(Timestamp::MAX)
}

fn due_at(evidence: &Evidence, since: Timestamp, started: Timestamp, settings: &Settings) -> Timestamp {
    if defect!(
        OrphansCollectedOnFirstSightFromCache
            | OrphansCollectedBeforeMachinesAreListed
            | OrphansCollectedByYoungProcess
            | OrphansKeptOnlyForUntriedMachines
    ) {
        return since;
    }
    match evidence {
        Evidence::NoMachine => later(since, settings.absence_check()).max(later(started, settings.grace())),
        Evidence::NamesAnother { .. } | Evidence::Duplicate { .. } => later(since, settings.double_check()),
    }
}

fn evidence(provider_id: &ProviderId, first: Option<&ProviderId>, machine: Option<&Known>) -> Option<Evidence> {
    match machine {
        None => Some(Evidence::NoMachine),
        Some(machine) => machine.against(provider_id, first),
    }
}

type Vms<'a> = BTreeMap<&'a ProviderId, (&'a MachineName, &'a str)>;

/// Machine and class by provider id; a VM that several classes list belongs to the first of them.
fn by_provider_id(listings: &[Listing]) -> Vms<'_> {
    let mut all = BTreeMap::new();
    for listing in listings {
        for (provider_id, machine) in &listing.vms {
            all.entry(provider_id).or_insert((machine, listing.class.as_str()));
        }
    }
    all
}

/// The first VM of each name, in the order of provider IDs.
fn first_of_each_machine<'a>(vms: &Vms<'a>) -> BTreeMap<&'a MachineName, &'a ProviderId> {
    let mut first = BTreeMap::new();
    for (provider_id, (machine, _)) in vms {
        first.entry(*machine).or_insert(*provider_id);
    }
    first
}

/// The state of a candidate's Machine at the API server, read immediately before the collection.
#[derive(Clone, Debug, PartialEq)]
pub enum ServedMachine {
    /// There is no Machine of that name.
    Absent,
    /// The Machine exists.
    Present(Known),
    /// The Machine exists, but a field of it cannot be decoded.
    Undecodable(String),
    /// The Machine could not be read.
    Unreadable(String),
}

/// Whether a candidate may be collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The API server confirms the evidence.
    Collect,
    /// The API server shows other evidence, or none: the cache was outdated.
    Refuse(String),
    /// The state is unknown; the rest of the pass must stop.
    Stop(String),
}

/// Compares the evidence in the cache with the state at the API server.
pub fn confirm(candidate: &Candidate, served: &ServedMachine) -> Verdict {
    if defect!(OrphansCollectedOnFirstSightFromCache | OrphansCollectedBeforeMachinesAreListed) {
        return Verdict::Collect;
    }
    let machine = match served {
        ServedMachine::Unreadable(reason) => return Verdict::Stop(format!("the Machine cannot be read: {reason}")),
        ServedMachine::Undecodable(problem) => {
            return Verdict::Refuse(format!("its Machine cannot be decoded: {problem}"));
        }
        ServedMachine::Absent => None,
        ServedMachine::Present(known) => Some(known),
    };
    match evidence(&candidate.provider_id, candidate.first.as_ref(), machine) {
        Some(evidence) if evidence == candidate.evidence => Verdict::Collect,
        Some(evidence) => Verdict::Refuse(format!("the reason has changed: {evidence}")),
        None => Verdict::Refuse("its Machine may still need it".to_owned()),
    }
}

#[cfg(test)]
mod tests;
