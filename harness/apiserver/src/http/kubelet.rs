//! Logs of pods on simulated nodes, and connections into them: a log consists of what the API objects say about the pod,
//! and connections are refused with the reason. Other kubelets answer themselves, see [`super::containers`].

use jiff::Timestamp;
use serde_json::Value;

use crate::status::ApiError;

/// The first line of a log.
const SIMULATED: &str = "This pod is simulated: no container runs, and there is no output of one. Its life so far:";

/// The options of `pods/log`, see PodLogOptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogOptions {
    /// The container; empty: the only one.
    pub(super) container: String,
    /// Only entries from this time on.
    pub(super) since: Option<Timestamp>,
    /// Only the last entries.
    pub(super) tail: Option<u64>,
    /// The log of the container's previous run.
    pub(super) previous: bool,
    /// The maximum length in bytes.
    pub(super) limit: Option<u64>,
}

/// The log of a pod: its lifecycle, with a time in each line; empty as in upstream while the pod has no node.
///
/// # Errors
/// 400 as in upstream: for an unknown container, for several without a choice, and for a previous run that does not exist.
pub(super) fn log(pod: &Value, events: &[Value], options: &LogOptions) -> Result<String, ApiError> {
    let name = text(pod, "/metadata/name");
    let container = container(pod, &options.container)?;
    if text(pod, "/spec/nodeName").is_empty() {
        return Ok(String::new());
    }
    if options.previous && restarts(pod, container) == 0 {
        return Err(ApiError::bad_request(format!(
            "previous terminated container {container:?} in pod {name:?} not found"
        )));
    }
    let mut entries = life(pod, events);
    entries.retain(|(at, _)| options.since.is_none_or(|since| *at >= since));
    entries.sort_by_key(|(at, _)| *at);
    let mut lines = vec![SIMULATED.to_owned()];
    lines.extend(entries.into_iter().map(|(at, what)| format!("{at:.0} {what}")));
    let tail = options.tail.and_then(|tail| usize::try_from(tail).ok());
    let first = tail.map_or(0, |tail| lines.len().saturating_sub(tail));
    let mut log: String = lines.iter().skip(first).map(|line| format!("{line}\n")).collect();
    if let Some(limit) = options.limit.and_then(|limit| usize::try_from(limit).ok()) {
        log.truncate(log.floor_char_boundary(limit));
    }
    Ok(log)
}

/// The container of a request that names it, or the only one.
///
/// # Errors
/// 400 for an unknown container, and for several without a choice.
pub(super) fn container<'a>(pod: &'a Value, wanted: &str) -> Result<&'a str, ApiError> {
    let name = text(pod, "/metadata/name");
    match (wanted, containers(pod).as_slice()) {
        ("", [only]) => Ok(only),
        ("", several) => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            several.join(" ")
        ))),
        (wanted, several) => several
            .iter()
            .find(|name| **name == wanted)
            .copied()
            .ok_or_else(|| ApiError::bad_request(format!("container {wanted} is not valid for pod {name}"))),
    }
}

/// The refusal of a connection into a pod: `exec`, `attach` or `portforward`.
pub(super) fn refusal(pod: &Value, subresource: &str) -> ApiError {
    let name = text(pod, "/metadata/name");
    if text(pod, "/spec/nodeName").is_empty() {
        return ApiError::bad_request(format!("pod {name} does not have a host assigned"));
    }
    let why = match subresource {
        "exec" => "there is no process to start a command beside",
        "attach" => "there is no process to attach to",
        _ => "nothing listens on its ports",
    };
    ApiError::new(
        501,
        "NotImplemented",
        format!("pod {name:?} is simulated: no container runs in it, and {why}; `kubectl logs` tells its life"),
    )
}

/// The response to a request that a pod, node or service would answer.
pub(super) fn proxy_refusal(kind: &str, name: &str) -> ApiError {
    ApiError::new(
        501,
        "NotImplemented",
        format!("{kind} {name:?} is simulated: nothing listens on its ports"),
    )
}

fn containers(pod: &Value) -> Vec<&str> {
    let lists = ["/spec/containers", "/spec/initContainers"].into_iter();
    let all = lists
        .filter_map(|list| pod.pointer(list).and_then(Value::as_array))
        .flatten();
    all.map(|container| text(container, "/name")).collect()
}

fn restarts(pod: &Value, container: &str) -> i64 {
    let lists = ["/status/containerStatuses", "/status/initContainerStatuses"].into_iter();
    let mut all = lists
        .filter_map(|list| pod.pointer(list).and_then(Value::as_array))
        .flatten();
    let of = all.find(|status| text(status, "/name") == container);
    of.and_then(|status| status["restartCount"].as_i64())
        .unwrap_or_default()
}

