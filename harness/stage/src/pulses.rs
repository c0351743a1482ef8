//! Decides when pulses replace the Lease renewals of healthy kubelets and of the leading mcm, and the repetition of an
//! unchanged Node status, in virtual time: when no fault can affect these requests.
//!
//! Only the node lifecycle controller reads Leases in `kube-node-lease`, and only another mcm reads mcm's Lease. The
//! disturbances of the connections from the holder to the API server and from there to the reader are known before a
//! run starts. Without such a disturbance every renewal would succeed, so [`Pulses`] are equivalent. Other failures
//! need no check here: a failing kubelet ends its own pulse, and the pulse of an mcm ends when it crashes, is killed or
//! is paused.

use std::ops::Range;
use std::time::Duration;

use apiserver::faults::{Action, Pattern, Rule, Verb};
use clock::Pulses;
use jiff::{SignedDuration, Timestamp};
use scenario::job::Job;
use scenario::plan::{Disturbance, TimedStep};
use scenario::step::Process;
use scenario::{Step, Timeouts};

use crate::deploy::{FAKECLOUD_ACCOUNT, MCM_ACCOUNT};

/// The pulses of the kubelets in a run that starts at `start`; `None` if every renewal has to be a request.
pub(super) fn of_kubelets(job: &Job, start: Timestamp, timeouts: &Timeouts) -> Option<Pulses> {
    if needs_every_renewal(job) {
        return None;
    }
    let mut explicit_periods = Vec::new();
    if job.plan.scenario.steps.iter().any(may_cut_kubelet_leases) {
        explicit_periods.push(UNTIL_CLEARED);
    }
    for disturbance in &job.plan.disturbances {
        match disturbance {
            Disturbance::Pause(pause) if uses_kubelet_leases(pause.process) => return None,
            Disturbance::Lag(lag) if uses_kubelet_leases(lag.process) => return None,
            Disturbance::Api(rule) if hits_kubelet_leases(rule) => explicit_periods.push(window(rule, start, timeouts)),
            Disturbance::Step(timed) if may_cut_kubelet_leases(&timed.step) => {
                explicit_periods.push(from_step(timed, start, timeouts));
            }
            Disturbance::Crash(_)
            | Disturbance::Pause(_)
            | Disturbance::Lag(_)
            | Disturbance::Step(_)
            | Disturbance::Api(_)
            | Disturbance::Cloud(_)
            | Disturbance::Vm(_)
            | Disturbance::Kubelet(_) => {}
        }
    }
    Some(Pulses::new(explicit_periods))
}

/// The pulses of mcm; `None` if every renewal has to be a request, for example with several replicas, which read the
/// leader's Lease.
pub(super) fn of_mcm(job: &Job, start: Timestamp, timeouts: &Timeouts) -> Option<Pulses> {
    let scenario = &job.plan.scenario;
    let hits = |step: &Step| match step {
        Step::ApiFault(fault) => hits_mcm_renewals(&fault.rule),
        _ => false,
    };
    if needs_every_renewal(job) || scenario.world.replicas > 1 {
        return None;
    }
    let until_cleared = scenario.steps.iter().any(hits).then_some(UNTIL_CLEARED);
    let windows = job
        .plan
        .disturbances
        .iter()
        .filter_map(|disturbance| match disturbance {
            Disturbance::Api(rule) if hits_mcm_renewals(rule) => Some(window(rule, start, timeouts)),
            Disturbance::Step(timed) if hits(&timed.step) => Some(from_step(timed, start, timeouts)),
            _ => None,
        });
    Some(Pulses::new(windows.chain(until_cleared)))
}

/// The period for explicit renewals until [`Pulses::clear_explicit_periods`].
const UNTIL_CLEARED: Range<Timestamp> = Timestamp::MIN..Timestamp::MAX;

/// Whether at most the steps of a run disturb connections to an API server, so that connections are stable after them.
pub(super) fn may_become_stable(job: &Job) -> bool {
    let disturbed = job.plan.disturbances.iter().any(|disturbance| match disturbance {
        Disturbance::Api(rule) => hits_watches(rule),
        Disturbance::Lag(_) | Disturbance::Pause(_) => true,
        Disturbance::Step(timed) => any_disturbs(std::slice::from_ref(&timed.step)),
        Disturbance::Crash(_) | Disturbance::Cloud(_) | Disturbance::Vm(_) | Disturbance::Kubelet(_) => false,
    });
    !job.every_renewal && !disturbed
}

/// Whether a step disturbs a connection to an API server, or the path from a kubelet's renewal to the node lifecycle
/// controller.
pub(super) fn any_disturbs(steps: &[Step]) -> bool {
    let disturbs = |step: &Step| match step {
        Step::ApiFault(fault) => hits_watches(&fault.rule) || may_cut_kubelet_leases(step),
        Step::Pause(_) => true,
        _ => may_cut_kubelet_leases(step),
    };
    steps.iter().any(disturbs)
}

/// Whether the job requests every renewal, or the scenario refers to Leases or the heartbeat times of a Node's
/// conditions.
fn needs_every_renewal(job: &Job) -> bool {
    let shown = serde_json::to_string(&job.plan.scenario);
    job.every_renewal
        || shown.is_ok_and(|shown| {
            ["\"Lease\"", "lastHeartbeatTime"]
                .iter()
                .any(|sign| shown.contains(sign))
        })
}

