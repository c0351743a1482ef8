//! I7: size bounds of a MachineDeployment.
//!
//! (a) When a Machine is created, at most replicas + maxSurge Machines are not Terminating.
//!
//! (b) The same bound holds with Terminating Machines included, as long as nothing failed (VMs that others deleted
//! count as failures), no user or remediation controller deleted a Machine, and no user resized the deployment, or
//! paused it during a Recreate: after that its last set scales back to the full size at once (mcd-mcs.md 2.7, scaling
//! while paused).
//!
//! (c) When a controller removes a Running Machine, at least replicas - maxUnavailable Machines are available, minus
//! those lost to faults or to a request of a health check that mcm may not have observed. For one pass after a change
//! of that number the smaller one counts, because an earlier decision may still be executed. A Machine of the same set
//! that has just become available counts twice: the decision may have been about it, before it was available.
//!
//! Nothing is checked while the MachineDeployment that the Machine's label names does not exist.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use super::named::{Lately, listed};
use crate::object::{after, annotation, bounds, is_deleting, label, name, owner, phase, share, time, version};
use crate::remediation::{may_be_deleted_by_another, remediation_requested_at};
use crate::world::{WorldState, machines_of};

/// How long requests that mcm started before it observed a change may be in flight: one for each machine of a batch.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// State by deployment.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// Number of Machines.
    machines: BTreeMap<String, Count>,
    disturbed: BTreeSet<String>,
    /// Minimum of available Machines before a change, and until when earlier decisions may still be executed.
    before: BTreeMap<String, (i64, Timestamp)>,
    /// When a Machine was removed that a user or a remediation controller deleted, whose VM had ended, that had failed
    /// and was preserved, or whose replacement a health check had just requested.
    lost: BTreeMap<String, VecDeque<Timestamp>>,
    /// When a Machine of each set became available.
    gained: BTreeMap<String, VecDeque<Timestamp>>,
    named: Lately,
    /// Maximum of Machines before a change, and the change.
    limits: BTreeMap<String, Changed>,
    /// The current leader, and since when it leads.
    leader: Option<(String, Timestamp)>,
    /// A possible violation: one Machine too many by what was observed so far.
    suspected: Option<Suspected>,
}

/// Number of Machines of a deployment, kept incrementally: a recount for each new Machine takes minutes with thousands.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: i64,
    /// Not Terminating.
    live: i64,
}

/// One Machine too many, unless a change of its deployment preceded its creation: during an outage watches deliver
/// writes to objects of two kinds in any order.
#[derive(Debug)]
struct Suspected {
    deployment: String,
    /// The Machine's resourceVersion.
    created_version: Option<u64>,
    /// The Machine's creationTimestamp.
    created: Option<Timestamp>,
    until: Timestamp,
    excess: Excess,
}

/// More Machines than allowed.
#[derive(Debug)]
struct Excess {
    /// Number of Machines, by the count that exceeds the limit.
    count: i64,
    /// The limit.
    limit: i64,
    /// Whether `count` includes Terminating Machines.
    with_terminating: bool,
    message: String,
}

/// A change that mcm may not have observed yet.
#[derive(Clone, Copy, Debug)]
struct Changed {
    /// The limit before the change.
    limit: i64,
    at: Timestamp,
    /// The deployment's generation after the change.
    generation: i64,
    /// The first write that proves that mcm observed the change.
    acknowledged: Option<Acknowledgement>,
}

#[derive(Clone, Copy, Debug)]
struct Acknowledgement {
    resource_version: u64,
    at: Timestamp,
}

