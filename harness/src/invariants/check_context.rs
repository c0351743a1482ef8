//! What an invariant is shown of one event, and the terms under which it is judged.
//!
//! What lives here: plain data, and how objects are read. What must not: judgement.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mcm_api::preservation::read_expiry;
use mcm_api::{GoDuration, keys};
use serde_json::Value;

use crate::engine::observe::{Observation, Seen};
use crate::engine::world::{WorldState, text};
use crate::scenario::{PreservationDialect, Timeouts};
use crate::stage::cloud::{Call, CloudEvent, Vm};

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct CheckContext<'a> {
    /// The world with the event in it.
    pub world: &'a WorldState,
    /// What was seen, and when.
    pub observation: &'a Observation,
    /// Of an object: as it was before; `None`: it was not there.
    pub before: Option<&'a Value>,
    /// Of a call about a machine: the Machine as the server has it now, where that was read; `None`: not read.
    pub truth: Option<Option<&'a Value>>,
    /// The terms.
    pub rules: &'a JudgingRules,
}

/// Under what an invariant is judged.
#[derive(Clone, Debug)]
pub struct JudgingRules {
    /// What timeouts are worth on the stage.
    pub timeouts: Timeouts,
    /// Faults in force by which the cloud or the API server breaks its own contract: weak forms hold, where there are any.
    pub byzantine: BTreeSet<String>,
    /// Rules by which a creation takes effect, and is told, later than it was asked for.
    pub late: BTreeSet<String>,
    /// Rules by which mcm does not reach an API server at all, and since when.
    pub away: BTreeMap<String, Timestamp>,
    /// Since when nothing keeps the controller from its work; `None`: something does. Deadlines count from here.
    pub calm_since: Option<Timestamp>,
    /// Until when the scenario let the controller stand still last; `None`: it never did.
    pub stood_still: Option<Timestamp>,
    /// The words of preservation that the controller goes by.
    pub dialect: PreservationDialect,
    /// Objects that the scenario itself changed or deleted, as a person does.
    pub by_user: BTreeSet<(String, String)>,
    /// Objects that the scenario itself deleted, as a person does.
    pub deleted_by_user: BTreeSet<(String, String)>,
    /// Machines that the scenario itself removed by force, whoever still had to do something for them.
    pub forced: BTreeSet<String>,
    /// Sets that were read at that moment with changes of their spec between that nobody saw.
    pub leapt: BTreeMap<String, Timestamp>,
    /// Nodes that the scenario itself cordoned, as a person does, and did not open again.
    pub cordons: BTreeSet<String>,
    /// By Machine: what the scenario itself wrote last, as a person does, to ask for its preservation; `None`: nothing any
    /// more.
    pub requests: BTreeMap<String, Option<String>>,
    /// Machines whose expiry the scenario itself removed, as an operator does.
    pub ended_by_user: BTreeSet<String>,
    /// Whether there is a keeper, who deletes machines that belong to no set as a set would its own.
    pub keeper: bool,
    /// How often the scenario itself changed an object.
    pub edits: BTreeMap<(String, String), u64>,
}

impl JudgingRules {
    /// Of a run that begins calmly.
    pub fn new(timeouts: Timeouts, started: Timestamp) -> Self {
        Self {
            timeouts,
            byzantine: BTreeSet::new(),
            late: BTreeSet::new(),
            away: BTreeMap::new(),
            calm_since: Some(started),
            stood_still: None,
            dialect: PreservationDialect::default(),
            by_user: BTreeSet::new(),
            deleted_by_user: BTreeSet::new(),
            forced: BTreeSet::new(),
            leapt: BTreeMap::new(),
            cordons: BTreeSet::new(),
            requests: BTreeMap::new(),
            ended_by_user: BTreeSet::new(),
            keeper: false,
            edits: BTreeMap::new(),
        }
    }

    /// The scenario changed or deleted an object.
    pub fn touched(&mut self, kind: &str, name: &str) {
        let key = (kind.to_owned(), name.to_owned());
        *self.edits.entry(key.clone()).or_default() += 1;
        self.by_user.insert(key);
    }

    /// Whether the scenario changed or deleted that object.
    pub fn is_by_user(&self, kind: &str, name: &str) -> bool {
        self.by_user.contains(&(kind.to_owned(), name.to_owned()))
    }

    /// Whether the scenario deleted that Machine, or its Node.
    pub fn is_deleted_by_user(&self, machine: &Value) -> bool {
        let of = |kind: &str, name: &str| self.deleted_by_user.contains(&(kind.to_owned(), name.to_owned()));
        of("Machine", name(machine)) || of("Node", label(machine, keys::NODE_LABEL))
    }

    /// When something that began at `since` and may take `limit` is late; `None`: nobody can say now.
    pub fn due(&self, since: Timestamp, limit: Duration) -> Option<Timestamp> {
        Some(self.timeouts.deadline(since.max(self.calm_since?), limit))
    }

