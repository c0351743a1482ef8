//! Cases that I19 allows, each with a similar case that it forbids.

use super::*;

/// Within one pass of a controller, and after it.
const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(90);

fn labelled(node: &str) -> Value {
    json!({ "metadata": { "labels": { "node": node } } })
}

fn vm_named(id: &str) -> Value {
    json!({ "spec": { "providerID": id } })
}

fn owned(set: &str) -> Value {
    json!({ "metadata": { "ownerReferences": [{ "kind": "MachineSet", "name": set, "controller": true }] } })
}

#[rstest]
#[case::within_a_pass(machine("Running"), json!({}), SOON, Some(()), None)]
#[case::after_it(machine("Running"), json!({}), LATER, Some(()), Some("I19"))]
#[case::while_a_fault_is_active(machine("Running"), json!({}), LATER, None, None)]
#[case::of_a_failed_machine(machine("Failed"), json!({}), LATER, Some(()), None)]
#[case::of_a_terminating_machine(with(machine("Terminating"), deleted_at(0)), json!({}), LATER, Some(()), None)]
#[case::of_a_node_of_another_machine(machine("Running"), json!({ "metadata": { "labels": { "node.gardener.cloud/machine-name": "other" } } }), LATER, Some(()), None)]
#[case::of_a_node_without_a_provider_id(machine("Running"), vm_named(""), LATER, Some(()), None)]
fn a_node_may_name_another_vm_for_one_pass(
    #[case] machine: Value,
    #[case] change: Value,
    #[case] time: Duration,
    #[case] undisturbed: Option<()>,
    #[case] violated: Option<&str>,
) {
    let story = Story::new().disturbed().apply("Machine", machine);
    let node = with(node(vm_named("fakecloud:///z/other")), change);
    let story = story.apply("Node", node);
    let story = if undisturbed.is_some() {
        story.undisturbed()
    } else {
        story
    };
    story.after(time).violates(violated);
}

#[rstest]
#[case::being_created("CrashLoopBackOff", with(vm_named(""), labelled("")), false, None)]
#[case::created("Pending", with(vm_named(""), labelled("n")), false, Some("I19"))]
#[case::no_node_is_expected("Available", labelled(""), false, None)]
#[case::it_waits_for_its_node("Pending", labelled(""), false, Some("I19"))]
#[case::a_user_removed_the_label("Pending", labelled(""), true, None)]
fn a_machine_needs_only_the_fields_that_its_phase_requires(
    #[case] phase: &str,
    #[case] missing: Value,
    #[case] by_user: bool,
    #[case] violated: Option<&str>,
) {
    let story = Story::new()
        .disturbed()
        .apply("Machine", with(machine(""), missing.clone()));
    let story = if by_user { story.touched("Machine", "m") } else { story };
    story.apply("Machine", with(machine(phase), missing)).violates(violated);
}

#[rstest]
#[case::when_it_enters_the_phase("Pending", Some("I19"))]
#[case::later("Running", None)]
fn the_node_label_is_required_when_a_machine_enters_a_phase(#[case] before: &str, #[case] violated: Option<&str>) {
    Story::new()
        .disturbed()
        .apply("Machine", machine(before))
        .apply("Machine", with(machine("Running"), labelled("")))
        .violates(violated);
}

#[rstest]
#[case::it_is_recorded("", "fakecloud:///z/a", false, None)]
#[case::it_changes("fakecloud:///z/b", "fakecloud:///z/a", false, Some("I19"))]
#[case::removed("fakecloud:///z/a", "", false, Some("I19"))]
#[case::a_user_changes_it("fakecloud:///z/b", "fakecloud:///z/a", true, None)]
fn a_provider_id_is_written_once(
    #[case] before: &str,
    #[case] then: &str,
    #[case] by_user: bool,
    #[case] violated: Option<&str>,
) {
    let own = |id| with(machine("CrashLoopBackOff"), vm_named(id));
    let story = Story::new().disturbed().apply("Machine", own(before));
    let story = if by_user { story.touched("Machine", "m") } else { story };
    story.apply("Machine", own(then)).violates(violated);
}

