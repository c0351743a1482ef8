//! Describes pods and Deployments: whether they are ready, how a container ended, and why pods are missing.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// Whether a pod is ready and not being deleted.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// The statuses of a pod's containers.
pub(super) fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| status.container_statuses.iter().flatten())
}

/// Describes the end of a container that has ended.
pub(super) fn ended(status: &ContainerStatus) -> Option<String> {
    let terminated = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| state.as_ref()?.terminated.clone();
    let ended = terminated(&status.state).or_else(|| terminated(&status.last_state))?;
    let reason = ended.reason.unwrap_or_default();
    Some(format!("ended unexpectedly (exit code {}, {reason})", ended.exit_code))
}

/// Describes why a Deployment has no pods, as its controller reports it.
pub(super) fn without_pods(deployment: &Deployment) -> String {
    let status = deployment.status.clone().unwrap_or_default();
    if status.observed_generation < deployment.metadata.generation {
        return "no pod was created: the controller manager has not observed the Deployment".to_owned();
    }
    let failed = |condition: &&DeploymentCondition| condition.type_ == "ReplicaFailure" && condition.status == "True";
    let conditions = status.conditions.unwrap_or_default();
    let messages: Vec<_> = conditions
        .iter()
        .filter(failed)
        .filter_map(|condition| condition.message.as_deref())
        .collect();
    match messages.is_empty() {
        true => "no pod was created".to_owned(),
        false => format!("no pod was created: {}", messages.join("; ")),
    }
}

/// Describes the state of a pod, with the reason why it is not ready.
pub(super) fn state(pod: &Pod) -> String {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if is_ready(pod) {
        return format!("{name} is ready");
    }
    let waits = statuses(pod).find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let text = [waiting.reason.as_deref(), waiting.message.as_deref()];
        Some(text.into_iter().flatten().collect::<Vec<_>>().join(": "))
    });
    let condition = || {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut unmet = conditions.filter(|condition| condition.status != "True");
        unmet.find_map(|condition| condition.message.clone())
    };
    let reason = waits.or_else(condition).unwrap_or_else(|| "is not ready".to_owned());
    format!("{name}: {reason}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "p", "uid": "1" }, "status": status })).unwrap()
    }

    #[test]
    fn a_restarted_container_has_ended_unexpectedly() {
        let container = |more: serde_json::Value| {
            let mut status = json!({ "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 1 });
            status
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            pod(json!({ "containerStatuses": [status] }))
        };
        let crashed = container(json!({ "lastState": { "terminated": { "exitCode": 3, "reason": "Error" } } }));
        let message = statuses(&crashed).find_map(ended).unwrap();
        assert!(message.contains('3') && message.contains("Error"), "{message}");
        let healthy = container(json!({ "state": { "running": {} } }));
        assert_eq!(statuses(&healthy).find_map(ended), None);
    }

    #[test]
    fn the_state_of_a_pod_has_the_reason_why_it_is_not_ready() {
        let waiting = json!({ "reason": "ErrImageNeverPull", "message": "no such image" });
        let waits = pod(json!({ "containerStatuses": [
            { "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": { "waiting": waiting } },
        ] }));
        assert_eq!(state(&waits), "p: ErrImageNeverPull: no such image");
        let unscheduled = pod(json!({ "conditions": [
            { "type": "PodScheduled", "status": "False", "message": "0/1 nodes are available" },
        ] }));
        assert_eq!(state(&unscheduled), "p: 0/1 nodes are available");
    }

    #[rstest]
    #[case::not_observed(1, json!({}), "no pod was created: the controller manager has not observed the Deployment")]
    #[case::observed(1, json!({ "observedGeneration": 1 }), "no pod was created")]
    #[case::refused(
        1,
        json!({ "observedGeneration": 1, "conditions": [
            { "type": "Available", "status": "False", "message": "Deployment does not have minimum availability." },
            { "type": "ReplicaFailure", "status": "True", "message": "exceeded quota" },
        ] }),
        "no pod was created: exceeded quota"
    )]
    fn a_missing_pod_has_the_reason_of_its_deployment(
        #[case] generation: i64,
        #[case] status: serde_json::Value,
        #[case] expected: &str,
    ) {
        let deployment = json!({ "metadata": { "name": "d", "generation": generation }, "status": status });
        assert_eq!(without_pods(&serde_json::from_value(deployment).unwrap()), expected);
    }
}
