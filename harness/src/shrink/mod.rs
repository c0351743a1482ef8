//! Shrinking: of a plan that fails, everything goes that the failure does not need: disturbances, machines, steps,
//! time. What is left is small enough to be read as a story.
//!
//! What lives here: which smaller plans are tried and in which order; a function that is handed in performs them. What
//! must not: processes and files (`cli`).

mod retarget;
mod smaller;

use std::collections::BTreeMap;

use scenario::plan::Plan;

/// More trials than any plan has needed; a plan that needs more is left as small as it is by then.
const MOST_TRIALS: usize = 2_000;

/// What a trial of a plan showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// Whether it failed as the plan does that is being shrunk.
    pub fails: bool,
    /// What the disturbed processes did, in order: by these descriptions a crash point is found again in a smaller plan,
    /// where effects have other numbers.
    pub effects: Vec<String>,
}

/// A plan that was shrunk.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest that still fails.
    pub plan: Plan,
    /// How many plans were performed.
    pub trials: usize,
}

/// Shrinks `plan`, which fails, until nothing more can go. `perform` performs a plan; the same plan gives the same
/// trial. `None`: it does not fail.
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
    /// What happened when `plan` was performed.
    effects: Vec<String>,
    known: BTreeMap<String, Trial>,
    trials: usize,
    perform: F,
}

impl<F: AsyncFnMut(&Plan) -> Trial> Shrinker<F> {
    /// Tries the candidates of a pass one after another. After one that still fails, the pass goes on from there.
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

    /// Goes on with the candidate if it fails, as it is or with its crash points moved to the same deeds.
    async fn adopt(&mut self, candidate: Plan) -> bool {
        if candidate == self.plan || candidate.validate().is_err() {
            return false;
        }
        let mut moved = Vec::new();
        let trial = self.try_out(&candidate).await;
        if trial.fails {
            moved.push((candidate, trial));
        } else if retarget::has_effects(&candidate) {
            let calm = self.try_out(&retarget::without_effects(&candidate)).await;
            for variant in retarget::variants(&candidate, &self.effects, &calm.effects) {
                let trial = self.try_out(&variant).await;
                if trial.fails {
                    moved.push((variant, trial));
                    break;
                }
            }
        }
        let Some((plan, trial)) = moved.pop() else {
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
