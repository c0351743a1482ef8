//! Counts the hits of each disturbance of a plan.

use std::collections::BTreeMap;

use apiserver::faults::{Faults, Invalid};
use judge::ScenarioOutcome;
use scenario::plan::Disturbance;
use scenario::step::Process;
use sim::Gate;

use super::{effects, schedule};

/// The hits of each disturbance, in the order of the plan. `outcome` has the hits of rules, including removed ones, and the
/// timed steps that were performed; `api` are the fault rules of the embedded API server. A process without a gate has no hits.
pub fn count(
    disturbances: &[Disturbance],
    outcome: Option<&ScenarioOutcome>,
    api: Option<&Faults>,
    schedule: &schedule::Log,
    gate_of: impl Fn(Process) -> Option<Gate>,
) -> Vec<u64> {
    let rules = api.map(Faults::list).unwrap_or_default();
    let rules: BTreeMap<&str, u64> = rules
        .iter()
        .map(|status| (status.rule.name.as_str(), status.hits))
        .collect();
    let recorded = |rule: &str| outcome.and_then(|outcome| outcome.world.faults.get(rule)).copied();
    let hits = |(number, disturbance): (usize, &Disturbance)| match (disturbance, disturbance.rule()) {
        (_, Some(rule)) => rules.get(rule).copied().or_else(|| recorded(rule)).unwrap_or_default(),
        (Disturbance::Step(_), None) => u64::from(outcome.is_some_and(|outcome| outcome.performed.contains(&number))),
        (other, None) => effects::hits(other, &gate_of).unwrap_or_else(|| schedule.hits(number)),
    };
    disturbances.iter().enumerate().map(hits).collect()
}

/// A fault rule that the API server rejects.
#[derive(Debug, thiserror::Error)]
#[error("API fault {name}: {source}")]
pub struct InvalidRule {
    /// The rule.
    pub name: String,
    /// The cause, with a fix.
    pub source: Invalid,
}

/// Adds the API faults of a plan to the API server, before its first request.
///
/// # Errors
/// The first invalid rule.
pub fn add_rules(disturbances: &[Disturbance], api: &Faults) -> Result<(), InvalidRule> {
    for disturbance in disturbances {
        if let Disturbance::Api(rule) = disturbance {
            let added = api.add((**rule).clone());
            added.map_err(|source| InvalidRule {
                name: rule.name.clone(),
                source,
            })?;
        }
    }
    Ok(())
}
