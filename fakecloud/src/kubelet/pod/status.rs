//! A pod's status in the form that its kubelet writes.

use jiff::Timestamp;
use runtime::time::time_text;
use serde_json::{Value, json};

use super::lifecycle::{Exit, PodRun, State};
use crate::kubelet::facts::{PodFacts, PodKey, PodPhase};
use crate::kubelet::plan::{PlanError, PodPlan, Role};

/// Transition times of a pod's conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::kubelet) struct Conditions([Option<(bool, Timestamp)>; 4]);

const TYPES: [&str; 4] = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"];

impl Conditions {
    /// Another writer has changed Ready: its next write is a transition.
    pub(in crate::kubelet) fn forget_ready(&mut self) {
        self.0[3] = None;
    }

    fn set(&mut self, index: usize, value: bool, now: Timestamp) -> Timestamp {
        match self.0[index] {
            Some((known, since)) if known == value => since,
            _ => {
                self.0[index] = Some((value, now));
                now
            }
        }
    }
}

/// The node of a pod.
#[derive(Clone, Copy, Debug)]
pub(in crate::kubelet) struct Place<'a> {
    pub(in crate::kubelet) host_ip: &'a str,
    /// The pod's IP, if it has one.
    pub(in crate::kubelet) pod_ip: Option<&'a str>,
    pub(in crate::kubelet) volumes: bool,
    /// Current time by the kubelet's clock.
    pub(in crate::kubelet) now: Timestamp,
}

