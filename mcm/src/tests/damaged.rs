//! An object that cannot be decoded is reported and skipped; all others are reconciled.

use super::sets::SET;
use super::*;

const DEPLOYMENTS: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinedeployments";
const SETS: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinesets";

/// A stage whose definitions accept every value.
fn stage() -> Stage {
    Stage::on(TestServer::untyped())
}

/// The messages of the events about undecodable objects, with the object's name.
fn reported(stage: &Stage) -> Vec<(String, String)> {
    let events = stage.server.all("/api/v1/namespaces/default/events").into_iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events
        .filter(|event| event["reason"] == "Undecodable")
        .map(|event| (text(&event["involvedObject"]["name"]), text(&event["message"])))
        .collect()
}

fn metric(metrics: &Metrics, kind: &str) -> String {
    let name = format!("mcm_undecodable_objects{{kind=\"{kind}\"}} ");
    let text = metrics.text();
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_default().to_owned()
}

fn vm_of(stage: &Stage, machine: &str) -> bool {
    let vms = &stage.cloud.0.lock().vms;
    vms.values().any(|vm| vm.node_name.as_deref() == Some(machine))
}

#[tokio::test(start_paused = true)]
async fn a_damaged_machine_is_skipped_until_it_is_corrected() {
    let stage = stage();
    let path = format!("{MACHINES}/damaged");
    let mut machine = stage.machine_of_class("damaged", "small");
    let mut damaged = machine.clone();
    damaged["spec"]["nodeTemplate"] = json!({ "metadata": { "annotations": { "a": true, "b": "kept" } } });
    stage.server.put(&path, damaged);
    let environment = stage.environment();
    let metrics = environment.metrics.clone();
    let story = async {
        stage.create_machine();
        stage.wait(30).await;
        assert_eq!(stage.phase(), "Pending", "the other machine is created");
        assert!(!vm_of(&stage, "damaged"));
        let [(name, message)] = &reported(&stage)[..] else {
            panic!("{:?}", reported(&stage));
        };
        assert_eq!(name, "damaged");
        assert_eq!(
            message,
            "spec.nodeTemplate.metadata.annotations.a: invalid type: boolean `true`, expected a string; \
             the Machine is not reconciled until this is corrected"
        );
        assert_eq!(metric(&metrics, "Machine"), "1");

        machine["spec"]["nodeTemplate"] = json!({ "metadata": { "annotations": { "a": "true" } } });
        stage.server.put(&path, machine);
        stage.wait(30).await;
        assert!(vm_of(&stage, "damaged"));
        assert_eq!(metric(&metrics, "Machine"), "0");
    };
    stage.run_with(Options::default(), environment, story).await;
}

#[tokio::test(start_paused = true)]
async fn machines_of_a_damaged_class_name_its_field_and_have_no_vm() {
    let stage = stage();
    let mut class = stage.server.get(CLASS).unwrap();
    class["metadata"] = json!({ "name": "damaged", "namespace": "default" });
    class["secretRef"] = json!({ "name": "cloud", "namespace": 7 });
    stage.server.put(&CLASS.replace("small", "damaged"), class);
    let machine = stage.machine_of_class("m-damaged", "damaged");
    stage.server.put(&format!("{MACHINES}/m-damaged"), machine);
    let story = async {
        stage.create_machine();
        stage.wait(30).await;
        assert_eq!(stage.phase(), "Pending");
        assert!(!vm_of(&stage, "m-damaged"));
        let machine = stage.server.get(&format!("{MACHINES}/m-damaged")).unwrap();
        let description = machine["status"]["lastOperation"]["description"].as_str().unwrap();
        assert!(
            description.contains("the machine class damaged is not usable: [secretRef.namespace: invalid type"),
            "{description}"
        );
        assert_eq!(reported(&stage)[0].0, "damaged");
    };
    stage.run(story).await;
}