impl Check for Size {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        self.count(context);
        self.look_for_leader(context);
        if let Some(message) = self.confirmed(context.at()) {
            return Some(message);
        }
        if let Some(deployment) = context.applied("MachineDeployment") {
            self.explain(deployment);
            let before = context.before?;
            self.named.note(context);
            self.limit_changed(context, before, deployment);
            self.note_acknowledgement(context, deployment);
            let resized = before["spec"]["replicas"] != deployment["spec"]["replicas"];
            if resized || interrupts_recreate(before, deployment) {
                self.disturbed.insert(name(deployment).to_owned());
            }
            self.requirement_changed(context, before, deployment);
            return None;
        }
        let machine = context.applied("Machine")?;
        let deployment_name = label(machine, keys::DEPLOYMENT_LABEL);
        let deployment = context.world.object("MachineDeployment", deployment_name)?;
        if ["Failed", "Unknown", "CrashLoopBackOff"].contains(&phase(machine)) {
            self.disturbed.insert(deployment_name.to_owned());
        }
        if context.before.is_none() && context.rules.is_by_user("Machine", name(machine)) {
            self.disturbed.insert(deployment_name.to_owned());
            return None;
        }
        if context.before.is_none() {
            let excess = self.find_excess(context, deployment, machine)?;
            if context.rules.undisturbed_since.is_some() {
                return Some(excess.message);
            }
            self.suspected.get_or_insert(Suspected {
                deployment: deployment_name.to_owned(),
                created_version: version(machine),
                created: time(machine, "/metadata/creationTimestamp"),
                until: context
                    .rules
                    .timeouts
                    .deadline(context.at(), context.rules.timeouts.slack),
                excess,
            });
            return None;
        }
        self.note_gained(context, machine);
        let removed = is_deleting(machine) && !context.before.is_some_and(is_deleting);
        if removed {
            self.explain_by_removal(deployment_name, machine);
        }
        if !removed || self.is_named(context, machine, deployment) || is_preferred(context, machine) {
            return None;
        }
        let lost = context.rules.is_deleted_by_user(machine)
            || has_lost_its_vm(context.world, machine)
            || may_be_deleted_by_another(context.world, machine);
        if lost {
            // The set creates a replacement at once, whatever the strategy.
            self.disturbed.insert(deployment_name.to_owned());
        }
        // A rollout does not count preserved failed machines as available, and removes them in the same pass as others.
        let kept = context.before.is_some_and(|before| phase(before) == "Failed:Preserved");
        // A rollout that has not observed the request of a health check counts the Machine as available.
        let requested =
            remediation_requested_at(machine).is_some_and(|at| context.at() <= context.rules.pass_after(at));
        if kept || lost || requested {
            self.lost
                .entry(deployment_name.to_owned())
                .or_default()
                .push_back(context.at());
            return None;
        }
        self.too_few(context, deployment, machine)
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
        Some(suspected.excess.message)
    }

    /// Whether cluster-autoscaler lists the machine now or did so until recently. Such a machine may be removed while
    /// it is available.
    fn is_named(&self, context: &CheckContext, machine: &Value, deployment: &Value) -> bool {
        self.named.has(context, machine) || listed(deployment).any(|named| named == name(machine))
    }

    /// Drops a suspicion if a deployment version that was delivered late allowed the count before the Machine was
    /// created.
    fn explain(&mut self, deployment: &Value) {
        let (replicas, surge, _) = numbers(deployment);
        self.suspected.take_if(|suspected| {
            let before = version(deployment)
                .zip(suspected.created_version)
                .is_none_or(|(written, created_version)| written < created_version);
            suspected.deployment == name(deployment) && before && suspected.excess.count <= replicas + surge
        });
    }

    /// Drops a suspicion if enough Machines were deleted before the suspected one was created, but their deletion was
    /// delivered later: a relist delivers Machines in the order of their names.
    fn explain_by_removal(&mut self, deployment: &str, machine: &Value) {
        let deleted_at = time(machine, "/metadata/deletionTimestamp");
        self.suspected.take_if(|suspected| {
            let excess = &mut suspected.excess;
            let before = deleted_at
                .zip(suspected.created)
                .is_some_and(|(deleted, created)| deleted <= created);
            if suspected.deployment == deployment && before && !excess.with_terminating {
                excess.count -= 1;
            }
            excess.count <= excess.limit
        });
    }

    fn requirement_changed(&mut self, context: &CheckContext, before: &Value, deployment: &Value) {
        if required_available(before) == required_available(deployment) {
            return;
        }
        let known = self.before.get(name(deployment));
        let known = known.filter(|(_, until)| context.at() <= *until);
        let minimum = known.map_or(required_available(before), |(minimum, _)| {
            required_available(before).min(*minimum)
        });
        let until = context.rules.pass_after(context.at());
        self.before.insert(name(deployment).to_owned(), (minimum, until));
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
            limit: unseen.map_or(limit(before), |known| limit(before).max(known.limit)),
            at: context.at(),
            generation: after["metadata"]["generation"].as_i64().unwrap_or_default(),
            acknowledged: None,
        };
        self.limits.insert(name(after).to_owned(), changed);
    }

    fn note_acknowledgement(&mut self, context: &CheckContext, deployment: &Value) {
        let Some(changed) = self.limits.get_mut(name(deployment)) else {
            return;
        };
        if changed.acknowledged.is_none() && is_observed(deployment, changed) {
            changed.acknowledged = version(deployment).map(|resource_version| Acknowledgement {
                resource_version,
                at: context.at(),
            });
        }
    }

    /// Whether mcm had observed a change when it requested the write of that object: it had acknowledged the change; or
    /// it already led and no disturbance delayed the observation; or a pass has ended since. Watches of two kinds
    /// deliver writes in any order.
    fn is_seen(&self, context: &CheckContext, deployment: &Value, written: &Value, changed: &Changed) -> bool {
        let acknowledged_before = changed
            .acknowledged
            .zip(version(written))
            .is_none_or(|(acknowledged, written)| {
                acknowledged.resource_version < written && context.at() > after(acknowledged.at, UNDER_WAY)
            });
        if is_observed(deployment, changed) && acknowledged_before {
            return true;
        }
        let Some(undisturbed_since) = context.rules.undisturbed_since else {
            return false;
        };
        let led = self.leader.as_ref().map_or(Timestamp::MIN, |(_, since)| *since);
        let able = led.max(undisturbed_since);
        able <= changed.at || context.at() > context.rules.pass_after(able)
    }

    /// The limit before a change, while mcm may not have observed the change: until then it acts on old versions of the
    /// sets.
    fn limit_before(&self, context: &CheckContext, deployment: &Value, machine: &Value) -> i64 {
        let known = self.limits.get(name(deployment));
        let unseen = known.filter(|known| !self.is_seen(context, deployment, machine, known));
        unseen.map_or(0, |known| known.limit)
    }

    fn note_gained(&mut self, context: &CheckContext, machine: &Value) {
        let is_available = |machine: &Value| phase(machine).starts_with("Running");
        if is_available(machine) && context.before.is_some_and(|before| !is_available(before)) {
            let set = owner(machine, "MachineSet").unwrap_or_default();
            let gained = self.gained.entry(set.to_owned()).or_default();
            gained.retain(|at| context.at() <= after(*at, UNDER_WAY));
            gained.push_back(context.at());
        }
    }

    /// Whether too few Machines are available after the removal of this one.
    fn too_few(&self, context: &CheckContext, deployment: &Value, machine: &Value) -> Option<String> {
        let previous = self.before.get(name(deployment));
        let previous = previous.filter(|(_, until)| context.at() <= *until);
        let required = previous.map_or(required_available(deployment), |(before, _)| {
            required_available(deployment).min(*before)
        });
        // A controller that has not observed yet that a user deleted Machines still counts them.
        let lost = self.lost.get(name(deployment)).into_iter().flatten();
        let recently = lost.filter(|at| context.at() <= context.rules.pass_after(**at));
        let (mut available, mut lost) = (0, recently.count() as i64);
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
        let set = owner(machine, "MachineSet").unwrap_or_default();
        let gained = self.gained.get(set).into_iter().flatten();
        let gained = gained.filter(|at| context.at() <= after(**at, UNDER_WAY)).count() as i64;
        (was_running && available + lost + gained < required).then(|| {
            format!(
                "deployment {} has {available} available Machines after a removal and lost {lost} to faults, but requires {required}",
                name(deployment)
            )
        })
    }

    /// The number of Machines over the limit, and the message of the violation.
    fn find_excess(&self, context: &CheckContext, deployment: &Value, machine: &Value) -> Option<Excess> {
        let deployment_name = name(deployment);
        let (replicas, surge, _) = numbers(deployment);
        let Count { all, live } = self.machines.get(deployment_name).copied().unwrap_or_default();
        let limit = (replicas + surge).max(self.limit_before(context, deployment, machine));
        if live > limit {
            let message = format!(
                "deployment {deployment_name} has {live} Machines that are not Terminating, with {replicas} replicas and a surge of {surge}"
            );
            return Some(Excess {
                count: live,
                limit,
                with_terminating: false,
                message,
            });
        }
        (all > limit && !self.disturbed.contains(deployment_name)).then(|| {
            let message = format!("deployment {deployment_name} has {all} Machines including Terminating ones, with {replicas} replicas and a surge of {surge}, and nothing has failed");
            Excess { count: all, limit, with_terminating: true, message }
        })
    }
}

