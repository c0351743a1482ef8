//! I9: bounded creation. A MachineDeployment makes, in any ten minutes, at most replicas + maxSurge VMs beyond what
//! changes of its spec and losses ask for. That is the most that it was told to have in that time: what was ordered before
//! its number fell may have been made. Attempts for one Machine follow the retry table, and stop when it is Failed
//! or Terminating.
//!
//! Of the retry table it is held that no Machine gets more than three CreateMachine calls within a short retry period,
//! one for each process that may die or be told to hurry in that time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, bounds, is_deleting, label, name, phase, share, time, uid};

const WINDOW: Duration = Duration::from_mins(10);
/// Calls for one Machine within a short retry period.
const MOST: usize = 3;

#[derive(Debug, Default)]
pub(super) struct BoundedCreation {
    /// By Machine uid: when CreateMachine was called.
    calls: BTreeMap<String, VecDeque<Timestamp>>,
    /// By deployment: when VMs were made, and when Machines were lost.
    made: BTreeMap<String, VecDeque<Timestamp>>,
    lost: BTreeMap<String, VecDeque<Timestamp>>,
    /// By Machine uid: the deployment that it was made for. Its label may go.
    of: BTreeMap<String, String>,
    /// By deployment: the numbers of machines that it might have, and until when, those of before the one of now.
    limits: BTreeMap<String, VecDeque<(usize, Timestamp)>>,
    /// VMs that are counted: the ledger tells of one more than once while it boots.
    seen: BTreeSet<String>,
}

impl Check for BoundedCreation {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(machine) = context.deleted("Machine") {
            self.of.remove(uid(machine));
        }
        if let Some(deployment) = context.applied("MachineDeployment") {
            let before = context.before.map(limit).filter(|before| *before != limit(deployment));
            if let Some(before) = before {
                let limits = self.limits.entry(name(deployment).to_owned()).or_default();
                limits.push_back((before, context.at()));
            }
            return None;
        }
        if let Some(machine) = context.applied("Machine") {
            let own = label(machine, keys::DEPLOYMENT_LABEL);
            if !own.is_empty() {
                self.of.insert(uid(machine).to_owned(), own.to_owned());
            }
            let failed = |machine| phase(machine) == "Failed" || is_deleting(machine);
            if failed(machine) && !context.before.is_some_and(failed) {
                let deployment = label(machine, keys::DEPLOYMENT_LABEL).to_owned();
                self.lost.entry(deployment).or_default().push_back(context.at());
            }
            return None;
        }
        if let Some(call) = context.call().filter(|call| call.call == "CreateMachine") {
            let machine = context.world.object("Machine", &call.machine)?;
            // One that takes effect late was asked for earlier.
            let late = call.rule.as_ref().is_some_and(|rule| context.rules.late.contains(rule));
            if let Some(over) = over_since(machine).filter(|_| !late)
                && context.rules.pass_after(over) < context.at()
            {
                let state = if is_deleting(machine) { "Terminating" } else { "Failed" };
                return Some(format!(
                    "CreateMachine for {}, which is {state} since {over}",
                    call.machine
                ));
            }
            // What an object says of its last call has whole seconds: a period may seem over a second early.
            let window = context
                .rules
                .timeouts
                .short_retry
                .saturating_sub(Duration::from_secs(1));
            let calls = self.calls.entry(uid(machine).to_owned()).or_default();
            let count = count_in(calls, context.at(), window);
            return (count > MOST)
                .then(|| format!("{count} CreateMachine calls for {} within {window:?}", call.machine));
        }
        let vm = context
            .vm()
            .filter(|vm| vm.state == scenario::cloud::VmState::Pending)?;
        if !self.seen.insert(vm.id.clone()) {
            return None;
        }
        let machine = context.world.object("Machine", &vm.machine)?;
        let called = self.of.get(uid(machine))?.as_str();
        let deployment = context.world.object("MachineDeployment", called)?;
        let made = count_in(self.made.entry(called.to_owned()).or_default(), context.at(), WINDOW);
        let lost = self.lost.get_mut(called).map_or(0, |lost| {
            lost.retain(|at| after(*at, 2 * WINDOW) > context.at());
            lost.len()
        });
        let earlier = self.limits.get_mut(called).and_then(|limits| {
            limits.retain(|(_, until)| after(*until, WINDOW) > context.at());
            limits.iter().map(|(limit, _)| *limit).max()
        });
        let limit = limit(deployment).max(earlier.unwrap_or_default());
        let edits = context
            .rules
            .edits
            .get(&("MachineDeployment".to_owned(), called.to_owned()));
        let rounds = 1 + edits.copied().unwrap_or_default();
        let most = limit * usize::try_from(rounds).unwrap_or(usize::MAX) + lost;
        (made > most).then(|| {
            format!(
                "deployment {called} made {made} VMs within {WINDOW:?}: at most {limit} machines, {rounds} orders, {lost} lost, last of {}",
                name(machine)
            )
        })
    }
}

/// How many machines a deployment may have.
fn limit(deployment: &Value) -> usize {
    let replicas = deployment["spec"]["replicas"].as_i64().unwrap_or_default();
    let surge = share(&bounds(deployment)["maxSurge"], replicas, true);
    usize::try_from(replicas + surge).unwrap_or_default()
}

/// Since when nothing is to be made for a Machine any more.
fn over_since(machine: &Value) -> Option<Timestamp> {
    let deleted = time(machine, "/metadata/deletionTimestamp");
    let failed = time(machine, "/status/currentStatus/lastUpdateTime").filter(|_| phase(machine) == "Failed");
    deleted.or(failed)
}

/// How many there were within the window that ends now, now counted.
fn count_in(times: &mut VecDeque<Timestamp>, now: Timestamp, window: Duration) -> usize {
    times.push_back(now);
    times.retain(|at| after(*at, window) > now);
    times.len()
}
