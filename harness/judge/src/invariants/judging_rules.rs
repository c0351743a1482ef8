//! The rules under which invariants are judged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use scenario::{PreservationDialect, Timeouts};
use serde_json::Value;

use crate::object::{label, name};

/// The rules under which invariants are judged: the stage's timeouts, active faults, and what the scenario itself did.
#[derive(Clone, Debug)]
pub struct JudgingRules {
    /// The controller's timeouts on this stage.
    pub timeouts: Timeouts,
    /// Active faults with which the cloud or the API server violates its own contract. While there are any, invariants
    /// with a weak form apply it.
    pub byzantine: BTreeSet<String>,
    /// Rules that let a creation take effect, and be reported, later than it was requested.
    pub late: BTreeSet<String>,
    /// Rules that cut mcm off from an API server completely, and since when.
    pub away: BTreeMap<String, Timestamp>,
    /// Since when no disturbance affects the controller; `None`: a disturbance is active. Deadlines count from this
    /// time.
    pub undisturbed_since: Option<Timestamp>,
    /// Until when the scenario last paused the controller; `None`: never.
    pub paused_until: Option<Timestamp>,
    /// The annotation values and phases of preservation that the controller uses.
    pub dialect: PreservationDialect,
    /// Objects (kind, name) that the scenario itself changed or deleted, as a user.
    pub by_user: BTreeSet<(String, String)>,
    /// Objects (kind, name) that the scenario itself deleted, as a user.
    pub deleted_by_user: BTreeSet<(String, String)>,
    /// Machines that the scenario itself removed by force, with finalizers pending.
    pub forced: BTreeSet<String>,
    /// By set: when a read returned it with spec changes in between that the watch has not delivered.
    pub skipped_changes: BTreeMap<String, Timestamp>,
    /// Nodes that the scenario itself cordoned, as a user, and has not uncordoned.
    pub cordons: BTreeSet<String>,
    /// By Machine: the preservation request that the scenario itself wrote last, as a user; `None`: it removed the
    /// request.
    pub requests: BTreeMap<String, Option<String>>,
    /// Machines whose preservation expiry the scenario itself removed, as an operator does.
    pub ended_by_user: BTreeSet<String>,
    /// Whether the scenario runs a keeper, which deletes Machines without a set as a set would.
    pub keeper: bool,
    /// By object (kind, name): how often the scenario itself changed it.
    pub edits: BTreeMap<(String, String), u64>,
}

impl JudgingRules {
    /// The rules of a run that starts without a disturbance.
    pub fn new(timeouts: Timeouts, started: Timestamp) -> Self {
        Self {
            timeouts,
            byzantine: BTreeSet::new(),
            late: BTreeSet::new(),
            away: BTreeMap::new(),
            undisturbed_since: Some(started),
            paused_until: None,
            dialect: PreservationDialect::default(),
            by_user: BTreeSet::new(),
            deleted_by_user: BTreeSet::new(),
            forced: BTreeSet::new(),
            skipped_changes: BTreeMap::new(),
            cordons: BTreeSet::new(),
            requests: BTreeMap::new(),
            ended_by_user: BTreeSet::new(),
            keeper: false,
            edits: BTreeMap::new(),
        }
    }

    /// Records that the scenario changed or deleted an object.
    pub fn touched(&mut self, kind: &str, name: &str) {
        let key = (kind.to_owned(), name.to_owned());
        *self.edits.entry(key.clone()).or_default() += 1;
        self.by_user.insert(key);
    }

    /// Whether the scenario changed or deleted the object.
    pub fn is_by_user(&self, kind: &str, name: &str) -> bool {
        self.by_user.contains(&(kind.to_owned(), name.to_owned()))
    }

    /// Whether the scenario deleted the Machine or its Node.
    pub fn is_deleted_by_user(&self, machine: &Value) -> bool {
        let of = |kind: &str, name: &str| self.deleted_by_user.contains(&(kind.to_owned(), name.to_owned()));
        of("Machine", name(machine)) || of("Node", label(machine, keys::NODE_LABEL))
    }

    /// The deadline of an operation that began at `since` and may take `limit`; `None`: unknown while a disturbance is
    /// active.
    pub fn due(&self, since: Timestamp, limit: Duration) -> Option<Timestamp> {
        Some(self.timeouts.deadline(since.max(self.undisturbed_since?), limit))
    }

    /// Upper bound for one pass of a controller.
    pub fn pass(&self) -> Duration {
        self.timeouts.slack + self.timeouts.short_retry
    }

    /// The latest end of a pass that began at `since`.
    pub fn pass_after(&self, since: Timestamp) -> Timestamp {
        self.timeouts.deadline(since, self.pass())
    }
}
