//! Steps that have no effect: a fault that hits nothing, an expectation that could not fail.
//!
//! A run continues after a miss, because its plan decides at the end whether it may contain any.

use std::fmt;

use judge::{Failure, Miss};
use scenario::step::{Crash, Inject, SlowCreation};
use scenario::{Scenario, Step};
use stage::Stage;

use super::Engine;

impl<S: Stage> Engine<'_, S> {
    /// Records that a step had no effect.
    pub(super) fn miss(&mut self, step: usize, reason: impl fmt::Display) {
        let reason = reason.to_string();
        self.note(&format!("step {step}: no effect: {reason}"));
        self.misses.push(Miss { step, reason });
    }

    /// Adds hits by the cloud's own count. Unlike the calls in its log, it includes those that a killed process did not
    /// wait for.
    pub(super) fn count_cloud_hits(&mut self, hits: impl IntoIterator<Item = (String, u64)>) {
        for (rule, hits) in hits {
            *self.cloud_hits.entry(rule).or_default() += hits;
        }
    }

    /// Records the faults of the scenario that hit nothing by its end.
    pub(super) async fn find_missed_faults(&mut self, scenario: &Scenario) -> Result<(), Failure> {
        self.count_api_faults();
        let in_doubt = |step: &Step| !step.may_miss() && self.missed_fault(step).is_some();
        if scenario.steps.iter().any(in_doubt) {
            let hits = self.stage.cloud().hits().await;
            let hits = hits.map_err(|error| self.failed(error))?;
            self.count_cloud_hits(hits);
        }
        for (index, step) in scenario.steps.iter().enumerate() {
            let reason = self.missed_fault(step).filter(|_| !step.may_miss());
            if let Some(reason) = reason {
                self.miss(index + 1, reason);
            }
        }
        let performed = std::mem::take(&mut self.timed.performed);
        let has_hit = |(_, (step, crashes)): &(usize, (Step, Vec<Crash>))| {
            self.missed_fault(step).is_none() && crashes.iter().all(|crash| self.stage.has_crash_hit(crash))
        };
        self.timed.performed = performed.into_iter().filter(has_hit).collect();
        for (step, crash) in std::mem::take(&mut self.crashes) {
            if !crash.may_miss && !self.stage.has_crash_hit(&crash) {
                self.miss(step, format!("{} had no effect after the step", crash.process));
            }
        }
        self.misses.sort_by_key(|miss| miss.step);
        Ok(())
    }

    /// Why the fault of a step hit nothing; `None`: it hit, or the step is no fault.
    fn missed_fault(&self, step: &Step) -> Option<String> {
        let counts = [&self.world.faults, &self.cloud_hits];
        let has_no_hit = |rule: &str| counts.iter().all(|hits| hits.get(rule).is_none_or(|hits| *hits == 0));
        match step {
            Step::Inject(Inject { rule, .. }) if has_no_hit(&rule.name) => {
                Some(format!("the fault {:?} hit no {}", rule.name, rule.call_name()))
            }
            Step::SlowCreation(SlowCreation { name, machine, .. }) if has_no_hit(name) => {
                Some(format!("the fault {name:?} hit no creation of {machine}"))
            }
            Step::ApiFault(fault) if has_no_hit(&fault.rule.name) => {
                Some(format!("the API fault {:?} hit no request", fault.rule.name))
            }
            Step::Crash(crash) if !self.stage.has_crash_hit(crash) => {
                Some(format!("{} had no effect {}", crash.process, crash.effect))
            }
            _ => None,
        }
    }
}
