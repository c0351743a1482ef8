//! One step of a drain: which pods to evict, how, and errors.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::NodeName;

use super::super::deletion_note::DeletionNote;
use super::super::drain_memory::{Attempt, DrainMemory, EvictionOutcome, MovingPod};
use super::super::pass::Pass;
use super::super::{Action, Pod};
use crate::event::EventType;

/// How much longer than its grace period a pod may take to end.
const OVERDUE: Duration = Duration::from_secs(30);

/// After this time a refusal is reported again: API servers remove events after an hour.
const REPORT_AGAIN: Duration = Duration::from_mins(30);

/// The limits of a drain.
pub(in super::super) struct Limit {
    /// The remaining time.
    pub left: Duration,
    /// How often an eviction may be refused before the pod is deleted.
    pub evictions: u32,
}

/// The next step of a drain.
pub(in super::super) struct Step {
    /// Actions, in order.
    pub actions: Vec<Action>,
    /// The new memory of the drain.
    pub memory: DrainMemory,
    /// How many pods remain, including a deleted one whose volumes are still moving.
    pub waiting: usize,
    /// When the next step is due.
    pub wake: Duration,
    /// Errors for the status.
    pub errors: Vec<String>,
}

impl Step {
    /// Whether the drain is complete.
    pub fn is_done(&self) -> bool {
        self.is_empty() && !self.ends_with_query()
    }

    /// Whether the last action queries the driver or the API server.
    pub fn ends_with_query(&self) -> bool {
        matches!(
            self.actions.last(),
            Some(Action::AskVolumeIds(_) | Action::ListPods { .. })
        )
    }

    fn is_empty(&self) -> bool {
        self.waiting == 0 && self.errors.is_empty()
    }
}

/// The state while a step is decided.
pub(super) struct Drain<'a> {
    pub pass: &'a Pass<'a>,
    pub limit: &'a Limit,
    pub pods: &'a [Pod],
    pub step: Step,
}

impl Drain<'_> {
    /// Requests the next step after that time at the latest.
    pub fn wake(&mut self, after: Duration) {
        self.step.wake = self.step.wake.min(after);
    }

    /// The remaining time of `limit`, counted from `start`.
    pub fn left(&self, start: Timestamp, limit: Duration) -> Duration {
        let end = start.checked_add(limit).unwrap_or(Timestamp::MAX);
        Duration::try_from(end.duration_since(self.pass.now)).unwrap_or_default()
    }

    /// Reports a new refusal, again before the API server removes the event, and counts it unless the budget is misconfigured: then only a user can act.
    pub fn judge_refusals(&mut self) {
        for pod in self.pods {
            let Some(attempt) = self.step.memory.attempts.get_mut(&pod.uid) else {
                continue;
            };
            if std::mem::replace(&mut attempt.judged, true) || attempt.outcome != EvictionOutcome::Refused {
                continue;
            }
            attempt.refusals += u32::from(misconfigured(pod).is_none());
            let refresh = |reported: Timestamp| reported.checked_add(REPORT_AGAIN).unwrap_or(Timestamp::MAX);
            if attempt
                .reported
                .is_none_or(|reported| refresh(reported) <= self.pass.now)
            {
                attempt.reported = Some(self.pass.now);
                self.step.actions.push(blocked(pod, self.pass, self.limit));
            }
        }
    }

    /// Evicts or deletes a pod, unless it is terminating or was attempted a short time ago. Returns whether it did.
    pub fn evict(&mut self, pod: &Pod) -> bool {
        if let Some(ends) = pod.ends
            && !defect!(TerminatingPodEvictedAgain)
        {
            let left = self.left(ends, OVERDUE);
            if left.is_zero() {
                let node = self.pass.node_name().map(NodeName::as_str).unwrap_or_default();
                self.step.errors.push(format!(
                    "error when waiting for pod {:?}/{node} terminating: it still exists {} s after its grace period",
                    pod.name,
                    OVERDUE.as_secs()
                ));
            } else {
                self.wake(left);
            }
            return false;
        }
        // The last answer applies until the next one, also during a retry, so that the text does not flap.
        self.push_error(pod);
        let wait = self.left_to_retry(pod);
        if !wait.is_zero() {
            self.wake(wait);
            return false;
        }
        self.step.actions.push(self.request(pod));
        self.wake(self.pass.settings.retry.eviction);
        true
    }

    /// The remaining wait after the last attempt; zero: the pod may be evicted.
    pub fn left_to_retry(&self, pod: &Pod) -> Duration {
        if defect!(RefusedEvictionRepeatedAtOnce) {
            return Duration::ZERO;
        }
        let retry = &self.pass.settings.retry;
        self.attempt(pod).map_or(Duration::ZERO, |attempt| {
            let period = match attempt.outcome {
                EvictionOutcome::Failed(_) => retry.short,
                EvictionOutcome::Accepted | EvictionOutcome::Refused => retry.eviction,
            };
            self.left(attempt.last, period)
        })
    }

    /// Adds the result of the last attempt to the errors, if a user has to act or the call failed.
    fn push_error(&mut self, pod: &Pod) {
        let node = self.pass.node_name().map(NodeName::as_str).unwrap_or_default();
        let error = match self.attempt(pod).map(|attempt| &attempt.outcome) {
            Some(EvictionOutcome::Refused) => misconfigured(pod).map(|budget| {
                format!(
                    "error while evicting pod {:?}: pod disruption budget {budget} is misconfigured and requires zero \
                     voluntary evictions",
                    pod.name
                )
            }),
            Some(EvictionOutcome::Failed(text)) => Some(eviction_error(pod, text, node)),
            Some(EvictionOutcome::Accepted) | None => None,
        };
        self.step.errors.extend(error);
    }

    fn attempt(&self, pod: &Pod) -> Option<&Attempt> {
        self.step.memory.attempts.get(&pod.uid)
    }

    fn request(&self, pod: &Pod) -> Action {
        let refusals = self.attempt(pod).map_or(0, |attempt| attempt.refusals);
        if refusals >= self.limit.evictions {
            pod.deletion(super::is_dead(self.pass).then_some(0))
        } else {
            pod.eviction()
        }
    }

    /// Starts the move of this pod's volumes.
    pub fn begin(&mut self, pod: &Pod, volumes: BTreeMap<String, String>) {
        self.step.memory.moving = Some(MovingPod {
            uid: pod.uid.clone(),
            volumes,
            since: self.pass.now,
            grace: pod.grace,
            detached: None,
        });
    }
}

