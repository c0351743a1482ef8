//! I18: the budget of API requests. At most 30 reads and writes per minute concern one object in any phase: no retry
//! loop runs without delay.
//!
//! A set or deployment has an extra allowance for each of its machines that is created, removed or changes its phase,
//! because its status changes with them.
//!
//! Watches, lists and Leases do not count. The check needs an API server that reports requests. On a wall clock
//! timeouts are a hundred times shorter, and so is the minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use scenario::observation::Seen;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, is_deleting, label, owner, phase};

/// Reads and writes of one object per window.
const MAX_REQUESTS: usize = 30;
/// Additional requests for each change of a machine.
const EXTRA_PER_CHANGE: usize = 8;
/// The window is this fraction of the health timeout: one of ten minutes in production.
const WINDOWS_PER_HEALTH_TIMEOUT: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct ApiBudget {
    /// By resource, namespace and name: request times.
    requests: BTreeMap<(String, String, String), VecDeque<Timestamp>>,
    /// By name of a set or deployment: when one of its machines changed.
    changes: BTreeMap<String, VecDeque<Timestamp>>,
}

impl Check for ApiBudget {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        let window = (context.rules.timeouts.health / WINDOWS_PER_HEALTH_TIMEOUT).min(Duration::from_mins(1));
        if let Some(machine) = context.applied("Machine").or_else(|| context.deleted("Machine")) {
            let same = |before: &Value| phase(before) == phase(machine) && is_deleting(before) == is_deleting(machine);
            if !context.before.is_some_and(same) || context.deleted("Machine").is_some() {
                let owners = [
                    label(machine, keys::DEPLOYMENT_LABEL),
                    owner(machine, "MachineSet").unwrap_or_default(),
                ];
                for owner in owners {
                    let times = self.changes.entry(owner.to_owned()).or_default();
                    times.push_back(context.at());
                    times.retain(|at| after(*at, window) > context.at());
                }
            }
            return None;
        }
        let Seen::Request(request) = &context.observation.what else {
            return None;
        };
        if request.name.is_empty() || request.resource == "leases" {
            return None;
        }
        let resource = request.resource.split('/').next().unwrap_or_default();
        let key = (resource.to_owned(), request.namespace.clone(), request.name.clone());
        let owns = ["machinesets", "machinedeployments"].contains(&resource);
        let changes = self.changes.get(&request.name).filter(|_| owns).map_or(0, |changes| {
            let recent = changes.iter().filter(|at| after(**at, window) > context.at());
            recent.count()
        });
        let times = self.requests.entry(key).or_default();
        times.push_back(context.at());
        times.retain(|at| after(*at, window) > context.at());
        let count = times.len();
        (count > MAX_REQUESTS + EXTRA_PER_CHANGE * changes).then(|| {
            format!(
                "{count} requests for {resource} {} within {window:?}; the last: {} {} ({})",
                request.name, request.verb, request.resource, request.code
            )
        })
    }
}
