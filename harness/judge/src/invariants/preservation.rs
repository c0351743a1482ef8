//! I4 and I5: what preservation promises.
//!
//! I4: Machines that are preserved automatically are no more than their MachineDeployment's limit (and a MachineSet's,
//! where it has one of its own), at most two passes after any change. They are counted by the list
//! `status.preservations`, which holds Draining and Failed:Preserved ones. No automatic entry is ever made beyond the limit,
//! and none at all of a machine that was not kept before while a rollout is under way. One that was kept before, recovered
//! and fails again is entered whatever the limit (decisions.md), and stays until the limit is lowered once more.
//!
//! I5: a preserved Machine's VM lives until its expiry or a legal release: annotation `false` or removed, the expiry removed,
//! replicas lowered below what is left, explicit deletion of Machine, Node, set or deployment; or until the VM is deleted
//! behind everybody's back, as its Node goes then. A Machine that fails while its own
//! annotation asks for it becomes one, unless a rollout is under way, which a set alone never has. The write by which it
//! fails is made on the version that was decided on, so that what it asks for was known. A request may stand in the word of
//! the proposal's first version.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mcm_api::keys;
use scenario::PreservationDialect;
use serde_json::{Value, json};

use super::Check;
use super::check_context::{CheckContext, JudgingRules};
use crate::object::{annotation, is_deleting, label, name, owner, phase, text, time};
use crate::world::WorldState;

/// The annotation by which a person asks for a preservation or ends it.
const PRESERVE: &str = "node.machine.sapcloud.io/preserve";
/// The field that makes a Machine a preserved one.
const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";

/// I4.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// By object: since when it is above its limit.
    above: BTreeMap<(&'static str, String), Timestamp>,
    /// By object: the uids of those that were entered when they failed again, since the limit was lowered last.
    relapsed: BTreeMap<(&'static str, String), BTreeSet<String>>,
    rollouts: Rollouts,
}

/// Which deployments are being rolled out, as far as they say so.
#[derive(Debug, Default)]
struct Rollouts(BTreeMap<String, Rollout>);

#[derive(Debug)]
struct Rollout {
    /// What of the template was rolled out last; `None`: not known.
    rolled: Option<Value>,
    /// Since when one is, or none is, under way.
    since: Timestamp,
}

impl Rollouts {
    /// Takes a deployment in. Asked before that, it tells what was so until then.
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
            rolled: None,
            since: context.at(),
        });
        if hash.is_some() && context.before.and_then(rolled_out) != hash {
            rollout.rolled = Some(rolled(deployment));
        }
        if self.is_under_way(deployment) != was
            && let Some(rollout) = self.0.get_mut(name(deployment))
        {
            rollout.since = context.at();
        }
    }

    fn is_under_way(&self, deployment: &Value) -> bool {
        let known = self.0.get(name(deployment)).and_then(|rollout| rollout.rolled.as_ref());
        deployment["spec"]["paused"] != true && known.is_some_and(|known| *known != rolled(deployment))
    }

    /// Whether it is known since then that none is under way.
    fn none_since(&self, deployment: &Value, then: Timestamp) -> bool {
        let known = self.0.get(name(deployment));
        !self.is_under_way(deployment) && known.is_some_and(|rollout| rollout.rolled.is_some() && rollout.since <= then)
    }
}

/// What of a deployment's template makes machines new. Node template, settings and the class's kind are handed on in place.
fn rolled(deployment: &Value) -> Value {
    let template = &deployment["spec"]["template"];
    let spec = &template["spec"];
    let class = json!([spec["class"]["apiGroup"], spec["class"]["name"]]);
    json!({ "metadata": template["metadata"], "class": class, "providerID": spec["providerID"] })
}

