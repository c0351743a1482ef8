//! I15: the right victim, and no churn. What disappears is what was named, else what ranks first; nobody is removed beyond
//! the request; a controller never makes what it then removes without a change of the spec in between.
//!
//! Judged of Machines of a MachineSet. Names are those of cluster-autoscaler's list on the deployment; of ranks it is held
//! that a smaller priority goes first, and among equal ones a Machine that never joined before one that did. Sets of an
//! older template do not grow, and nodes on which cluster-autoscaler is asked to keep away say so in the word that it reads.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::{CheckContext, JudgingRules};
use super::named::Lately;
use super::preservation::limit;
use crate::object::{after, annotation, is_deleting, label, name, owner, phase, time, uid, version};
use crate::world::WorldState;

/// A set's generation, and how many machines it wants.
type Wanted = (i64, i64);

#[derive(Debug, Default)]
pub(super) struct Victims {
    /// By Machine uid: the set's generation and replicas when it was made.
    made: BTreeMap<String, Wanted>,
    /// By set: its resourceVersion, generation and replicas, each time that they changed, and when.
    specs: BTreeMap<String, Vec<(u64, Wanted, Timestamp)>>,
    /// By Machine uid: its priority, and since when.
    priorities: BTreeMap<String, (i64, Timestamp)>,
    /// By deployment: when its template changed last.
    templates: BTreeMap<String, Timestamp>,
    /// By deployment and Machine: since when it is named.
    named: BTreeMap<(String, String), Timestamp>,
    lately: Lately,
    /// By set: its generation when one went that was not named, and when that was.
    unnamed: BTreeMap<String, (i64, Timestamp)>,
    /// By set: when machines of it went that no set took.
    lost: BTreeMap<String, VecDeque<Timestamp>>,
}

