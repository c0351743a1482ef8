//! I4 and I5: the guarantees of preservation.
//!
//! I4: automatically preserved Machines do not exceed the limit of their MachineDeployment (or of their MachineSet, if
//! it has its own) longer than two passes after a change. The list `status.preservations` is counted, which holds
//! Draining and Failed:Preserved Machines. No automatic entry is added beyond the limit. While a rollout is in
//! progress, no Machine is added that was not preserved before. A Machine that was preserved before, recovered and
//! fails again is added whatever the limit is (decisions.md), and stays until the limit is lowered again.
//!
//! I5: the VM of a preserved Machine lives until its expiry or a legal release. Legal releases: the annotation is
//! `false` or removed; the expiry is removed; replicas are lowered below the number of remaining Machines; a user
//! deletes the Machine, Node, set or deployment; the VM is deleted outside the controller's control, because its Node
//! disappears then.
//!
//! A Machine that fails while its own annotation requests preservation is preserved, unless a rollout is in progress,
//! which a standalone set never has. The write that sets the Failed phase is based on the version that was decided on,
//! so the request was known. A request may use the annotation of the proposal's first version.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mcm_api::keys;
use scenario::PreservationDialect;
use serde_json::{Value, json};

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use crate::object::{annotation, is_deleting, label, name, owner, phase, text, time};
use crate::world::WorldState;

/// The annotation with which a user requests a preservation or ends it.
const PRESERVE: &str = "node.machine.sapcloud.io/preserve";
/// The field that marks a Machine as preserved.
const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";

/// I4.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// By object: since when it exceeds its limit.
    above: BTreeMap<(&'static str, String), Timestamp>,
    /// By object: uids of entries that were added because a Machine failed again, since the limit was last lowered.
    relapsed: BTreeMap<(&'static str, String), BTreeSet<String>>,
    rollouts: Rollouts,
}

/// Rollouts in progress, according to the status of deployments.
#[derive(Debug, Default)]
struct Rollouts(BTreeMap<String, Rollout>);

#[derive(Debug)]
struct Rollout {
    /// The part of the template that was rolled out last; `None`: unknown.
    rolled_template: Option<Value>,
    /// Since when a rollout is, or none is, in progress.
    since: Timestamp,
}

impl Rollouts {
    /// Records a change of a deployment. Queries that precede this call see the state before the change.
    fn note(&mut self, context: &CheckContext) {
        if let Some(deployment) = context.deleted("MachineDeployment") {
            self.0.remove(name(deployment));
        }
        let Some(deployment) = context.applied("MachineDeployment") else {
            return;
        };
        let was = context.before.is_some_and(|before| self.is_under_way(before));
        let rolled_out = |object: &Value| object.pointer("/status/rolledOut").cloned();
        let hash = rolled_out(deployment);
        let rollout = self.0.entry(name(deployment).to_owned()).or_insert(Rollout {
            rolled_template: None,
            since: context.at(),
        });
        if hash.is_some() && context.before.and_then(rolled_out) != hash {
            rollout.rolled_template = Some(rolled_template(deployment));
        }
        if self.is_under_way(deployment) != was
            && let Some(rollout) = self.0.get_mut(name(deployment))
        {
            rollout.since = context.at();
        }
    }

    fn is_under_way(&self, deployment: &Value) -> bool {
        let known = self
            .0
            .get(name(deployment))
            .and_then(|rollout| rollout.rolled_template.as_ref());
        deployment["spec"]["paused"] != true && known.is_some_and(|known| *known != rolled_template(deployment))
    }

    /// Whether no rollout has been in progress since `then`.
    fn none_since(&self, deployment: &Value, then: Timestamp) -> bool {
        let known = self.0.get(name(deployment));
        !self.is_under_way(deployment)
            && known.is_some_and(|rollout| rollout.rolled_template.is_some() && rollout.since <= then)
    }
}

/// The part of a deployment's template whose change replaces machines. Node template, settings and the class's kind are
/// updated in place.
fn rolled_template(deployment: &Value) -> Value {
    let template = &deployment["spec"]["template"];
    let spec = &template["spec"];
    let class = json!([spec["class"]["apiGroup"], spec["class"]["name"]]);
    json!({ "metadata": template["metadata"], "class": class, "providerID": spec["providerID"] })
}

impl Check for Limit {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        for kind in ["MachineDeployment", "MachineSet"] {
            if let Some(object) = context.deleted(kind) {
                let key = (kind, name(object).to_owned());
                self.above.remove(&key);
                self.relapsed.remove(&key);
                self.rollouts.note(context);
            }
            if let Some(object) = context.applied(kind) {
                let key = (kind, name(object).to_owned());
                self.note_relapses(&key, context, object);
                if self.excess(kind, object).is_some() {
                    self.above.entry(key).or_insert(context.at());
                } else {
                    self.above.remove(&key);
                }
                let entered = self.wrongly_entered(context, object);
                self.rollouts.note(context);
                return entered;
            }
        }
        None
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        self.above
            .values()
            .filter_map(|since| rules.due(*since, 2 * rules.pass()))
            .min()
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        let late = |since: &Timestamp| rules.due(*since, 2 * rules.pass()).is_some_and(|due| due <= now);
        let ((kind, named), since) = self.above.iter().find(|(_, since)| late(since))?;
        let (count, limit) = self.excess(kind, world.object(kind, named)?)?;
        Some(format!(
            "{kind} {named} has {count} automatically preserved Machines since {since}, but its limit is {limit}"
        ))
    }
}

