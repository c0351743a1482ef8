//! The overshoot guard: a set with too many machines is frozen together with its deployment, and unfrozen once it is
//! below the limit again.

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
use crate::steps::{Kind, OwnerAction, Plan};

const FROZEN: &str = "Frozen";
/// How long a machine that a set released counts against its limit.
const MEMORY: Duration = Duration::from_hours(1);
const TOO_MANY: &str = "OverShootingReplicaCount";
const OUT_OF_STEP: &str = "MachineDeploymentStateSync";
const OUT_OF_STEP_TEXT: &str =
    "MachineDeployment State was inconsistent, hence safety controller has fixed this and frozen it";

/// Operator settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Machines beyond replicas and surge at which a set is frozen.
    pub up: i64,
    /// Machines below that limit at which it is unfrozen.
    pub down: i64,
    /// The period of the check. A frozen set that has created no machine for this time is unfrozen although it has too
    /// many.
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

/// A snapshot of one namespace.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// All sets.
    pub sets: Vec<Arc<MachineSet>>,
    /// All deployments.
    pub deployments: Vec<Arc<MachineDeployment>>,
    /// All machines.
    pub machines: Vec<Arc<Machine>>,
    /// Whether sets may be frozen now; they may be unfrozen at any time. After `replicas` was reduced, the sets get
    /// time to delete machines.
    pub may_freeze: bool,
}

/// Why a set or deployment is frozen or unfrozen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Too many machines.
    #[error("{count} machines exist, the limit is {limit}: frozen")]
    TooMany {
        /// Machines of the set, including those that are being deleted.
        count: i64,
        /// The number at which the set is frozen.
        limit: i64,
    },
    /// Few enough machines again.
    #[error("{count} machines exist: unfrozen")]
    FewEnough {
        /// Machines of the set.
        count: i64,
    },
    /// The set created no machine for a while, and its surplus must be deleted.
    #[error("{count} machines exist and none was created recently: unfrozen, so that the surplus can be deleted")]
    Quiet {
        /// Machines of the set.
        count: i64,
    },
    /// The label is removed, and the condition still exists.
    #[error("{count} machines exist: the end of the freeze is completed")]
    HalfThawed {
        /// Machines of the set.
        count: i64,
    },
    /// The label is set, and the condition is not.
    #[error("{count} machines exist, the limit is {limit}: the freeze is completed")]
    Half {
        /// Machines of the set, including those that are being deleted.
        count: i64,
        /// The number at which the set is frozen.
        limit: i64,
    },
    /// A user requested it by an annotation.
    #[error("a user ended the freeze")]
    Asked,
    /// A deployment is frozen and unfrozen together with its sets.
    #[error("the deployment follows its sets")]
    WithSets,
}

impl Reason {
    /// The name of the variant, without its fields.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric());
        text[..end.unwrap_or(text.len())].to_owned()
    }
}

/// The object of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A set.
    Set(Arc<MachineSet>),
    /// A deployment.
    Deployment(Arc<MachineDeployment>),
}

/// An object and its plan.
pub type Decision = (Subject, Plan<Reason>);

/// The plans for all objects that must be frozen or unfrozen. Sets are frozen before their deployment, and unfrozen after it: a set
/// that creates machines never belongs to a deployment that is still frozen because of it.
pub fn decide(view: &View, settings: Settings, now: Timestamp) -> Vec<Decision> {
    let mut decisions = Vec::new();
    let mut thawing = Vec::new();
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
            let plan = set_plan(set, freeze, reason, now);
            let plans = if freeze { &mut decisions } else { &mut thawing };
            plans.push((Subject::Set(Arc::clone(set)), plan));
        }
    }
    let mut still_labelled: Vec<&Arc<MachineDeployment>> = Vec::new();
    for deployment in &view.deployments {
        if defect!(DeploymentFreezeNotCompared) {
            break;
        }
        let wanted = frozen.get(&deployment.metadata.uid).copied().unwrap_or_default();
        let condition = deployment.status.conditions.iter().any(|one| one.type_ == FROZEN);
        let labelled = is_labelled(&deployment.metadata);
        let requested = annotation(&deployment.metadata).is_some();
        // The annotation stays on the deployment until all its sets are unfrozen; the label goes first.
        let is_controlled = |set: &MachineSet| is_controlled_by(&set.metadata, &deployment.metadata);
        let stays = |set: &MachineSet| set.metadata.deletion_timestamp.is_none() && is_controlled(set);
        let still_frozen = |set: &Arc<MachineSet>| stays(set) && is_frozen(&set.metadata, has_condition(set));
        if labelled && !wanted {
            still_labelled.push(deployment);
        }
        if requested && view.sets.iter().any(still_frozen) {
            if labelled && !wanted {
                let patch = label_patch(
                    Kind::Deployment,
                    &deployment.metadata,
                    json!({ keys::FREEZE_LABEL: null }),
                    json!({}),
                );
                let mut plan = Plan::default();
                plan.push(patch, Reason::WithSets);
                decisions.push((Subject::Deployment(Arc::clone(deployment)), plan));
            }
            continue;
        }
        if (wanted, wanted) != (condition, labelled) || requested {
            let why = texts.remove(&deployment.metadata.uid);
            let plan = deployment_plan(deployment, wanted, why, now);
            decisions.push((Subject::Deployment(Arc::clone(deployment)), plan));
        }
    }
    thawing.retain(|(subject, _)| match subject {
        Subject::Set(set) => !still_labelled
            .iter()
            .any(|one| is_controlled_by(&set.metadata, &one.metadata)),
        Subject::Deployment(_) => true,
    });
    decisions.extend(thawing);
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
    let frozen = if defect!(FreezeByLabelAndConditionOnly) {
        condition && labelled
    } else {
        is_frozen(&set.metadata, condition)
    };
    let requested =
        annotation(&set.metadata).is_some() || deployment.is_some_and(|one| annotation(&one.metadata).is_some());
    if requested {
        return (frozen || annotation(&set.metadata).is_some()).then_some((false, Reason::Asked));
    }
    // The label is removed first: a set with only the condition is being unfrozen, and that is completed.
    if frozen && !labelled {
        return Some((false, Reason::HalfThawed { count }));
    }
    if frozen && defect!(FrozenSetNotReconciled | FrozenSetThawedByHandOnly) {
        return None;
    }
    if frozen && count <= upper - settings.down {
        return Some((false, Reason::FewEnough { count }));
    }
    let size = deployment.map_or(set.spec.replicas, |one| one.spec.replicas.min(set.spec.replicas));
    if frozen && surplus_is_old(set, size, &machines, settings, now) {
        return Some((false, Reason::Quiet { count }));
    }
    if frozen && !condition {
        return Some((true, Reason::Half { count, limit: upper }));
    }
    (view.may_freeze && !frozen && count >= upper).then_some((true, Reason::TooMany { count, limit: upper }))
}

