//! In virtual time: when kubelets in good health need not renew their Leases, because nobody would miss it.
//!
//! Of a Lease in `kube-node-lease` only node lifecycle takes notice. What a run says or draws about the ways between
//! kubelets, API server and built-in controllers is known before it starts; where it touches none of them, each renewal
//! would come through, so the [`Pulses`] say the same. A kubelet that falls ill is no such case: it ends its pulse itself.

use std::ops::Range;
use std::time::Duration;

use apiserver::faults::Rule;
use clock::Pulses;
use jiff::{SignedDuration, Timestamp};

use crate::deploy::MCM_ACCOUNT;
use crate::plan::Disturbance;
use crate::runner::Job;
use crate::scenario::step::Process;
use crate::scenario::{Step, Timeouts};

/// The pulses of a run that starts at `start`; `None`: every Lease is renewed every time.
pub(super) fn unheard(job: &Job, start: Timestamp, timeouts: &Timeouts) -> Option<Pulses> {
    let scenario = &job.plan.scenario;
    let shown = serde_json::to_string(scenario).ok()?;
    if job.every_renewal || shown.contains("\"Lease\"") || scenario.steps.iter().any(cuts) {
        return None;
    }
    let mut loud = Vec::new();
    for disturbance in &job.plan.disturbances {
        match disturbance {
            Disturbance::Pause(pause) if pause.process != Process::Mcm => return None,
            Disturbance::Lag(lag) if lag.process != Process::Mcm => return None,
            Disturbance::Api(rule) if !is_about_mcm(rule) => loud.push(window(rule, start, timeouts)),
            Disturbance::Crash(_)
            | Disturbance::Pause(_)
            | Disturbance::Lag(_)
            | Disturbance::Api(_)
            | Disturbance::Cloud(_)
            | Disturbance::Vm(_)
            | Disturbance::Kubelet(_) => {}
        }
    }
    Some(Pulses::new(loud))
}

/// Whether a step may stand between kubelets and node lifecycle, at a time that nobody knows before.
fn cuts(step: &Step) -> bool {
    match step {
        Step::ApiFault(fault) => fault.by.is_none() && !is_about_mcm(&fault.rule),
        Step::Pause(pause) => pause.process != Process::Mcm,
        Step::Process(step) => step.name != Process::Mcm,
        _ => false,
    }
}

fn is_about_mcm(rule: &Rule) -> bool {
    let client = rule.matches.client.as_ref();
    client.is_some_and(|client| client.as_str().ends_with(&format!(":{MCM_ACCOUNT}")))
}

/// When a rule may be felt: what it holds back may arrive a little later.
fn window(rule: &Rule, start: Timestamp, timeouts: &Timeouts) -> Range<Timestamp> {
    let margin = 2 * timeouts.node_grace;
    let window = rule.matches.window.unwrap_or_default();
    let after = |time: Duration| {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        start.saturating_add(time).unwrap_or(Timestamp::MAX)
    };
    let end = window.until.map_or(Timestamp::MAX, |until| after(until + margin));
    after(window.from.saturating_sub(margin))..end
}

#[cfg(test)]
mod tests {
    use apiserver::faults::{Action, Match, Pattern, Window};
    use rstest::rstest;

    use super::*;
    use crate::StageKind;
    use crate::plan::{Lag, Plan};
    use crate::scenario::Scenario;
    use crate::scenario::duration::DurationExpression;

    const PERIOD: Duration = Duration::from_secs(10);

    fn job(disturbances: Vec<Disturbance>) -> Job {
        let plan = Plan {
            disturbances,
            ..Plan::new(Scenario::new("s", "A story."), 1)
        };
        Job::of(plan, StageKind::Sim)
    }

    fn lag(process: Process) -> Disturbance {
        Disturbance::Lag(Lag {
            process,
            effect: 1,
            by: DurationExpression::literal(Duration::from_secs(1)),
            lasts: None,
        })
    }

    fn compaction(client: &str) -> Disturbance {
        let matches = Match {
            client: Some(Pattern::new(client)),
            window: Some(Window {
                from: Duration::from_secs(1000),
                until: Some(Duration::from_secs(1100)),
            }),
            ..Match::default()
        };
        let rule = Rule::new("r", Action::Compact { behind_only: false });
        Disturbance::Api(Box::new(Rule { matches, ..rule }))
    }

    /// Until which second a pulse goes that begins with the run.
    #[rstest]
    #[case::undisturbed(vec![], Some(i64::MAX))]
    #[case::mcm_hears_late(vec![lag(Process::Mcm)], Some(i64::MAX))]
    #[case::node_lifecycle_hears_late(vec![lag(Process::Controllers)], None)]
    #[case::kubelets_hear_late(vec![lag(Process::Fakecloud)], None)]
    #[case::requests_of_mcm(vec![compaction("*:machine-controller-manager")], Some(i64::MAX))]
    #[case::requests_of_kubelets(vec![compaction("*:fakecloud")], Some(900))]
    #[case::requests_of_anybody(vec![compaction("*")], Some(900))]
    fn kubelets_beat_unheard_where_every_renewal_would_come_through(
        #[case] disturbances: Vec<Disturbance>,
        #[case] until: Option<i64>,
    ) {
        let start = Timestamp::UNIX_EPOCH;
        let pulses = unheard(&job(disturbances), start, &Timeouts::production());
        let end = pulses.and_then(|pulses| pulses.begin("a", start, PERIOD));
        assert_eq!(
            end.map(|end| if end == Timestamp::MAX {
                i64::MAX
            } else {
                end.as_second()
            }),
            until
        );
    }

    #[test]
    fn who_wants_to_see_every_renewal_does() {
        let job = Job {
            every_renewal: true,
            ..job(Vec::new())
        };
        assert_eq!(unheard(&job, Timestamp::UNIX_EPOCH, &Timeouts::production()), None);
    }
}
