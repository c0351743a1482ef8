//! Collection of orphan VMs: VMs that carry this cluster's tags and that no Machine stands behind.
//!
//! The one danger is to see the VMs and not the Machines. So nothing is collected on one sight, on a cache's word alone,
//! or in one go:
//!
//! 1. a pass lists the VMs of each class; of a class whose list fails nothing is known;
//! 2. a VM is a candidate when the cache says so, and due when it was one for the same reason in an earlier pass long
//!    enough ago ([`Settings::double_check`], [`Settings::grace`]);
//! 3. of those that are due a few are taken ([`Plan::due`]), and each only if the API server itself, asked at that
//!    moment, gives the same reason ([`confirm`]).
//!
//! A Machine that is being created, or names no VM yet, keeps every VM of its name, with one exception: when the cloud
//! says that there are several, all but one are surplus.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mcm_api::{Code, Machine, MachineName, Phase, ProviderId};

/// How patient the collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Between two passes.
    pub period: Duration,
}

impl Settings {
    /// Passes at that interval.
    pub fn every(period: Duration) -> Self {
        Self { period }
    }

    /// For how long a VM of a Machine that names another one must have been a candidate.
    pub fn double_check(&self) -> Duration {
        self.period / 60
    }

    /// For how long a VM without a Machine must have been a candidate. A person who moves a control plane may delete
    /// and restore Machines.
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
    /// The Machine of its name names no VM yet, and the cloud said that it has several: one of them is kept.
    Duplicate {
        /// The Machine's uid.
        uid: String,
        /// The one that is kept.
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

/// A candidate that was seen before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Why.
    pub evidence: Evidence,
    /// Since when, without a break and for that very reason.
    pub since: Timestamp,
}

/// What is known of one Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    uid: String,
    provider_id: Option<ProviderId>,
    creation: Creation,
    has_several: bool,
    deleting: bool,
}

/// Where a Machine stands in its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Creation {
    /// Not begun, as far as its status says.
    #[default]
    New,
    /// A call failed and will be repeated.
    Retried,
    /// Over.
    Over,
}

impl Known {
    /// What matters of a Machine here.
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

    /// Why a VM of this Machine's name is surplus; `None`: it is not, or nobody can say.
    fn against(&self, provider_id: &ProviderId, siblings: &[&ProviderId]) -> Option<Evidence> {
        let uid = self.uid.clone();
        let spared = self.creation != Creation::Over;
        let robbed = defect!(OrphansKeptOnlyForUntriedMachines)
            && self.creation == Creation::Retried
            && Some(provider_id) != self.provider_id.as_ref();
        if robbed {
            let provider_id = self.provider_id.clone();
            return Some(Evidence::NamesAnother { uid, provider_id });
        }
        if self.provider_id.is_none() {
            let keeps = siblings.iter().min()?;
            let surplus = self.has_several && !self.deleting && provider_id != *keeps;
            let keeps = (*keeps).clone();
            return surplus.then_some(Evidence::Duplicate { uid, keeps });
        }
        (!spared && Some(provider_id) != self.provider_id.as_ref()).then(|| Evidence::NamesAnother {
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

/// What one pass has seen.
#[derive(Clone, Debug)]
pub struct View {
    /// Since when this process has seen the cluster without a break.
    pub started: Timestamp,
    /// The lists that came; a class whose list failed is not among them.
    pub listings: Vec<Listing>,
    /// The Machines by name, as the cache has them.
    pub machines: BTreeMap<MachineName, Known>,
    /// The candidates of the pass before, by provider id.
    pub sightings: BTreeMap<ProviderId, Sighting>,
}

/// A VM that is to be collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The VM.
    pub provider_id: ProviderId,
    /// The Machine's name that the cloud has for it.
    pub machine: MachineName,
    /// The class that lists it.
    pub class: String,
    /// Why.
    pub evidence: Evidence,
    /// All VMs that the cloud lists under that name.
    siblings: Vec<ProviderId>,
}

/// What a pass is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// To be confirmed one by one, and collected then.
    pub due: Vec<Candidate>,
    /// The candidates by provider id, for the next pass.
    pub sightings: BTreeMap<ProviderId, Sighting>,
    /// When the next pass is needed before the regular one; `None`: it is not.
    pub wake: Option<Duration>,
}

/// Which VMs may be collected now.
pub fn examine(view: &View, now: Timestamp, settings: &Settings) -> Plan {
    let vms = by_provider_id(&view.listings);
    let names = by_machine(&vms);
    let mut plan = Plan {
        due: Vec::new(),
        sightings: BTreeMap::new(),
        wake: None,
    };
    for (provider_id, (machine, class)) in &vms {
        let siblings = names.get(machine).map(Vec::as_slice).unwrap_or_default();
        let Some(evidence) = evidence(provider_id, siblings, view.machines.get(*machine)) else {
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
                siblings: siblings.iter().map(|id| (*id).clone()).collect(),
            });
        } else {
            let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            plan.wake = Some(plan.wake.map_or(wait, |wake| wake.min(wait)));
        }
        plan.sightings
            .insert((*provider_id).clone(), Sighting { evidence, since });
    }
    let bound = bound(vms.len());
    if plan.due.len() > bound {
        plan.due.truncate(bound);
        let wait = settings.double_check();
        plan.wake = Some(plan.wake.map_or(wait, |wake| wake.min(wait)));
    }
    plan
}

