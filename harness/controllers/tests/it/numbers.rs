//! Extreme numbers in every field that has a number: neither the server nor a controller overflows.

use std::time::Duration;

use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use controllers::Settings;
use kube::Client;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "/api/v1/namespaces/default";
const APPS: &str = "/apis/apps/v1/namespaces/default";
/// Fields whose large values are honoured: a set creates that many pods.
const HONOURED: [&str; 4] = [
    "/spec/replicas",
    "/spec/parallelism",
    "/spec/completions",
    "/spec/backoffLimit",
];

fn extremes() -> Vec<Value> {
    let numbers = [i64::MAX, i64::MIN, i64::from(i32::MAX), i64::from(i32::MIN)];
    numbers.iter().map(|number| json!(number)).collect()
}

fn pod_spec() -> Value {
    let resources = json!({ "requests": { "cpu": 1, "memory": 1, "example.com/gpu": 1 }, "limits": { "cpu": 1, "memory": 1, "example.com/gpu": 1 } });
    let container = |name: &str, port: u16| json!({ "name": name, "image": "i", "resources": resources, "ports": [{ "containerPort": 80, "hostPort": port }] });
    let selector =
        json!({ "labelSelector": { "matchLabels": { "app": "a" } }, "topologyKey": "kubernetes.io/hostname" });
    json!({
        "terminationGracePeriodSeconds": 1,
        "activeDeadlineSeconds": 100,
        "runtimeClassName": "sandboxed",
        "overhead": { "cpu": 1 },
        "containers": [container("a", 8080), container("b", 8081)],
        "initContainers": [{ "name": "i", "image": "i", "resources": resources }],
        "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1 }],
        "affinity": {
            "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
                { "weight": 1, "preference": { "matchExpressions": [{ "key": "size", "operator": "Gt", "values": ["1"] }] } },
            ] },
            "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": selector }] },
            "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": selector }] },
        },
        "topologySpreadConstraints": [{
            "maxSkew": 1, "minDomains": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": "a" } },
        }],
    })
}

