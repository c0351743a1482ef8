//! The brake against too many machines: sets beyond their limit are frozen with their deployment, and thawed when they are
//! below it again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::deployment::{MachineDeploymentCondition, MachineDeploymentStatus};
use mcm_api::set::{MachineSetCondition, MachineSetStatus};
use mcm_api::{Machine, MachineDeployment, MachineSet, keys};
use serde_json::{Value, json};

use crate::deployment::Bounds;
use crate::event::EventType;
use crate::merge::difference;
use crate::ownership::is_controlled_by;
use crate::set::{is_active, stamp};
use crate::steps::{Act, Kind, Plan};

const FROZEN: &str = "Frozen";
/// How long a machine that a set let go counts against its limit.
const MEMORY: Duration = Duration::from_hours(1);
const TOO_MANY: &str = "OverShootingReplicaCount";
const OUT_OF_STEP: &str = "MachineDeploymentStateSync";
const OUT_OF_STEP_TEXT: &str =
    "MachineDeployment State was inconsistent, hence safety controller has fixed this and frozen it";

/// What an operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Machines beyond replicas and surge at which a set is frozen.
    pub up: i64,
    /// Machines below that number at which it is thawed.
    pub down: i64,
    /// How often it is looked, and how long a frozen set must have made nothing to be thawed with too many machines.
    pub period: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            up: 2,
            down: 1,
            period: Duration::from_mins(1),
        }
    }
}

/// All that is known of a namespace.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// All sets.
    pub sets: Vec<Arc<MachineSet>>,
    /// All deployments.
    pub deployments: Vec<Arc<MachineDeployment>>,
    /// All machines.
    pub machines: Vec<Arc<Machine>>,
    /// Whether sets may be frozen now; thawed they may be at any time. A number that was lowered a moment ago is given
    /// time to be carried out.
    pub may_freeze: bool,
}

/// Why something is frozen or thawed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Too many machines.
    #[error("{count} machines are there, the limit is {limit}: frozen")]
    TooMany {
        /// Machines of the set, those that are going among them.
        count: i64,
        /// At which it is frozen.
        limit: i64,
    },
    /// Few enough again.
    #[error("{count} machines are there: thawed")]
    FewEnough {
        /// Machines of the set.
        count: i64,
    },
    /// None was made for a while, and the surplus must be deleted.
    #[error("{count} machines are there and none was made of late: thawed, so that the surplus can go")]
    Quiet {
        /// Machines of the set.
        count: i64,
    },
    /// The label is gone, and the condition is there yet.
    #[error("{count} machines are there: the thaw is completed")]
    HalfThawed {
        /// Machines of the set.
        count: i64,
    },
    /// The label is there, and the condition is not yet.
    #[error("{count} machines are there, the limit is {limit}: the freeze is completed")]
    Half {
        /// Machines of the set, those that are going among them.
        count: i64,
        /// At which it is frozen.
        limit: i64,
    },
    /// A person asked for it.
    #[error("a person ends the freeze")]
    Asked,
    /// A deployment goes with its sets.
    #[error("the deployment goes with its sets")]
    WithSets,
}

impl Reason {
    /// What kind of reason it is, without what it carries.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric());
        text[..end.unwrap_or(text.len())].to_owned()
    }
}

/// Which object a plan is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A set.
    Set(Arc<MachineSet>),
    /// A deployment.
    Deployment(Arc<MachineDeployment>),
}

/// What is to be done about one object.
pub type Decision = (Subject, Plan<Reason>);

/// What is to be frozen or thawed.
pub fn decide(view: &View, settings: Settings, now: Timestamp) -> Vec<Decision> {
    let mut decisions = Vec::new();
    let mut frozen: BTreeMap<Option<String>, bool> = BTreeMap::new();
    let mut texts: BTreeMap<Option<String>, String> = BTreeMap::new();
    for set in view.sets.iter().filter(|set| set.metadata.deletion_timestamp.is_none()) {
        let deployment = view
            .deployments
            .iter()
            .find(|one| is_controlled_by(&set.metadata, &one.metadata));
        if defect!(NoSurgeEndsOvershootCheck)
            && deployment.is_some_and(|one| one.spec.strategy.rolling_update.is_none())
        {
            break;
        }
        let verdict = judge(view, set, deployment, settings, now);
        let stays = match &verdict {
            Some((freeze, _)) => *freeze,
            None => is_frozen(&set.metadata, has_condition(set)),
        };
        if let Some(deployment) = deployment {
            *frozen.entry(deployment.metadata.uid.clone()).or_default() |= stays;
            let name = set.metadata.name.as_deref().unwrap_or_default();
            let text = verdict.as_ref().and_then(|(_, reason)| overshooting(name, reason));
            texts.extend(text.map(|text| (deployment.metadata.uid.clone(), text)));
        }
        if let Some((freeze, reason)) = verdict {
            decisions.push((Subject::Set(Arc::clone(set)), set_plan(set, freeze, reason, now)));
        }
    }
    for deployment in &view.deployments {
        if defect!(DeploymentFreezeNotCompared) {
            break;
        }
        let wanted = frozen.get(&deployment.metadata.uid).copied().unwrap_or_default();
        let condition = deployment.status.conditions.iter().any(|one| one.type_ == FROZEN);
        let labelled = is_labelled(&deployment.metadata);
        let asked = annotation(&deployment.metadata).is_some();
        // What a person asks for is forgotten when it was done, and not before.
        let of_it = |set: &MachineSet| is_controlled_by(&set.metadata, &deployment.metadata);
        let stays = |set: &MachineSet| set.metadata.deletion_timestamp.is_none() && of_it(set);
        let holds = |set: &Arc<MachineSet>| stays(set) && is_frozen(&set.metadata, has_condition(set));
        if asked && view.sets.iter().any(holds) {
            continue;
        }
        if (wanted, wanted) != (condition, labelled) || asked {
            let why = texts.remove(&deployment.metadata.uid);
            let plan = deployment_plan(deployment, wanted, why, now);
            decisions.push((Subject::Deployment(Arc::clone(deployment)), plan));
        }
    }
    decisions
}

