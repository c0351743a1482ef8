//! Priorities and preemption.

use std::time::Duration;

use serde_json::{Value, json};

use super::{node, node_of, pod, pod_object, pod_path, refused, requests};
use crate::contract::Site;
use crate::contract::contract;

async fn class(site: &Site, name: &str, value: i64, change: Value) {
    let mut class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": format!("{name}-{{ns}}") }, "value": value,
    });
    json_patch::merge(&mut class, &change);
    site.create(class).await;
}

fn of_class(name: &str, cpu: &str) -> Value {
    let mut change = requests(json!({ "cpu": cpu }));
    json_patch::merge(
        &mut change,
        &json!({ "spec": { "priorityClassName": format!("{name}-{{ns}}") } }),
    );
    change
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    found.unwrap_or(&Value::Null)
}

#[test]
fn a_pod_has_the_priority_of_its_class() {
    contract!(async |site: &Site| {
        class(site, "high", 1000, json!({ "preemptionPolicy": "Never" })).await;
        pod(site, "p", of_class("high", "1")).await;
        let high = site.get(&pod_path("p")).await;
        assert_eq!(high["spec"]["priority"], 1000);
        assert_eq!(high["spec"]["preemptionPolicy"], "Never");
        pod(site, "q", json!({})).await;
        let plain = site.get(&pod_path("q")).await;
        assert_eq!(plain["spec"]["priority"], 0);
        assert_eq!(plain["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    });
}

#[test]
fn a_missing_priority_class_is_refused() {
    contract!(async |site: &Site| {
        let refusal = site
            .try_create(pod_object("p", of_class("none", "1")))
            .await
            .unwrap_err();
        assert_eq!(refusal.code, 403);
        let why = format!("no PriorityClass with name none-{} was found", site.namespace());
        assert!(refusal.message.ends_with(&why), "{}", refusal.message);
        let refusal = site
            .try_create(pod_object("p", json!({ "spec": { "priority": 7 } })))
            .await
            .unwrap_err();
        assert_eq!(refusal.code, 403);
        let why = "the integer value of priority (7) must not be provided in pod spec; priority admission controller \
                   computed 0 from the given PriorityClass name";
        assert!(refusal.message.ends_with(why), "{}", refusal.message);
    });
}

#[test]
fn the_system_priority_classes_exist() {
    contract!(async |site: &Site| {
        for (name, value) in [
            ("system-node-critical", 2_000_001_000),
            ("system-cluster-critical", 2_000_000_000),
        ] {
            let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}");
            assert_eq!(site.get(&path).await["value"], value);
        }
        pod(
            site,
            "p",
            json!({ "spec": { "priorityClassName": "system-node-critical" } }),
        )
        .await;
        assert_eq!(site.get(&pod_path("p")).await["spec"]["priority"], 2_000_001_000);
    });
}

#[test]
fn a_lower_priority_pod_is_preempted() {
    contract!(async |site: &Site| {
        class(site, "high", 1000, json!({})).await;
        class(site, "low", 10, json!({})).await;
        node(site, "n", json!({})).await;
        let mut low = of_class("low", "2");
        json_patch::merge(&mut low, &json!({ "spec": { "terminationGracePeriodSeconds": 30 } }));
        pod(site, "low", low).await;
        node_of(site, "low").await;
        pod(site, "high", of_class("high", "1")).await;
        let victim = site
            .until_it(&pod_path("low"), "is a preemption victim", |pod| {
                pod["metadata"]["deletionTimestamp"].is_string()
            })
            .await;
        assert_eq!(victim["metadata"]["deletionGracePeriodSeconds"], 30);
        let target = condition(&victim, "DisruptionTarget");
        assert_eq!(target["status"], "True");
        assert_eq!(target["reason"], "PreemptionByScheduler");
        assert_eq!(
            target["message"],
            "default-scheduler: preempting to accommodate a higher priority pod"
        );
        let nominated = format!("n-{}", site.namespace());
        site.until_it(&pod_path("high"), "is nominated to the node", |pod| {
            pod["status"]["nominatedNodeName"] == nominated.as_str()
        })
        .await;
        let event = site.until_event("low", "Preempted").await;
        assert_eq!(event["type"], "Normal");
        super::end(site, "low").await;
        assert_eq!(node_of(site, "high").await, "n");
        let high = site.get(&pod_path("high")).await;
        assert_eq!(high["status"].get("nominatedNodeName"), None);
    });
}

#[test]
fn preemption_evicts_only_necessary_victims() {
    contract!(async |site: &Site| {
        class(site, "high", 1000, json!({})).await;
        for (name, value) in [("low", 10), ("middle", 20)] {
            class(site, name, value, json!({})).await;
        }
        node(site, "n", json!({})).await;
        for name in ["low", "middle"] {
            pod(site, name, of_class(name, "1")).await;
            node_of(site, name).await;
        }
        pod(site, "high", of_class("high", "1")).await;
        assert_eq!(node_of(site, "high").await, "n");
        assert!(site.find(&pod_path("low")).await.is_none());
        assert!(site.find(&pod_path("middle")).await.is_some());
    });
}

#[test]
fn pods_of_equal_priority_are_not_preempted() {
    contract!(async |site: &Site| {
        class(site, "same", 1000, json!({})).await;
        node(site, "n", json!({})).await;
        pod(site, "a", of_class("same", "2")).await;
        node_of(site, "a").await;
        pod(site, "b", of_class("same", "1")).await;
        let message = refused(site, "b", "1 Insufficient cpu").await;
        assert!(
            message.contains("1 No preemption victims found for incoming pod"),
            "{message}"
        );
    });
}

#[test]
fn a_pod_with_preemption_policy_never_waits() {
    contract!(async |site: &Site| {
        class(site, "polite", 1000, json!({ "preemptionPolicy": "Never" })).await;
        node(site, "n", json!({})).await;
        pod(site, "a", requests(json!({ "cpu": "2" }))).await;
        node_of(site, "a").await;
        pod(site, "b", of_class("polite", "1")).await;
        let message = refused(site, "b", "1 Insufficient cpu").await;
        assert!(
            message.ends_with("preemption: not eligible due to preemptionPolicy=Never."),
            "{message}"
        );
        site.never(
            &pod_path("a"),
            Duration::from_secs(2),
            "is a preemption victim",
            |pod| pod.is_none(),
        )
        .await;
    });
}

#[test]
fn a_disruption_budget_is_respected_where_possible() {
    contract!(async |site: &Site| {
        class(site, "high", 1000, json!({})).await;
        for name in ["a", "b"] {
            node(site, name, json!({})).await;
            let mut change = requests(json!({ "cpu": "2" }));
            let host = format!("{name}-{{ns}}");
            json_patch::merge(
                &mut change,
                &json!({
                    "metadata": { "labels": { "pod": name } },
                    "spec": { "nodeSelector": { "kubernetes.io/hostname": host } },
                }),
            );
            pod(site, name, change).await;
            node_of(site, name).await;
            site.set_status(
                &pod_path(name),
                json!({
                    "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
                }),
            )
            .await;
        }
        site.create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "a" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "pod": "a" } } },
        }))
        .await;
        site.until_it(
            "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets/a",
            "observed",
            |budget| budget["status"]["observedGeneration"].is_i64(),
        )
        .await;
        pod(site, "high", of_class("high", "1")).await;
        assert_eq!(node_of(site, "high").await, "b");
        assert!(site.find(&pod_path("a")).await.is_some());
    });
}

#[test]
fn the_higher_priority_pod_is_scheduled_first() {
    contract!(async |site: &Site| {
        class(site, "high", 1000, json!({})).await;
        node(site, "small", json!({ "status": { "allocatable": { "pods": "0" } } })).await;
        let gate = json!({ "spec": { "schedulingGates": [{ "name": "example.com/g" }] } });
        for (name, change) in [("a", requests(json!({ "cpu": "2" }))), ("b", of_class("high", "2"))] {
            let mut change = change;
            json_patch::merge(&mut change, &gate.clone());
            pod(site, name, change).await;
        }
        for name in ["a", "b"] {
            site.merge(&pod_path(name), json!({ "spec": { "schedulingGates": null } }))
                .await;
            refused(site, name, "1 Too many pods").await;
        }
        node(site, "n", json!({})).await;
        assert_eq!(node_of(site, "b").await, "n");
    });
}