/// Path, object and status.
fn objects() -> Vec<(String, Value, Value)> {
    let mut template = json!({ "metadata": { "labels": { "app": "a" } }, "spec": pod_spec() });
    // Pods of a workload must not end by themselves.
    template["spec"]
        .as_object_mut()
        .unwrap()
        .remove("activeDeadlineSeconds");
    let selector = json!({ "matchLabels": { "app": "a" } });
    let annotations = json!({
        "deployment.kubernetes.io/revision": 1, "deployment.kubernetes.io/desired-replicas": 1,
        "deployment.kubernetes.io/max-replicas": 1, "controller.kubernetes.io/pod-deletion-cost": 1,
        "batch.kubernetes.io/job-completion-index": 1,
    });
    let counts = json!({
        "replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1, "currentReplicas": 1,
        "unavailableReplicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 1, "collisionCount": 1,
    });
    let conditions = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    let containers = json!([{ "name": "a", "image": "i", "imageID": "", "ready": true, "restartCount": 1,
        "state": { "running": {} }, "lastState": { "terminated": { "exitCode": 1, "signal": 1 } } }]);
    let offered = json!({ "cpu": 1, "memory": 1, "pods": 1, "example.com/gpu": 1, "ephemeral-storage": 1 });
    let metadata = || json!({ "annotations": annotations, "labels": { "app": "a", "size": 1 } });
    let workload = |spec: Value| {
        let mut spec = spec;
        spec["selector"] = selector.clone();
        spec["template"] = template.clone();
        json!({ "metadata": metadata(), "spec": spec })
    };
    let rolling = |inner: Value| json!({ "type": "RollingUpdate", "rollingUpdate": inner });
    let surge = json!({ "maxSurge": 1, "maxUnavailable": 1 });
    let job = json!({
        "metadata": metadata(),
        "spec": {
            "parallelism": 1, "completions": 1, "backoffLimit": 1, "activeDeadlineSeconds": 100,
            "ttlSecondsAfterFinished": 1, "backoffLimitPerIndex": 1, "maxFailedIndexes": 1, "completionMode": "Indexed",
            "template": { "spec": { "restartPolicy": "OnFailure", "containers": [{ "name": "a", "image": "i" }] } },
        },
    });
    vec![
        (
            "/api/v1/nodes".to_owned(),
            json!({ "metadata": metadata() }),
            json!({ "allocatable": offered, "capacity": offered, "conditions": conditions }),
        ),
        (
            format!("{NAMESPACE}/pods"),
            json!({ "metadata": metadata(), "spec": pod_spec() }),
            json!({ "phase": "Running", "containerStatuses": containers, "initContainerStatuses": [], "observedGeneration": 1, "conditions": conditions }),
        ),
        (
            format!("{APPS}/deployments"),
            workload(
                json!({ "replicas": 1, "minReadySeconds": 1, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 1, "strategy": rolling(surge) }),
            ),
            counts.clone(),
        ),
        (
            format!("{APPS}/replicasets"),
            workload(json!({ "replicas": 1, "minReadySeconds": 1 })),
            counts.clone(),
        ),
        (
            format!("{APPS}/statefulsets"),
            workload(
                json!({ "replicas": 1, "serviceName": "s", "minReadySeconds": 1, "revisionHistoryLimit": 1, "ordinals": { "start": 1 },
                "updateStrategy": rolling(json!({ "partition": 1, "maxUnavailable": 1 })) }),
            ),
            counts,
        ),
        (
            format!("{APPS}/daemonsets"),
            workload(
                json!({ "minReadySeconds": 1, "revisionHistoryLimit": 1, "updateStrategy": rolling(json!({ "maxSurge": 0, "maxUnavailable": 1 })) }),
            ),
            json!({ "currentNumberScheduled": 1, "desiredNumberScheduled": 1, "numberReady": 1, "numberMisscheduled": 1, "numberAvailable": 1, "collisionCount": 1, "observedGeneration": 1 }),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs".to_owned(),
            job,
            json!({ "active": 1, "ready": 1, "succeeded": 1, "failed": 1, "terminating": 1 }),
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets".to_owned(),
            json!({ "metadata": metadata(), "spec": { "minAvailable": 1, "selector": selector } }),
            json!({ "disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1 }),
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets".to_owned(),
            json!({ "metadata": metadata(), "spec": { "maxUnavailable": 1, "selector": selector } }),
            json!({}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases".to_owned(),
            json!({ "metadata": metadata(), "spec": { "leaseDurationSeconds": 1, "leaseTransitions": 1 } }),
            json!({}),
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            json!({ "metadata": metadata(), "value": 1 }),
            json!({}),
        ),
        (
            "/apis/apps/v1/namespaces/default/controllerrevisions".to_owned(),
            json!({ "metadata": metadata(), "revision": 1, "data": {} }),
            json!({}),
        ),
    ]
}

/// The pointers of all numbers.
fn numbers(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(at.to_owned()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                numbers(item, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                numbers(member, &format!("{at}/{name}"), found);
            }
        }
        _ => {}
    }
}

/// Labels, annotations and percentages are texts.
fn texts(mut object: Value) -> Value {
    for field in ["labels", "annotations"] {
        for value in object["metadata"][field]
            .as_object_mut()
            .into_iter()
            .flat_map(|map| map.values_mut())
        {
            if value.is_number() {
                *value = value.to_string().into();
            }
        }
    }
    object
}

/// The object with each number replaced by each extreme, also as a percentage.
fn variants(object: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    numbers(object, "", &mut found);
    let mut variants = Vec::new();
    for pointer in found.iter().filter(|pointer| !HONOURED.contains(&pointer.as_str())) {
        let percentages = ["maxSurge", "maxUnavailable", "minAvailable"]
            .iter()
            .any(|field| pointer.ends_with(field));
        for extreme in extremes() {
            let percentage = percentages.then(|| Value::from(format!("{extreme}%")));
            for value in [Some(extreme), percentage].into_iter().flatten() {
                let mut variant = object.clone();
                *variant.pointer_mut(pointer).unwrap() = value;
                variants.push(variant);
            }
        }
    }
    variants
}

struct World(Client);

impl World {
    async fn send(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let media_type = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .header("accept", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap();
        self.0.request::<Value>(request).await.ok()
    }

    async fn table(&self, path: &str) {
        let request = http::Request::get(path)
            .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
            .body(Vec::new())
            .unwrap();
        let table: Value = self.0.request(request).await.unwrap();
        assert_eq!(table["kind"], "Table");
    }
}

/// Creates all variants of one kind, lets the controllers act, and deletes them with extreme grace periods.
async fn story(world: &World, clock: &Clock, (path, object, status): (String, Value, Value)) -> usize {
    let mut created = Vec::new();
    let plain = vec![object.clone(); 2];
    for (count, variant) in plain.into_iter().chain(variants(&object)).enumerate() {
        let mut variant = texts(variant);
        variant["metadata"]["name"] = format!("x{count}").into();
        if world.send("POST", &path, &variant).await.is_some() {
            created.push(format!("{path}/x{count}"));
        }
    }
    let statuses = [status.clone()].into_iter().chain(variants(&status));
    for (name, status) in created.iter().cycle().zip(statuses) {
        world
            .send("PATCH", &format!("{name}/status"), &json!({ "status": status }))
            .await;
    }
    world.table(&path).await;
    clock.sleep(Duration::from_secs(90)).await;
    for name in created.iter().take(20) {
        let patch = json!({ "spec": { "template": { "metadata": { "annotations": { "new": "1" } } } } });
        world.send("PATCH", name, &patch).await;
    }
    clock.sleep(Duration::from_secs(30)).await;
    world.table(&path).await;
    for (name, grace) in created.iter().zip(extremes().iter().cycle()) {
        world
            .send("DELETE", name, &json!({ "gracePeriodSeconds": grace }))
            .await;
    }
    clock.sleep(Duration::from_secs(30)).await;
    world.table(&path).await;
    created.len()
}

fn run(objects: (String, Value, Value)) -> usize {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let options = Options {
            garbage_collector: true,
            namespace_controllers: true,
            ..Options::new(clock.clone(), Seed::new(7))
        };
        let server = Server::new(options).unwrap();
        let client = || Client::new(server.service(Identity::admin()), "default");
        let world = World(client());
        let offered = json!({ "cpu": "64", "memory": "1Ti", "pods": "500", "example.com/gpu": "100" });
        let node = json!({ "metadata": { "name": "node", "labels": { "kubernetes.io/hostname": "node" } }, "status": { "allocatable": offered } });
        assert!(world.send("POST", "/api/v1/nodes", &node).await.is_some());
        let class = json!({ "metadata": { "name": "sandboxed" }, "handler": "sandboxed", "overhead": { "podFixed": { "cpu": "1" } } });
        let classes = "/apis/node.k8s.io/v1/runtimeclasses";
        assert!(world.send("POST", classes, &class).await.is_some());
        let hard = json!({ "requests.cpu": i64::MAX, "limits.memory": i64::MAX, "requests.storage": i64::MAX, "count/pods": i64::MAX });
        let quota = json!({ "metadata": { "name": "largest" }, "spec": { "hard": hard } });
        let quotas = format!("{NAMESPACE}/resourcequotas");
        assert!(world.send("POST", &quotas, &quota).await.is_some());
        let (seed, stop) = (Seed::new(7).child("controllers"), CancellationToken::new());
        let controllers = controllers::run(client(), clock.clone(), seed, Settings::default(), stop);
        tokio::select! {
            biased;
            created = story(&world, &clock, objects) => created,
            () = controllers => panic!("the controllers ended"),
        }
    })
}

#[rstest]
fn extreme_numbers_overflow_nothing(#[values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)] kind: usize) {
    let all = objects();
    assert_eq!(all.len(), 12);
    let objects = all.into_iter().nth(kind).unwrap();
    let path = objects.0.clone();
    let created = run(objects);
    println!("{created} of {path}");
    assert!(created > 1, "{path}");
}
