//! I15: correct victims and no churn. A removed Machine was listed by cluster-autoscaler or ranks first; no Machine is
//! removed beyond the request; a controller does not remove a Machine that it created for the same spec.
//!
//! Only Machines of a MachineSet are judged. Checked part of the ranking: a smaller priority is removed first, and with
//! equal priority a Machine that never joined before one that joined. In addition, sets of an older template do not
//! grow, and nodes that cluster-autoscaler must not scale down carry the annotation value that it reads.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use super::named::Lately;
use super::preservation::limit;
use crate::object::{after, annotation, is_deleting, label, name, owner, phase, time, uid, version};
use crate::remediation::{is_remediation_requested, may_be_deleted_by_another};
use crate::world::WorldState;

/// A set's generation and replicas.
type Wanted = (i64, i64);

#[derive(Debug, Default)]
pub(super) struct Victims {
    /// By Machine uid: its set's generation and replicas when it was created.
    created_under: BTreeMap<String, Wanted>,
    /// By set: each change of generation or replicas, with resourceVersion and time.
    specs: BTreeMap<String, Vec<(u64, Wanted, Timestamp)>>,
    /// By Machine uid: its priority, and since when it has it.
    priorities: BTreeMap<String, (i64, Timestamp)>,
    /// By deployment: when its template changed last.
    templates: BTreeMap<String, Timestamp>,
    /// By deployment and Machine: since when cluster-autoscaler lists it.
    named: BTreeMap<(String, String), Timestamp>,
    recently_listed: Lately,
    /// By set uid: its generation and the time when an unlisted Machine was last removed.
    unnamed: BTreeMap<String, (i64, Timestamp)>,
    /// By set: when Machines disappeared that the set did not remove.
    not_by_set: BTreeMap<String, VecDeque<Timestamp>>,
}

impl Check for Victims {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(deployment) = context.applied("MachineDeployment") {
            self.deployment(context, deployment);
            return released_out_of_turn(context, deployment);
        }
        if let Some(deployment) = context.deleted("MachineDeployment") {
            self.named.retain(|(owner, _), _| owner != name(deployment));
        }
        if let Some(set) = context.applied("MachineSet") {
            self.record_spec(set, context.at());
            return released_out_of_turn(context, set).or_else(|| self.grows_outdated_set(context, set));
        }
        if let Some(node) = context.applied("Node") {
            return unreadable_annotation(context, node);
        }
        if let Some(machine) = context.deleted("Machine") {
            self.created_under.remove(uid(machine));
            self.priorities.remove(uid(machine));
        }
        let machine = context.applied("Machine")?;
        let now = priority(machine);
        let known = self.priorities.get(uid(machine)).filter(|(known, _)| *known == now);
        if known.is_none() {
            self.priorities.insert(uid(machine).to_owned(), (now, context.at()));
        }
        let set = context.world.object("MachineSet", owner(machine, "MachineSet")?)?;
        let generation = set["metadata"]["generation"].as_i64().unwrap_or_default();
        let replicas = set["spec"]["replicas"].as_i64().unwrap_or_default();
        if context.before.is_none() {
            let wanted_at_creation = self.spec_at(context, set, machine).unwrap_or((generation, replicas));
            self.created_under.insert(uid(machine).to_owned(), wanted_at_creation);
            return created_for_deleted_owner(context, machine, set);
        }
        let removed = is_deleting(machine) && !context.before.is_some_and(is_deleting);
        let is_requested = is_deleting(set)
            || context.rules.is_deleted_by_user(machine)
            || is_replaced(machine)
            || may_be_deleted_by_another(context.world, machine);
        if !removed {
            return None;
        }
        let not_by_set = self.not_by_set.entry(name(set).to_owned()).or_default();
        not_by_set.retain(|at| context.at() <= after(*at, context.rules.pass()));
        let skipped_changes = context.rules.skipped_changes.get(name(set)) == Some(&context.at())
            || was_failed_unseen(context.before, machine);
        if is_requested || skipped_changes || is_without_vm(context.world, machine) {
            not_by_set.push_back(context.at());
            return None;
        }
        // A controller that has not observed their removal yet counts them.
        let left = siblings(context.world, machine, set).count() as i64 + not_by_set.len() as i64;
        let named = self.is_named(context, machine);
        let others_removed = self
            .unnamed
            .get(uid(set))
            .is_some_and(|(known, at)| *known == generation && context.at() <= after(*at, context.rules.pass()));
        if !named {
            self.unnamed.insert(uid(set).to_owned(), (generation, context.at()));
        }
        let wanted = self.smallest_request(context, set, replicas);
        if left < wanted && (!named || others_removed) {
            return Some(format!(
                "machine {} of set {} was removed beyond the request: {left} of {wanted} remain",
                name(machine),
                name(set)
            ));
        }
        if let Some(better_victim) = self.better_victim(context, machine, set) {
            return Some(better_victim);
        }
        let wanted_at_creation = self.created_under.get(uid(machine))?;
        (*wanted_at_creation == (generation, replicas) && !named).then(|| {
            format!(
                "set {} removed machine {}, which it created, without a change of its spec in between",
                name(set),
                name(machine)
            )
        })
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        self.named
            .values()
            .filter_map(|since| rules.due(*since, 2 * rules.pass()))
            .min()
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        self.named
            .retain(|(deployment, machine), _| may_be_removed(world, deployment, machine));
        let late = |since: &Timestamp| rules.due(*since, 2 * rules.pass()).is_some_and(|due| due <= now);
        let ((deployment, machine), since) = self.named.iter().find(|(_, since)| late(since))?;
        Some(format!(
            "machine {machine} of {deployment} was listed by cluster-autoscaler at {since} and is not removed"
        ))
    }
}