#[rstest]
#[case::annotation_of_the_template(SET, "MachineSet", "/template/metadata", json!({ "labels": { "pool": "damaged" }, "annotations": { "a": 1 } }))]
#[case::replicas(SET, "MachineSet", "/replicas", json!("3"))]
#[case::surge(
    &format!("{DEPLOYMENTS}/pool"), "MachineDeployment", "/strategy",
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 3_000_000_000_i64 } })
)]
#[tokio::test(start_paused = true)]
async fn a_damaged_owner_is_skipped_and_another_one_is_reconciled(
    #[case] path: &str,
    #[case] kind: &str,
    #[case] field: &str,
    #[case] value: Value,
) {
    let stage = stage();
    let mut spec = super::sets::set(1)["spec"].clone();
    let good = object("good", "MachineSet", json!({ "spec": spec }));
    spec["selector"] = json!({ "matchLabels": { "pool": "damaged" } });
    spec["template"]["metadata"]["labels"] = json!({ "pool": "damaged" });
    spec["strategy"] = json!({ "type": "RollingUpdate" });
    *spec.pointer_mut(field).unwrap() = value;
    stage.server.put(path, object("pool", kind, json!({ "spec": spec })));
    stage.server.put(&format!("{SETS}/good"), good);
    let environment = stage.environment();
    let metrics = environment.metrics.clone();
    let story = async {
        stage.wait(30).await;
        let machines = stage.server.all(MACHINES);
        let owners: Vec<&Value> = machines
            .iter()
            .map(|machine| &machine["metadata"]["ownerReferences"][0]["name"])
            .collect();
        assert_eq!(owners, ["good"]);
        assert_eq!(reported(&stage).len(), 1, "{:?}", reported(&stage));
        assert_eq!(metric(&metrics, kind), "1");
    };
    stage.run_with(Options::default(), environment, story).await;
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_an_unusable_machine_does_not_replace_it() {
    let stage = stage();
    stage.server.put(SET, super::sets::set(1));
    let mut machine = super::sets::machine(&stage, "pool-1");
    machine["spec"] = json!({ "class": { "kind": "MachineClass", "name": 7 } });
    stage.server.put(&format!("{MACHINES}/pool-1"), machine);
    let story = async {
        stage.wait(60).await;
        assert_eq!(stage.server.all(MACHINES).len(), 1);
        assert_eq!(reported(&stage)[0].0, "pool-1");
    };
    stage.run(story).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_caches_stay_empty_leaves_the_lease() {
    let stage = Stage::new();
    stage.server.forbid_lists_of("/api/v1/nodes");
    let started = stage.clock.now();
    let error = crate::run(Options::default(), stage.environment(), CancellationToken::new())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("the Node cannot be listed for 120 s"), "{error}");
    assert!(stage.clock.now().duration_since(started).as_secs() < 180);
    let lease = stage
        .server
        .get("/apis/coordination.k8s.io/v1/namespaces/default/leases/machine-controller-manager")
        .unwrap();
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "");
}

#[tokio::test(start_paused = true)]
async fn the_set_of_a_damaged_deployment_keeps_its_machines_and_is_not_frozen() {
    let stage = stage();
    let mut spec = super::sets::set(3)["spec"].clone();
    stage.server.put(
        &format!("{DEPLOYMENTS}/pool"),
        object("pool", "MachineDeployment", json!({ "spec": &spec })),
    );
    let sizes = || {
        let sets = stage.server.all(SETS);
        sets.iter()
            .map(|set| set["spec"]["replicas"].clone())
            .collect::<Vec<_>>()
    };
    let story = async {
        stage.wait(60).await;
        assert_eq!((sizes(), stage.server.all(MACHINES).len()), (vec![json!(3)], 3));
        spec["replicas"] = json!("none");
        stage.server.put(
            &format!("{DEPLOYMENTS}/pool"),
            object("pool", "MachineDeployment", json!({ "spec": spec })),
        );
        // Longer than the period of the guard against too many machines.
        stage.wait(120).await;
        let sets = stage.server.all(SETS);
        assert_eq!(
            (sizes(), sets[0]["metadata"]["labels"]["freeze"].clone()),
            (vec![json!(3)], Value::Null)
        );
        let lost = stage.server.all(MACHINES).swap_remove(0);
        stage
            .server
            .remove(&format!("{MACHINES}/{}", lost["metadata"]["name"].as_str().unwrap()));
        stage.wait(30).await;
        assert_eq!(stage.server.all(MACHINES).len(), 3, "the set replaces a machine");
    };
    stage.run(story).await;
}
