use rstest::rstest;
use serde_json::json;

use super::*;

fn names() -> Names {
    let world = World {
        nodes: 2,
        ..World::default()
    };
    let mut names = Names::of_world(&world);
    for (kind, name) in [("Machine", "m-1"), ("MachineSet", "ms"), ("MachineDeployment", "md")] {
        names.add_object(&json!({ "kind": kind, "metadata": { "name": name } }));
    }
    let prefixed = json!({ "nodeNamePrefix": "ip-", "zone": "z2" });
    names.add_object(&json!({ "kind": "MachineClass", "metadata": { "name": "b" }, "providerSpec": prefixed }));
    let template = json!([{ "metadata": { "name": "data" } }]);
    let labels = json!({ "app": "db" });
    names.add_object(&json!({
        "kind": "StatefulSet",
        "metadata": { "name": "db", "labels": labels },
        "spec": { "volumeClaimTemplates": template },
    }));
    names.add_manual_vm("by-hand-1");
    names.add(NameOf::CloudFault, "quota");
    names
}

#[rstest]
#[case::of_a_machine(MACHINE, "m-1")]
#[case::of_a_set(MACHINE, "ms-x7")]
#[case::of_a_deployment(MACHINE, "md-5f-x7")]
#[case::a_set_of_a_deployment(NameOf::Object("MachineSet"), "md-5f")]
#[case::a_node(NODE, "m-1")]
#[case::a_node_with_the_prefix_of_its_class(NODE, "ip-m-1")]
#[case::a_node_of_the_world(NODE, "node-1")]
#[case::a_vm_without_a_machine(NameOf::Vm, "by-hand-1")]
#[case::a_zone(NameOf::Zone, "z2")]
#[case::a_pod(NameOf::Object("Pod"), "db-0")]
#[case::a_claim(CLAIM, "data-db-0")]
#[case::a_workload(NameOf::Workload, "db")]
#[case::a_fault(NameOf::Fault, "quota")]
#[case::the_fixture_class(NameOf::Object("MachineClass"), "class-a")]
#[case::a_volume_has_any_name(NameOf::Object("PersistentVolume"), "pvc-1234")]
fn a_name_that_the_scenario_creates_is_known(#[case] of: NameOf, #[case] name: &str) {
    assert_eq!(names().check(&Reference::name("field", of, name)), Ok(()));
}

#[rstest]
#[case::a_machine(
    Reference::name("field", MACHINE, "m-2"),
    "the scenario creates no machine \"m-2\"; the closest is \"m-1\""
)]
#[case::a_node(
    Reference::name("field", NODE, "node-2"),
    "the scenario creates no node \"node-2\"; the closest is \"node-0\""
)]
#[case::a_glob(
    Reference::glob("field", MACHINE, "mx-*"),
    "no machine of the scenario matches \"mx-*\"; the closest is \"md-*\""
)]
#[case::a_glob_instead_of_a_name(
    Reference::name("field", MACHINE, "m-*"),
    "\"m-*\" is a pattern, and this field takes one name"
)]
#[case::nothing_of_that_kind(
    Reference::name("field", NameOf::ApiFault, "slow"),
    "\"slow\" does not exist: the scenario creates no API fault"
)]
fn another_name_is_refused_with_the_closest_one(#[case] reference: Reference, #[case] expected: &str) {
    assert_eq!(
        names().check(&reference),
        Err(("field".to_owned(), expected.to_owned()))
    );
}

#[test]
fn an_unknown_kind_is_refused_with_the_closest_one() {
    let (field, message) = Reference::object(&Kinds::default(), "delete", None, "Machines", "m-1").unwrap_err();
    assert_eq!(field, "delete.kind");
    assert_eq!(message, "unknown kind \"Machines\"; did you mean \"Machine\"?");
}