impl Victims {
    fn record_spec(&mut self, set: &Value, at: Timestamp) {
        let generation = set["metadata"]["generation"].as_i64().unwrap_or_default();
        let replicas = set["spec"]["replicas"].as_i64().unwrap_or_default();
        let specs = self.specs.entry(name(set).to_owned()).or_default();
        let Some(version) = version(set) else { return };
        if specs
            .last()
            .is_none_or(|(_, known, _)| *known != (generation, replicas))
        {
            specs.push((version, (generation, replicas), at));
        }
    }

    /// The set's spec when it requested the machine: the watches of the two kinds have no common order. While requests
    /// may be slow, one from before a change may be answered after it.
    fn spec_at(&self, context: &CheckContext, set: &Value, machine: &Value) -> Option<Wanted> {
        let created = version(machine)?;
        let mut specs = self.specs.get(name(set))?.iter().rev();
        let (_, spec, since) = specs.find(|(version, ..)| *version <= created)?;
        let under_way =
            context.rules.undisturbed_since.is_none() && context.at() <= after(*since, context.rules.pass());
        let before = specs.next().filter(|_| under_way);
        Some(before.map_or(*spec, |(_, before, _)| *before))
    }

    /// The smallest requested size: the current one, or one of the last pass while watches may lag, because the
    /// controller may not have observed the new one.
    fn smallest_request(&self, context: &CheckContext, set: &Value, now: i64) -> i64 {
        let lagging = context.rules.undisturbed_since.is_none();
        let specs = self.specs.get(name(set)).map(Vec::as_slice).unwrap_or_default();
        let replaced = specs.iter().zip(specs.iter().skip(1).map(|(_, _, since)| *since));
        let recent = replaced.filter(|(_, until)| lagging && context.at() <= after(*until, context.rules.pass()));
        let before = recent.map(|((_, (_, replicas), _), _)| *replicas);
        before.fold(now, i64::min)
    }

    fn deployment(&mut self, context: &CheckContext, deployment: &Value) {
        let deployment_name = name(deployment);
        let template = |deployment: &Value| deployment["spec"]["template"].clone();
        if context
            .before
            .is_some_and(|before| template(before) != template(deployment))
        {
            self.templates.insert(deployment_name.to_owned(), context.at());
        }
        let list = annotation(deployment, keys::TRIGGER_DELETION_ANNOTATION).unwrap_or_default();
        let scaled = annotation(deployment, keys::LAST_SCALE_ANNOTATION).and_then(|time| time.parse().ok());
        let listed: Vec<&str> = list
            .split(',')
            .filter_map(|entry| {
                let (machine, time) = entry.trim().split_once('~')?;
                let time: Timestamp = time.parse().ok()?;
                scaled
                    .is_some_and(|scaled: Timestamp| time <= scaled)
                    .then_some(machine)
            })
            .collect();
        // A controller that maintains the list drops deleted machines.
        self.named
            .retain(|(owner, machine), _| owner != deployment_name || listed.contains(&machine.as_str()));
        self.recently_listed.note(context);
        for machine in listed {
            let key = (deployment_name.to_owned(), machine.to_owned());
            self.named.entry(key).or_insert(context.at());
        }
    }

