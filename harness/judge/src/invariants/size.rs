//! I7: size bounds of a MachineDeployment.
//!
//! (a) When a Machine is made, those that are not Terminating are at most replicas + maxSurge. (b) The same with
//! Terminating ones counted, while nothing has failed, VMs that others deleted included, and no person has deleted one,
//! resized the deployment, or paused it in the midst of a Recreate: its last set gets the whole number back at once
//! (mcd-mcs.md 2.7, scaling while paused). (c) When a controller removes a Running one, what is available is at least
//! replicas - maxUnavailable, less what faults took; for a pass after a change of that, by the smaller number: an order of
//! before may still be carried out.
//!
//! Nothing to judge while no MachineDeployment of the Machine's label exists.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::{CheckContext, JudgingRules};
use super::named::{Lately, listed};
use crate::object::{after, annotation, bounds, is_deleting, label, name, phase, share, time, version};
use crate::world::{WorldState, machines_of};

/// How long requests may be under way that mcm made before it knew of a change: one for each machine of a batch.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// Deployments one of whose machines has failed, or whose size was changed.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// By deployment: how many Machines it has.
    machines: BTreeMap<String, Count>,
    disturbed: BTreeSet<String>,
    /// By deployment: how many were to be available before, and until when orders of then may still be carried out.
    before: BTreeMap<String, (i64, Timestamp)>,
    /// By deployment: when machines of it went that a person deleted, whose VM had ended, or that had failed and were kept.
    lost: BTreeMap<String, VecDeque<Timestamp>>,
    named: Lately,
    /// By deployment: how many Machines it might have before, and how that changed.
    limits: BTreeMap<String, Changed>,
    /// Who leads, and since when.
    leader: Option<(String, Timestamp)>,
    /// A machine too many, as far as was known when it was seen.
    suspected: Option<Suspected>,
}

/// How many Machines a deployment has. Counting them anew for each one that is made takes minutes where thousands are.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: i64,
    /// Those that are not Terminating.
    live: i64,
}

/// A machine too many, unless its deployment was changed before it was made: who watches through an outage sees writes to
/// objects of two kinds in any order.
#[derive(Debug)]
struct Suspected {
    deployment: String,
    /// The machine's resourceVersion.
    made: Option<u64>,
    /// When it was made.
    created: Option<Timestamp>,
    until: Timestamp,
    excess: Excess,
}

/// More Machines than there may be.
#[derive(Debug)]
struct Excess {
    /// How many there are, by the count that is too high.
    count: i64,
    /// How many there may be.
    most: i64,
    /// Whether those that go are among them.
    going: bool,
    words: String,
}

/// A change that mcm may not have seen yet.
#[derive(Clone, Copy, Debug)]
struct Changed {
    /// The most Machines that there might be before.
    most: i64,
    at: Timestamp,
    /// The deployment's generation since then.
    generation: i64,
    /// The write by which mcm said first that it knows of it.
    told: Option<Acknowledgement>,
}

#[derive(Clone, Copy, Debug)]
struct Acknowledgement {
    resource_version: u64,
    at: Timestamp,
}

impl Check for Size {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        self.count(context);
        self.look_for_leader(context);
        if let Some(words) = self.confirmed(context.at()) {
            return Some(words);
        }
        if let Some(deployment) = context.applied("MachineDeployment") {
            self.explain(deployment);
            let before = context.before?;
            self.named.note(context);
            self.limit_changed(context, before, deployment);
            self.note_told(context, deployment);
            let resized = before["spec"]["replicas"] != deployment["spec"]["replicas"];
            if resized || interrupts_recreate(before, deployment) {
                self.disturbed.insert(name(deployment).to_owned());
            }
            self.promise_changed(context, before, deployment);
            return None;
        }
        let machine = context.applied("Machine")?;
        let called = label(machine, keys::DEPLOYMENT_LABEL);
        let deployment = context.world.object("MachineDeployment", called)?;
        if ["Failed", "Unknown", "CrashLoopBackOff"].contains(&phase(machine)) {
            self.disturbed.insert(called.to_owned());
        }
        if context.before.is_none() && context.rules.is_by_user("Machine", name(machine)) {
            self.disturbed.insert(called.to_owned());
            return None;
        }
        if context.before.is_none() {
            let excess = self.made(context, deployment, machine)?;
            if context.rules.calm_since.is_some() {
                return Some(excess.words);
            }
            self.suspected.get_or_insert(Suspected {
                deployment: called.to_owned(),
                made: version(machine),
                created: time(machine, "/metadata/creationTimestamp"),
                until: context
                    .rules
                    .timeouts
                    .deadline(context.at(), context.rules.timeouts.slack),
                excess,
            });
            return None;
        }
        let removed = is_deleting(machine) && !context.before.is_some_and(is_deleting);
        if removed {
            self.explain_by_removal(called, machine);
        }
        if !removed || self.is_named(context, machine, deployment) || is_preferred(context, machine) {
            return None;
        }
        let lost = context.rules.is_deleted_by_user(machine) || has_lost_its_vm(context.world, machine);
        if lost {
            // Whatever the strategy, its set makes another one at once.
            self.disturbed.insert(called.to_owned());
        }
        // A rollout does without the failed machines that are kept; it takes them in the pass in which it takes others.
        let kept = context.before.is_some_and(|before| phase(before) == "Failed:Preserved");
        if kept || lost {
            self.lost.entry(called.to_owned()).or_default().push_back(context.at());
            return None;
        }
        self.too_few(context, deployment)
    }

    fn due(&self, _: &JudgingRules) -> Option<Timestamp> {
        Some(self.suspected.as_ref()?.until)
    }

    fn overdue(&mut self, now: Timestamp, _: &WorldState, _: &JudgingRules) -> Option<String> {
        self.confirmed(now)
    }
}