/// What happened to the pod: its creation, its conditions, its containers, its deletion and its events.
fn life(pod: &Value, events: &[Value]) -> Vec<(Timestamp, String)> {
    let mut entries = Vec::new();
    let mut add = |at: &str, what: String| {
        if let Ok(at) = at.parse::<Timestamp>() {
            entries.push((at, what));
        }
    };
    let owner = pod.pointer("/metadata/ownerReferences/0");
    let owner = owner.map_or_else(String::new, |owner| {
        format!(" for {} {}", text(owner, "/kind"), text(owner, "/name"))
    });
    add(text(pod, "/metadata/creationTimestamp"), format!("created{owner}"));
    for condition in list(pod, "/status/conditions") {
        let (kind, status) = (text(condition, "/type"), text(condition, "/status"));
        let on = match kind {
            "PodScheduled" => format!(" (node {})", text(pod, "/spec/nodeName")),
            _ => String::new(),
        };
        add(
            text(condition, "/lastTransitionTime"),
            format!("condition {kind} is {status}{on}"),
        );
    }
    for status in list(pod, "/status/containerStatuses") {
        let name = text(status, "/name");
        add(
            text(status, "/state/running/startedAt"),
            format!("container {name} started"),
        );
        for state in ["/state", "/lastState"] {
            let Some(ended) = status.pointer(&format!("{state}/terminated")) else {
                continue;
            };
            let (code, reason) = (&ended["exitCode"], text(ended, "/reason"));
            add(
                text(ended, "/finishedAt"),
                format!("container {name} ended with exit code {code} ({reason})"),
            );
        }
    }
    add(
        text(pod, "/metadata/deletionTimestamp"),
        "the deletion's grace period ends".to_owned(),
    );
    for event in events {
        let times = ["/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
        let at = times
            .into_iter()
            .map(|time| text(event, time))
            .find(|time| !time.is_empty());
        let (reason, message) = (text(event, "/reason"), text(event, "/message"));
        add(at.unwrap_or_default(), format!("event {reason}: {message}"));
    }
    entries
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {
                "name": "web-1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{ "kind": "ReplicaSet", "name": "web" }],
            },
            "spec": { "nodeName": "m-1", "containers": [{ "name": "main" }] },
            "status": {
                "conditions": [
                    { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z" },
                ],
                "containerStatuses": [
                    { "name": "main", "restartCount": 0, "state": { "running": { "startedAt": "2026-01-01T00:00:03Z" } } },
                ],
            },
        })
    }

    fn events() -> Vec<Value> {
        vec![json!({ "reason": "Pulled", "message": "the image is there", "lastTimestamp": "2026-01-01T00:00:02Z" })]
    }

    #[test]
    fn a_log_says_that_the_pod_is_simulated_and_tells_its_life() {
        let log = log(&pod(), &events(), &LogOptions::default()).unwrap();
        let expected = [
            SIMULATED,
            "2026-01-01T00:00:00Z created for ReplicaSet web",
            "2026-01-01T00:00:01Z condition PodScheduled is True (node m-1)",
            "2026-01-01T00:00:02Z event Pulled: the image is there",
            "2026-01-01T00:00:03Z container main started",
        ];
        assert_eq!(log.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn options_select_a_part() {
        let of = |options: LogOptions| log(&pod(), &events(), &options).unwrap();
        let tail = of(LogOptions {
            tail: Some(1),
            ..LogOptions::default()
        });
        assert_eq!(tail, "2026-01-01T00:00:03Z container main started\n");
        let since = Some("2026-01-01T00:00:03Z".parse().unwrap());
        assert_eq!(
            of(LogOptions {
                since,
                ..LogOptions::default()
            })
            .lines()
            .count(),
            2
        );
        assert_eq!(
            of(LogOptions {
                limit: Some(4),
                ..LogOptions::default()
            }),
            "This"
        );
    }

    #[test]
    fn an_unknown_container_has_no_log() {
        let options = LogOptions {
            container: "other".to_owned(),
            ..LogOptions::default()
        };
        let error = log(&pod(), &[], &options).unwrap_err();
        let expected = "container other is not valid for pod web-1";
        assert_eq!((error.code, error.message.as_str()), (400, expected));
    }

    #[test]
    fn a_pod_without_a_node_has_an_empty_log_and_no_connections() {
        let mut pod = pod();
        pod["spec"]["nodeName"] = "".into();
        assert_eq!(log(&pod, &[], &LogOptions::default()), Ok(String::new()));
        let error = refusal(&pod, "exec");
        let expected = "pod web-1 does not have a host assigned";
        assert_eq!((error.code, error.message.as_str()), (400, expected));
    }

    #[test]
    fn one_of_several_containers_must_be_chosen_and_a_previous_run_must_exist() {
        let mut several = pod();
        several["spec"]["containers"] = json!([{ "name": "a" }, { "name": "b" }]);
        let error = log(&several, &[], &LogOptions::default()).unwrap_err();
        assert_eq!(
            error.message,
            "a container name must be specified for pod web-1, choose one of: [a b]"
        );
        let options = LogOptions {
            previous: true,
            ..LogOptions::default()
        };
        let error = log(&pod(), &[], &options).unwrap_err();
        assert_eq!(
            error.message,
            "previous terminated container \"main\" in pod \"web-1\" not found"
        );
    }

    #[test]
    fn a_connection_into_a_pod_is_refused_with_the_reason() {
        let error = refusal(&pod(), "portforward");
        assert_eq!(error.code, 501);
        assert!(
            error.message.starts_with("pod \"web-1\" is simulated: "),
            "{}",
            error.message
        );
    }
}