    /// Whether cluster-autoscaler lists the machine now or did so until recently.
    fn is_named(&self, context: &CheckContext, machine: &Value) -> bool {
        self.recently_listed.has(context, machine) || self.named.keys().any(|(_, named)| named == name(machine))
    }

    /// A set of an outdated template grows.
    fn grows_outdated_set(&self, context: &CheckContext, set: &Value) -> Option<String> {
        let replicas = |set: &Value| set["spec"]["replicas"].as_i64().unwrap_or_default();
        // A step that reads a set may observe it before the watch delivers it.
        let in_order = |before: &Value| version(before) <= version(set);
        let before = context
            .before
            .filter(|before| replicas(before) < replicas(set) && in_order(before))?;
        let deployment = context
            .world
            .object("MachineDeployment", owner(set, "MachineDeployment")?)?;
        let class = |object: &Value| object["spec"]["template"]["spec"]["class"]["name"].clone();
        let since = self.templates.get(name(deployment)).copied().unwrap_or(Timestamp::MIN);
        let settled = context
            .rules
            .due(since, context.rules.pass())
            .is_some_and(|due| due <= context.at());
        let by_user = context.rules.is_by_user("MachineSet", name(set));
        let excused = deployment["spec"]["paused"] == true || is_deleting(deployment) || by_user || !settled;
        (!excused && class(set) != class(deployment)).then(|| {
            format!(
                "set {} of class {} grew from {} to {}, but its deployment has class {}",
                name(set),
                class(set),
                replicas(before),
                replicas(set),
                class(deployment)
            )
        })
    }

    /// A sibling that ranks before the removed machine.
    fn better_victim(&self, context: &CheckContext, machine: &Value, set: &Value) -> Option<String> {
        let joined = |machine: &Value| matches!(phase(machine), "Running" | "Unknown");
        let before = context.before?;
        let own = priority(before);
        let settled = |since: Timestamp| {
            let due = context.rules.due(since, context.rules.pass());
            due.is_some_and(|due| due <= context.at())
        };
        siblings(context.world, machine, set)
            .filter(|sibling| !is_exempt(sibling))
            .find_map(|sibling| {
                let (others, since) = *self.priorities.get(uid(sibling))?;
                if others < own && settled(since) {
                    return Some(format!(
                        "machine {} of priority {own} was removed instead of {} of priority {others}",
                        name(machine),
                        name(sibling)
                    ));
                }
                let never_joined = matches!(phase(sibling), "" | "Pending" | "CrashLoopBackOff");
                let since = time(sibling, "/metadata/creationTimestamp")?;
                (others == own && joined(before) && never_joined && settled(since)).then(|| {
                    format!(
                        "machine {}, which had joined, was removed instead of {}, which never joined",
                        name(machine),
                        name(sibling)
                    )
                })
            })
    }
}

/// When a maximum is lowered, the oldest automatically preserved Machines are released, and not more than necessary.
fn released_out_of_turn(context: &CheckContext, owner: &Value) -> Option<String> {
    let entries = |object: &Value| -> Vec<Value> {
        let list = object.pointer("/status/preservations").and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let known = entries(context.before?);
    let all = entries(owner);
    let is_released = |entry: &Value| entry["released"] == true;
    let was_released = |entry: &&Value| known.iter().any(|one| one["uid"] == entry["uid"] && is_released(one));
    let (ending, staying): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|entry| is_released(entry));
    let now = ending.into_iter().filter(|entry| !was_released(entry));
    let age = |entry: &Value| (time(entry, "/created"), entry["name"].to_string());
    let youngest = now.max_by_key(|entry| age(entry))?;
    let older = staying
        .iter()
        .find(|entry| entry["by"] == "auto" && age(entry) < age(youngest));
    if let Some(older) = older {
        return Some(format!(
            "the lowered maximum of {} releases machine {} instead of the older {}",
            youngest["name"],
            name(owner),
            older["name"]
        ));
    }
    let limit = limit(owner);
    (staying.len() < limit).then(|| {
        format!(
            "preservations of {} are released until {} remain, but its maximum is {limit}",
            name(owner),
            staying.len()
        )
    })
}

