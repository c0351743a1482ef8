//! I18: the budget of API requests. Of one object at most 30 reads and writes a minute in any phase: no retry loop
//! without delay.
//!
//! Of a set or deployment there may be more, by so many for each of its machines that is made, removed or changes its
//! phase: what it says of them changes with them.
//!
//! Watches, lists and Leases are not about one object. Judged where the API server is ours and tells of requests. On a
//! wall clock timeouts are a hundred times shorter, and so is the minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use scenario::observation::Seen;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, is_deleting, label, owner, phase};

/// Reads and writes of one object in the window.
const CEILING: usize = 30;
/// For each change of a machine.
const MORE: usize = 8;
/// In production's terms a minute, of a health timeout of ten.
const PARTS: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct ApiBudget {
    /// By resource, namespace and name: when it was asked for.
    requests: BTreeMap<(String, String, String), VecDeque<Timestamp>>,
    /// By name of a set or deployment: when a machine of it changed.
    changes: BTreeMap<String, VecDeque<Timestamp>>,
}

impl Check for ApiBudget {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        let window = (context.rules.timeouts.health / PARTS).min(Duration::from_mins(1));
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
            let lately = changes.iter().filter(|at| after(**at, window) > context.at());
            lately.count()
        });
        let times = self.requests.entry(key).or_default();
        times.push_back(context.at());
        times.retain(|at| after(*at, window) > context.at());
        let count = times.len();
        (count > CEILING + MORE * changes).then(|| {
            format!(
                "{count} requests for {resource} {} within {window:?}; the last: {} {} ({})",
                request.name, request.verb, request.resource, request.code
            )
        })
    }
}
