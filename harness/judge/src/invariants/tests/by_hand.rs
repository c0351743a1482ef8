//! Manual changes of preservations, and what is legal after them: a removed expiry, requests with the annotation of the
//! first version, a standalone set, and edited templates.

use mcm_api::keys;

use super::preserved::{EXPIRY, auto, ending, listed, preserved_until, seconds};
use super::*;

/// After an hour an operator removes the expiry of machine `m`, which is Running and preserved.
fn removed() -> Story {
    let mut story = Story::new();
    story.invariants.rules.ended_by_user.insert("m".to_owned());
    story
        .apply("Machine", preserved_until(EXPIRY))
        .after(minutes(60))
        .apply("Machine", without_expiry())
}

fn without_expiry() -> Value {
    let none = json!({ "status": { "currentStatus": { "preserveExpiryTime": null } } });
    with(preserved_until(EXPIRY), none)
}

#[rstest]
#[case::a_user(true, None)]
#[case::the_controller(false, Some("I19"))]
fn an_expiry_may_be_missing_only_after_a_user_removed_it(#[case] by_user: bool, #[case] violated: Option<&str>) {
    let story = if by_user {
        removed()
    } else {
        Story::new()
            .apply("Machine", preserved_until(EXPIRY))
            .apply("Machine", without_expiry())
    };
    story.violates(violated);
}

#[test]
fn no_machine_becomes_preserved_without_an_expiry() {
    let mut story = Story::new();
    story.invariants.rules.ended_by_user.insert("m".to_owned());
    story
        .disturbed()
        .apply("Machine", machine("Running"))
        .apply("Machine", without_expiry())
        .violates(Some("I19"));
}

#[rstest]
#[case::after_a_relist(true, None)]
#[case::without_a_relist(false, Some("I10"))]
fn a_request_and_its_preservation_may_disappear_in_one_event(#[case] disturbed: bool, #[case] violated: Option<&str>) {
    let requesting = json!({ "metadata": { "annotations": { keys::PRESERVE_ANNOTATION: "now" } } });
    let mut story = Story::new();
    let requests = &mut story.invariants.rules.requests;
    requests.insert("m".to_owned(), Some("now".to_owned()));
    let story = if disturbed { story.disturbed() } else { story };
    story
        .apply("Machine", with(preserved_until(EXPIRY), requesting))
        .apply("Machine", machine("Running"))
        .violates(violated);
}

#[rstest]
#[case::at_once(1, None)]
#[case::later(3, Some("I13"))]
fn a_preservation_ends_within_a_second_of_the_removal_of_its_expiry(
    #[case] later: u64,
    #[case] violated: Option<&str>,
) {
    let reason = json!({ "status": { "preservation": { "reason": "ExpiryRemoved" } } });
    removed()
        .after(seconds(later))
        .apply("Machine", with(ending("1970-01-01T01:00:00Z"), reason))
        .after(seconds(1))
        .violates(violated);
}

#[rstest]
#[case::for_a_moment(seconds(30), None)]
#[case::for_long(minutes(5), Some("I13"))]
fn a_preservation_without_an_expiry_ends_within_a_pass(#[case] time: Duration, #[case] violated: Option<&str>) {
    removed().after(time).violates(violated);
}

#[rstest]
#[case::removed_by_a_user(None, None)]
#[case::existing(Some("1970-01-04T00:00:00Z"), Some("I5"))]
fn a_missing_expiry_ends_a_drain(#[case] expiry: Option<&str>, #[case] violated: Option<&str>) {
    let record = |stage: &str, reason: &str| {
        let record = json!({ "stage": stage, "reason": reason, "by": "auto" });
        let status = json!({ "currentStatus": { "preserveExpiryTime": expiry }, "preservation": record });
        with(machine("Failed"), json!({ "status": status }))
    };
    Story::new()
        .apply("Machine", record("Draining", "Relapse"))
        .apply("Machine", record("Releasing", "ExpiryRemoved"))
        .violates(violated);
}

#[rstest]
#[case::of_the_machine(json!({ keys::PRESERVE_ANNOTATION: "false" }), json!({}), None)]
#[case::of_its_node(json!({}), json!({ keys::PRESERVE_ANNOTATION: "false" }), None)]
#[case::of_its_node_with_the_first_version(json!({}), json!({ keys::PRESERVE_WHEN_FAILED_ANNOTATION: "false" }), None)]
#[case::without_a_refusal(json!({}), json!({ keys::PRESERVE_WHEN_FAILED_ANNOTATION: "true" }), Some("I5"))]
fn a_refusal_ends_a_preservation(#[case] of_machine: Value, #[case] of_node: Value, #[case] violated: Option<&str>) {
    let annotated = |annotations: &Value| json!({ "metadata": { "annotations": annotations } });
    let refused = json!({ "status": { "preservation": { "reason": "Refused" } } });
    let ended = with(with(ending(EXPIRY), refused), annotated(&of_machine));
    Story::new()
        .apply("Node", node(annotated(&of_node)))
        .apply("Machine", preserved_until(EXPIRY))
        .apply("Machine", ended)
        .violates(violated);
}

