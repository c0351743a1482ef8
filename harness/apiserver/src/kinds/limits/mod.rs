//! Limit ranges: the default resources of containers, and the limits of containers, pods and claims. Acts as upstream's
//! admission plugin LimitRanger.

mod constraints;

use consumption::{Amounts, amounts, sums};
use serde_json::{Map, Value};

use super::fields::{items, items_mut, members, object, text};
use super::pods;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the default requests and limits of a new pod's containers.
pub(crate) fn default_resources(ranges: &[Value], pod: &mut Value) {
    for range in ranges {
        let (requests, limits) = (defaults_of(range, "defaultRequest"), defaults_of(range, "default"));
        let mut notes = Vec::new();
        for (list, title) in [("containers", "container"), ("initContainers", "init container")] {
            for container in items_mut(pod, &format!("/spec/{list}")) {
                let name = text(container, "/name").to_owned();
                for (kind, label, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                    let added = add_missing(container, kind, defaults);
                    if !added.is_empty() {
                        notes.push(format!("{} {label} for {title} {name}", added.join(", ")));
                    }
                }
            }
        }
        if notes.is_empty() {
            continue;
        }
        if let Some(annotations) = object(pod, "/metadata/annotations") {
            let note = format!("LimitRanger plugin set: {}", notes.join("; "));
            annotations.insert(ANNOTATION.to_owned(), note.into());
        }
        pods::set_quality(pod);
    }
}

/// The defaults of containers in a range; later items replace earlier ones.
fn defaults_of(range: &Value, field: &str) -> Map<String, Value> {
    let limits = items(range, "/spec/limits").iter();
    let of_containers = limits.filter(|limit| text(limit, "/type") == "Container");
    let all = of_containers.flat_map(|limit| members(limit, &format!("/{field}")));
    all.map(|(name, amount)| (name.to_owned(), amount.clone())).collect()
}

/// Adds the amounts that a container does not have. Returns their names.
fn add_missing(container: &mut Value, kind: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let mut added = Vec::new();
    if defaults.is_empty() {
        return added;
    }
    if let Some(existing) = object(container, &format!("/resources/{kind}")) {
        for (name, amount) in defaults {
            if !existing.contains_key(name) {
                existing.insert(name.clone(), amount.clone());
                added.push(name.clone());
            }
        }
    }
    added.sort();
    added
}

/// What a range forbids about a pod, in upstream's words.
pub(crate) fn pod_violations(range: &Value, pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for limit in items(range, "/spec/limits") {
        match text(limit, "/type") {
            "Container" => {
                for container in items(pod, "/spec/containers")
                    .iter()
                    .chain(items(pod, "/spec/initContainers"))
                {
                    let requests = amounts(container, "/resources/requests");
                    let limits = amounts(container, "/resources/limits");
                    constraints::check(limit, "Container", &requests, &limits, &mut found);
                }
            }
            "Pod" => {
                let (requests, limits) = (sums::of(pod, "requests"), sums::of(pod, "limits"));
                constraints::check(limit, "Pod", &requests, &limits, &mut found);
            }
            _ => {}
        }
    }
    found
}

/// What a range forbids about a claim, in upstream's words.
pub(crate) fn claim_violations(range: &Value, claim: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let requests = amounts(claim, "/spec/resources/requests");
    for limit in items(range, "/spec/limits") {
        if text(limit, "/type") == "PersistentVolumeClaim" {
            constraints::check_requests(limit, "PersistentVolumeClaim", &requests, &mut found);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(limit: Value) -> Value {
        json!({ "spec": { "limits": [limit] } })
    }

    #[test]
    fn containers_get_the_resources_that_they_do_not_have() {
        let range = range(json!({
            "type": "Container", "default": { "cpu": "1", "memory": "1Gi" }, "defaultRequest": { "cpu": "500m" },
        }));
        let mut pod = json!({ "spec": { "containers": [
            { "name": "a" }, { "name": "b", "resources": { "limits": { "cpu": "2" } } },
        ] } });
        default_resources(&[range], &mut pod);
        assert_eq!(
            pod["spec"]["containers"][1]["resources"],
            json!({ "limits": { "cpu": "2", "memory": "1Gi" }, "requests": { "cpu": "500m" } })
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; \
             cpu request for container b; memory limit for container b"
        );
        assert_eq!(pod["status"]["qosClass"], "Burstable");
    }

    #[test]
    fn a_range_without_defaults_adds_nothing() {
        let mut pod = json!({ "spec": { "containers": [{ "name": "a" }] }, "status": { "qosClass": "BestEffort" } });
        let before = pod.clone();
        default_resources(
            &[range(json!({ "type": "Container", "max": { "cpu": "1" } }))],
            &mut pod,
        );
        assert_eq!(pod, before);
    }

    #[test]
    fn the_sum_of_a_pod_is_limited() {
        let range = range(json!({ "type": "Pod", "max": { "cpu": "1" } }));
        let container = |cpu: &str| json!({ "resources": { "limits": { "cpu": cpu } } });
        let pod = |cpus: &[&str]| json!({ "spec": { "containers": cpus.iter().map(|cpu| container(cpu)).collect::<Vec<_>>() } });
        assert_eq!(pod_violations(&range, &pod(&["500m", "500m"])), [""; 0]);
        assert_eq!(
            pod_violations(&range, &pod(&["600m", "500m"])),
            ["maximum cpu usage per Pod is 1, but limit is 1100m"]
        );
    }

    #[test]
    fn a_claim_is_limited() {
        let range =
            range(json!({ "type": "PersistentVolumeClaim", "min": { "storage": "1Gi" }, "max": { "storage": "2Gi" } }));
        let claim = |size: &str| json!({ "spec": { "resources": { "requests": { "storage": size } } } });
        assert_eq!(
            claim_violations(&range, &claim("3Gi")),
            ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]
        );
        assert_eq!(
            claim_violations(&range, &claim("512Mi")),
            ["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"]
        );
    }
}