fn judge(
    view: &View,
    set: &MachineSet,
    deployment: Option<&Arc<MachineDeployment>>,
    settings: Settings,
    now: Timestamp,
) -> Option<(bool, Reason)> {
    let machines: Vec<&Arc<Machine>> = view.machines.iter().filter(|machine| is_of(machine, set)).collect();
    let mut count = machines.len() as i64;
    if !defect!(ReleasedMachinesDoNotCount) {
        count += released(view, set, now);
    }
    let wanted = match deployment {
        Some(one) => i64::from(one.spec.replicas) + Bounds::of(&one.spec).surge,
        None => 2 * i64::from(set.spec.replicas),
    };
    let upper = wanted + settings.up;
    let (condition, labelled) = (has_condition(set), is_labelled(&set.metadata));
    let held = if defect!(FreezeByLabelAndConditionOnly) {
        condition && labelled
    } else {
        is_frozen(&set.metadata, condition)
    };
    let asked =
        annotation(&set.metadata).is_some() || deployment.is_some_and(|one| annotation(&one.metadata).is_some());
    if asked {
        return (held || annotation(&set.metadata).is_some()).then_some((false, Reason::Asked));
    }
    // The label goes first: what has the condition alone is half thawed, and whoever began that had reason to.
    if held && !labelled {
        return Some((false, Reason::HalfThawed { count }));
    }
    if held && defect!(FrozenSetNotReconciled | FrozenSetThawedByHandOnly) {
        return None;
    }
    if held && count <= upper - settings.down {
        return Some((false, Reason::FewEnough { count }));
    }
    let size = deployment.map_or(set.spec.replicas, |one| one.spec.replicas.min(set.spec.replicas));
    if held && surplus_is_old(set, size, &machines, settings, now) {
        return Some((false, Reason::Quiet { count }));
    }
    if held && !condition {
        return Some((true, Reason::Half { count, limit: upper }));
    }
    (view.may_freeze && !held && count >= upper).then_some((true, Reason::TooMany { count, limit: upper }))
}

/// Whether a frozen set has machines that it would delete, and has made none of late.
fn surplus_is_old(set: &MachineSet, size: i32, machines: &[&Arc<Machine>], settings: Settings, now: Timestamp) -> bool {
    let active = machines.iter().filter(|machine| is_active(machine)).count() as i64;
    let frozen = set.status.conditions.iter().find(|one| one.type_ == FROZEN);
    let since = frozen
        .and_then(|one| one.last_transition_time.as_ref())
        .map(|time| time.0);
    let made = machines
        .iter()
        .filter_map(|machine| machine.metadata.creation_timestamp.as_ref())
        .map(|time| time.0)
        .max();
    let old = |time: Option<Timestamp>| {
        time.is_some_and(|time| Duration::try_from(now.duration_since(time)).unwrap_or_default() > settings.period)
    };
    active > i64::from(size) && old(since) && old(made)
}

/// Machines that the set let go of late: whoever takes the labels from each new one makes it go on for ever.
fn released(view: &View, set: &MachineSet, now: Timestamp) -> i64 {
    let lately = |machine: &&Arc<Machine>| {
        let annotations = machine.metadata.annotations.as_ref();
        let note = annotations.and_then(|all| all.get(keys::RELEASED_BY_ANNOTATION));
        let Some((name, time)) = note.and_then(|note| note.split_once('~')) else {
            return false;
        };
        let since = time.parse::<Timestamp>().ok().map(|time| now.duration_since(time));
        Some(name) == set.metadata.name.as_deref()
            && since.is_some_and(|since| Duration::try_from(since).unwrap_or_default() < MEMORY)
    };
    view.machines.iter().filter(lately).count() as i64
}