    /// One pass of a controller, with room.
    pub fn pass(&self) -> Duration {
        self.timeouts.slack + self.timeouts.short_retry
    }

    /// When a pass that began at `since` is over at the latest.
    pub fn pass_after(&self, since: Timestamp) -> Timestamp {
        self.timeouts.deadline(since, self.pass())
    }
}

impl<'a> CheckContext<'a> {
    /// The object that was written, if it is of that kind.
    pub fn applied(&self, kind: &str) -> Option<&'a Value> {
        match &self.observation.what {
            Seen::Applied(of, object) if of.kind == kind => Some(object),
            _ => None,
        }
    }

    /// The object that went, if it is of that kind.
    pub fn deleted(&self, kind: &str) -> Option<&'a Value> {
        match &self.observation.what {
            Seen::Deleted(of, object) if of.kind == kind => Some(object),
            _ => None,
        }
    }

    /// The call of the driver that was answered.
    pub fn call(&self) -> Option<&'a Call> {
        match &self.observation.what {
            Seen::Cloud(CloudEvent::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// The VM that changed.
    pub fn vm(&self) -> Option<&'a Vm> {
        match &self.observation.what {
            Seen::Cloud(CloudEvent::Vm(vm)) => Some(vm),
            _ => None,
        }
    }

    /// When.
    pub fn at(&self) -> Timestamp {
        self.observation.at
    }
}

/// `time` and so much later.
pub fn after(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// An object's name.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// An object's resourceVersion: what is written later has a higher one.
pub fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// An object's uid.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Whether an object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// A Machine's phase; empty: none yet.
pub fn phase(machine: &Value) -> &str {
    text(machine, "/status/currentStatus/phase")
}

/// The time at a pointer, read as an expiry is.
pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    read_expiry(text(object, pointer)).ok()
}

/// A label's value; empty: none.
pub fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// Whether a Machine's deletion waits for nobody: the label is a Go boolean.
pub fn is_forced(machine: &Value) -> bool {
    ["1", "t", "T", "TRUE", "true", "True"].contains(&label(machine, keys::FORCE_DELETION_LABEL))
}

/// An annotation's value.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// The name of the controller of that kind that owns an object.
pub fn owner<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners
        .iter()
        .find(|owner| owner["kind"] == kind && owner["controller"] == true)?;
    owner["name"].as_str()
}

/// The Machines of a deployment: those with its name in their label.
pub fn machines_of<'a>(world: &'a WorldState, deployment: &'a str) -> impl Iterator<Item = &'a Value> {
    world
        .of_kind("Machine")
        .filter(move |machine| label(machine, keys::DEPLOYMENT_LABEL) == deployment)
}

/// A timeout of a Machine's own, or what the stage has.
pub fn timeout_of(machine: &Value, field: &str, otherwise: Duration) -> Duration {
    let own = machine["spec"][field].as_str();
    own.and_then(|own| own.parse::<GoDuration>().ok())
        .map_or(otherwise, |own| own.0)
}

/// How long a Machine may take to join.
pub fn creation_timeout(machine: &Value, timeouts: &Timeouts) -> Duration {
    annotation(machine, keys::EFFECTIVE_CREATION_TIMEOUT_ANNOTATION)
        .and_then(|text| text.parse::<GoDuration>().ok())
        .map_or_else(
            || timeout_of(machine, "creationTimeout", timeouts.creation),
            |own| own.0,
        )
}

/// The bounds of a deployment's strategy: those of an update in place, or of a rolling update.
pub fn bounds(deployment: &Value) -> &Value {
    let strategy = &deployment["spec"]["strategy"];
    match strategy["type"].as_str() {
        Some("InPlaceUpdate") => &strategy["inPlaceUpdate"],
        _ => &strategy["rollingUpdate"],
    }
}

/// A count of a whole, absolute or in percent; `up`: rounded up.
pub fn share(value: &Value, whole: i64, up: bool) -> i64 {
    let percent = value
        .as_str()
        .and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    match (value.as_i64(), percent) {
        (Some(count), _) => count,
        (None, Some(percent)) if up => (whole * percent + 99) / 100,
        (None, Some(percent)) => whole * percent / 100,
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::a_count(json!(3), 10, true, 3)]
    #[case::percent_up(json!("25%"), 10, true, 3)]
    #[case::percent_down(json!("25%"), 10, false, 2)]
    #[case::nothing(json!(null), 10, true, 0)]
    fn a_share_is_a_count_or_a_part_of_the_whole(
        #[case] value: Value,
        #[case] whole: i64,
        #[case] up: bool,
        #[case] is: i64,
    ) {
        assert_eq!(share(&value, whole, up), is);
    }

    #[test]
    fn a_machine_of_its_own_timeout_goes_by_that() {
        let timeouts = Timeouts::production();
        assert_eq!(creation_timeout(&json!({}), &timeouts), timeouts.creation);
        let own = json!({ "spec": { "creationTimeout": "50m0s" } });
        assert_eq!(creation_timeout(&own, &timeouts), Duration::from_mins(50));
    }
}
