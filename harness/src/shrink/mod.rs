//! Shrinking: reduces a failing plan to the minimum that still fails, by removing disturbances, machines, steps and
//! time.
//!
//! This module decides which smaller plans are tried, and in which order. The caller provides a function that performs
//! a plan; `cli` handles processes and files.

mod findings;
mod retarget;
mod smaller;

use std::collections::BTreeMap;

use scenario::plan::Plan;

pub use self::findings::{Finding, Findings};

/// Maximum number of trials. Shrinking stops after it with the smallest plan so far.
const MOST_TRIALS: usize = 2_000;

/// The result of a trial of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// Whether it failed in the same way as the original plan.
    pub fails: bool,
    /// Descriptions of the effects of mcm, in order. They identify a crash point in a smaller plan, where effects have
    /// other numbers.
    pub effects: Vec<String>,
}

/// The result of shrinking.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest plan that still fails.
    pub plan: Plan,
    /// Number of performed plans.
    pub trials: usize,
}

/// Shrinks a failing plan until nothing more can be removed. `perform` performs a plan, and must return the same trial
/// for the same plan. `None`: the plan does not fail.
pub async fn shrink(plan: Plan, perform: impl AsyncFnMut(&Plan) -> Trial) -> Option<Shrunk> {
    let mut shrinker = Shrinker {
        plan,
        effects: Vec::new(),
        known: BTreeMap::new(),
        trials: 0,
        perform,
    };
    let first = shrinker.try_out(&shrinker.plan.clone()).await;
    if !first.fails {
        return None;
    }
    shrinker.effects = first.effects;
    loop {
        let before = shrinker.plan.clone();
        for pass in smaller::PASSES {
            shrinker.pass(pass).await;
        }
        if shrinker.plan == before || shrinker.trials >= MOST_TRIALS {
            return Some(Shrunk {
                plan: shrinker.plan,
                trials: shrinker.trials,
            });
        }
    }
}

struct Shrinker<F> {
    plan: Plan,
    /// The effects of the last run of `plan`.
    effects: Vec<String>,
    known: BTreeMap<String, Trial>,
    trials: usize,
    perform: F,
}

impl<F: AsyncFnMut(&Plan) -> Trial> Shrinker<F> {
    /// Tries the candidates of a pass one after another. After a candidate that still fails, the pass continues with
    /// it.
    async fn pass(&mut self, pass: smaller::Pass) {
        let mut position = 0;
        while let Some(candidate) = pass(&self.plan, position) {
            if self.trials >= MOST_TRIALS {
                return;
            }
            if !self.adopt(candidate).await {
                position += 1;
            }
        }
    }

    /// Continues with the candidate if it fails, unchanged or with its crash points moved to the corresponding effects.
    async fn adopt(&mut self, candidate: Plan) -> bool {
        if candidate == self.plan || candidate.validate().is_err() {
            return false;
        }
        let mut failing = Vec::new();
        let trial = self.try_out(&candidate).await;
        if trial.fails {
            failing.push((candidate, trial));
        } else if retarget::has_effects(&candidate) {
            let undisturbed = self.try_out(&retarget::without_effects(&candidate)).await;
            for variant in retarget::variants(&candidate, &self.effects, &undisturbed.effects) {
                let trial = self.try_out(&variant).await;
                if trial.fails {
                    failing.push((variant, trial));
                    break;
                }
            }
        }
        let Some((plan, trial)) = failing.pop() else {
            return false;
        };
        self.plan = plan;
        self.effects = trial.effects;
        true
    }

    async fn try_out(&mut self, plan: &Plan) -> Trial {
        let key = serde_json::to_string(plan).unwrap_or_default();
        if let Some(trial) = self.known.get(&key) {
            return trial.clone();
        }
        self.trials += 1;
        let trial = (self.perform)(plan).await;
        self.known.insert(key, trial.clone());
        trial
    }
}

#[cfg(test)]
mod tests;