/// Other Machines of the set that are not being deleted.
fn siblings<'a>(world: &'a WorldState, machine: &'a Value, set: &'a Value) -> impl Iterator<Item = &'a Value> {
    world.of_kind("Machine").filter(move |other| {
        owner(other, "MachineSet") == Some(name(set)) && !is_deleting(other) && uid(other) != uid(machine)
    })
}

/// Whether the machine had a VM and has none. Such a machine is deleted for that reason alone.
fn is_without_vm(world: &WorldState, machine: &Value) -> bool {
    let recorded = machine["spec"]["providerID"].as_str().is_some_and(|id| !id.is_empty());
    recorded && world.vms_of(name(machine)).next().is_none()
}

/// Whether the ranking does not apply: preserved Machines are removed last, and a set does not remove a machine that
/// was just transferred to it.
fn is_exempt(machine: &Value) -> bool {
    let preserved = time(machine, "/status/currentStatus/preserveExpiryTime").is_some();
    let draining = machine
        .pointer("/status/preservation")
        .is_some_and(|record| !record.is_null());
    preserved || draining || !label(machine, keys::UPDATE_RESULT_LABEL).is_empty()
}

fn priority(machine: &Value) -> i64 {
    let given = annotation(machine, keys::PRIORITY_ANNOTATION).and_then(|text| text.parse().ok());
    given.unwrap_or(3)
}

/// Whether the listed machine exists and nothing prevents its removal.
fn may_be_removed(world: &WorldState, deployment: &str, machine: &str) -> bool {
    let frozen = |object: &Value| label(object, keys::FREEZE_LABEL) == keys::TRUE;
    let Some(machine) = world.object("Machine", machine).filter(|machine| !is_deleting(machine)) else {
        return false;
    };
    let set = owner(machine, "MachineSet").and_then(|set| world.object("MachineSet", set));
    let deployment = world.object("MachineDeployment", deployment);
    set.is_some_and(|set| !frozen(set) && !is_deleting(set))
        && deployment.is_some_and(|deployment| !frozen(deployment) && !is_deleting(deployment))
        && phase(machine) != "Failed"
        && !is_exempt(machine)
}

/// A machine is created for an owner that is being deleted.
fn created_for_deleted_owner(context: &CheckContext, machine: &Value, set: &Value) -> Option<String> {
    let deployment = owner(set, "MachineDeployment").and_then(|owner| context.world.object("MachineDeployment", owner));
    let owners = [Some(set), deployment];
    let leaving = owners.into_iter().flatten().find(|owner| is_deleting(owner))?;
    Some(format!(
        "machine {} was created while its owner {} is being deleted",
        name(machine),
        name(leaving)
    ))
}

/// Whether the machine failed and is not preserved, or no longer: its phase may lag after a user removed its expiry.
fn is_replaced(machine: &Value) -> bool {
    let kept = time(machine, "/status/currentStatus/preserveExpiryTime").is_some();
    phase(machine) == "Failed" || phase(machine) == "Failed:Preserved" && !kept
}

/// Whether the machine may have been Failed without an observation of it: a relist delivers its deletion and the first
/// phase after it at once, which are two writes. A Running machine fails only on request of a health check.
fn was_failed_unseen(before: Option<&Value>, machine: &Value) -> bool {
    let may_fail = |before: &Value| phase(before) != "Running" || is_remediation_requested(machine);
    phase(machine) == "Terminating" && before.is_some_and(|before| phase(before) != "Terminating" && may_fail(before))
}

/// A node has an annotation value that cluster-autoscaler does not read, and the machine's template does not request
/// it.
fn unreadable_annotation(context: &CheckContext, node: &Value) -> Option<String> {
    annotation(node, keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION)?;
    let value = annotation(node, keys::SCALE_DOWN_DISABLED_ANNOTATION)?;
    let machine = context.world.object("Machine", label(node, keys::MACHINE_NAME_LABEL));
    let template = machine.and_then(|machine| machine.pointer("/spec/nodeTemplate"));
    let wanted = template.and_then(|template| annotation(template, keys::SCALE_DOWN_DISABLED_ANNOTATION));
    (value != "true" && wanted != Some(value)).then(|| {
        format!(
            "node {} disables its scale-down by {value:?}, but cluster-autoscaler reads only \"true\"",
            name(node)
        )
    })
}
