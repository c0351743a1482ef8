//! Preservation in the whole controller: limits, expiries, and users' annotations.

use super::sets::{SET, machine, set};
use super::*;
use crate::Controller;

/// Creates a Running machine that is preserved for `seconds` because of its Node's annotation.
async fn create_preserved(stage: &Stage, seconds: i64) {
    stage.create_machine();
    stage.wait(30).await;
    stage.register_node("True");
    stage.wait(30).await;
    annotate(stage, "now");
    stage.wait(5).await;
    assert_eq!(stage.phase(), "Running:Preserved");
    let ends = stage.clock.now() + jiff::SignedDuration::from_secs(seconds);
    let mut machine = stage.server.get(MACHINE).unwrap();
    machine["status"]["currentStatus"]["preserveExpiryTime"] = json!(ends.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    stage.server.put(MACHINE, machine);
}

fn annotate(stage: &Stage, value: &str) {
    stage.server.put(NODE, annotated_node(stage, value));
}

fn annotated_node(stage: &Stage, value: &str) -> Value {
    let mut node = stage.server.get(NODE).unwrap();
    node["metadata"]["annotations"]["node.machine.sapcloud.io/preserve"] = json!(value);
    node
}

/// Runs until the machine is preserved because its Node does not answer, with the pod of a StatefulSet on it, and
/// StopMachine was called once.
async fn create_fenced(stage: &Stage) {
    stage.create_machine();
    stage.wait(30).await;
    stage.register_node("True");
    stage.wait(30).await;
    annotate(stage, "when-failed");
    let owner =
        json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true }]);
    let mut pod = object("web", "Pod", json!({}));
    pod["metadata"]["namespace"] = json!("shop");
    pod["metadata"]["ownerReferences"] = owner;
    pod["spec"] = json!({ "nodeName": "m-12345", "containers": [{ "name": "web", "image": "web" }] });
    stage.server.put(POD, pod);
    stage.wait(5).await;
    report(stage, "Unknown");
    stage.wait(620).await;
    assert_eq!(stage.phase(), "Failed:Preserved");
    assert_eq!(stops(stage), 1);
}

/// The Node has this readiness from now on.
fn report(stage: &Stage, ready: &str) {
    let since = stage.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut node = stage.server.get(NODE).unwrap();
    node["status"]["conditions"] = json!([{ "type": "Ready", "status": ready, "lastTransitionTime": since }]);
    stage.server.put(NODE, node);
}

/// The number of calls of StopMachine since the last question.
fn stops(stage: &Stage) -> usize {
    stage.cloud.calls().into_iter().filter(|call| *call == "stop").count()
}

fn stopping() -> Options {
    let mut options = Options::default();
    options.preservation.fencing = crate::PreserveFencing::StopVm;
    options
}

#[tokio::test(start_paused = true)]
async fn a_vm_is_not_stopped_whose_node_is_ready_in_the_api_although_the_watch_is_late() {
    let stage = Stage::new();
    stage
        .run_with(stopping(), stage.environment(), async {
            create_fenced(&stage).await;
            stage.server.lag_watches_of("/api/v1/nodes", Duration::from_hours(1));
            report(&stage, "True");
            stage.wait(300).await;
            assert_eq!(stage.phase(), "Failed:Preserved", "the watch is late");
            stage.wait(400).await;
            assert_eq!((stops(&stage), stage.phase()), (0, json!("Running:Preserved")));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_whose_node_cannot_be_read_is_not_stopped_until_it_can() {
    let stage = Stage::new();
    stage
        .run_with(stopping(), stage.environment(), async {
            create_fenced(&stage).await;
            stage.server.fail_reads_of(NODE, Some(503));
            stage.wait(700).await;
            assert_eq!(stops(&stage), 0);
            stage.server.fail_reads_of(NODE, None);
            stage.wait(300).await;
            assert_eq!(stops(&stage), 1);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_preservation_expires_even_if_writing_the_node_condition_fails() {
    let stage = Stage::new();
    stage
        .run(async {
            create_preserved(&stage, 600).await;
            stage.server.forbid(&format!("{NODE}/status"));
            stage.wait(599).await;
            assert_eq!(
                stage.server.get(MACHINE).unwrap()["status"]["preservation"]["stage"],
                "Preserved"
            );
            stage.wait(2).await;
            assert_eq!(
                stage.server.get(MACHINE).unwrap()["status"]["preservation"]["stage"],
                "Releasing"
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_written_at_the_end_of_a_preservation_is_kept() {
    let stage = Stage::new();
    stage
        .run(async {
            create_preserved(&stage, 60).await;
            stage.wait(59).await;
            stage
                .server
                .before_a_write_to(&format!("{NODE}/status"), NODE, annotated_node(&stage, "false"));
            stage.wait(10).await;
            assert_eq!(stage.phase(), "Running");
            let annotations = stage.server.get(NODE).unwrap()["metadata"]["annotations"].clone();
            assert_eq!(annotations, json!({ "node.machine.sapcloud.io/preserve": "false" }));
        })
        .await;
}

/// Creates a set with this maximum of preservations, and machines that are about to fail.
fn create_failing_machines(stage: &Stage, names: &[&str], maximum: usize) {
    let mut set = set(i32::try_from(names.len()).unwrap());
    set["spec"]["autoPreserveFailedMax"] = json!(maximum);
    stage.server.put(SET, set);
    for name in names {
        let mut machine = machine(stage, name);
        machine["metadata"]["labels"]["node"] = json!(name);
        machine["spec"]["providerID"] = json!(format!("fake:///{name}"));
        machine["status"] = json!({
            "conditions": [{ "type": "Ready", "status": "Unknown" }],
            "currentStatus": { "phase": "Unknown", "lastUpdateTime": "2027-01-15T07:00:00Z" },
        });
        stage.server.put(&format!("{MACHINES}/{name}"), machine);
    }
}

/// Runs only the machine controller, so that failed machines are not replaced.
async fn run_machines(stage: &Stage) {
    let options = Options {
        controllers: vec![Controller::Machine],
        ..Options::default()
    };
    stage.run_with(options, stage.environment(), stage.wait(60)).await;
}

fn list_length(stage: &Stage) -> usize {
    let list = stage.server.get(SET).unwrap()["status"]["preservations"].clone();
    list.as_array().map_or(0, Vec::len)
}

#[tokio::test(start_paused = true)]
async fn simultaneous_failures_do_not_exceed_the_maximum_of_preservations() {
    let stage = Stage::new();
    create_failing_machines(&stage, &["m-1", "m-2", "m-3", "m-4", "m-5", "m-6"], 2);
    run_machines(&stage).await;
    let mut phases = stage.phases();
    phases.sort();
    assert_eq!(
        phases,
        [
            "Failed",
            "Failed",
            "Failed",
            "Failed",
            "Failed:Preserved",
            "Failed:Preserved"
        ]
    );
    assert_eq!(list_length(&stage), 2);
}

/// With two controllers, or a paused one and its successor.
#[tokio::test(start_paused = true)]
async fn an_entry_by_another_process_counts_against_the_maximum() {
    let stage = Stage::new();
    create_failing_machines(&stage, &["m-1"], 1);
    let mut other = stage.server.get(SET).unwrap();
    other["status"]["preservations"] = json!([{ "uid": "uid-of-m-0", "name": "m-0", "by": "auto" }]);
    stage.server.before_a_write_to(&format!("{SET}/status"), SET, other);
    run_machines(&stage).await;
    assert_eq!(stage.phases(), ["Failed"]);
    assert_eq!(list_length(&stage), 1);
}