impl Check for Limit {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
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
            "{kind} {named} has {count} Machines preserved automatically, and its limit is {limit}, since {since}"
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
        let again = new_entries(before, owner).filter(|entry| was_kept(entry, context.world));
        known.extend(again.map(|entry| text(entry, "/uid").to_owned()));
    }

    /// How many automatic entries there are beside relapses, and the limit that they are above.
    fn excess(&self, kind: &'static str, object: &Value) -> Option<(usize, usize)> {
        let relapsed = self.relapsed.get(&(kind, name(object).to_owned()));
        let is_relapse = |entry: &Value| relapsed.is_some_and(|uids| uids.contains(text(entry, "/uid")));
        let counts = |entry: &&Value| entry["by"] == "auto" && !is_relapse(entry);
        let automatic = entries(object).iter().filter(counts).count();
        let limit = limit(object);
        (automatic > limit).then_some((automatic, limit))
    }

    /// A machine is entered that was not kept before: automatically only while there is room, and by nobody while a
    /// rollout is under way. The list is written on the version that was decided on.
    fn wrongly_entered(&self, context: &CheckContext, owner: &Value) -> Option<String> {
        let all = entries(owner);
        let entry = new_entries(context.before?, owner).find(|entry| !was_kept(entry, context.world))?;
        if self.rollouts.is_under_way(owner) {
            return Some(format!(
                "machine {} is preserved, and {} is being rolled out",
                entry["name"],
                name(owner)
            ));
        }
        (entry["by"] == "auto" && all.len() > limit(owner)).then(|| {
            format!(
                "machine {} is preserved automatically as the {}. of {}, and the limit is {}",
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

/// What is in the list and was not before.
fn new_entries<'a>(before: &'a Value, owner: &'a Value) -> impl Iterator<Item = &'a Value> {
    let is_new = |entry: &&Value| !entries(before).iter().any(|one| one["uid"] == entry["uid"]);
    entries(owner).iter().filter(is_new)
}

/// Whether the machine of an entry was kept already when it failed.
fn was_kept(entry: &Value, world: &WorldState) -> bool {
    let machine = world.object("Machine", text(entry, "/name"));
    machine.is_some_and(|machine| stage(machine) == "Draining" || time(machine, EXPIRY).is_some())
}

/// How many machines of a set or deployment may be preserved automatically.
pub fn limit(owner: &Value) -> usize {
    let spec = &owner["spec"];
    let limit = spec["autoPreserveFailedMax"]
        .as_u64()
        .or_else(|| spec["autoPreserveFailedMachineMax"].as_u64());
    usize::try_from(limit.unwrap_or_default()).unwrap_or(usize::MAX)
}

/// I5.
#[derive(Debug, Default)]
pub(super) struct Lives {
    rollouts: Rollouts,
}

impl Check for Lives {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        self.rollouts.note(context);
        if let Some(machine) = context.applied("Machine") {
            if let Some(broken) = self.is_not_heard(context, machine) {
                return Some(broken);
            }
            let before = context.before.filter(|before| is_preserved(before, context))?;
            if let Some(broken) = released_early(context, before, machine) {
                return Some(broken);
            }
            let falls = is_deleting(machine) && !is_deleting(before);
            return (falls && !is_release_legal(context, before)).then(|| {
                format!(
                    "machine {}, preserved until {}, is to be deleted, and nothing released it",
                    name(machine),
                    time(before, EXPIRY).unwrap_or_default()
                )
            });
        }
        let vm = context.vm().filter(|vm| !vm.state.is_live())?;
        let machine = context.world.object("Machine", &vm.machine)?;
        let goes = is_deleting(machine) || context.truth.is_ending();
        (is_preserved(machine, context) && !goes && !context.rules.is_by_user("VM", &vm.machine)).then(|| {
            format!(
                "VM {} of machine {}, which is preserved, was deleted",
                vm.id, vm.machine
            )
        })
    }
}

impl Lives {
    /// It fails in this write, and is not kept though it asks for that itself. What comes from its Node is left out: it
    /// may have changed there meanwhile.
    fn is_not_heard(&self, context: &CheckContext, machine: &Value) -> Option<String> {
        let before = context.before?;
        let fails = phase(machine) == "Failed" && !phase(before).starts_with("Failed") && !is_deleting(machine);
        let asked = annotation(before, PRESERVE).filter(|asked| ["now", "when-failed"].contains(asked))?;
        let node = context.world.object("Node", label(machine, keys::NODE_LABEL));
        let of_node =
            annotation(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION).is_some() || node.and_then(request).is_some();
        let heard = !stage(machine).is_empty() || context.rules.dialect == PreservationDialect::Off;
        if !fails || of_node || heard || annotation(machine, PRESERVE) != Some(asked) {
            return None;
        }
        let set = context.world.object("MachineSet", owner(machine, "MachineSet")?)?;
        let Some(deployment) = owner(set, "MachineDeployment") else {
            // A set alone rolls nothing out.
            return (!is_deleting(set)).then(|| {
                let named = name(machine);
                format!("machine {named} fails and is not kept, though its annotation says {asked}")
            });
        };
        let deployment = context.world.object("MachineDeployment", deployment)?;
        // Two streams have no order between them.
        let settled = context.at().checked_sub(context.rules.pass()).ok()?;
        self.rollouts.none_since(deployment, settled).then(|| {
            format!(
                "machine {} fails and is not kept, though its annotation says {asked} and no rollout of {} is under way",
                name(machine),
                name(deployment)
            )
        })
    }
}

/// Draining or kept; one that is released already is judged when that begins.
fn is_preserved(machine: &Value, context: &CheckContext) -> bool {
    match stage(machine) {
        "Draining" => true,
        "Releasing" => false,
        _ => time(machine, EXPIRY).is_some_and(|expiry| expiry > context.at()),
    }
}

/// What an object asks for, in today's word or the first version's.
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

/// A preservation that ends, and what its Machine says of it contradicts the reason.
fn released_early(context: &CheckContext, before: &Value, machine: &Value) -> Option<String> {
    if stage(machine) != "Releasing" || is_deleting(machine) {
        return None;
    }
    let record = |field: &str| {
        machine
            .pointer(&format!("/status/preservation/{field}"))
            .and_then(Value::as_str)
    };
    let asked = annotation(machine, PRESERVE);
    let node = context.world.object("Node", label(machine, keys::NODE_LABEL));
    // What the Node says is written to the Machine, which may fail or recover before.
    let of_node = annotation(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION).is_some();
    let reason = record("reason").unwrap_or_default();
    let legal = match reason {
        "Expired" => time(machine, EXPIRY).is_some_and(|expiry| expiry <= context.at()),
        "Refused" => [Some(machine), node]
            .into_iter()
            .flatten()
            .any(|one| request(one) == Some("false")),
        "Removed" => request(machine).is_none() || of_node && node.is_some_and(|node| request(node).is_none()),
        // In the reference's dialect, of what was kept automatically as well.
        "NotFailed" => asked.is_some_and(|asked| ["when-failed", "auto-preserved"].contains(&asked)),
        "MaximumLowered" => record("by") == Some("auto"),
        "ExpiryRemoved" => time(before, EXPIRY).is_none(),
        "RollingOut" => true,
        _ => false,
    };
    (!legal).then(|| {
        format!(
            "the preservation of machine {} ends because of {reason:?}, and its annotation is {asked:?}, its expiry {:?}",
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
    // A machine without a set is its keeper's, whose number is honoured like a set's.
    let Some(set) = owner(machine, "MachineSet") else {
        return rules.keeper;
    };
    let fewer = |object: &Value| {
        let left = world
            .of_kind("Machine")
            .filter(|other| owner(other, "MachineSet") == Some(set) && !is_deleting(other))
            .count();
        object["spec"]["replicas"]
            .as_u64()
            .is_some_and(|replicas| replicas as usize <= left)
    };
    let set = world.object("MachineSet", set);
    set.is_none_or(|set| is_deleting(set) || fewer(set))
}