impl Check for Victims {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(deployment) = context.applied("MachineDeployment") {
            self.deployment(context, deployment);
            return released_out_of_turn(context, deployment);
        }
        if let Some(deployment) = context.deleted("MachineDeployment") {
            self.named.retain(|(owner, _), _| owner != name(deployment));
        }
        if let Some(set) = context.applied("MachineSet") {
            self.note(set, context.at());
            return released_out_of_turn(context, set).or_else(|| self.grows_in_vain(context, set));
        }
        if let Some(node) = context.applied("Node") {
            return misspelt(context, node);
        }
        if let Some(machine) = context.deleted("Machine") {
            self.made.remove(uid(machine));
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
            let made_under = self.spec_at(context, set, machine).unwrap_or((generation, replicas));
            self.made.insert(uid(machine).to_owned(), made_under);
            return made_for_nobody(context, machine, set);
        }
        let removed = is_deleting(machine) && !context.before.is_some_and(is_deleting);
        let asked = is_deleting(set) || context.rules.is_deleted_by_user(machine) || is_replaced(machine);
        if !removed {
            return None;
        }
        let lost = self.lost.entry(name(set).to_owned()).or_default();
        lost.retain(|at| context.at() <= after(*at, context.rules.pass()));
        let leapt = context.rules.leapt.get(name(set)) == Some(&context.at());
        if asked || leapt || is_without_vm(context.world, machine) {
            lost.push_back(context.at());
            return None;
        }
        // Who does not know yet that others went counts them.
        let left = siblings(context.world, machine, set).count() as i64 + lost.len() as i64;
        let named = self.is_named(context, machine);
        let others_went = self
            .unnamed
            .get(uid(set))
            .is_some_and(|(known, at)| *known == generation && context.at() <= after(*at, context.rules.pass()));
        if !named {
            self.unnamed.insert(uid(set).to_owned(), (generation, context.at()));
        }
        let wanted = self.fewest(context, set, replicas);
        if left < wanted && (!named || others_went) {
            return Some(format!(
                "machine {} of set {} was removed beyond the request: {left} are left of {wanted}",
                name(machine),
                name(set)
            ));
        }
        if let Some(better) = self.better(context, machine, set) {
            return Some(better);
        }
        let made_under = self.made.get(uid(machine))?;
        (*made_under == (generation, replicas) && !named).then(|| {
            format!(
                "set {} removed machine {}, which it made without a change of its spec since",
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
            .retain(|(deployment, machine), _| may_go(world, deployment, machine));
        let late = |since: &Timestamp| rules.due(*since, 2 * rules.pass()).is_some_and(|due| due <= now);
        let ((deployment, machine), since) = self.named.iter().find(|(_, since)| late(since))?;
        Some(format!(
            "machine {machine} of {deployment} was named by cluster-autoscaler at {since}, and stays"
        ))
    }
}

impl Victims {
    fn note(&mut self, set: &Value, at: Timestamp) {
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

    /// What the set wanted when the machine was asked for: the two are told of side by side. While requests may take long
    /// one of before a change may be answered after it.
    fn spec_at(&self, context: &CheckContext, set: &Value, machine: &Value) -> Option<Wanted> {
        let made = version(machine)?;
        let mut specs = self.specs.get(name(set))?.iter().rev();
        let (_, spec, since) = specs.find(|(version, ..)| *version <= made)?;
        let under_way = context.rules.calm_since.is_none() && context.at() <= after(*since, context.rules.pass());
        let before = specs.next().filter(|_| under_way);
        Some(before.map_or(*spec, |(_, before, _)| *before))
    }

    /// The smallest number that was asked for, now or until a pass ago while watches may lag: whoever has not heard of the
    /// new one goes by that.
    fn fewest(&self, context: &CheckContext, set: &Value, now: i64) -> i64 {
        let lagging = context.rules.calm_since.is_none();
        let specs = self.specs.get(name(set)).map(Vec::as_slice).unwrap_or_default();
        let replaced = specs.iter().zip(specs.iter().skip(1).map(|(_, _, since)| *since));
        let lately = replaced.filter(|(_, until)| lagging && context.at() <= after(*until, context.rules.pass()));
        let before = lately.map(|((_, (_, replicas), _), _)| *replicas);
        before.fold(now, i64::min)
    }

    fn deployment(&mut self, context: &CheckContext, deployment: &Value) {
        let called = name(deployment);
        let template = |deployment: &Value| deployment["spec"]["template"].clone();
        if context
            .before
            .is_some_and(|before| template(before) != template(deployment))
        {
            self.templates.insert(called.to_owned(), context.at());
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
        // Whoever puts the list in order drops those that go.
        self.named
            .retain(|(owner, machine), _| owner != called || listed.contains(&machine.as_str()));
        self.lately.note(context);
        for machine in listed {
            let key = (called.to_owned(), machine.to_owned());
            self.named.entry(key).or_insert(context.at());
        }
    }

    /// Whether the machine is on a list, or was a moment ago.
    fn is_named(&self, context: &CheckContext, machine: &Value) -> bool {
        self.lately.has(context, machine) || self.named.keys().any(|(_, named)| named == name(machine))
    }

    /// More machines are ordered of a template that is to vanish.
    fn grows_in_vain(&self, context: &CheckContext, set: &Value) -> Option<String> {
        let replicas = |set: &Value| set["spec"]["replicas"].as_i64().unwrap_or_default();
        // A step that asks for a set may be told of it before the watch is.
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
        let by_hand = context.rules.is_by_user("MachineSet", name(set));
        let excused = deployment["spec"]["paused"] == true || is_deleting(deployment) || by_hand || !settled;
        (!excused && class(set) != class(deployment)).then(|| {
            format!(
                "set {} of class {} grew from {} to {}, and its deployment is of class {}",
                name(set),
                class(set),
                replicas(before),
                replicas(set),
                class(deployment)
            )
        })
    }

    /// A sibling that ranks before the machine that was removed.
    fn better(&self, context: &CheckContext, machine: &Value, set: &Value) -> Option<String> {
        let joined = |machine: &Value| matches!(phase(machine), "Running" | "Unknown");
        let before = context.before?;
        let own = priority(before);
        let settled = |since: Timestamp| {
            let due = context.rules.due(since, context.rules.pass());
            due.is_some_and(|due| due <= context.at())
        };
        siblings(context.world, machine, set)
            .filter(|sibling| !is_excepted(sibling))
            .find_map(|sibling| {
                let (others, since) = *self.priorities.get(uid(sibling))?;
                if others < own && settled(since) {
                    return Some(format!(
                        "machine {} of priority {own} was removed, and {} of priority {others} stays",
                        name(machine),
                        name(sibling)
                    ));
                }
                let never_joined = matches!(phase(sibling), "" | "Pending" | "CrashLoopBackOff");
                let since = time(sibling, "/metadata/creationTimestamp")?;
                (others == own && joined(before) && never_joined && settled(since)).then(|| {
                    format!(
                        "machine {}, which had joined, was removed, and {} stays, which never did",
                        name(machine),
                        name(sibling)
                    )
                })
            })
    }
}

/// When a maximum is lowered, of the failed machines that are kept automatically those end that were created first, and no
/// more than must.
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
            "the preservation of machine {} ends with the maximum of {}, and that of {}, which is older, goes on",
            youngest["name"],
            name(owner),
            older["name"]
        ));
    }
    let limit = limit(owner);
    (staying.len() < limit).then(|| {
        format!(
            "preservations of {} end until {} are left, and its maximum is {limit}",
            name(owner),
            staying.len()
        )
    })
}

