//! What I19 allows, and the case beside it that it does not.

use super::*;

/// Within one pass of a controller, and beyond it.
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
#[case::beyond_it(machine("Running"), json!({}), LATER, Some(()), Some("I19"))]
#[case::while_a_fault_is_in_force(machine("Running"), json!({}), LATER, None, None)]
#[case::of_a_machine_that_failed(machine("Failed"), json!({}), LATER, Some(()), None)]
#[case::of_a_machine_that_goes(with(machine("Terminating"), deleted_at(0)), json!({}), LATER, Some(()), None)]
#[case::of_a_node_of_another_machine(machine("Running"), json!({ "metadata": { "labels": { "node.gardener.cloud/machine-name": "other" } } }), LATER, Some(()), None)]
#[case::of_a_node_that_names_none(machine("Running"), vm_named(""), LATER, Some(()), None)]
fn a_node_may_name_another_vm(
    #[case] machine: Value,
    #[case] change: Value,
    #[case] time: Duration,
    #[case] calm: Option<()>,
    #[case] broken: Option<&str>,
) {
    let story = Story::new().disturbed().apply("Machine", machine);
    let node = with(node(vm_named("fakecloud:///z/other")), change);
    let story = story.apply("Node", node);
    let story = if calm.is_some() { story.calm() } else { story };
    story.after(time).breaks(broken);
}

#[rstest]
#[case::it_is_made("CrashLoopBackOff", with(vm_named(""), labelled("")), false, None)]
#[case::it_was_made("Pending", with(vm_named(""), labelled("n")), false, Some("I19"))]
#[case::it_has_no_node_to_wait_for("Available", labelled(""), false, None)]
#[case::it_waits_for_its_node("Pending", labelled(""), false, Some("I19"))]
#[case::a_person_took_the_label("Pending", labelled(""), true, None)]
fn a_machine_may_lack_what_its_phase_does_not_need(
    #[case] phase: &str,
    #[case] lacks: Value,
    #[case] by_person: bool,
    #[case] broken: Option<&str>,
) {
    let story = Story::new()
        .disturbed()
        .apply("Machine", with(machine(""), lacks.clone()));
    let story = if by_person {
        story.touched("Machine", "m")
    } else {
        story
    };
    story.apply("Machine", with(machine(phase), lacks)).breaks(broken);
}

#[rstest]
#[case::when_it_enters_the_phase("Pending", Some("I19"))]
#[case::later("Running", None)]
fn a_label_is_missed_when_a_machine_enters_its_phase(#[case] before: &str, #[case] broken: Option<&str>) {
    Story::new()
        .disturbed()
        .apply("Machine", machine(before))
        .apply("Machine", with(machine("Running"), labelled("")))
        .breaks(broken);
}

#[rstest]
#[case::it_is_recorded("", "fakecloud:///z/a", false, None)]
#[case::it_changes("fakecloud:///z/b", "fakecloud:///z/a", false, Some("I19"))]
#[case::it_goes("fakecloud:///z/a", "", false, Some("I19"))]
#[case::a_person_changes_it("fakecloud:///z/b", "fakecloud:///z/a", true, None)]
fn a_provider_id_is_written_once(
    #[case] before: &str,
    #[case] then: &str,
    #[case] by_person: bool,
    #[case] broken: Option<&str>,
) {
    let own = |id| with(machine("CrashLoopBackOff"), vm_named(id));
    let story = Story::new().disturbed().apply("Machine", own(before));
    let story = if by_person {
        story.touched("Machine", "m")
    } else {
        story
    };
    story.apply("Machine", own(then)).breaks(broken);
}

#[rstest]
#[case::while_it_is_updated("InPlaceUpdating", "InPlaceUpdating", Some("I19"))]
#[case::once_it_is("InPlaceUpdateSuccessful", "InPlaceUpdateSuccessful", None)]
#[case::in_the_write_that_says_so("InPlaceUpdating", "InPlaceUpdateSuccessful", None)]
fn a_machine_changes_its_set_when_it_is_updated(
    #[case] before: &str,
    #[case] then: &str,
    #[case] broken: Option<&str>,
) {
    let story = Story::new().disturbed();
    let story = story.apply("Machine", with(machine(before), owned("ms-1")));
    story
        .apply("Machine", with(machine(then), owned("ms-2")))
        .breaks(broken);
}

#[rstest]
#[case::it_goes(with(machine("Terminating"), deleted_at(0)), None)]
#[case::it_stays(machine("Terminating"), Some("I19"))]
#[case::preserved_until(with(machine("Running:Preserved"), json!({ "status": { "currentStatus": { "preserveExpiryTime": "1970-01-02T00:00:00Z" } } })), None)]
#[case::preserved_without_end(machine("Running:Preserved"), Some("I19"))]
fn a_phase_says_what_is_so(#[case] then: Value, #[case] broken: Option<&str>) {
    Story::new()
        .disturbed()
        .apply("Machine", machine("Running"))
        .apply("Machine", then)
        .breaks(broken);
}

/// Kept until the next day, as its record says.
fn kept(phase: &str, stage: &str) -> Value {
    let status = json!({
        "currentStatus": { "preserveExpiryTime": "1970-01-02T00:00:00Z" },
        "preservation": { "stage": stage },
    });
    with(machine(phase), json!({ "status": status }))
}

#[rstest]
#[case::it_runs(kept("Running", "Preserved"), LATER, Some("I19"))]
#[case::it_failed(kept("Failed", "Preserved"), LATER, Some("I19"))]
#[case::within_a_pass(kept("Running", "Preserved"), SOON, None)]
#[case::its_phase_says_so(kept("Running:Preserved", "Preserved"), LATER, None)]
#[case::its_pods_leave_once_more(kept("Failed", "Draining"), LATER, None)]
#[case::it_is_kept_no_longer(kept("Failed", "Releasing"), LATER, None)]
#[case::it_neither_runs_nor_failed(kept("Unknown", "Preserved"), LATER, None)]
#[case::it_goes(with(kept("Failed", "Preserved"), deleted_at(0)), LATER, None)]
#[case::without_an_expiry(with(kept("Running", "Preserved"), json!({ "status": { "currentStatus": { "preserveExpiryTime": null } } })), LATER, None)]
fn the_phase_of_a_preserved_machine_says_so(
    #[case] machine: Value,
    #[case] time: Duration,
    #[case] broken: Option<&str>,
) {
    let story = Story::new().disturbed().apply("Machine", machine).calm();
    let found = story.after(time).found.map(|violation| violation.invariant);
    // How soon a deletion begins is not asked here.
    assert_eq!(found.filter(|invariant| *invariant == "I19"), broken);
}

#[test]
fn where_the_dialect_has_no_such_phase_none_is_missed() {
    let mut story = Story::new();
    story.invariants.rules.dialect = scenario::PreservationDialect::Upstream;
    story
        .apply("Machine", kept("Running", "Preserved"))
        .after(LATER)
        .breaks(None);
}

#[test]
fn a_phase_that_says_so_in_time_is_not_missed_later() {
    Story::new()
        .apply("Machine", kept("Running", "Preserved"))
        .after(SOON)
        .apply("Machine", kept("Running:Preserved", "Preserved"))
        .after(LATER)
        .breaks(None);
}