fn is_observed(deployment: &Value, changed: &Changed) -> bool {
    let observed = deployment["status"]["observedGeneration"].as_i64();
    observed.is_some_and(|observed| observed >= changed.generation)
}

/// Whether the machine is preserved. Preserved Machines are removed last, whatever their phase.
fn is_kept(machine: &Value) -> bool {
    time(machine, "/status/currentStatus/preserveExpiryTime").is_some()
}

/// Whether the machine's VM has ended outside the controller's control. Such a machine is not available, whatever its
/// phase.
fn has_lost_its_vm(world: &WorldState, machine: &Value) -> bool {
    let ended = world.vms.values().any(|vm| vm.machine == name(machine));
    ended && world.vms_of(name(machine)).next().is_none()
}

/// Whether a user set a deletion priority on the machine. Such a machine may be removed while it is available.
fn is_preferred(context: &CheckContext, machine: &Value) -> bool {
    let priority = annotation(machine, keys::PRIORITY_ANNOTATION);
    let preferred = priority.is_some_and(|priority| priority != keys::DEFAULT_PRIORITY);
    preferred && context.rules.is_by_user("Machine", name(machine))
}

/// Whether a user pauses a Recreate deployment, which may have removed all its machines to create new ones.
fn interrupts_recreate(before: &Value, deployment: &Value) -> bool {
    let recreates = deployment["spec"]["strategy"]["type"] == "Recreate";
    recreates && before["spec"]["paused"] != true && deployment["spec"]["paused"] == true
}

/// Minimum of available Machines. A Recreate deployment and a deleted one require none.
fn required_available(deployment: &Value) -> i64 {
    if deployment["spec"]["strategy"]["type"] == "Recreate" || is_deleting(deployment) {
        return 0;
    }
    let (replicas, _, unavailable) = numbers(deployment);
    (replicas - unavailable).max(0)
}

/// Replicas, maxSurge and maxUnavailable, as absolute numbers.
fn numbers(deployment: &Value) -> (i64, i64, i64) {
    let replicas = deployment["spec"]["replicas"].as_i64().unwrap_or_default();
    let bounds = bounds(deployment);
    let surge = share(&bounds["maxSurge"], replicas, true);
    let unavailable = share(&bounds["maxUnavailable"], replicas, false);
    // With neither, one machine may be unavailable, or none could ever be replaced.
    let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
    (replicas, surge, unavailable)
}