#[rstest]
#[case::while_it_is_updated("InPlaceUpdating", "InPlaceUpdating", Some("I19"))]
#[case::after_its_update("InPlaceUpdateSuccessful", "InPlaceUpdateSuccessful", None)]
#[case::in_the_write_that_ends_the_update("InPlaceUpdating", "InPlaceUpdateSuccessful", None)]
fn a_machine_moves_to_another_set_only_after_its_update(
    #[case] before: &str,
    #[case] then: &str,
    #[case] violated: Option<&str>,
) {
    let story = Story::new().disturbed();
    let story = story.apply("Machine", with(machine(before), owned("ms-1")));
    story
        .apply("Machine", with(machine(then), owned("ms-2")))
        .violates(violated);
}

#[rstest]
#[case::removed(with(machine("Terminating"), deleted_at(0)), None)]
#[case::it_stays(machine("Terminating"), Some("I19"))]
#[case::with_an_expiry(with(machine("Running:Preserved"), json!({ "status": { "currentStatus": { "preserveExpiryTime": "1970-01-02T00:00:00Z" } } })), None)]
#[case::without_an_expiry(machine("Running:Preserved"), Some("I19"))]
fn a_phase_is_consistent_with_the_object(#[case] then: Value, #[case] violated: Option<&str>) {
    Story::new()
        .disturbed()
        .apply("Machine", machine("Running"))
        .apply("Machine", then)
        .violates(violated);
}

/// Preserved until the next day, according to its status.
fn preserved(phase: &str, stage: &str) -> Value {
    let status = json!({
        "currentStatus": { "preserveExpiryTime": "1970-01-02T00:00:00Z" },
        "preservation": { "stage": stage },
    });
    with(machine(phase), json!({ "status": status }))
}

#[rstest]
#[case::it_runs(preserved("Running", "Preserved"), LATER, Some("I19"))]
#[case::it_failed(preserved("Failed", "Preserved"), LATER, Some("I19"))]
#[case::within_a_pass(preserved("Running", "Preserved"), SOON, None)]
#[case::its_phase_is_marked(preserved("Running:Preserved", "Preserved"), LATER, None)]
#[case::it_drains_again(preserved("Failed", "Draining"), LATER, None)]
#[case::it_is_released(preserved("Failed", "Releasing"), LATER, None)]
#[case::it_is_unknown(preserved("Unknown", "Preserved"), LATER, None)]
#[case::removed(with(preserved("Failed", "Preserved"), deleted_at(0)), LATER, None)]
#[case::without_an_expiry(with(preserved("Running", "Preserved"), json!({ "status": { "currentStatus": { "preserveExpiryTime": null } } })), LATER, None)]
fn the_phase_of_a_preserved_machine_is_marked(
    #[case] machine: Value,
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let story = Story::new().disturbed().apply("Machine", machine).undisturbed();
    let found = story.after(time).found.map(|violation| violation.invariant);
    // The deletion deadline is not under test.
    assert_eq!(found.filter(|invariant| *invariant == "I19"), violated);
}

#[test]
fn a_dialect_without_the_phase_needs_no_mark() {
    let mut story = Story::new();
    story.invariants.rules.dialect = scenario::PreservationDialect::Upstream;
    story
        .apply("Machine", preserved("Running", "Preserved"))
        .after(LATER)
        .violates(None);
}

#[test]
fn a_phase_that_is_marked_in_time_is_no_violation_later() {
    Story::new()
        .apply("Machine", preserved("Running", "Preserved"))
        .after(SOON)
        .apply("Machine", preserved("Running:Preserved", "Preserved"))
        .after(LATER)
        .violates(None);
}
