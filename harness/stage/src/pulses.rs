//! In virtual time: when healthy kubelets and a leading mcm skip the renewal of their Leases, and kubelets the repetition of
//! an unchanged Node status, because no fault can affect them.
//!
//! Of a Lease in `kube-node-lease` only node lifecycle takes notice, of mcm's only another mcm. What a run says or draws
//! about the ways between who renews, API server and who takes notice is known before it starts; where it touches none of
//! them, each renewal would come through, so the [`Pulses`] say the same. A kubelet that falls ill is no such case: it
//! ends its pulse itself. Nor is an mcm that crashes, is killed or stands still: its pulse ends at that moment.

use std::ops::Range;
use std::time::Duration;

use apiserver::faults::{Action, Pattern, Rule, Verb};
use clock::Pulses;
use jiff::{SignedDuration, Timestamp};
use scenario::job::Job;
use scenario::plan::Disturbance;
use scenario::step::Process;
use scenario::{Step, Timeouts};

use crate::deploy::{FAKECLOUD_ACCOUNT, MCM_ACCOUNT};

/// The pulses of the kubelets of a run that starts at `start`; `None`: every Lease is renewed every time.
pub(super) fn of_kubelets(job: &Job, start: Timestamp, timeouts: &Timeouts) -> Option<Pulses> {
    if shows_signs_of_life(job) {
        return None;
    }
    let mut loud = Vec::new();
    if job.plan.scenario.steps.iter().any(cuts) {
        loud.push(UNTIL_CALM);
    }
    for disturbance in &job.plan.disturbances {
        match disturbance {
            Disturbance::Pause(pause) if pause.process != Process::Mcm => return None,
            Disturbance::Lag(lag) if lag.process != Process::Mcm => return None,
            Disturbance::Api(rule) if stands_between(rule) => loud.push(window(rule, start, timeouts)),
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

/// The same of its mcm. Where there are two, one watches over the other's Lease.
pub(super) fn of_mcm(job: &Job, start: Timestamp, timeouts: &Timeouts) -> Option<Pulses> {
    let scenario = &job.plan.scenario;
    let strikes = |step: &Step| match step {
        Step::ApiFault(fault) => strikes_renewals(&fault.rule),
        _ => false,
    };
    if shows_signs_of_life(job) || scenario.world.replicas > 1 {
        return None;
    }
    let until_calm = scenario.steps.iter().any(strikes).then_some(UNTIL_CALM);
    let rules = job
        .plan
        .disturbances
        .iter()
        .filter_map(|disturbance| match disturbance {
            Disturbance::Api(rule) if strikes_renewals(rule) => Some(rule),
            _ => None,
        });
    let windows = rules.map(|rule| window(rule, start, timeouts));
    Some(Pulses::new(windows.chain(until_calm)))
}

/// Beats have to be heard until [`Pulses::clear_explicit_periods`].
const UNTIL_CALM: Range<Timestamp> = Timestamp::MIN..Timestamp::MAX;

/// Whether a run disturbs connections to an API server by its steps alone, so that it is calm once these are over.
pub(super) fn may_calm_down(job: &Job) -> bool {
    let disturbed = job.plan.disturbances.iter().any(|disturbance| match disturbance {
        Disturbance::Api(rule) => strikes_watches(rule),
        Disturbance::Lag(_) | Disturbance::Pause(_) => true,
        Disturbance::Crash(_) | Disturbance::Cloud(_) | Disturbance::Vm(_) | Disturbance::Kubelet(_) => false,
    });
    !job.every_renewal && !disturbed
}

/// Whether one of the steps disturbs a connection to an API server, or the way from a kubelet's renewal to node lifecycle.
pub(super) fn any_disturbs(steps: &[Step]) -> bool {
    let disturbs = |step: &Step| match step {
        Step::ApiFault(fault) => strikes_watches(&fault.rule) || cuts(step),
        Step::Pause(_) => true,
        _ => cuts(step),
    };
    steps.iter().any(disturbs)
}

/// Whether the run is to show Leases, and the times of a Node's conditions, as they are.
fn shows_signs_of_life(job: &Job) -> bool {
    let shown = serde_json::to_string(&job.plan.scenario);
    job.every_renewal
        || shown.is_ok_and(|shown| {
            ["\"Lease\"", "lastHeartbeatTime"]
                .iter()
                .any(|sign| shown.contains(sign))
        })
}

/// Whether a step may stand between kubelets and node lifecycle, at a time that nobody knows before.
fn cuts(step: &Step) -> bool {
    match step {
        Step::ApiFault(fault) => fault.by.is_none() && stands_between(&fault.rule),
        Step::Pause(pause) => pause.process != Process::Mcm,
        Step::Process(step) => step.name != Process::Mcm,
        _ => false,
    }
}

fn is_about(rule: &Rule, account: &str) -> bool {
    let client = rule.matches.client.as_ref();
    client.is_some_and(|client| client.as_str().ends_with(&format!(":{account}")))
}

/// Whether a rule may strike mcm when it renews.
fn strikes_renewals(rule: &Rule) -> bool {
    may_strike(rule, &[Verb::Update], Some(LEASES)) && !is_about(rule, FAKECLOUD_ACCOUNT)
}

/// Whether a rule may strike a kubelet that renews its Lease, or node lifecycle, which watches Leases.
fn stands_between(rule: &Rule) -> bool {
    may_strike(rule, &Verb::ALL, Some(LEASES)) && !is_about(rule, MCM_ACCOUNT)
}

/// Whether a rule may strike a watch, the list before it, or the question whether a server answers.
fn strikes_watches(rule: &Rule) -> bool {
    may_strike(rule, &[Verb::Get, Verb::List, Verb::Watch], None)
}

const LEASES: &str = "leases";

/// Whether a rule may strike a request with one of these verbs: for this resource, or for any that can be watched.
fn may_strike(rule: &Rule, verbs: &[Verb], resource: Option<&str>) -> bool {
    if let Action::Partition { .. } | Action::Compact { .. } | Action::Restart { .. } = rule.action {
        // Whatever request it is that brings this about, it concerns others.
        return true;
    }
    let verbs = rule.action.verbs().iter().filter(|verb| verbs.contains(verb));
    let mut verbs = verbs.filter(|verb| rule.matches.verbs.is_empty() || rule.matches.verbs.contains(verb));
    let reaches = |pattern: &Pattern| match resource {
        Some(resource) => pattern.matches(resource) || pattern.matches(&format!("{resource}.coordination.k8s.io")),
        // Subresources cannot be watched.
        None => !pattern.as_str().contains('/'),
    };
    verbs.next().is_some() && rule.matches.resource.as_ref().is_none_or(reaches)
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
    use apiserver::faults::{At, Match, Window};
    use rstest::rstest;
    use scenario::duration::DurationExpression;
    use scenario::plan::{Lag, Plan};
    use scenario::{Scenario, StageKind};

    use super::*;

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

    fn freeze() -> Disturbance {
        Disturbance::Api(Box::new(Rule::new("r", Action::FreezeWatch {})))
    }

    fn delay(verbs: &[Verb], resource: &str) -> Rule {
        let matches = Match {
            verbs: verbs.to_vec(),
            resource: Some(Pattern::new(resource)),
            ..Match::default()
        };
        let action = Action::Delay {
            at: At::BeforeCommit,
            by: Duration::from_secs(1),
        };
        Rule {
            matches,
            ..Rule::new("r", action)
        }
    }

    fn delayed(verbs: &[Verb], resource: &str) -> Disturbance {
        Disturbance::Api(Box::new(delay(verbs, resource)))
    }

    /// Until which second pulses go that begin with the run.
    #[rstest]
    #[case::undisturbed(vec![], Some(i64::MAX), Some(i64::MAX))]
    #[case::mcm_hears_late(vec![lag(Process::Mcm)], Some(i64::MAX), Some(i64::MAX))]
    #[case::node_lifecycle_hears_late(vec![lag(Process::Controllers)], None, Some(i64::MAX))]
    #[case::kubelets_hear_late(vec![lag(Process::Fakecloud)], None, Some(i64::MAX))]
    #[case::requests_of_mcm(vec![compaction("*:machine-controller-manager")], Some(i64::MAX), Some(900))]
    #[case::requests_of_kubelets(vec![compaction("*:fakecloud")], Some(900), Some(i64::MAX))]
    #[case::requests_of_anybody(vec![compaction("*")], Some(900), Some(900))]
    #[case::watches_of_anybody(vec![freeze()], None, Some(i64::MAX))]
    #[case::writes_of_others(vec![delayed(&[], "nodes")], Some(i64::MAX), Some(i64::MAX))]
    #[case::writes_of_leases(vec![delayed(&[Verb::Update], "lease*")], None, None)]
    #[case::reads_of_leases(vec![delayed(&[Verb::List], "leases.coordination.k8s.io")], None, Some(i64::MAX))]
    fn they_beat_unheard_where_every_renewal_would_come_through(
        #[case] disturbances: Vec<Disturbance>,
        #[case] kubelets: Option<i64>,
        #[case] mcm: Option<i64>,
    ) {
        let (start, job) = (Timestamp::UNIX_EPOCH, job(disturbances));
        let until = |pulses: Option<Pulses>| {
            let end = pulses?.begin("a", start, PERIOD)?;
            Some(
                Some(end)
                    .filter(|end| *end != Timestamp::MAX)
                    .map_or(i64::MAX, Timestamp::as_second),
            )
        };
        let timeouts = Timeouts::production();
        assert_eq!(until(of_kubelets(&job, start, &timeouts)), kubelets);
        assert_eq!(until(of_mcm(&job, start, &timeouts)), mcm);
    }

    #[rstest]
    #[case::any(delay(&[], "machines"), true)]
    #[case::reads(delay(&[Verb::List], "*"), true)]
    #[case::writes(delay(&[Verb::Patch], "machines"), false)]
    #[case::writes_of_a_subresource(delay(&[], "pods/eviction"), false)]
    #[case::writes_that_a_rule_cannot_strike(
        Rule { action: Action::FreezeWatch {}, ..delay(&[Verb::Patch], "machines") }, false
    )]
    #[case::of_all_at_a_write(
        Rule { action: Action::Compact { behind_only: false }, ..delay(&[Verb::Patch], "machines") }, true
    )]
    fn a_world_is_calm_beside_what_strikes_no_watch(#[case] rule: Rule, #[case] strikes: bool) {
        assert_eq!(strikes_watches(&rule), strikes);
        assert_eq!(may_calm_down(&job(vec![Disturbance::Api(Box::new(rule))])), !strikes);
    }

    #[test]
    fn who_wants_to_see_every_renewal_does() {
        let job = Job {
            every_renewal: true,
            ..job(Vec::new())
        };
        let (start, timeouts) = (Timestamp::UNIX_EPOCH, Timeouts::production());
        assert_eq!(of_kubelets(&job, start, &timeouts), None);
        assert_eq!(of_mcm(&job, start, &timeouts), None);
    }

    #[test]
    fn an_mcm_that_another_one_watches_renews() {
        let mut job = job(Vec::new());
        job.plan.scenario.world.replicas = 2;
        assert_eq!(of_mcm(&job, Timestamp::UNIX_EPOCH, &Timeouts::production()), None);
    }
}