/// How many of that many VMs one pass may take: a tenth, and one where there are few. Whatever goes wrong, somebody has
/// time to notice.
fn bound(vms: usize) -> usize {
    if defect!(
        OrphansCollectedOnFirstSightFromCache
            | OrphansCollectedBeforeMachinesAreListed
            | OrphansCollectedByYoungProcess
            | OrphansKeptOnlyForUntriedMachines
    ) {
        return vms;
    }
    (vms / 10).max(1)
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
    let after =
        |from: Timestamp, time| from.saturating_add(SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX));
    match evidence {
        Evidence::NoMachine => {
            let seen = after(since, settings.absence_check()).unwrap_or(Timestamp::MAX);
            seen.max(after(started, settings.grace()).unwrap_or(Timestamp::MAX))
        }
        Evidence::NamesAnother { .. } | Evidence::Duplicate { .. } => {
            after(since, settings.double_check()).unwrap_or(Timestamp::MAX)
        }
    }
}

fn evidence(provider_id: &ProviderId, siblings: &[&ProviderId], machine: Option<&Known>) -> Option<Evidence> {
    match machine {
        None => Some(Evidence::NoMachine),
        Some(machine) => machine.against(provider_id, siblings),
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

fn by_machine<'a>(vms: &Vms<'a>) -> BTreeMap<&'a MachineName, Vec<&'a ProviderId>> {
    let mut names: BTreeMap<&MachineName, Vec<&ProviderId>> = BTreeMap::new();
    for (provider_id, (machine, _)) in vms {
        names.entry(machine).or_default().push(provider_id);
    }
    names
}

/// What the API server says of a candidate's Machine at the last moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Truth {
    /// There is none of that name.
    Absent,
    /// There it is.
    Present(Known),
    /// It did not say.
    Unreadable(String),
}

/// Whether a candidate may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The API server gives the same reason.
    Collect,
    /// It gives another one, or none: the cache was wrong.
    Refuse(String),
    /// Nobody knows; the rest of the pass must not go on either.
    Stop(String),
}

/// Whether the API server's word agrees with the cache's.
pub fn confirm(candidate: &Candidate, truth: &Truth) -> Verdict {
    if defect!(OrphansCollectedOnFirstSightFromCache | OrphansCollectedBeforeMachinesAreListed) {
        return Verdict::Collect;
    }
    let machine = match truth {
        Truth::Unreadable(reason) => return Verdict::Stop(format!("the Machine cannot be read: {reason}")),
        Truth::Absent => None,
        Truth::Present(known) => Some(known),
    };
    let siblings: Vec<&ProviderId> = candidate.siblings.iter().collect();
    match evidence(&candidate.provider_id, &siblings, machine) {
        Some(evidence) if evidence == candidate.evidence => Verdict::Collect,
        Some(evidence) => Verdict::Refuse(format!("the reason has changed: {evidence}")),
        None => Verdict::Refuse("its Machine needs it, or may still".to_owned()),
    }
}

#[cfg(test)]
mod tests;