impl Size {
    fn count(&mut self, context: &CheckContext) {
        let now = context.applied("Machine");
        if now.or(context.deleted("Machine")).is_none() {
            return;
        }
        let mut add = |machine: &Value, number: i64| {
            let count = self
                .machines
                .entry(label(machine, keys::DEPLOYMENT_LABEL).to_owned())
                .or_default();
            count.all += number;
            count.live += if is_deleting(machine) { 0 } else { number };
        };
        if let Some(before) = context.before {
            add(before, -1);
        }
        if let Some(now) = now {
            add(now, 1);
        }
    }

    fn confirmed(&mut self, now: Timestamp) -> Option<String> {
        let suspected = self.suspected.take_if(|suspected| now >= suspected.until)?;
        Some(suspected.excess.words)
    }

    /// Whether cluster-autoscaler named the machine, now or a moment ago: whoever names one that serves wants it to go.
    fn is_named(&self, context: &CheckContext, machine: &Value, deployment: &Value) -> bool {
        self.named.has(context, machine) || listed(deployment).any(|named| named == name(machine))
    }

    /// A deployment that is seen late, and allowed before what was suspected.
    fn explain(&mut self, deployment: &Value) {
        let (replicas, surge, _) = numbers(deployment);
        self.suspected.take_if(|suspected| {
            let before = version(deployment)
                .zip(suspected.made)
                .is_none_or(|(written, made)| written < made);
            suspected.deployment == name(deployment) && before && suspected.excess.count <= replicas + surge
        });
    }

    /// A machine that was ordered away before what was suspected was made, and is seen so late: a list that is read anew
    /// tells of machines in the order of their names.
    fn explain_by_removal(&mut self, deployment: &str, machine: &Value) {
        let ordered = time(machine, "/metadata/deletionTimestamp");
        self.suspected.take_if(|suspected| {
            let excess = &mut suspected.excess;
            let before = ordered
                .zip(suspected.created)
                .is_some_and(|(ordered, made)| ordered <= made);
            if suspected.deployment == deployment && before && !excess.going {
                excess.count -= 1;
            }
            excess.count <= excess.most
        });
    }

    fn promise_changed(&mut self, context: &CheckContext, before: &Value, deployment: &Value) {
        if promised(before) == promised(deployment) {
            return;
        }
        let known = self.before.get(name(deployment));
        let known = known.filter(|(_, until)| context.at() <= *until);
        let least = known.map_or(promised(before), |(least, _)| promised(before).min(*least));
        let until = context.rules.pass_after(context.at());
        self.before.insert(name(deployment).to_owned(), (least, until));
    }

    fn look_for_leader(&mut self, context: &CheckContext) {
        let Some(lease) = &context.world.leadership else { return };
        if self.leader.as_ref().is_none_or(|(leader, _)| *leader != lease.holder) {
            self.leader = Some((lease.holder.clone(), context.at()));
        }
    }

    fn limit_changed(&mut self, context: &CheckContext, before: &Value, after: &Value) {
        let limit = |deployment: &Value| {
            let (replicas, surge, _) = numbers(deployment);
            replicas + surge
        };
        if limit(before) == limit(after) {
            return;
        }
        let unseen = self
            .limits
            .get(name(after))
            .filter(|known| !self.is_seen(context, after, after, known));
        let changed = Changed {
            most: unseen.map_or(limit(before), |known| limit(before).max(known.most)),
            at: context.at(),
            generation: after["metadata"]["generation"].as_i64().unwrap_or_default(),
            told: None,
        };
        self.limits.insert(name(after).to_owned(), changed);
    }

    fn note_told(&mut self, context: &CheckContext, deployment: &Value) {
        let Some(changed) = self.limits.get_mut(name(deployment)) else {
            return;
        };
        if changed.told.is_none() && is_observed(deployment, changed) {
            changed.told = version(deployment).map(|resource_version| Acknowledgement {
                resource_version,
                at: context.at(),
            });
        }
    }

    /// Whether mcm knew of a change when it asked for that object: it had said so, or it led already and nothing kept it from
    /// seeing the change, or a pass is over since then. Watches of two kinds show writes in any order.
    fn is_seen(&self, context: &CheckContext, deployment: &Value, written: &Value, changed: &Changed) -> bool {
        let told_before = changed
            .told
            .zip(version(written))
            .is_none_or(|(told, written)| told.resource_version < written && context.at() > after(told.at, UNDER_WAY));
        if is_observed(deployment, changed) && told_before {
            return true;
        }
        let Some(calm) = context.rules.calm_since else {
            return false;
        };
        let led = self.leader.as_ref().map_or(Timestamp::MIN, |(_, since)| *since);
        let able = led.max(calm);
        able <= changed.at || context.at() > context.rules.pass_after(able)
    }

