//! Pods. The rules for their specs also apply to the templates of workloads.

mod container;
pub(super) mod defaults;
mod host;
mod images;
mod parts;
mod placement;
mod quality;
mod runtime;
pub(super) mod sources;
pub(super) mod spec;
mod update;

use serde_json::{Value, json};

pub(crate) use self::parts::{keep_only_resize, validate_ephemeral, validate_resize};
pub(crate) use self::runtime::apply_runtime;

use super::builder::ResourceBuilder;
use super::fields::{default, items, object, text};
use crate::resource::{Generation, Resource, Subresource};
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new("v1", "Pod", "pods", "io.k8s.api.core.v1.Pod")
            .short(&["po"])
            .categories(&["all"])
            .status()
            .subresource(Subresource::Binding)
            .subresource(Subresource::Eviction)
            .subresource(Subresource::EphemeralContainers)
            .subresource(Subresource::Log)
            .subresource(Subresource::Resize)
            .subresource(connect("attach", "PodAttachOptions"))
            .subresource(connect("exec", "PodExecOptions"))
            .subresource(connect("portforward", "PodPortForwardOptions"))
            .subresource(connect("proxy", "PodProxyOptions"))
            .generation(Generation::Spec)
            .graceful()
            .returns_deleted()
            .selectable("spec.host", "/spec/nodeName", "")
            .selectable("spec.hostNetwork", "/spec/hostNetwork", "false")
            .selectable("spec.nodeName", "/spec/nodeName", "")
            .selectable("spec.restartPolicy", "/spec/restartPolicy", "")
            .selectable("spec.schedulerName", "/spec/schedulerName", "")
            .selectable("spec.serviceAccountName", "/spec/serviceAccountName", "")
            .selectable("status.nominatedNodeName", "/status/nominatedNodeName", "")
            .selectable("status.phase", "/status/phase", "")
            .selectable("status.podIP", "/status/podIP", "")
            .selectable("status.podIPs", "/status/podIPs/0/ip", "")
            .printer(printers::pods())
            .prepare(prepare)
            .validate(validate)
            .build(),
    ]
}

fn connect(name: &'static str, kind: &'static str) -> Subresource {
    Subresource::Connect { name, kind }
}

fn prepare(new: &mut Value, old: Option<&Value>) {
    defaults::pod_spec(new, "/spec");
    defaults::pod_only(new, "/spec");
    default(new, "/spec", "enableServiceLinks", true);
    if old.is_none() {
        admit(new);
        default(new, "/status", "phase", "Pending");
        let class = quality::of(new);
        default(new, "/status", "qosClass", class);
        if !items(new, "/spec/schedulingGates").is_empty() && items(new, "/status/conditions").is_empty() {
            append(new, "/status", "conditions", gated());
        }
    }
}

/// Acts as those of upstream's admission plugins that need no other objects: sets the service account and the default
/// tolerations.
fn admit(pod: &mut Value) {
    default(pod, "/spec", "serviceAccountName", "default");
    let account = text(pod, "/spec/serviceAccountName").to_owned();
    default(pod, "/spec", "serviceAccount", account);
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = items(pod, "/spec/tolerations").iter().any(|toleration| {
            let found = text(toleration, "/key");
            (found.is_empty() || found == key) && matches!(text(toleration, "/effect"), "" | "NoExecute")
        });
        if !tolerated {
            let toleration =
                json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 });
            append(pod, "/spec", "tolerations", toleration);
        }
    }
}

/// Sets the quality-of-service class anew, after a change of resources.
pub(super) fn set_quality(pod: &mut Value) {
    let class = quality::of(pod);
    if let Some(status) = object(pod, "/status") {
        status.insert("qosClass".to_owned(), class.into());
    }
}

/// The condition of a pod with scheduling gates.
fn gated() -> Value {
    json!({
        "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": null, "lastTransitionTime": null,
    })
}

fn append(value: &mut Value, parent: &str, list: &str, item: Value) {
    let Some(parent) = object(value, parent) else { return };
    match parent.entry(list).or_insert(Value::Null) {
        Value::Array(items) => items.push(item),
        empty @ Value::Null => *empty = json!([item]),
        _ => {}
    }
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match old {
        None => {
            spec::validate(&mut errors, new.get("spec").unwrap_or(&Value::Null), "spec");
            if !items(new, "/spec/ephemeralContainers").is_empty() {
                let why = "cannot be set on create";
                errors.push(FieldError::forbidden("spec.ephemeralContainers", why));
            }
        }
        Some(old) => update::validate(&mut errors, new, old),
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pod_is_pending_and_complete() {
        let mut pod = json!({
            "metadata": { "name": "a", "namespace": "b" },
            "spec": { "containers": [{ "name": "c", "image": "example.com/image:1.2" }] },
        });
        prepare(&mut pod, None);
        let once = pod.clone();
        prepare(&mut pod, None);
        assert_eq!(pod, once, "defaults of defaults");
        insta::assert_yaml_snapshot!(pod);
    }

    #[test]
    fn a_gated_pod_has_a_condition() {
        let mut pod = json!({ "spec": { "schedulingGates": [{ "name": "g" }] } });
        prepare(&mut pod, None);
        prepare(&mut pod, None);
        assert_eq!(pod["status"]["conditions"], json!([gated()]));
    }

    #[test]
    fn a_pod_that_tolerates_everything_gets_no_default_tolerations() {
        let mut pod = json!({ "spec": { "tolerations": [{ "operator": "Exists" }] } });
        prepare(&mut pod, None);
        assert_eq!(pod["spec"]["tolerations"], json!([{ "operator": "Exists" }]));
    }
}
