use std::time::Duration;

use mcm_api::{Code, Phase};
use proptest::prelude::*;
use rstest::rstest;

use super::builder::{any, *};
use super::expect::PodState;
use super::step::{CloudCall, KubeletAction, Moment, ProcessAction, VmAction};
use super::*;
use crate::step::Lift;

/// A scenario with every step and every form.
fn everything() -> Scenario {
    Scenario::new("everything", "Every word of the model.")
        .tag("model")
        .only_on([StageKind::Sim], "it is never run")
        .step(create_machine("m-1"))
        .step(Step::Apply(step::Apply::Object(serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": { "key": "1", "other": "yes" },
        }))))
        .step(fail_call("quota", CloudCall::CreateMachine, "m-1", 2, Code::ResourceExhausted))
        .step(Step::Lift(Lift("quota".to_owned())))
        .step(Step::Annotate(step::Annotate {
            kind: "Machine".to_owned(),
            name: "m-1".to_owned(),
            annotations: [("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), None)].into(),
        }))
        .step(Step::Patch(step::Patch {
            kind: "Machine".to_owned(),
            name: "m-1".to_owned(),
            namespace: Some("named".to_owned()),
            merge: serde_json::json!({ "spec": { "drainTimeout": "1m" } }),
            status: false,
        }))
        .step(vm("m-1", VmAction::Kill))
        .step(kubelet("m-1", KubeletAction::Stop))
        .step(mcm(ProcessAction::Restart))
        .step(crash_mcm(Moment::Before, 3))
        .step(wait(Duration::from_secs(90)))
        .eventually(boot_delay() + slack(), all([phase("m-1", Phase::Running), vm_count("m-1", 1)]))
        .meanwhile()
        .always(health_timeout() - seconds(1), error_code("m-1", Code::Internal))
        .never(node_grace(), any([machine_gone("m-1"), node_gone("m-1")]))
        .for_at_least(short_retry(), medium_retry(), calls_at_least(CloudCall::CreateMachine, "m-1", 2))
        .at_most(4, long_retry(), phase("m-1", Phase::Failed))
        .eventually(
            creation_timeout(),
            history("m-1", [at_any_time(Phase::Pending), between(Phase::Running, seconds(1), boot_delay())]),
        )
        .step(namespace("team"))
        .step(storage_class())
        .step(priority_class("reserve", -10))
        .step(deployment(workload("web").replicas(3).cpu("900m").priority("reserve").in_namespace("team")))
        .step(stateful_set(workload("db").volume("1Gi").tolerating(pod_toleration())))
        .step(daemon_set(workload("agent")))
        .step(budget("web", 1))
        .step(evict("m-1", 2 * forced_detach() / 3))
        .step(force_delete("Pod", "db-0"))
        .throughout(all([
            pods("web").on("m-1").are(PodState::Unschedulable).at_most(2),
            same_pods("agent", "m-1"),
            unchanged("PersistentVolumeClaim", "data-db-0", "/spec/volumeName"),
            attached_to("data-db-0", "m-1"),
            attached_at_most("data-db-0", 1),
            not(volumes_of("data-db-0", 2)),
        ]))
        .step(delete_machine("m-1"))
}

#[test]
fn a_scenario_survives_a_round_trip_through_yaml() {
    let yaml = everything().to_yaml().unwrap();
    assert_eq!(Scenario::from_yaml(&yaml, "test").unwrap(), everything(), "{yaml}");
}

const HEAD: &str = "name: story\nabout: A story.\nsteps:\n";

#[rstest]
#[case::an_unknown_field("- wait: 10s\ncolour: red\n", "colour")]
#[case::an_unknown_step("- dance: m-1\n", "dance")]
#[case::an_unknown_duration("- wait: helthTimeout\n", "healthTimeout")]
#[case::an_unknown_code("- inject: {name: q, call: createMachine, code: Broken}\n", "Broken")]
#[case::a_fault_that_does_nothing("- inject: {name: q, call: createMachine}\n", "steps[0].inject")]
#[case::an_object_without_a_name(
    "- apply: {object: {apiVersion: v1, kind: Pod}}\n",
    "steps[0].apply.object.metadata.name"
)]
#[case::effect_zero("- crash: {process: mcm, at: before, effect: 0}\n", "counted from 1")]
#[case::calls_without_a_number(
    "- expect: {that: {calls: {call: createMachine, machine: m}}, holds: {eventually: 1m}}\n",
    "steps[0].expect.that.calls"
)]
#[case::pods_without_a_number(
    "- expect: {that: {pods: {of: web}}, holds: {eventually: 1m}}\n",
    "steps[0].expect.that.pods"
)]
#[case::throughout_without_meanwhile(
    "- expect: {that: {nodeGone: m}, holds: throughout}\n",
    "steps[0].expect.meanwhile"
)]
#[case::a_daemon_set_of_three(
    "- apply: {daemonSet: {name: a, replicas: 3}}\n",
    "steps[0].apply.daemonSet.replicas"
)]
#[case::a_deployment_with_volumes(
    "- apply: {deployment: {name: a, volume: 1Gi}}\n",
    "steps[0].apply.deployment.volume"
)]
fn an_error_names_the_field_or_the_fix(#[case] steps: &str, #[case] expected: &str) {
    let error = Scenario::from_yaml(&format!("{HEAD}{steps}"), "story.yaml")
        .unwrap_err()
        .to_string();
    assert!(error.contains(expected), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_syntax_error_names_file_line_and_field() {
    let text = "name: story\nabout: A story.\nsteps:\n- wait: 10s\n- vm: {machine: m-1, doo: kill}\n";
    let error = Scenario::from_yaml(text, "story.yaml").unwrap_err().to_string();
    assert!(
        error.starts_with("story.yaml: ") && error.contains("line 5") && error.contains("doo"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn reading_any_text_never_panics(text in ".{0,200}") {
        let _ = Scenario::from_yaml(&text, "random");
    }
}
