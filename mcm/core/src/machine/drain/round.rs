//! One step of a drain while it is decided: whom to ask, how, and what goes wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::NodeName;

use super::super::drain_memory::{Attempt, DrainMemory, EvictionOutcome, Moving};
use super::super::pass::Pass;
use super::super::{Action, Pod};
use crate::event::EventType;

/// How much longer than its grace period a pod may take to end.
const OVERDUE: Duration = Duration::from_secs(30);

/// How far a drain may go.
pub(in super::super) struct Limit {
    /// What is left of its time.
    pub left: Duration,
    /// How often a pod is evicted before it is deleted.
    pub evictions: u32,
}

/// The next step of a drain.
pub(in super::super) struct Step {
    /// In this order.
    pub actions: Vec<Action>,
    /// What is to be remembered.
    pub memory: DrainMemory,
    /// How many pods are still there, with one whose volumes are on their way.
    pub waiting: usize,
    /// When to look again.
    pub wake: Duration,
    /// What does not go as it should.
    pub errors: Vec<String>,
}

impl Step {
    /// Whether nothing is left to wait for.
    pub fn is_done(&self) -> bool {
        self.is_empty() && !self.asks()
    }

    /// Whether it ends with a question, to the driver or to the API server.
    pub fn asks(&self) -> bool {
        matches!(
            self.actions.last(),
            Some(Action::AskVolumeIds(_) | Action::ListPods { .. })
        )
    }

    fn is_empty(&self) -> bool {
        self.waiting == 0 && self.errors.is_empty()
    }
}

/// A step under way.
pub(super) struct Drain<'a> {
    pub pass: &'a Pass<'a>,
    pub limit: &'a Limit,
    pub pods: &'a [Pod],
    pub step: Step,
}

impl Drain<'_> {
    /// Looks again after that time at the latest.
    pub fn wake(&mut self, after: Duration) {
        self.step.wake = self.step.wake.min(after);
    }

    /// What is left of `limit` since `start`.
    pub fn left(&self, start: Timestamp, limit: Duration) -> Duration {
        let end = start.checked_add(limit).unwrap_or(Timestamp::MAX);
        Duration::try_from(end.duration_since(self.pass.now)).unwrap_or_default()
    }

    /// A refusal is told of, and counted unless the budget can never be met: then only a person can help.
    pub fn judge_refusals(&mut self) {
        for pod in self.pods {
            let Some(attempt) = self.step.memory.attempts.get_mut(&pod.uid) else {
                continue;
            };
            if std::mem::replace(&mut attempt.judged, true) || attempt.outcome != EvictionOutcome::Refused {
                continue;
            }
            attempt.refusals += u32::from(misconfigured(pod).is_none());
            if !std::mem::replace(&mut attempt.told, true) {
                self.step.actions.push(blocked(pod, self.pass, self.limit));
            }
        }
    }

    /// Asks a pod to go, unless it goes already or was asked a moment ago. Whether it was asked.
    pub fn ask(&mut self, pod: &Pod) -> bool {
        if let Some(ends) = pod.ends
            && !defect!(TerminatingPodEvictedAgain)
        {
            let left = self.left(ends, OVERDUE);
            if left.is_zero() {
                let node = self.pass.node_name().map(NodeName::as_str).unwrap_or_default();
                self.step.errors.push(format!(
                    "error when waiting for pod {:?}/{node} terminating: it is there {} s after its grace period",
                    pod.name,
                    OVERDUE.as_secs()
                ));
            } else {
                self.wake(left);
            }
            return false;
        }
        // Until there is another answer the last one stands, also while it is asked again: the text stays as it is.
        self.complain(pod);
        let wait = self.left_to_ask(pod);
        if !wait.is_zero() {
            self.wake(wait);
            return false;
        }
        self.step.actions.push(self.request(pod));
        self.wake(self.pass.settings.retry.eviction);
        true
    }

    /// How long a pod is left in peace after it was asked; zero: it may be asked.
    pub fn left_to_ask(&self, pod: &Pod) -> Duration {
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

    /// Says what the last answer to a pod's eviction was, where a person has to act or the cluster is broken.
    fn complain(&mut self, pod: &Pod) {
        let node = self.pass.node_name().map(NodeName::as_str).unwrap_or_default();
        let error = match self.attempt(pod).map(|attempt| &attempt.outcome) {
            Some(EvictionOutcome::Refused) => misconfigured(pod).map(|budget| {
                format!(
                    "error while evicting pod {:?}: pod disruption budget {budget} is misconfigured and requires zero \
                     voluntary evictions",
                    pod.name
                )
            }),
            Some(EvictionOutcome::Failed(text)) => Some(not_asked(pod, text, node)),
            Some(EvictionOutcome::Accepted) | None => None,
        };
        self.step.errors.extend(error);
    }

    fn attempt(&self, pod: &Pod) -> Option<&Attempt> {
        self.step.memory.attempts.get(&pod.uid)
    }

    fn request(&self, pod: &Pod) -> Action {
        let refusals = self.attempt(pod).map_or(0, |attempt| attempt.refusals);
        let (namespace, name, uid) = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
        if refusals >= self.limit.evictions {
            Action::DeletePod { namespace, name, uid }
        } else {
            Action::EvictPod { namespace, name, uid }
        }
    }

    /// It is this pod's turn.
    pub fn begin(&mut self, pod: &Pod, volumes: BTreeMap<String, String>) {
        self.step.memory.moving = Some(Moving {
            uid: pod.uid.clone(),
            volumes,
            since: self.pass.now,
            grace: pod.grace,
            detached: None,
        });
    }
}

/// A pod on `node` that could not be asked to go, in upstream's words.
pub(super) fn not_asked(pod: &Pod, error: &str, node: &str) -> String {
    format!(
        "error when evicting pod {:?}: {error} scheduled on node {node}",
        pod.name
    )
}

/// A budget of the pod that can never be met.
fn misconfigured(pod: &Pod) -> Option<&str> {
    if defect!(BudgetRefusalTakenAsPermanent) {
        return pod.budgets.first().map(|budget| budget.name.as_str());
    }
    pod.misconfigured_budget()
}

fn blocked(pod: &Pod, pass: &Pass, limit: &Limit) -> Action {
    let budgets: Vec<&str> = pod.budgets.iter().map(|budget| budget.name.as_str()).collect();
    let by = match budgets.as_slice() {
        [] => "the API server".to_owned(),
        [one] => format!("the disruption budget {one}"),
        several => format!("one of the disruption budgets {}", several.join(", ")),
    };
    Action::RecordEvent {
        type_: EventType::Warning,
        reason: "DrainBlocked".to_owned(),
        message: format!(
            "{by} does not allow the eviction of pod {}/{}; it is tried again every {}, {} times at most, and the pod is \
             deleted then",
            pod.namespace,
            pod.name,
            mcm_api::GoDuration(pass.settings.retry.eviction),
            limit.evictions
        ),
    }
}