/// By the name of the owner and the template's labels: what a set no longer selects counts all the same.
fn is_of(machine: &Machine, set: &MachineSet) -> bool {
    let owned = machine
        .metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| Some(&owner.name) == set.metadata.name.as_ref());
    let labels = machine.metadata.labels.as_ref();
    let wanted = set.spec.template.metadata.labels.iter().flatten();
    owned
        && wanted
            .into_iter()
            .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

fn has_condition(set: &MachineSet) -> bool {
    set.status.conditions.iter().any(|one| one.type_ == FROZEN)
}

fn is_labelled(metadata: &ObjectMeta) -> bool {
    let label = metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(keys::FREEZE_LABEL));
    label.is_some_and(|value| value == keys::TRUE)
}

fn is_frozen(metadata: &ObjectMeta, condition: bool) -> bool {
    condition || is_labelled(metadata)
}

fn annotation(metadata: &ObjectMeta) -> Option<&String> {
    metadata.annotations.as_ref()?.get(keys::UNFREEZE_ANNOTATION)
}

/// The label first, both ways: it is what stops the set.
fn set_plan(set: &MachineSet, freeze: bool, reason: Reason, now: Timestamp) -> Plan<Reason> {
    let name = set.metadata.name.clone().unwrap_or_default();
    let mut status = MachineSetStatus::clone(&set.status);
    status.conditions.retain(|one| one.type_ != FROZEN);
    if freeze {
        let text = overshooting(&name, &reason).unwrap_or_else(|| reason.to_string());
        status.conditions.push(MachineSetCondition {
            type_: FROZEN.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(stamp(now)),
            reason: TOO_MANY.to_owned(),
            message: text,
        });
    }
    let change = difference(&set.status, &status);
    let (word, text) = if freeze {
        (
            "FrozeMachineSet",
            format!("SafetyController: Froze MachineSet {name} due to replica overshooting"),
        )
    } else {
        (
            "UnfrozeMachineSet",
            format!("SafetyController: Unfroze MachineSet {name}"),
        )
    };
    let mut plan = plan(Kind::Set, &set.metadata, change, freeze, &reason);
    if freeze == is_labelled(&set.metadata) {
        // The second half of what was told already.
        return plan;
    }
    plan.push(
        Act::RecordEvent {
            type_: EventType::Normal,
            reason: word,
            message: text,
        },
        reason,
    );
    plan
}

/// What the condition says of a set that has too many machines; `None`: it has not, or that is not why.
fn overshooting(set: &str, reason: &Reason) -> Option<String> {
    match reason {
        // The label and the condition are two writes: who completes the freeze says why there is one.
        Reason::TooMany { count, limit } | Reason::Half { count, limit } if count >= limit => Some(format!(
            "The number of machines backing MachineSet: {set} is {count} >= {limit} which is the Max-ScaleUp-Limit"
        )),
        _ => None,
    }
}

/// `why`: what its set's condition says, where the set is frozen now; else the deployment lags behind.
fn deployment_plan(deployment: &MachineDeployment, freeze: bool, why: Option<String>, now: Timestamp) -> Plan<Reason> {
    let mut status = MachineDeploymentStatus::clone(&deployment.status);
    status.conditions.retain(|one| one.type_ != FROZEN);
    if freeze {
        status.conditions.push(MachineDeploymentCondition {
            type_: FROZEN.to_owned(),
            status: "True".to_owned(),
            last_update_time: Some(stamp(now)),
            last_transition_time: Some(stamp(now)),
            reason: if why.is_some() { TOO_MANY } else { OUT_OF_STEP }.to_owned(),
            message: why.unwrap_or_else(|| OUT_OF_STEP_TEXT.to_owned()),
        });
    }
    let has = deployment.status.conditions.iter().any(|one| one.type_ == FROZEN);
    let change = if has == freeze {
        None
    } else {
        difference(&deployment.status, &status)
    };
    plan(
        Kind::Deployment,
        &deployment.metadata,
        change,
        freeze,
        &Reason::WithSets,
    )
}

/// One write at a time: the next decision, which follows at once, makes the other.
fn plan(kind: Kind, metadata: &ObjectMeta, status: Option<Value>, freeze: bool, reason: &Reason) -> Plan<Reason> {
    let name = metadata.name.clone().unwrap_or_default();
    let version = &metadata.resource_version;
    let mut plan = Plan::default();
    if freeze != is_labelled(metadata) || annotation(metadata).is_some() {
        let label = freeze.then_some(keys::TRUE);
        let patch = json!({ "metadata": {
            "resourceVersion": version,
            "labels": { keys::FREEZE_LABEL: label },
            "annotations": { keys::UNFREEZE_ANNOTATION: null },
        } });
        plan.push(Act::Patch { kind, name, patch }, reason.clone());
    } else if let Some(change) = status {
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": change });
        plan.push(Act::WriteStatus { kind, name, patch }, reason.clone());
    }
    plan
}
