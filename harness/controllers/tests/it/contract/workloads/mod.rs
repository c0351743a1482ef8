//! The workload controllers, and the objects of their cases.
//!
//! No kubelet runs: cases write pod statuses themselves, and remove terminating pods. Templates select nodes
//! that exist only for the case's namespace.

mod daemon_sets;
mod deployments;
mod endpoint_slices;
mod jobs;
mod replica_sets;
mod rollouts;
mod stateful_sets;

use serde_json::{Value, json};

use super::Site;

pub(super) use super::contract;

/// Merges `change` into `base` (RFC 7396).
pub(super) fn with(mut base: Value, change: Value) -> Value {
    json_patch::merge(&mut base, &change);
    base
}

/// A pod template of the app.
pub(super) fn template(app: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": {
            "nodeSelector": { "case": "{ns}" },
            "terminationGracePeriodSeconds": 5,
            "containers": [{ "name": "main", "image": "image:1" }],
        },
    })
}

/// A workload of the group `apps` with one replica (none for a DaemonSet), with this change.
pub(super) fn workload(kind: &str, app: &str, change: Value) -> Value {
    let base = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": { "name": app },
        "spec": { "selector": { "matchLabels": { "app": app } }, "template": template(app) },
    });
    with(base, json!({ "spec": change }))
}

/// The path of a workload.
pub(super) fn path(site: &Site, kind: &str, name: &str) -> String {
    site.path("apps/v1", kind, name)
}

/// The path of the pods of an app.
pub(super) fn pods_of(app: &str) -> String {
    format!("/api/v1/namespaces/{{ns}}/pods?labelSelector=app%3D{app}")
}

/// The path of a pod.
pub(super) fn path_of(pod: &Value) -> String {
    format!("/api/v1/namespaces/{{ns}}/pods/{}", name(pod))
}

/// An object's name.
pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// The names of objects, in order.
pub(super) fn names(objects: &[Value]) -> Vec<&str> {
    let mut names: Vec<&str> = objects.iter().map(name).collect();
    names.sort_unstable();
    names
}

/// Whether an object is terminating.
pub(super) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The condition of that type, or null.
pub(super) fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .and_then(|conditions| conditions.iter().find(|condition| condition["type"] == type_))
        .unwrap_or(&Value::Null)
}

/// Waits for exactly this number of pods of the app, none of them terminating.
pub(super) async fn pods(site: &Site, app: &str, count: usize) -> Vec<Value> {
    let what = format!("{count} pods of {app}");
    let mut pods = site
        .until_all(&pods_of(app), &what, |pods| {
            pods.len() == count && pods.iter().all(|pod| !is_deleting(pod))
        })
        .await;
    pods.sort_by(|one, other| name(one).cmp(name(other)));
    pods
}

/// Sets a pod running, ready or not, from now on.
pub(super) async fn run(site: &Site, pod: &Value, ready: bool) {
    let text = if ready { "True" } else { "False" };
    let now = site.now().to_string();
    let now = format!("{}Z", &now[..19]);
    let status = json!({
        "phase": "Running",
        "startTime": now,
        "conditions": [{ "type": "Ready", "status": text, "lastTransitionTime": now }],
        "containerStatuses": [{
            "name": "main", "image": "image:1", "imageID": "", "ready": ready, "restartCount": 0, "started": true,
            "state": { "running": { "startedAt": now } },
        }],
    });
    site.set_status(&path_of(pod), status).await;
}

/// Sets pods running and ready.
pub(super) async fn ready(site: &Site, pods: &[Value]) {
    for pod in pods {
        run(site, pod, true).await;
    }
}

/// Finishes a pod with this phase.
pub(super) async fn end(site: &Site, pod: &Value, phase: &str) {
    let code = i32::from(phase == "Failed");
    let now = site.now().to_string();
    let now = format!("{}Z", &now[..19]);
    let status = json!({
        "phase": phase,
        "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": now }],
        "containerStatuses": [{
            "name": "main", "image": "image:1", "imageID": "", "ready": false, "restartCount": 0, "started": false,
            "state": { "terminated": { "exitCode": code, "startedAt": now, "finishedAt": now } },
        }],
    });
    site.set_status(&path_of(pod), status).await;
}

/// Removes a pod as its kubelet does at the end.
pub(super) async fn remove(site: &Site, pod: &Value) {
    let _ = site.try_delete(&path_of(pod), json!({ "gracePeriodSeconds": 0 })).await;
}

/// Creates a ready node of the case.
pub(super) async fn node(site: &Site, suffix: &str, change: Value) -> String {
    let now = site.now().to_string();
    let now = format!("{}Z", &now[..19]);
    let base = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": format!("{{ns}}-{suffix}"), "labels": { "case": "{ns}" } },
        "status": {
            "capacity": { "cpu": "4", "memory": "8Gi", "pods": "110" },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
        },
    });
    let created = site.create(with(base, change)).await;
    let path = format!("/api/v1/nodes/{}", name(&created));
    site.until_it(&path, "not tainted as not ready", |node| {
        !node["spec"]["taints"]
            .to_string()
            .contains("node.kubernetes.io/not-ready")
    })
    .await;
    name(&created).to_owned()
}
