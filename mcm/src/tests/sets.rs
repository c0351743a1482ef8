//! Sets in the whole controller: machines are created in growing batches, and failed requests are reported.

use super::*;
use crate::Controller;

const SETS: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinesets";
pub(super) const SET: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinesets/pool";

pub(super) fn set(replicas: i32) -> Value {
    let template = json!({
        "metadata": { "labels": { "pool": "a" } }, "spec": { "class": { "kind": "MachineClass", "name": "small" } },
    });
    let spec = json!({ "replicas": replicas, "selector": { "matchLabels": { "pool": "a" } }, "template": template });
    object("pool", "MachineSet", json!({ "spec": spec }))
}

/// A Running machine of the set.
pub(super) fn machine(stage: &Stage, name: &str) -> Value {
    let set = stage
        .server
        .get(SET)
        .map_or(json!("absent"), |set| set["metadata"]["uid"].clone());
    let mut machine = object(
        name,
        "Machine",
        json!({
            "spec": { "class": { "kind": "MachineClass", "name": "small" } },
            "status": { "currentStatus": { "phase": "Running" } },
        }),
    );
    machine["metadata"]["labels"] = json!({ "pool": "a" });
    machine["metadata"]["finalizers"] = json!(["machine.sapcloud.io/machine-controller-manager"]);
    machine["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": "pool", "uid": set,
        "controller": true,
    }]);
    machine
}

/// Runs only the controllers of sets and deployments, for less than the wait after a failure.
async fn run_sets(stage: &Stage) {
    let options = Options {
        controllers: vec![Controller::Set, Controller::Deployment],
        ..Options::default()
    };
    stage.run_with(options, stage.environment(), stage.wait(4)).await;
}

fn condition(stage: &Stage) -> (Value, String) {
    let set = stage.server.get(SET).unwrap();
    let condition = &set["status"]["machineSetCondition"][0];
    let message = condition["message"].as_str().unwrap_or_default().to_owned();
    (condition["reason"].clone(), message)
}

/// Whether a warning with this reason was recorded whose message begins with `text`.
fn warned(stage: &Stage, reason: &str, text: &str) -> bool {
    let events = stage.server.all("/api/v1/namespaces/default/events").into_iter();
    let mut warnings = events.filter(|event| event["type"] == "Warning" && event["reason"] == reason);
    warnings.any(|event| event["message"].as_str().unwrap_or_default().starts_with(text))
}

fn machines(stage: &Stage) -> usize {
    stage.server.all(&format!("{MACHINES}/")).len()
}

fn creations(stage: &Stage) -> usize {
    let wanted = format!("POST {MACHINES}");
    stage.writes().iter().filter(|write| **write == wanted).count()
}

/// Creates two machines of the set, one older than the other.
async fn create_two_machines(stage: &Stage) {
    for name in ["m-old", "m-new"] {
        stage.server.put(&format!("{MACHINES}/{name}"), machine(stage, name));
        stage.wait(3600).await;
    }
}

fn is_being_deleted(stage: &Stage, name: &str) -> bool {
    let machine = stage.server.get(&format!("{MACHINES}/{name}")).unwrap();
    !machine["metadata"]["deletionTimestamp"].is_null()
}

/// A failed creation is retried once after its set's condition is written, and then only with a backoff.
#[rstest]
#[case::ten(10, false, 10, 10)]
#[case::three(3, false, 3, 3)]
#[case::none(0, false, 0, 0)]
#[case::the_first_fails(10, true, 2, 0)]
#[tokio::test(start_paused = true)]
async fn machines_are_created_in_growing_batches(
    #[case] replicas: i32,
    #[case] forbidden: bool,
    #[case] tried: usize,
    #[case] created: usize,
) {
    let stage = Stage::new();
    stage.server.put(SET, set(replicas));
    if forbidden {
        stage.server.forbid(MACHINES);
    }
    run_sets(&stage).await;
    assert_eq!((creations(&stage), machines(&stage)), (tried, created));
    assert_eq!(warned(&stage, "FailedCreate", "Error creating: "), forbidden);
    let (reason, message) = condition(&stage);
    assert_eq!(reason == json!("FailedCreate"), forbidden);
    assert_eq!(message.contains("Forbidden"), forbidden, "{message}");
}

#[rstest]
#[case::allowed(None, true)]
#[case::forbidden(Some("m-old"), false)]
#[tokio::test(start_paused = true)]
async fn a_surplus_machine_is_deleted_or_the_set_reports_the_error(
    #[case] forbidden: Option<&str>,
    #[case] deleted: bool,
) {
    let stage = Stage::new();
    stage.server.put(SET, set(1));
    create_two_machines(&stage).await;
    if let Some(name) = forbidden {
        stage.server.forbid(&format!("{MACHINES}/{name}"));
    }
    run_sets(&stage).await;
    assert_eq!(
        [is_being_deleted(&stage, "m-old"), is_being_deleted(&stage, "m-new")],
        [deleted, false]
    );
    assert_eq!(
        stage.phases(),
        ["Running", "Running"],
        "only the machine controller sets Terminating"
    );
    let (reason, message) = condition(&stage);
    assert_eq!(reason == json!("FailedDelete"), !deleted);
    assert_eq!(message.contains("m-old: Forbidden"), !deleted, "{message}");
    assert_eq!(warned(&stage, "FailedDelete", "Error deleting: "), !deleted);
}

/// A change after the decision causes another decision.
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_preserved_just_before_its_deletion_is_kept() {
    let stage = Stage::new();
    stage.server.put(SET, set(1));
    create_two_machines(&stage).await;
    let old = format!("{MACHINES}/m-old");
    let mut preserved = stage.server.get(&old).unwrap();
    preserved["status"]["currentStatus"] =
        json!({ "phase": "Running:Preserved", "preserveExpiryTime": "2027-01-16T08:00:00Z" });
    stage.server.before_a_write_to(&old, &old, preserved);
    run_sets(&stage).await;
    assert_eq!(
        [is_being_deleted(&stage, "m-old"), is_being_deleted(&stage, "m-new")],
        [false, true]
    );
}

#[tokio::test(start_paused = true)]
async fn a_deployment_reports_that_its_set_cannot_be_created() {
    let stage = Stage::new();
    let deployment = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinedeployments/pool";
    let mut wanted = set(1);
    wanted["kind"] = json!("MachineDeployment");
    stage.server.put(deployment, wanted);
    stage.server.forbid(SETS);
    run_sets(&stage).await;
    assert!(warned(
        &stage,
        "MachineSetCreateError",
        "Failed to create new machine set \"pool-"
    ));
    let conditions = stage.server.get(deployment).unwrap()["status"]["conditions"].to_string();
    assert!(conditions.contains("MachineSetCreateError"), "{conditions}");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_set_causes_no_writes() {
    let stage = Stage::new();
    stage
        .server
        .put(&format!("{MACHINES}/m-left"), machine(&stage, "m-left"));
    run_sets(&stage).await;
    let writes = stage.writes();
    assert!(
        !writes
            .iter()
            .any(|write| write.contains(SETS) || write.contains(MACHINES)),
        "{writes:?}"
    );
    assert_eq!(machines(&stage), 1);
}