    /// What a deployment might have before it was changed, as long as mcm may not know: sets of before are worked on until
    /// then.
    fn limit_before(&self, context: &CheckContext, deployment: &Value, machine: &Value) -> i64 {
        let known = self.limits.get(name(deployment));
        let unseen = known.filter(|known| !self.is_seen(context, deployment, machine, known));
        unseen.map_or(0, |known| known.most)
    }

    fn too_few(&self, context: &CheckContext, deployment: &Value) -> Option<String> {
        let ordered = self.before.get(name(deployment));
        let ordered = ordered.filter(|(_, until)| context.at() <= *until);
        let least = ordered.map_or(promised(deployment), |(before, _)| promised(deployment).min(*before));
        // Who does not know yet that a person took some counts them.
        let taken = self.lost.get(name(deployment)).into_iter().flatten();
        let lately = taken.filter(|at| context.at() <= context.rules.pass_after(**at));
        let (mut available, mut lost) = (0, lately.count() as i64);
        for machine in machines_of(context.world, name(deployment)).filter(|machine| !is_deleting(machine)) {
            if phase(machine).starts_with("Running") {
                available += 1;
            } else if phase(machine) == "Unknown" || phase(machine).starts_with("Failed") || is_kept(machine) {
                lost += 1;
            }
        }
        let was_running = context
            .before
            .is_some_and(|before| phase(before).starts_with("Running"));
        (was_running && available + lost < least).then(|| {
            format!(
                "deployment {} has {available} available Machines after a removal, and {lost} that faults took, and {least} are to be",
                name(deployment)
            )
        })
    }

    /// The Machines that are too many, and what is broken by it.
    fn made(&self, context: &CheckContext, deployment: &Value, machine: &Value) -> Option<Excess> {
        let called = name(deployment);
        let (replicas, surge, _) = numbers(deployment);
        let Count { all, live } = self.machines.get(called).copied().unwrap_or_default();
        let most = (replicas + surge).max(self.limit_before(context, deployment, machine));
        if live > most {
            let words = format!(
                "deployment {called} has {live} Machines that are not Terminating: replicas {replicas} and surge {surge}"
            );
            return Some(Excess {
                count: live,
                most,
                going: false,
                words,
            });
        }
        (all > most && !self.disturbed.contains(called)).then(|| {
            let words = format!("deployment {called} has {all} Machines, Terminating ones among them: replicas {replicas} and surge {surge}, and nothing has failed");
            Excess { count: all, most, going: true, words }
        })
    }
}

fn is_observed(deployment: &Value, changed: &Changed) -> bool {
    let observed = deployment["status"]["observedGeneration"].as_i64();
    observed.is_some_and(|observed| observed >= changed.generation)
}

/// Whether the machine is preserved. It stays before others, whatever its phase.
fn is_kept(machine: &Value) -> bool {
    time(machine, "/status/currentStatus/preserveExpiryTime").is_some()
}

/// Whether the machine's VM has ended behind everybody's back: it serves nobody, whatever its phase still says.
fn has_lost_its_vm(world: &WorldState, machine: &Value) -> bool {
    let ended = world.vms.values().any(|vm| vm.machine == name(machine));
    ended && world.vms_of(name(machine)).next().is_none()
}

/// Whether a person gave the machine a priority: whoever prefers one that serves wants it to go.
fn is_preferred(context: &CheckContext, machine: &Value) -> bool {
    let priority = annotation(machine, keys::PRIORITY_ANNOTATION);
    let preferred = priority.is_some_and(|priority| priority != keys::DEFAULT_PRIORITY);
    preferred && context.rules.is_by_user("Machine", name(machine))
}

/// Whether a person pauses a deployment that may have taken all its machines to make others.
fn interrupts_recreate(before: &Value, deployment: &Value) -> bool {
    let recreates = deployment["spec"]["strategy"]["type"] == "Recreate";
    recreates && before["spec"]["paused"] != true && deployment["spec"]["paused"] == true
}

/// How many are to be available. Recreate promises nothing, and neither does a deployment that goes.
fn promised(deployment: &Value) -> i64 {
    if deployment["spec"]["strategy"]["type"] == "Recreate" || is_deleting(deployment) {
        return 0;
    }
    let (replicas, _, unavailable) = numbers(deployment);
    (replicas - unavailable).max(0)
}

/// Replicas, surge and what may be unavailable.
fn numbers(deployment: &Value) -> (i64, i64, i64) {
    let replicas = deployment["spec"]["replicas"].as_i64().unwrap_or_default();
    let bounds = bounds(deployment);
    let surge = share(&bounds["maxSurge"], replicas, true);
    let unavailable = share(&bounds["maxUnavailable"], replicas, false);
    (replicas, surge, unavailable)
}