#[rstest]
#[case::of_its_own(json!({}), json!({}), None)]
#[case::of_its_node(json!({ keys::PRESERVE_ANNOTATION: "now", keys::LAST_APPLIED_PRESERVE_ANNOTATION: "now" }), json!({}), None)]
#[case::not_removed(json!({ keys::PRESERVE_ANNOTATION: "now" }), json!({}), Some("I5"))]
#[case::not_removed_from_its_node(
    json!({ keys::PRESERVE_ANNOTATION: "now", keys::LAST_APPLIED_PRESERVE_ANNOTATION: "now" }),
    json!({ keys::PRESERVE_ANNOTATION: "now" }),
    Some("I5")
)]
fn a_removed_request_ends_a_preservation(
    #[case] of_machine: Value,
    #[case] of_node: Value,
    #[case] violated: Option<&str>,
) {
    let annotated = |annotations: &Value| json!({ "metadata": { "annotations": annotations } });
    let removed = json!({ "status": { "preservation": { "reason": "Removed" } } });
    let ended = with(with(ending(EXPIRY), removed), annotated(&of_machine));
    let before = with(preserved_until(EXPIRY), annotated(&of_machine));
    Story::new()
        .apply("Node", node(annotated(&of_node)))
        .apply("Machine", before)
        .apply("Machine", ended)
        .violates(violated);
}

#[rstest]
#[case::preserved("Draining", json!({}), json!({}), None)]
#[case::ignored("", json!({}), json!({}), Some("I5"))]
#[case::its_set_is_deleted("", deleted_at(0), json!({}), None)]
#[case::its_node_refuses("", json!({}), json!({ keys::PRESERVE_WHEN_FAILED_ANNOTATION: "false" }), None)]
fn a_standalone_set_preserves_a_machine_that_requests_it(
    #[case] stage: &str,
    #[case] of_set: Value,
    #[case] of_node: Value,
    #[case] violated: Option<&str>,
) {
    let requesting = json!({
        "metadata": {
            "annotations": { keys::PRESERVE_ANNOTATION: "when-failed" },
            "ownerReferences": [{ "kind": "MachineSet", "name": "ms", "controller": true }],
        },
    });
    let failed = with(
        machine("Failed"),
        json!({ "status": { "preservation": { "stage": stage } } }),
    );
    let found = Story::new()
        .disturbed()
        .apply("MachineSet", with(set(1), of_set))
        .apply("Node", node(json!({ "metadata": { "annotations": of_node } })))
        .apply("Machine", with(machine("Unknown"), requesting.clone()))
        .after(minutes(10))
        .apply("Machine", with(failed, requesting))
        .found;
    // The timeout of the failure is not under test.
    let found = found.map(|violation| violation.invariant);
    assert_eq!(found.filter(|invariant| *invariant == "I5"), violated);
}

#[rstest]
#[case::there_is_room("autoPreserveFailedMax", 2, None)]
#[case::full("autoPreserveFailedMax", 1, Some("I4"))]
#[case::full_with_the_upstream_field("autoPreserveFailedMachineMax", 1, Some("I4"))]
fn a_standalone_set_has_a_limit(#[case] field: &str, #[case] maximum: u32, #[case] violated: Option<&str>) {
    let keeping = |entries: &[Value]| {
        let preserved = json!({ "spec": { field: maximum }, "status": { "preservations": entries } });
        with(set(2), preserved)
    };
    Story::new()
        .apply("Machine", machine("Unknown"))
        .apply("MachineSet", keeping(&[auto("other")]))
        .apply("MachineSet", keeping(&[auto("other"), auto("m")]))
        .violates(violated);
}

#[test]
fn changes_of_settings_and_node_template_are_no_rollout() {
    let edited = |entries: &[Value]| {
        let request = json!({ "metadata": { "annotations": { keys::PRESERVE_ANNOTATION: "when-failed" } } });
        let spec = json!({ "machinePreserveTimeout": "1h0m0s", "nodeTemplate": request });
        let template = json!({ "spec": { "template": { "spec": spec } } });
        with(listed(entries, 1, "a"), template)
    };
    Story::new()
        .apply("Machine", machine("Unknown"))
        .apply("MachineDeployment", listed(&[], 1, "a"))
        .apply("MachineDeployment", edited(&[]))
        .apply("MachineDeployment", edited(&[auto("m")]))
        .violates(None);
}

#[test]
fn a_sibling_stays_preserved_until_the_controller_observes_the_removal_of_its_expiry() {
    let sibling = |expiry: Option<&str>| {
        let own = json!({
            "metadata": { "name": "s", "uid": "s", "labels": { "name": "md", "node": "s" } },
            "spec": { "providerID": "fakecloud:///z/s" },
            "status": { "currentStatus": { "preserveExpiryTime": expiry }, "preservation": { "stage": "Preserved" } },
        });
        with(machine("Failed:Preserved"), own)
    };
    let own = |phase: &str| with(machine(phase), pool("md"));
    let mut story = Story::new().disturbed();
    story.invariants.rules.ended_by_user.insert("s".to_owned());
    story
        .apply("Machine", sibling(Some("1970-01-04T00:00:00Z")))
        .apply("Machine", own("Unknown"))
        .after(minutes(10))
        .apply("Machine", sibling(None))
        .apply("Machine", own("Failed"))
        .violates(None);
}