/// The error for a pod on `node` that could not be evicted, as upstream formats it.
pub(super) fn eviction_error(pod: &Pod, error: &str, node: &str) -> String {
    format!(
        "error when evicting pod {:?}: {error} scheduled on node {node}",
        pod.name
    )
}

/// A budget of the pod that can never allow an eviction.
fn misconfigured(pod: &Pod) -> Option<&str> {
    if defect!(BudgetRefusalTakenAsPermanent) {
        return pod.budgets.first().map(|budget| budget.name.as_str());
    }
    pod.misconfigured_budget()
}

/// What refuses the eviction of the pod.
fn blocker(pod: &Pod) -> String {
    let budgets: Vec<&str> = pod.budgets.iter().map(|budget| budget.name.as_str()).collect();
    match budgets.as_slice() {
        [] => "the API server".to_owned(),
        [one] => format!("the disruption budget {one}"),
        several => format!("one of the disruption budgets {}", several.join(", ")),
    }
}

/// The note about pods whose eviction is refused; `None`: there are none.
pub(super) fn blocked_note(pods: &[Pod], memory: &DrainMemory) -> Option<DeletionNote> {
    let outcome = |pod: &Pod| memory.attempts.get(&pod.uid).map(|attempt| &attempt.outcome);
    let refused = |pod: &&Pod| pod.ends.is_none() && outcome(pod) == Some(&EvictionOutcome::Refused);
    let blocked: Vec<&Pod> = pods.iter().filter(refused).collect();
    let first = blocked.first()?;
    let name = format!("{}/{}", first.namespace, first.name);
    Some(DeletionNote::DrainBlocked {
        blocker: blocker(first),
        pod: match blocked.len() {
            1 => name,
            2 => format!("{name} and of another pod"),
            count => format!("{name} and of {} other pods", count - 1),
        },
    })
}

fn blocked(pod: &Pod, pass: &Pass, limit: &Limit) -> Action {
    let blocker = blocker(pod);
    Action::RecordEvent {
        type_: EventType::Warning,
        reason: "DrainBlocked".to_owned(),
        message: format!(
            "{blocker} does not allow the eviction of pod {}/{}; it is tried again every {}, {} times at most, and the \
             pod is deleted then",
            pod.namespace,
            pod.name,
            mcm_api::GoDuration(pass.settings.retry.eviction),
            limit.evictions
        ),
    }
}
