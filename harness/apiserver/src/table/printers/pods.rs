//! Pods: one status word for the state of all containers.

use serde_json::Value;

use super::{NONE, age, condition, is_true, items, name, number, printer, text, text_or};
use crate::resource::Printer;
use crate::table::age::{human, seconds_of};
use quantity::Saturating as _;

pub(crate) fn pods() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("Ready", "string", 0),
        ("Status", "string", 0),
        ("Restarts", "string", 0),
        ("Age", "string", 0),
        ("IP", "string", 1),
        ("Node", "string", 1),
        ("Nominated Node", "string", 1),
        ("Readiness Gates", "string", 1),
    ];
    printer(&columns, |pod, now| {
        let summary = Summary::of(pod);
        vec![
            name(pod),
            format!("{}/{}", summary.ready, summary.containers).into(),
            summary.status.as_str().into(),
            summary.restarts_text(now).into(),
            age(pod, now),
            text_or(pod, "/status/podIPs/0/ip", text_or(pod, "/status/podIP", NONE)).into(),
            text_or(pod, "/spec/nodeName", NONE).into(),
            text_or(pod, "/status/nominatedNodeName", NONE).into(),
            gates(pod).into(),
        ]
    })
}

struct Summary {
    containers: usize,
    ready: usize,
    status: String,
    restarts: i64,
    /// Seconds since 1970.
    last_restart: Option<i64>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let sidecars = items(pod, "/spec/initContainers")
            .iter()
            .filter(|container| is_sidecar(container))
            .count();
        let mut summary = Self {
            containers: items(pod, "/spec/containers").len().saturating_add(sidecars),
            ready: 0,
            status: text_or(pod, "/status/reason", text(pod, "/status/phase")).to_owned(),
            restarts: 0,
            last_restart: None,
        };
        let gated = items(pod, "/status/conditions").iter().any(|condition| {
            text(condition, "/type") == "PodScheduled" && text(condition, "/reason") == "SchedulingGated"
        });
        if gated {
            summary.status = "SchedulingGated".to_owned();
        }
        let initializing = summary.add_init_containers(pod);
        if !initializing || condition(pod, "Initialized") == "True" {
            summary.add_containers(pod);
        }
        if pod.pointer("/metadata/deletionTimestamp").is_some() {
            if text(pod, "/status/reason") == "NodeLost" {
                summary.status = "Unknown".to_owned();
            } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
                summary.status = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Returns whether initialization is still in progress.
    fn add_init_containers(&mut self, pod: &Value) -> bool {
        let specs = items(pod, "/spec/initContainers");
        for (index, status) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
            self.add_restarts(status);
            let sidecar = specs
                .iter()
                .any(|spec| text(spec, "/name") == text(status, "/name") && is_sidecar(spec));
            if let Some(terminated) = status.pointer("/state/terminated") {
                if number(terminated, "/exitCode") == 0 {
                    continue;
                }
                self.status = format!("Init:{}", ended(terminated));
                return true;
            }
            if sidecar && is_true(status, "/started") {
                self.ready.raise(usize::from(is_true(status, "/ready")));
                continue;
            }
            self.status = match text(status, "/state/waiting/reason") {
                "" | "PodInitializing" => format!("Init:{index}/{}", specs.len()),
                reason => format!("Init:{reason}"),
            };
            return true;
        }
        false
    }

    fn add_containers(&mut self, pod: &Value) {
        let mut running = false;
        for status in items(pod, "/status/containerStatuses").iter().rev() {
            self.add_restarts(status);
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if let Some(terminated) = status.pointer("/state/terminated") {
                self.status = ended(terminated);
            } else if is_true(status, "/ready") && status.pointer("/state/running").is_some() {
                running = true;
                self.ready.raise(1);
            }
        }
        if self.status == "Completed" && running {
            self.status = if condition(pod, "Ready") == "True" {
                "Running"
            } else {
                "NotReady"
            }
            .to_owned();
        }
    }

    fn add_restarts(&mut self, status: &Value) {
        self.restarts.raise(number(status, "/restartCount"));
        let last = seconds_of(status.pointer("/lastState/terminated/finishedAt"));
        self.last_restart = self.last_restart.max(last);
    }

    fn restarts_text(&self, now: i64) -> String {
        match self.last_restart {
            Some(last) if self.restarts > 0 => format!("{} ({} ago)", self.restarts, human(now.saturating_sub(last))),
            _ => self.restarts.to_string(),
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

/// The reason why a container terminated.
fn ended(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let passed = gates
        .iter()
        .filter(|gate| condition(pod, text(gate, "/conditionType")) == "True")
        .count();
    format!("{passed}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn running() -> Value {
        json!({ "ready": true, "restartCount": 0, "state": { "running": {} } })
    }

    #[rstest]
    #[case(json!({ "phase": "Pending" }), 0, "Pending")]
    #[case(json!({ "phase": "Running", "containerStatuses": [running()] }), 1, "Running")]
    #[case(
        json!({ "phase": "Running", "containerStatuses": [{ "state": { "waiting": { "reason": "CrashLoopBackOff" } } }] }),
        0,
        "CrashLoopBackOff"
    )]
    #[case(
        json!({ "phase": "Failed", "containerStatuses": [{ "state": { "terminated": { "exitCode": 3 } } }] }),
        0,
        "ExitCode:3"
    )]
    #[case(
        json!({ "phase": "Pending", "initContainerStatuses": [{ "state": { "waiting": { "reason": "PodInitializing" } } }] }),
        0,
        "Init:0/1"
    )]
    #[case(json!({ "phase": "Failed", "reason": "Evicted" }), 0, "Evicted")]
    fn the_status_is_one_word(#[case] status: Value, #[case] ready: usize, #[case] expected: &str) {
        let pod = json!({ "spec": { "containers": [{}], "initContainers": [{}] }, "status": status });
        let summary = Summary::of(&pod);
        assert_eq!((summary.ready, summary.status.as_str()), (ready, expected));
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_terminating() {
        let mut pod = json!({ "metadata": { "deletionTimestamp": "x" }, "status": { "phase": "Running" } });
        assert_eq!(Summary::of(&pod).status, "Terminating");
        pod["status"]["phase"] = "Succeeded".into();
        assert_eq!(Summary::of(&pod).status, "Succeeded");
    }

    #[test]
    fn restarts_show_the_age_of_the_last_one() {
        let terminated = json!({ "terminated": { "finishedAt": "1970-01-01T00:00:40Z" } });
        let status = json!({ "containerStatuses": [{ "restartCount": 2, "lastState": terminated }] });
        let summary = Summary::of(&json!({ "status": status }));
        assert_eq!(summary.restarts_text(100), "2 (60s ago)");
    }
}
