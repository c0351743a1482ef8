//! The effects at which a campaign disturbs the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use scenario::DurationExpression;
use scenario::plan::{Disturbance, Lag};
use scenario::result::{Effect, RunResult};
use scenario::step::{Crash, Moment, Process};

/// An effect that `--only` selects, and the side of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Only {
    at: Option<Moment>,
    effect: u64,
}

/// Whether the points of `--only` contain an effect, which is about one side of it or, for a lag, about both. Without
/// points all effects are selected.
pub(super) fn selects(only: &[Only], at: Option<Moment>, effect: u64) -> bool {
    let is = |point: &Only| point.effect == effect && (point.at.is_none() || at.is_none() || point.at == at);
    only.is_empty() || only.iter().any(is)
}

/// A text that selects no effect.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no effect: write before:N, after:N or N, with N from 1")]
pub(super) struct NoEffect(String);

impl FromStr for Only {
    type Err = NoEffect;

    fn from_str(text: &str) -> Result<Self, NoEffect> {
        let wrong = || NoEffect(text.to_owned());
        let (at, effect) = match text.split_once(':') {
            Some(("before", effect)) => (Some(Moment::Before), effect),
            Some(("after", effect)) => (Some(Moment::After), effect),
            Some(_) => return Err(wrong()),
            None => (None, text),
        };
        let effect = effect.parse().ok().filter(|effect| *effect > 0).ok_or_else(wrong)?;
        Ok(Self { at, effect })
    }
}

/// Crash points before and after every effect of a process with a number above `after`, except effects that repeat
/// others: renewals of a Lease after the first one, and attempts to evict a pod and reads of VMs except the first two and
/// the last two. A crash at such an effect is equivalent to one between its neighbours, and a scenario of hours has
/// thousands of them.
pub(super) fn crash_points(process: Process, effects: &[Effect], after: u64) -> Vec<Crash> {
    let repeated = repeated(effects);
    let matters = |effect: &&Effect| effect.number > after && !repeated.contains(&effect.number);
    let both = |effect: &Effect| {
        [Moment::Before, Moment::After].map(|at| Crash {
            process,
            at,
            effect: effect.number,
            may_miss: false,
        })
    };
    effects.iter().filter(matters).flat_map(both).collect()
}

/// The numbers of effects that only repeat others.
fn repeated(effects: &[Effect]) -> BTreeSet<u64> {
    let mut leases = Vec::new();
    let mut attempts: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for effect in effects {
        if is_lease(effect) {
            leases.push(effect.number);
        } else if is_eviction(effect) || is_read_of_vm(effect) {
            attempts.entry(&effect.description).or_default().push(effect.number);
        }
    }
    let in_between = attempts
        .into_values()
        .filter_map(|numbers| Some(numbers.get(2..numbers.len().checked_sub(2)?)?.to_vec()));
    leases.into_iter().skip(2).chain(in_between.flatten()).collect()
}

fn is_lease(effect: &Effect) -> bool {
    effect.description.contains("/leases")
}

fn is_eviction(effect: &Effect) -> bool {
    effect.description.contains("/eviction")
}

/// A remediation controller reads the states of VMs all the time.
fn is_read_of_vm(effect: &Effect) -> bool {
    effect.description.contains("GetVm")
}

/// Whether the effects of the process differ from the undisturbed run in number or order. The repetition of an effect that a
/// crash prevented does not count.
pub(super) fn changed_path(undisturbed: &RunResult, disturbed: &RunResult) -> bool {
    let prevented = |effect: &Effect| {
        disturbed
            .disturbances
            .iter()
            .any(|disturbance| disturbance.what.ends_with(&format!("before effect {}", effect.number)))
    };
    let path = |effects: &[Effect], prevented: &dyn Fn(&Effect) -> bool| -> Vec<String> {
        let repeats = |effect: &&Effect| is_lease(effect) || is_read_of_vm(effect);
        let kept = effects.iter().filter(|effect| !repeats(effect) && !prevented(effect));
        kept.map(without_random_name).collect()
    };
    path(&undisturbed.effects, &|_| false) != path(&disturbed.effects, &prevented)
}