/// A strategic merge patch of the status, and the resulting phase.
pub(in crate::kubelet) fn patch(
    key: &PodKey,
    facts: &PodFacts,
    plan: &PodPlan,
    run: &PodRun,
    conditions: &mut Conditions,
    place: Place<'_>,
) -> (Value, PodPhase) {
    let phase = phase(plan, run, facts.gates);
    let ready = run.is_ready(plan);
    let values = [
        place.pod_ip.is_some() && run.finish.is_none(),
        run.initialized,
        ready,
        ready && facts.gates,
    ];
    let ended = match &run.finish {
        Some(finish) if finish.succeeded => Some("PodCompleted"),
        Some(_) => Some("PodFailed"),
        None => None,
    };
    let mut all = Vec::new();
    for (index, value) in values.into_iter().enumerate() {
        let known = conditions.0[index].is_some() || !facts.seen.is_empty();
        let since = conditions.set(index, value, place.now);
        let mut condition = json!({
            "type": TYPES[index], "status": if value { "True" } else { "False" }, "lastTransitionTime": time_text(since),
        });
        if known {
            // The data of an earlier status is no longer valid.
            condition["reason"] = Value::Null;
            condition["message"] = Value::Null;
        }
        match (index, value, ended) {
            (1..=3, false, Some(reason)) => condition["reason"] = json!(reason),
            (1, false, None) => {
                condition["reason"] = json!("ContainersNotInitialized");
                condition["message"] = json!(format!(
                    "containers with incomplete status: [{}]",
                    unready(plan, run, &[Role::Init, Role::Sidecar])
                ));
            }
            (2, false, None) | (3, false, None) if !ready => {
                condition["reason"] = json!("ContainersNotReady");
                condition["message"] = json!(format!(
                    "containers with unready status: [{}]",
                    unready(plan, run, &[Role::App, Role::Sidecar])
                ));
            }
            (3, false, None) => condition["reason"] = json!("ReadinessGatesNotReady"),
            _ => {}
        }
        all.push(condition);
    }
    if !facts.scheduled {
        all.push(json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": time_text(run.begun)}));
    }
    let statuses = |initial: bool| -> Vec<Value> {
        let indices = plan.containers.iter().enumerate();
        indices
            .filter(|(_, of)| (of.role != Role::App) == initial)
            .map(|(index, _)| container(key, facts, plan, run, index, place))
            .collect()
    };
    let mut status = json!({
        "phase": match phase {
            PodPhase::Pending => "Pending",
            PodPhase::Running(_) => "Running",
            PodPhase::Finished if run.finish.as_ref().is_some_and(|finish| finish.succeeded) => "Succeeded",
            PodPhase::Finished => "Failed",
        },
        "conditions": all,
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "startTime": time_text(run.begun),
    });
    if let Some(finish) = run.finish.as_ref().filter(|finish| !finish.reason.is_empty()) {
        status["reason"] = json!(finish.reason);
        status["message"] = json!(finish.message);
    }
    // A rejected pod has no container statuses.
    if run
        .finish
        .as_ref()
        .is_none_or(|finish| finish.reason.is_empty() || run.initialized)
    {
        status["containerStatuses"] = Value::Array(statuses(false));
        let initial = statuses(true);
        if !initial.is_empty() {
            status["initContainerStatuses"] = Value::Array(initial);
        }
    }
    if let Some(ip) = place.pod_ip {
        status["podIP"] = json!(ip);
        status["podIPs"] = json!([{"ip": ip}]);
    }
    (json!({"metadata": {"uid": facts.uid}, "status": status}), phase)
}

/// The status of a pod with invalid annotations.
pub(in crate::kubelet) fn unusable(facts: &PodFacts, error: &PlanError, host_ip: &str, now: Timestamp) -> Value {
    let time = time_text(now);
    json!({
        "metadata": {"uid": facts.uid},
        "status": {
            "phase": "Failed",
            "reason": "InvalidAnnotation",
            "message": error.to_string(),
            "hostIP": host_ip,
            "startTime": time,
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed", "lastTransitionTime": time}],
        },
    })
}

/// The phase of a pod; `gates`: all its readiness gates are True.
pub(in crate::kubelet) fn phase(plan: &PodPlan, run: &PodRun, gates: bool) -> PodPhase {
    match &run.finish {
        Some(_) => PodPhase::Finished,
        None if run.has_run(plan) => PodPhase::Running(gates && run.is_ready(plan)),
        None => PodPhase::Pending,
    }
}

fn unready(plan: &PodPlan, run: &PodRun, roles: &[Role]) -> String {
    let both = run.containers.iter().zip(&plan.containers);
    let names = both.filter(|(container, of)| roles.contains(&of.role) && !container.ready);
    names.map(|(_, of)| of.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn container(key: &PodKey, facts: &PodFacts, plan: &PodPlan, run: &PodRun, index: usize, place: Place<'_>) -> Value {
    let (Some(container), Some(of)) = (run.containers.get(index), plan.containers.get(index)) else {
        return Value::Null;
    };
    let id = |restarts: u32| format!("fakecloud://{}-{}-{restarts}", facts.uid, of.name);
    let waits = |reason: &str, message: &str| {
        let mut waiting = json!({"reason": reason});
        if !message.is_empty() {
            waiting["message"] = json!(message);
        }
        json!({"waiting": waiting})
    };
    let waits_for_restart = run.finish.is_none() && !run.is_over() && run.restarts_at(index, plan).is_some();
    let (state, last) = match &container.state {
        State::Running { since, .. } => (
            json!({"running": {"startedAt": time_text(*since)}}),
            container.last.as_ref(),
        ),
        State::Exited(exit) if waits_for_restart => {
            let pause = run
                .restarts_at(index, plan)
                .map_or(0, |at| at.duration_since(exit.finished).as_secs());
            let message = format!(
                "back-off {} restarting failed container={} pod={}_{}({})",
                mcm_api::duration::GoDuration(std::time::Duration::from_secs(pause.unsigned_abs())),
                of.name,
                key.1,
                key.0,
                facts.uid
            );
            (waits("CrashLoopBackOff", &message), Some(exit))
        }
        State::Exited(exit) => (
            json!({"terminated": terminated(exit, &id(container.restarts))}),
            container.last.as_ref(),
        ),
        State::Waiting if of.image_pull_fails && place.volumes && place.now >= run.not_before => {
            let message = format!("Back-off pulling image {:?}: an annotation makes it fail", of.image);
            (waits("ImagePullBackOff", &message), container.last.as_ref())
        }
        State::Waiting
            if of.role == Role::App && !run.initialized && plan.containers.iter().any(|of| of.role != Role::App) =>
        {
            (waits("PodInitializing", ""), container.last.as_ref())
        }
        State::Waiting => (waits("ContainerCreating", ""), container.last.as_ref()),
    };
    let mut status = json!({
        "name": of.name, "image": of.image, "imageID": "", "restartCount": container.restarts,
        "ready": container.ready, "started": container.started, "state": state,
    });
    if container.state != State::Waiting || container.last.is_some() {
        status["containerID"] = json!(id(container.restarts));
    }
    if let Some(last) = last {
        status["lastState"] = json!({"terminated": terminated(last, &id(container.restarts.saturating_sub(1)))});
    }
    status
}

fn terminated(exit: &Exit, id: &str) -> Value {
    json!({
        "exitCode": exit.code, "reason": exit.reason, "containerID": id,
        "startedAt": time_text(exit.started), "finishedAt": time_text(exit.finished),
    })
}
