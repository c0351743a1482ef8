//! The pods of simulated kubelets and their progress.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::facts::{PodFacts, PodKey, PodPhase};
use super::pod::lifecycle::PodRun;
use super::pod::status::Conditions;

/// The pods that are bound to any Node.
#[derive(Debug, Default)]
pub(super) struct Pods {
    pub(super) by_key: BTreeMap<PodKey, u64>,
    pub(super) tracked: BTreeMap<u64, Tracked>,
    pub(super) by_node: BTreeMap<String, BTreeSet<u64>>,
    /// Number of pods that each Node has started, which determines the next IP.
    pub(super) started: BTreeMap<String, u64>,
}

/// Pod events that its kubelet has not received.
#[derive(Debug)]
pub(super) enum MissedEvent {
    Changed(Box<PodFacts>),
    Deleted,
}

/// State of a pod's volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Volumes {
    /// Not read yet.
    Unknown,
    Reading,
    /// Names of the volumes that must be attached.
    Known(Vec<String>),
    /// They were mounted and have been unmounted.
    Released,
}

#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) key: PodKey,
    pub(super) facts: PodFacts,
    pub(super) missed: Option<MissedEvent>,
    /// Whether its kubelet has observed it.
    pub(super) observed: bool,
    /// Its run, and the VM of the run.
    pub(super) run: Option<(u64, PodRun)>,
    pub(super) volumes: Volumes,
    pub(super) conditions: Conditions,
    pub(super) ip: Option<String>,
    /// Whether a call is in flight.
    pub(super) under_way: bool,
    /// Whether the status must be written.
    pub(super) dirty: bool,
    /// The phase that was last written, and the resulting resourceVersion.
    pub(super) written: Option<(PodPhase, u64)>,
    pub(super) failures: u32,
    /// No call is made before this time after a failure.
    pub(super) retry_at: Option<Timestamp>,
    /// Whether its deletion was sent to the API server.
    pub(super) ended: bool,
}

impl Tracked {
    pub(super) fn new(key: PodKey, facts: PodFacts) -> Self {
        Self {
            key,
            facts,
            missed: None,
            observed: false,
            run: None,
            volumes: Volumes::Unknown,
            conditions: Conditions::default(),
            ip: None,
            under_way: false,
            dirty: false,
            written: None,
            failures: 0,
            retry_at: None,
            ended: false,
        }
    }

    /// Applies observed facts. Returns whether the status differs from the written one.
    pub(super) fn observe(&mut self, facts: PodFacts) -> bool {
        self.observed = true;
        self.dirty |= self.written.is_some() && facts.gates != self.facts.gates;
        self.facts = facts;
        let facts = &self.facts;
        match self.written {
            // A kubelet finishes a pod once; the observation may be older than the last write.
            Some((phase, version)) => {
                let stale = facts.version != 0 && facts.version < version;
                !self.under_way && !stale && phase != facts.phase
            }
            None => false,
        }
    }

    /// Its requests; none after its end.
    pub(super) fn requested(&self) -> Option<(u128, u128)> {
        let (_, run) = self.run.as_ref()?;
        let plan = self.facts.plan.as_ref().ok()?;
        run.finish.is_none().then_some((plan.cpu, plan.memory))
    }
}

impl Pods {
    /// All pods, to find removed ones after a relist.
    pub(super) fn keys(&self) -> impl Iterator<Item = &PodKey> {
        self.by_key.keys()
    }

    /// The pods of a Node.
    pub(super) fn of(&self, node: &str) -> impl Iterator<Item = &Tracked> {
        let numbers = self.by_node.get(node).into_iter().flatten();
        numbers.filter_map(|number| self.tracked.get(number))
    }

    pub(super) fn remove(&mut self, key: &PodKey) -> Option<u64> {
        let number = self.by_key.remove(key)?;
        let pod = self.tracked.remove(&number)?;
        if let Some(numbers) = self.by_node.get_mut(&pod.facts.node) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_node.remove(&pod.facts.node);
            }
        }
        Some(number)
    }
}
