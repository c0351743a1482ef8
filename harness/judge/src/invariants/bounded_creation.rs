//! I9: bounded creation. In any ten minutes a MachineDeployment creates at most replicas + maxSurge VMs, plus those
//! that spec changes and lost Machines require. The highest replicas + maxSurge of that time counts, because VMs that
//! were requested before a scale-down may have been created. Attempts for one Machine follow the retry table, and stop
//! when it is Failed or Terminating.
//!
//! Checked part of the retry table: no Machine gets more than three CreateMachine calls within a short retry period,
//! because a process may restart or a user may trigger a retry in that time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, bounds, is_deleting, label, name, phase, share, time, uid};

const WINDOW: Duration = Duration::from_mins(10);
/// Maximum of CreateMachine calls for one Machine within a short retry period.
const MAX_CALLS: usize = 3;

#[derive(Debug, Default)]
pub(super) struct BoundedCreation {
    /// By Machine uid: times of CreateMachine calls.
    calls: BTreeMap<String, VecDeque<Timestamp>>,
    /// By deployment: times of created VMs, and of lost Machines.
    created: BTreeMap<String, VecDeque<Timestamp>>,
    lost: BTreeMap<String, VecDeque<Timestamp>>,
    /// By Machine uid: its deployment. The label may be removed later.
    deployments: BTreeMap<String, String>,
    /// By deployment: previous limits of its Machines, and until when each was valid.
    limits: BTreeMap<String, VecDeque<(usize, Timestamp)>>,
    /// VMs that are counted already: the ledger reports a booting VM more than once.
    seen: BTreeSet<String>,
}

impl Check for BoundedCreation {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(machine) = context.deleted("Machine") {
            self.deployments.remove(uid(machine));
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
                self.deployments.insert(uid(machine).to_owned(), own.to_owned());
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
            // A call that takes effect late was requested earlier.
            let late = call.rule.as_ref().is_some_and(|rule| context.rules.late.contains(rule));
            if let Some(finished) = finished_since(machine).filter(|_| !late)
                && context.rules.pass_after(finished) < context.at()
            {
                let state = if is_deleting(machine) { "Terminating" } else { "Failed" };
                return Some(format!(
                    "CreateMachine for {}, which has been {state} since {finished}",
                    call.machine
                ));
            }
            // The last operation's time has whole seconds, so a period may seem to end a second early.
            let window = context
                .rules
                .timeouts
                .short_retry
                .saturating_sub(Duration::from_secs(1));
            let calls = self.calls.entry(uid(machine).to_owned()).or_default();
            let count = count_in(calls, context.at(), window);
            return (count > MAX_CALLS)
                .then(|| format!("{count} CreateMachine calls for {} within {window:?}", call.machine));
        }
        let vm = context
            .vm()
            .filter(|vm| vm.state == scenario::cloud::VmState::Pending)?;
        if !self.seen.insert(vm.id.clone()) {
            return None;
        }
        let machine = context.world.object("Machine", &vm.machine)?;
        let deployment_name = self.deployments.get(uid(machine))?.as_str();
        let deployment = context.world.object("MachineDeployment", deployment_name)?;
        let created = count_in(
            self.created.entry(deployment_name.to_owned()).or_default(),
            context.at(),
            WINDOW,
        );
        let lost = self.lost.get_mut(deployment_name).map_or(0, |lost| {
            lost.retain(|at| after(*at, 2 * WINDOW) > context.at());
            lost.len()
        });
        let earlier = self.limits.get_mut(deployment_name).and_then(|limits| {
            limits.retain(|(_, until)| after(*until, WINDOW) > context.at());
            limits.iter().map(|(limit, _)| *limit).max()
        });
        let limit = limit(deployment).max(earlier.unwrap_or_default());
        let edits = context
            .rules
            .edits
            .get(&("MachineDeployment".to_owned(), deployment_name.to_owned()));
        let spec_count = 1 + edits.copied().unwrap_or_default();
        let allowed = limit * usize::try_from(spec_count).unwrap_or(usize::MAX) + lost;
        (created > allowed).then(|| {
            format!(
                "deployment {deployment_name} created {created} VMs within {WINDOW:?}: limit of {limit} machines, {spec_count} specs, {lost} lost; last VM of {}",
                name(machine)
            )
        })
    }
}

/// Replicas + maxSurge of a deployment.
fn limit(deployment: &Value) -> usize {
    let replicas = deployment["spec"]["replicas"].as_i64().unwrap_or_default();
    let surge = share(&bounds(deployment)["maxSurge"], replicas, true);
    usize::try_from(replicas + surge).unwrap_or_default()
}

/// Since when no VM may be created for a Machine any more.
fn finished_since(machine: &Value) -> Option<Timestamp> {
    let deleted = time(machine, "/metadata/deletionTimestamp");
    let failed = time(machine, "/status/currentStatus/lastUpdateTime").filter(|_| phase(machine) == "Failed");
    deleted.or(failed)
}

/// Adds `now`, and returns the number of times within the window that ends now.
fn count_in(times: &mut VecDeque<Timestamp>, now: Timestamp, window: Duration) -> usize {
    times.push_back(now);
    times.retain(|at| after(*at, window) > now);
    times.len()
}