/// Machines of the set that stay, beside that one.
fn siblings<'a>(world: &'a WorldState, machine: &'a Value, set: &'a Value) -> impl Iterator<Item = &'a Value> {
    world.of_kind("Machine").filter(move |other| {
        owner(other, "MachineSet") == Some(name(set)) && !is_deleting(other) && uid(other) != uid(machine)
    })
}

/// Whether the machine had a VM and has none: it goes by itself.
fn is_without_vm(world: &WorldState, machine: &Value) -> bool {
    let recorded = machine["spec"]["providerID"].as_str().is_some_and(|id| !id.is_empty());
    recorded && world.vms_of(name(machine)).next().is_none()
}

/// Preserved ones go last, and one that was handed over is not the set's to take yet.
fn is_excepted(machine: &Value) -> bool {
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

/// Whether what was named is there, and nothing holds it.
fn may_go(world: &WorldState, deployment: &str, machine: &str) -> bool {
    let frozen = |object: &Value| label(object, keys::FREEZE_LABEL) == keys::TRUE;
    let Some(machine) = world.object("Machine", machine).filter(|machine| !is_deleting(machine)) else {
        return false;
    };
    let set = owner(machine, "MachineSet").and_then(|set| world.object("MachineSet", set));
    let deployment = world.object("MachineDeployment", deployment);
    set.is_some_and(|set| !frozen(set) && !is_deleting(set))
        && deployment.is_some_and(|deployment| !frozen(deployment) && !is_deleting(deployment))
        && phase(machine) != "Failed"
        && !is_excepted(machine)
}

/// Nobody needs machines of an owner that is to go.
fn made_for_nobody(context: &CheckContext, machine: &Value, set: &Value) -> Option<String> {
    let deployment = owner(set, "MachineDeployment").and_then(|owner| context.world.object("MachineDeployment", owner));
    let owners = [Some(set), deployment];
    let leaving = owners.into_iter().flatten().find(|owner| is_deleting(owner))?;
    Some(format!(
        "machine {} was made, and its owner {} is being deleted",
        name(machine),
        name(leaving)
    ))
}

/// Whether the machine failed, and nobody keeps it, or no longer: a person removed its expiry, and its phase does not say so
/// yet.
fn is_replaced(machine: &Value) -> bool {
    let kept = time(machine, "/status/currentStatus/preserveExpiryTime").is_some();
    phase(machine) == "Failed" || phase(machine) == "Failed:Preserved" && !kept
}

/// What cluster-autoscaler does not read does not keep it away, unless the machine's template says so.
fn misspelt(context: &CheckContext, node: &Value) -> Option<String> {
    annotation(node, keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION)?;
    let value = annotation(node, keys::SCALE_DOWN_DISABLED_ANNOTATION)?;
    let machine = context.world.object("Machine", label(node, keys::MACHINE_NAME_LABEL));
    let template = machine.and_then(|machine| machine.pointer("/spec/nodeTemplate"));
    let wanted = template.and_then(|template| annotation(template, keys::SCALE_DOWN_DISABLED_ANNOTATION));
    (value != "true" && wanted != Some(value)).then(|| {
        format!(
            "node {} asks cluster-autoscaler to keep away by {value:?}, and it reads \"true\" alone",
            name(node)
        )
    })
}
