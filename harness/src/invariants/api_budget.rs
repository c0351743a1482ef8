//! I18: the budget of API requests. Of one object at most 30 reads and writes a minute in any phase: no retry loop
//! without delay.
//!
//! Watches, lists and Leases are not about one object. Judged where the API server is ours and tells of requests. On a
//! wall clock timeouts are a hundred times shorter, and so is the minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::Check;
use super::sight::{Sight, after};
use crate::engine::observe::Seen;

/// Reads and writes of one object in the window.
const CEILING: usize = 30;
/// In production's terms a minute, of a health timeout of ten.
const PARTS: u32 = 10;

/// By resource, namespace and name: when it was asked for.
#[derive(Debug, Default)]
pub(super) struct ApiBudget(BTreeMap<(String, String, String), VecDeque<Timestamp>>);

impl Check for ApiBudget {
    fn see(&mut self, sight: &Sight) -> Option<String> {
        let Seen::Request(request) = &sight.observation.what else {
            return None;
        };
        if request.name.is_empty() || request.resource == "leases" {
            return None;
        }
        let resource = request.resource.split('/').next().unwrap_or_default();
        let key = (resource.to_owned(), request.namespace.clone(), request.name.clone());
        let window = (sight.terms.timeouts.health / PARTS).min(Duration::from_mins(1));
        let times = self.0.entry(key).or_default();
        times.push_back(sight.at());
        times.retain(|at| after(*at, window) > sight.at());
        let count = times.len();
        (count > CEILING).then(|| {
            format!(
                "{count} requests for {resource} {} within {window:?}; the last: {} {} ({})",
                request.name, request.verb, request.resource, request.code
            )
        })
    }
}