/// Whether a frozen set has surplus machines, and has not created any recently.
fn surplus_is_old(set: &MachineSet, size: i32, machines: &[&Arc<Machine>], settings: Settings, now: Timestamp) -> bool {
    let active = machines.iter().filter(|machine| is_active(machine)).count() as i64;
    let frozen = set.status.conditions.iter().find(|one| one.type_ == FROZEN);
    let since = frozen
        .and_then(|one| one.last_transition_time.as_ref())
        .map(|time| time.0);
    let last_created = machines
        .iter()
        .filter_map(|machine| machine.metadata.creation_timestamp.as_ref())
        .map(|time| time.0)
        .max();
    let old = |time: Option<Timestamp>| {
        time.is_some_and(|time| Duration::try_from(now.duration_since(time)).unwrap_or_default() > settings.period)
    };
    active > i64::from(size) && old(since) && old(last_created)
}

/// The number of machines that the set released recently. If they did not count, a client that removes the labels of
/// each new machine could make the set create machines forever.
fn released(view: &View, set: &MachineSet, now: Timestamp) -> i64 {
    let recent = |machine: &&Arc<Machine>| {
        let annotations = machine.metadata.annotations.as_ref();
        let note = annotations.and_then(|all| all.get(keys::RELEASED_BY_ANNOTATION));
        let Some((name, time)) = note.and_then(|note| note.split_once('~')) else {
            return false;
        };
        let since = time.parse::<Timestamp>().ok().map(|time| now.duration_since(time));
        Some(name) == set.metadata.name.as_deref()
            && since.is_some_and(|since| Duration::try_from(since).unwrap_or_default() < MEMORY)
    };
    view.machines.iter().filter(recent).count() as i64
}

/// Whether the machine counts for the set, by the owner's name and the template's labels, also if the selector no
/// longer matches.
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

/// The plan for a set. The label is written before the condition, as the label stops the set.
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
    let (event, text) = if freeze {
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
        // The second write of a change whose event is already recorded.
        return plan;
    }
    plan.push(
        OwnerAction::RecordEvent {
            type_: EventType::Normal,
            reason: event,
            message: text,
        },
        reason,
    );
    plan
}

/// The condition's message for a set that has too many machines; `None`: the set has not, or is frozen for another
/// reason.
fn overshooting(set: &str, reason: &Reason) -> Option<String> {
    match reason {
        // Label and condition are two writes: the write that completes the freeze has the message as well.
        Reason::TooMany { count, limit } | Reason::Half { count, limit } if count >= limit => Some(format!(
            "The number of machines backing MachineSet: {set} is {count} >= {limit} which is the Max-ScaleUp-Limit"
        )),
        _ => None,
    }
}

/// The plan for a deployment. `why` is the condition message of its set if that is frozen now; `None`: the deployment
/// was out of sync.
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
    let has_condition = deployment.status.conditions.iter().any(|one| one.type_ == FROZEN);
    let change = if has_condition == freeze {
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

/// The change of labels and annotations of an object that has not changed since.
fn label_patch(kind: Kind, metadata: &ObjectMeta, labels: Value, annotations: Value) -> OwnerAction {
    let patch = json!({ "metadata": {
        "resourceVersion": metadata.resource_version,
        "labels": labels,
        "annotations": annotations,
    } });
    OwnerAction::Patch {
        kind,
        name: metadata.name.clone().unwrap_or_default(),
        patch,
    }
}

/// A plan with one write; the next decision, which follows at once, makes the other.
fn plan(kind: Kind, metadata: &ObjectMeta, status: Option<Value>, freeze: bool, reason: &Reason) -> Plan<Reason> {
    let mut plan = Plan::default();
    if freeze != is_labelled(metadata) || annotation(metadata).is_some() {
        let labels = json!({ keys::FREEZE_LABEL: freeze.then_some(keys::TRUE) });
        let annotations = json!({ keys::UNFREEZE_ANNOTATION: null });
        plan.push(label_patch(kind, metadata, labels, annotations), reason.clone());
    } else if let Some(change) = status {
        let name = metadata.name.clone().unwrap_or_default();
        let patch = json!({ "metadata": { "resourceVersion": metadata.resource_version }, "status": change });
        plan.push(OwnerAction::WriteStatus { kind, name, patch }, reason.clone());
    }
    plan
}