/// The description of an effect without the random names of Events and bootstrap token Secrets.
fn without_random_name(effect: &Effect) -> String {
    let text = effect.description.as_str();
    let collection = ["/events/", "/secrets/"]
        .into_iter()
        .find_map(|collection| text.find(collection));
    text[..collection.unwrap_or(text.len())].to_owned()
}

/// One lag for each effect of these crash points.
pub(super) fn lags(points: &[Crash], by: &DurationExpression) -> Vec<Disturbance> {
    let before = points.iter().filter(|point| point.at == Moment::Before);
    let lags = before.map(|point| {
        Disturbance::Lag(Lag {
            process: point.process,
            effect: point.effect,
            by: by.clone(),
            lasts: Some(2 * by.clone()),
        })
    });
    lags.collect()
}

#[cfg(test)]
mod tests {
    use scenario::job::Job;
    use scenario::result::EffectKind;
    use scenario::{Scenario, StageKind};

    use super::*;

    #[test]
    fn the_selected_effects_are_those_of_the_points() {
        let only = ["before:3", "5"].map(|text| text.parse().unwrap());
        let selected = |at, effect| selects(&only, at, effect);
        assert!(selected(Some(Moment::Before), 3) && selected(Some(Moment::After), 5) && selected(None, 3));
        assert!(!selected(Some(Moment::After), 3) && !selected(Some(Moment::Before), 4));
        assert!(selects(&[], None, 7));
        for wrong in ["0", "behind:3", "after:x", ""] {
            assert!(wrong.parse::<Only>().is_err(), "{wrong}");
        }
    }

    fn effects(descriptions: &[&str]) -> Vec<Effect> {
        let effect = |(number, description): (u64, &&str)| Effect {
            number,
            incarnation: 1,
            kind: EffectKind::ApiWrite,
            description: (*description).to_owned(),
        };
        (1..).zip(descriptions).map(effect).collect()
    }

    #[test]
    fn only_the_first_renewal_of_a_lease_is_a_crash_point() {
        let effects = effects(&[
            "POST /leases",
            "PUT /leases/a",
            "CreateMachine",
            "PUT /leases/a",
            "PUT /machines/m",
        ]);
        let points = |after| -> Vec<u64> {
            let points = crash_points(Process::Mcm, &effects, after);
            points.iter().map(|point| point.effect).collect()
        };
        assert_eq!(points(0), [1, 1, 2, 2, 3, 3, 5, 5]);
        assert_eq!(points(2), [3, 3, 5, 5]);
    }

    #[test]
    fn the_first_two_and_the_last_two_evictions_of_a_pod_are_crash_points() {
        let attempt = "POST /api/v1/namespaces/ns/pods/a/eviction";
        let other = "POST /api/v1/namespaces/ns/pods/b/eviction";
        let effects = effects(&[
            attempt, attempt, attempt, other, attempt, attempt, attempt, other, other,
        ]);
        let points: BTreeSet<u64> = crash_points(Process::Mcm, &effects, 0)
            .iter()
            .map(|point| point.effect)
            .collect();
        assert_eq!(points, BTreeSet::from([1, 2, 4, 6, 7, 8, 9]));
    }

    #[test]
    fn the_repetition_of_a_prevented_effect_does_not_change_the_path() {
        let run = |descriptions: &[&str], crash: Option<(Moment, u64)>| {
            let crash = crash.map(|(at, effect)| Crash {
                process: Process::Mcm,
                at,
                effect,
                may_miss: false,
            });
            let mut job = Job::new(Scenario::new("story", ""), StageKind::Sim, 1);
            job.plan.disturbances = crash.map(Disturbance::Crash).into_iter().collect();
            RunResult {
                effects: effects(descriptions),
                ..RunResult::broken(&job, String::new())
            }
        };
        let clean = run(&["POST /events/a", "CreateMachine"], None);
        let repeated = run(
            &["POST /events/b", "CreateMachine", "CreateMachine"],
            Some((Moment::Before, 2)),
        );
        let with_status_call = run(
            &["POST /events/b", "CreateMachine", "GetMachineStatus"],
            Some((Moment::After, 2)),
        );
        assert!(!changed_path(&clean, &repeated));
        assert!(changed_path(&clean, &with_status_call));
    }
}
