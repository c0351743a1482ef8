//! Preservation through the whole shell: as many as may be kept, the end on time, and nothing of a person's taken away.

use super::sets::{SET, machine, set};
use super::*;
use crate::Controller;

/// Running, and preserved because its Node says `now`, until so many seconds from now.
async fn kept_for(stage: &Stage, seconds: i64) {
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

fn annotate(stage: &Stage, word: &str) {
    stage.server.put(NODE, asking(stage, word));
}

fn asking(stage: &Stage, word: &str) -> Value {
    let mut node = stage.server.get(NODE).unwrap();
    node["metadata"]["annotations"]["node.machine.sapcloud.io/preserve"] = json!(word);
    node
}

#[tokio::test(start_paused = true)]
async fn an_expiry_is_not_missed_while_the_nodes_condition_is_refused() {
    let stage = Stage::new();
    stage
        .run(async {
            kept_for(&stage, 600).await;
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
async fn who_refuses_preservation_as_one_ends_is_not_overheard() {
    let stage = Stage::new();
    stage
        .run(async {
            kept_for(&stage, 60).await;
            stage.wait(59).await;
            stage
                .server
                .before_a_write_to(&format!("{NODE}/status"), NODE, asking(&stage, "false"));
            stage.wait(10).await;
            assert_eq!(stage.phase(), "Running");
            let annotations = stage.server.get(NODE).unwrap()["metadata"]["annotations"].clone();
            assert_eq!(annotations, json!({ "node.machine.sapcloud.io/preserve": "false" }));
        })
        .await;
}

/// Machines of a set that keeps so many, each Unknown for longer than its health timeout.
fn failing(stage: &Stage, names: &[&str], maximum: usize) {
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

/// The controller of machines alone: what fails and is not kept stays Failed.
async fn run_machines(stage: &Stage) {
    let options = Options {
        controllers: vec![Controller::Machine],
        ..Options::default()
    };
    stage.run_with(options, stage.environment(), stage.wait(60)).await;
}

fn entered(stage: &Stage) -> usize {
    let list = stage.server.get(SET).unwrap()["status"]["preservations"].clone();
    list.as_array().map_or(0, Vec::len)
}

#[tokio::test(start_paused = true)]
async fn of_machines_that_fail_in_the_same_moment_as_many_are_kept_as_may_be() {
    let stage = Stage::new();
    failing(&stage, &["m-1", "m-2", "m-3", "m-4", "m-5", "m-6"], 2);
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
    assert_eq!(entered(&stage), 2);
}

/// Two controllers, or one that was stopped and its successor.
#[tokio::test(start_paused = true)]
async fn who_is_entered_by_another_process_meanwhile_takes_the_place() {
    let stage = Stage::new();
    failing(&stage, &["m-1"], 1);
    let mut other = stage.server.get(SET).unwrap();
    other["status"]["preservations"] = json!([{ "uid": "uid-of-m-0", "name": "m-0", "by": "auto" }]);
    stage.server.before_a_write_to(&format!("{SET}/status"), SET, other);
    run_machines(&stage).await;
    assert_eq!(stage.phases(), ["Failed"]);
    assert_eq!(entered(&stage), 1);
}