impl Limit {
    fn note_relapses(&mut self, key: &(&'static str, String), context: &CheckContext, owner: &Value) {
        let known = self.relapsed.entry(key.clone()).or_default();
        let Some(before) = context.before else { return };
        if limit(owner) < limit(before) {
            known.clear();
        }
        let again = new_entries(before, owner).filter(|entry| was_preserved(entry, context.world));
        known.extend(again.map(|entry| text(entry, "/uid").to_owned()));
    }

    /// Number of automatic entries without relapses, and the limit, if they exceed it.
    fn excess(&self, kind: &'static str, object: &Value) -> Option<(usize, usize)> {
        let relapsed = self.relapsed.get(&(kind, name(object).to_owned()));
        let is_relapse = |entry: &Value| relapsed.is_some_and(|uids| uids.contains(text(entry, "/uid")));
        let counts = |entry: &&Value| entry["by"] == "auto" && !is_relapse(entry);
        let automatic = entries(object).iter().filter(counts).count();
        let limit = limit(object);
        (automatic > limit).then_some((automatic, limit))
    }

    /// Finds a new entry for a Machine that was not preserved before and that is illegal: an automatic one beyond the
    /// limit, or any one during a rollout. The list is written based on the version that was decided on.
    fn wrongly_entered(&self, context: &CheckContext, owner: &Value) -> Option<String> {
        let all = entries(owner);
        let entry = new_entries(context.before?, owner).find(|entry| !was_preserved(entry, context.world))?;
        if self.rollouts.is_under_way(owner) {
            return Some(format!(
                "machine {} is preserved while {} is being rolled out",
                entry["name"],
                name(owner)
            ));
        }
        (entry["by"] == "auto" && all.len() > limit(owner)).then(|| {
            format!(
                "machine {} is preserved automatically as number {} of {}, but the limit is {}",
                entry["name"],
                all.len(),
                name(owner),
                limit(owner)
            )
        })
    }
}

fn entries(owner: &Value) -> &[Value] {
    let list = owner.pointer("/status/preservations").and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Entries that the previous version of the list does not have.
fn new_entries<'a>(before: &'a Value, owner: &'a Value) -> impl Iterator<Item = &'a Value> {
    let is_new = |entry: &&Value| !entries(before).iter().any(|one| one["uid"] == entry["uid"]);
    entries(owner).iter().filter(is_new)
}

/// Whether the entry's Machine was already preserved when it failed.
fn was_preserved(entry: &Value, world: &WorldState) -> bool {
    let machine = world.object("Machine", text(entry, "/name"));
    machine.is_some_and(|machine| stage(machine) == "Draining" || time(machine, EXPIRY).is_some())
}

/// The maximum of automatically preserved Machines of a set or deployment.
pub fn limit(owner: &Value) -> usize {
    let spec = &owner["spec"];
    let limit = spec["autoPreserveFailedMax"]
        .as_u64()
        .or_else(|| spec["autoPreserveFailedMachineMax"].as_u64());
    usize::try_from(limit.unwrap_or_default()).unwrap_or(usize::MAX)
}

/// I5.
#[derive(Debug, Default)]
pub(super) struct PreservedVmLives {
    rollouts: Rollouts,
}

impl Check for PreservedVmLives {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        self.rollouts.note(context);
        if let Some(machine) = context.applied("Machine") {
            if let Some(violation) = self.ignores_request(context, machine) {
                return Some(violation);
            }
            let before = context.before.filter(|before| is_preserved(before, context))?;
            if let Some(violation) = released_early(context, before, machine) {
                return Some(violation);
            }
            let begins_deletion = is_deleting(machine) && !is_deleting(before);
            return (begins_deletion && !is_release_legal(context, before)).then(|| {
                let expiry = time(before, EXPIRY).map(|expiry| format!("until {expiry}"));
                let expiry = expiry.unwrap_or_else(|| "but without an expiry in its status".to_owned());
                format!(
                    "machine {}, preserved {expiry}, is being deleted without a release",
                    name(machine)
                )
            });
        }
        let vm = context.vm().filter(|vm| !vm.state.is_live())?;
        let machine = context.world.object("Machine", &vm.machine)?;
        let is_ending = is_deleting(machine) || context.truth.is_ending();
        (is_preserved(machine, context) && !is_ending && !context.rules.is_by_user("VM", &vm.machine)).then(|| {
            format!(
                "VM {} of machine {}, which is preserved, was deleted",
                vm.id, vm.machine
            )
        })
    }
}

impl PreservedVmLives {
    /// The Machine fails in this write and is not preserved, although its own annotation requests that. Requests of its
    /// Node are left out, because they may have changed meanwhile.
    fn ignores_request(&self, context: &CheckContext, machine: &Value) -> Option<String> {
        let before = context.before?;
        let fails = phase(machine) == "Failed" && !phase(before).starts_with("Failed") && !is_deleting(machine);
        let requested = annotation(before, PRESERVE).filter(|requested| ["now", "when-failed"].contains(requested))?;
        let node = context.world.object("Node", label(machine, keys::NODE_LABEL));
        let of_node =
            annotation(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION).is_some() || node.and_then(request).is_some();
        let honoured = !stage(machine).is_empty() || context.rules.dialect == PreservationDialect::Off;
        if !fails || of_node || honoured || annotation(machine, PRESERVE) != Some(requested) {
            return None;
        }
        let set = context.world.object("MachineSet", owner(machine, "MachineSet")?)?;
        let Some(deployment) = owner(set, "MachineDeployment") else {
            // A standalone set has no rollouts.
            return (!is_deleting(set)).then(|| {
                let machine_name = name(machine);
                format!("machine {machine_name} fails and is not preserved, although its annotation is {requested}")
            });
        };
        let deployment = context.world.object("MachineDeployment", deployment)?;
        // The watches of two kinds have no common order.
        let settled = context.at().checked_sub(context.rules.pass()).ok()?;
        self.rollouts.none_since(deployment, settled).then(|| {
            format!(
                "machine {} fails and is not preserved, although its annotation is {requested} and no rollout of {} is in progress",
                name(machine),
                name(deployment)
            )
        })
    }
}

/// Whether the Machine is draining for preservation or preserved. A release is judged when it begins.
fn is_preserved(machine: &Value, context: &CheckContext) -> bool {
    match stage(machine) {
        "Draining" => true,
        "Releasing" => false,
        _ => time(machine, EXPIRY).is_some_and(|expiry| expiry > context.at()),
    }
}

/// The preservation request of an object, by the current annotation or the one of the proposal's first version.
fn request(object: &Value) -> Option<&str> {
    let first = || match annotation(object, keys::PRESERVE_WHEN_FAILED_ANNOTATION)? {
        "true" => Some("when-failed"),
        other => Some(other),
    };
    annotation(object, PRESERVE).or_else(first)
}

fn stage(machine: &Value) -> &str {
    let stage = machine.pointer("/status/preservation/stage");
    stage.and_then(Value::as_str).unwrap_or_default()
}

/// A preservation that ends for a reason that contradicts the state of its Machine.
fn released_early(context: &CheckContext, before: &Value, machine: &Value) -> Option<String> {
    if stage(machine) != "Releasing" || is_deleting(machine) {
        return None;
    }
    let record = |field: &str| {
        machine
            .pointer(&format!("/status/preservation/{field}"))
            .and_then(Value::as_str)
    };
    let requested = annotation(machine, PRESERVE);
    let node = context.world.object("Node", label(machine, keys::NODE_LABEL));
    // mcm copies the Node's request to the Machine, which may fail or recover before that.
    let of_node = annotation(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION).is_some();
    let reason = record("reason").unwrap_or_default();
    let legal = match reason {
        "Expired" => time(machine, EXPIRY).is_some_and(|expiry| expiry <= context.at()),
        "Refused" => [Some(machine), node]
            .into_iter()
            .flatten()
            .any(|one| request(one) == Some("false")),
        "Removed" => request(machine).is_none() || of_node && node.is_some_and(|node| request(node).is_none()),
        // In the upstream dialect also for automatically preserved Machines.
        "NotFailed" => requested.is_some_and(|requested| ["when-failed", "auto-preserved"].contains(&requested)),
        "MaximumLowered" => record("by") == Some("auto"),
        "ExpiryRemoved" => time(before, EXPIRY).is_none(),
        "RollingOut" => true,
        _ => false,
    };
    (!legal).then(|| {
        format!(
            "the preservation of machine {} ends because of {reason:?}, but its annotation is {requested:?} and its expiry {:?}",
            name(machine),
            time(before, EXPIRY)
        )
    })
}

fn is_release_legal(context: &CheckContext, machine: &Value) -> bool {
    let (world, rules) = (context.world, context.rules);
    if request(machine) == Some("false") {
        return true;
    }
    let has_lost_its_vm = rules.is_by_user("VM", name(machine)) && world.vms_of(name(machine)).next().is_none();
    if rules.is_deleted_by_user(machine) || has_lost_its_vm {
        return true;
    }
    // A Machine without a set belongs to a keeper, whose replica count is honoured like that of a set.
    let Some(set) = owner(machine, "MachineSet") else {
        return rules.keeper;
    };
    let scaled_down = |object: &Value| {
        let left = world
            .of_kind("Machine")
            .filter(|other| owner(other, "MachineSet") == Some(set) && !is_deleting(other))
            .count();
        object["spec"]["replicas"]
            .as_u64()
            .is_some_and(|replicas| replicas as usize <= left)
    };
    let set = world.object("MachineSet", set);
    set.is_none_or(|set| is_deleting(set) || scaled_down(set))
}