/// Whether a step, whose time is not known before the run, may disturb the path between kubelets and node lifecycle.
fn may_cut_kubelet_leases(step: &Step) -> bool {
    match step {
        Step::ApiFault(fault) => fault.by.is_none() && hits_kubelet_leases(&fault.rule),
        Step::Pause(pause) => uses_kubelet_leases(pause.process),
        Step::Process(step) => uses_kubelet_leases(step.name),
        _ => false,
    }
}

/// Whether the process is on the path between kubelets and node lifecycle.
fn uses_kubelet_leases(process: Process) -> bool {
    [Process::Controllers, Process::Fakecloud].contains(&process)
}

fn is_about(rule: &Rule, account: &str) -> bool {
    let client = rule.matches.client.as_ref();
    client.is_some_and(|client| client.as_str().ends_with(&format!(":{account}")))
}

/// Whether a rule may hit a Lease renewal of mcm.
fn hits_mcm_renewals(rule: &Rule) -> bool {
    may_hit(rule, &[Verb::Update], Some(LEASES)) && !is_about(rule, FAKECLOUD_ACCOUNT)
}

/// Whether a rule may hit the Lease renewal of a kubelet, or the watch of Leases by node lifecycle.
fn hits_kubelet_leases(rule: &Rule) -> bool {
    may_hit(rule, &Verb::ALL, Some(LEASES)) && !is_about(rule, MCM_ACCOUNT)
}

/// Whether a rule may hit a watch, the list before it, or a health check of the server.
fn hits_watches(rule: &Rule) -> bool {
    may_hit(rule, &[Verb::Get, Verb::List, Verb::Watch], None)
}

const LEASES: &str = "leases";

/// Whether a rule may hit a request with one of these verbs, for `resource` or, if `None`, for any watchable resource.
fn may_hit(rule: &Rule, verbs: &[Verb], resource: Option<&str>) -> bool {
    if let Action::Partition { .. } | Action::Compact { .. } | Action::Restart { .. } = rule.action {
        // These actions affect other requests than the one that triggers them.
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

/// The period in which a rule may have effects, with a margin for delayed requests.
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

/// The period in which a timed step may have effects: a later one may end them, or none.
fn from_step(timed: &TimedStep, start: Timestamp, timeouts: &Timeouts) -> Range<Timestamp> {
    let before = timed.at.value(timeouts).saturating_sub(2 * timeouts.node_grace);
    let before = SignedDuration::try_from(before).unwrap_or(SignedDuration::MAX);
    start.saturating_add(before).unwrap_or(Timestamp::MAX)..Timestamp::MAX
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

    /// The expected values are the seconds until which pulses from the start of the run last.
    #[rstest]
    #[case::undisturbed(vec![], Some(i64::MAX), Some(i64::MAX))]
    #[case::watches_of_mcm_lag(vec![lag(Process::Mcm)], Some(i64::MAX), Some(i64::MAX))]
    #[case::watches_of_node_lifecycle_lag(vec![lag(Process::Controllers)], None, Some(i64::MAX))]
    #[case::watches_of_kubelets_lag(vec![lag(Process::Fakecloud)], None, Some(i64::MAX))]
    #[case::requests_of_mcm(vec![compaction("*:machine-controller-manager")], Some(i64::MAX), Some(900))]
    #[case::requests_of_kubelets(vec![compaction("*:fakecloud")], Some(900), Some(i64::MAX))]
    #[case::requests_of_any_client(vec![compaction("*")], Some(900), Some(900))]
    #[case::watches_of_any_client(vec![freeze()], None, Some(i64::MAX))]
    #[case::writes_of_others(vec![delayed(&[], "nodes")], Some(i64::MAX), Some(i64::MAX))]
    #[case::writes_of_leases(vec![delayed(&[Verb::Update], "lease*")], None, None)]
    #[case::reads_of_leases(vec![delayed(&[Verb::List], "leases.coordination.k8s.io")], None, Some(i64::MAX))]
    fn pulses_replace_renewals_that_no_disturbance_can_hit(
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
    #[case::writes_that_the_action_cannot_hit(
        Rule { action: Action::FreezeWatch {}, ..delay(&[Verb::Patch], "machines") }, false
    )]
    #[case::all_watches_at_a_write(
        Rule { action: Action::Compact { behind_only: false }, ..delay(&[Verb::Patch], "machines") }, true
    )]
    fn a_world_may_become_stable_if_no_rule_hits_watches(#[case] rule: Rule, #[case] expected: bool) {
        assert_eq!(hits_watches(&rule), expected);
        assert_eq!(
            may_become_stable(&job(vec![Disturbance::Api(Box::new(rule))])),
            !expected
        );
    }

    #[test]
    fn a_job_that_requests_every_renewal_has_no_pulses() {
        let job = Job {
            every_renewal: true,
            ..job(Vec::new())
        };
        let (start, timeouts) = (Timestamp::UNIX_EPOCH, Timeouts::production());
        assert_eq!(of_kubelets(&job, start, &timeouts), None);
        assert_eq!(of_mcm(&job, start, &timeouts), None);
    }

    #[test]
    fn replicas_of_mcm_have_no_pulses() {
        let mut job = job(Vec::new());
        job.plan.scenario.world.replicas = 2;
        assert_eq!(of_mcm(&job, Timestamp::UNIX_EPOCH, &Timeouts::production()), None);
    }
}
