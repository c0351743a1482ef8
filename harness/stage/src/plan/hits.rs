//! How often each disturbance of a plan struck.

use std::collections::BTreeMap;

use apiserver::faults::{Faults, Invalid};
use scenario::plan::Disturbance;
use scenario::step::Process;
use sim::Gate;

use super::{effects, schedule};

/// In the plan's order. `told` are the hits of rules that were told during the run, those of rules that were lifted
/// since among them; `api` are the rules of the API server, where it is ours. A process without a gate is struck by none.
pub fn count(
    disturbances: &[Disturbance],
    told: &BTreeMap<String, u64>,
    api: Option<&Faults>,
    schedule: &schedule::Log,
    gate_of: impl Fn(Process) -> Option<Gate>,
) -> Vec<u64> {
    let rules = api.map(Faults::list).unwrap_or_default();
    let rules: BTreeMap<&String, u64> = rules.iter().map(|status| (&status.rule.name, status.hits)).collect();
    let told = |rule: &String| told.get(rule).copied().unwrap_or_default();
    let hits = |(number, disturbance): (usize, &Disturbance)| match disturbance {
        Disturbance::Cloud(fault) => told(&fault.name),
        Disturbance::Api(rule) => rules.get(&rule.name).copied().unwrap_or_else(|| told(&rule.name)),
        other => effects::hits(other, &gate_of).unwrap_or_else(|| schedule.hits(number)),
    };
    disturbances.iter().enumerate().map(hits).collect()
}

/// A rule for the API server that it does not accept.
#[derive(Debug, thiserror::Error)]
#[error("API fault {name}: {source}")]
pub struct InvalidRule {
    /// The rule.
    pub name: String,
    /// What is wrong with it, and what to do about it.
    pub source: Invalid,
}

/// Adds the rules for the API server to it, before anything asks it.
///
/// # Errors
/// The first rule that is wrong.
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
