//! Health checks with the embedded API server: admission, and the number of passes under load.

use mcm_api::GoDuration;

use super::*;
use crate::Controller;

const CHECK: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinehealthchecks/workers";
const CHECKS: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinehealthchecks";

fn server() -> TestServer {
    TestServer::serving(&[
        "machines",
        "machineclasses",
        "machinesets",
        "machinedeployments",
        "machinehealthchecks",
    ])
}

fn check(spec: Value) -> Value {
    let mut check = object("workers", "MachineHealthCheck", json!({}));
    check["spec"] = json!({ "selector": { "matchLabels": { "name": "pool" } } });
    for (field, value) in spec.as_object().into_iter().flatten() {
        check["spec"][field] = value.clone();
    }
    check
}

#[rstest]
#[case::absent(json!({}), json!("10m"))]
#[case::given(json!({ "nodeStartupTimeout": "5m" }), json!("5m"))]
#[case::disabled(json!({ "nodeStartupTimeout": "0s" }), json!("0s"))]
#[case::in_the_other_spelling(json!({ "checks": { "nodeStartupTimeoutSeconds": 300 } }), json!("10m"))]
#[tokio::test(start_paused = true)]
async fn the_startup_timeout_has_a_default_at_admission(#[case] spec: Value, #[case] expected: Value) {
    let stage = Stage::on(server());
    stage.server.put(CHECK, check(spec));
    let stored = stage.server.get(CHECK).unwrap();
    assert_eq!(stored["spec"]["nodeStartupTimeout"], expected);
    let stored: mcm_api::MachineHealthCheck = serde_json::from_value(stored).unwrap();
    let policy = mcm_core::health_check::normalize(&stored.spec, "default").unwrap();
    let seconds = policy.startup_timeout.map_or(0, |timeout| timeout.as_secs());
    let of_spec = stored
        .spec
        .checks
        .and_then(|checks| checks.node_startup_timeout_seconds);
    let expected: GoDuration = expected.as_str().unwrap().parse().unwrap();
    let expected = of_spec.map_or(expected.0.as_secs(), |seconds| u64::try_from(seconds).unwrap());
    assert_eq!(seconds, expected);
}

#[rstest]
#[case::startup_timeout(
    json!({ "nodeStartupTimeout": "5m", "checks": { "nodeStartupTimeoutSeconds": 300 } }),
    "nodeStartupTimeout and checks.nodeStartupTimeoutSeconds are two spellings of one setting: remove one"
)]
#[case::limit(
    json!({ "maxUnhealthy": 1, "remediation": { "triggerIf": { "unhealthyLessThanOrEqualTo": 1 } } }),
    "two spellings of one setting"
)]
#[case::range(json!({ "unhealthyRange": "[3-2]" }), "the first number of a range must not be greater than the second")]
#[case::selector(json!({ "selector": {} }), "name at least one label")]
#[tokio::test(start_paused = true)]
async fn what_cannot_be_used_is_refused_with_its_fix(#[case] spec: Value, #[case] expected: &str) {
    let stage = Stage::on(server());
    let error = stage.server.refusal(CHECKS, &check(spec));
    assert!(error.contains(expected), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_metrics_of_a_deleted_check_disappear() {
    let stage = Stage::on(server());
    stage.server.put(CHECK, check(json!({})));
    let environment = stage.environment();
    let metrics = environment.metrics.clone();
    let has = |name: &str| metrics.text().contains(&format!("name=\"{name}\""));
    stage
        .run_with(options(), environment, async {
            stage.wait(60).await;
            assert!(has("workers"), "{}", metrics.text());
            stage.server.delete(CHECK);
            stage.wait(60).await;
            assert!(!has("workers"), "{}", metrics.text());
        })
        .await;
}

fn options() -> Options {
    let mut options = Options {
        controllers: vec![Controller::MachineHealthCheck],
        ..Options::default()
    };
    options.leader_election.enabled = false;
    options
}

/// The node of the machine, whose condition Ready changes at `second`, and whose kubelet reports at `heartbeat`.
fn node(ready: &str, second: i64, heartbeat: i64) -> Value {
    let time = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap().to_string();
    let mut node = object("m-12345", "Node", json!({}));
    node["metadata"].as_object_mut().unwrap().remove("namespace");
    node["status"]["conditions"] = json!([{
        "type": "Ready", "status": ready, "lastTransitionTime": time(second), "lastHeartbeatTime": time(heartbeat),
    }]);
    node
}

/// How many passes changed the status of the check within four minutes in which the node is written every second.
async fn status_writes(write: impl Fn(i64) -> Value) -> usize {
    let stage = Stage::on(server());
    let mut machine = stage.machine_of_class("m-12345", "small");
    machine["metadata"]["labels"] = json!({ "name": "pool", "node": "m-12345" });
    machine["status"] = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
    stage.server.put(MACHINE, machine);
    stage.server.put(NODE, write(0));
    let never = json!({ "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "24h" }] });
    stage.server.put(CHECK, check(never));
    let mut writes = 0;
    stage
        .run_with(options(), stage.environment(), async {
            stage.wait(60).await;
            stage.server.requests();
            for second in 0..240 {
                stage.server.put(NODE, write(second));
                stage.wait(1).await;
            }
            let requests = stage.server.requests();
            writes = requests
                .iter()
                .filter(|request| request.ends_with("machinehealthchecks/workers/status"))
                .count();
        })
        .await;
    writes
}

#[tokio::test(start_paused = true)]
async fn a_check_has_one_pass_in_fifteen_seconds_while_a_condition_flaps() {
    let writes = status_writes(|second| {
        let ready = if second % 2 == 0 { "Unknown" } else { "True" };
        node(ready, second, second)
    })
    .await;
    assert!((8..=240 / 15 + 1).contains(&writes), "{writes} passes");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_alone_cause_no_write() {
    assert_eq!(status_writes(|second| node("True", 0, second)).await, 0);
}
