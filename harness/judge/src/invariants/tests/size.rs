//! I7, the size of a deployment: allowances beyond its plain statement, and where each allowance ends.

use mcm_api::keys;

use super::allowances::{LATER, SOON, member, sized, vm_of};
use super::*;

/// A member that is being deleted.
fn terminating(name: &str) -> Value {
    with(member(name, "Running"), deleted_at(0))
}

/// Events of deployment `md` with these machines, all Running.
fn running(replicas: u32, names: &[&str]) -> Story {
    let story = Story::new().disturbed().apply("MachineDeployment", sized(replicas));
    names
        .iter()
        .fold(story, |story, name| story.apply("Machine", member(name, "Running")))
}

fn by_user(mut story: Story, name: &str) -> Story {
    let deleted = ("Machine".to_owned(), name.to_owned());
    story.invariants.rules.deleted_by_user.insert(deleted);
    story.apply("Machine", terminating(name))
}

#[rstest]
#[case::nothing_failed(&[], Some("I7"))]
#[case::one_has_failed(&["Failed"], None)]
#[case::one_was_unknown(&["Unknown", "Running"], None)]
#[case::one_was_not_created(&["CrashLoopBackOff", "Running"], None)]
fn terminating_machines_count_until_one_fails(#[case] phases: &[&str], #[case] violated: Option<&str>) {
    let story = Story::new()
        .disturbed()
        .apply("MachineDeployment", sized(1))
        .apply("Machine", terminating("a"))
        .apply("Machine", member("b", "Running"));
    let story = phases
        .iter()
        .fold(story, |story, phase| story.apply("Machine", member("b", phase)));
    story.apply("Machine", member("c", "")).after(LATER).violates(violated);
}

#[test]
fn machines_that_a_user_deletes_are_replaced_at_once() {
    let story = by_user(by_user(running(2, &["a", "b"]), "a"), "b");
    story
        .apply("Machine", member("c", ""))
        .apply("Machine", member("d", ""))
        .violates(None);
}

#[rstest]
#[case::requested("False", None)]
#[case::finished("True", Some("I7"))]
fn a_machine_that_a_remediation_controller_deletes_counts_as_lost(
    #[case] remediated: &str,
    #[case] violated: Option<&str>,
) {
    let condition = json!({ "type": keys::EXTERNALLY_REMEDIATED, "status": remediated });
    let marked = json!({ "status": { "conditions": [condition] } });
    running(2, &["a", "b"])
        .apply("Machine", with(member("a", "Running"), marked.clone()))
        .apply("Machine", with(terminating("a"), marked))
        .violates(violated);
}

#[rstest]
#[case::within_a_pass(SOON, None)]
#[case::after_it(LATER, Some("I7"))]
fn a_machine_that_a_health_check_wants_replaced_counts_as_lost_for_a_pass(
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let condition =
        |type_: &str| json!({ "type": type_, "status": "False", "lastTransitionTime": "1970-01-01T00:00:00Z" });
    let conditions = [keys::HEALTH_CHECK_SUCCEEDED, keys::OWNER_REMEDIATED].map(condition);
    let requested = json!({ "status": { "conditions": conditions } });
    running(2, &["a", "b", "c"])
        .apply("Machine", with(member("a", "Failed"), requested.clone()))
        .after(time)
        .apply("Machine", with(with(member("a", "Failed"), deleted_at(0)), requested))
        .apply("Machine", terminating("b"))
        .violates(violated);
}

#[rstest]
#[case::it_was_terminated(VmState::Terminated, None)]
#[case::it_was_running(VmState::Running, Some("I7"))]
fn a_machine_whose_vm_others_deleted_is_replaced_at_once(#[case] state: VmState, #[case] violated: Option<&str>) {
    running(2, &["m", "b", "c"])
        .vm("a", VmState::Running)
        .vm("a", state)
        .apply("Machine", terminating("m"))
        .apply("Machine", member("d", ""))
        .after(LATER)
        .violates(violated);
}

#[rstest]
#[case::another_one_of_the_user("x", None)]
#[case::another_one_of_the_controller("c", Some("I7"))]
fn machines_that_a_user_creates_do_not_count_for_the_controller(#[case] name: &str, #[case] violated: Option<&str>) {
    running(1, &["a", "b"])
        .touched("Machine", "x")
        .apply("Machine", member(name, ""))
        .after(LATER)
        .violates(violated);
}

#[rstest]
#[case::within_a_pass(SOON, None)]
#[case::after_it(LATER, Some("I7"))]
fn a_decision_from_before_a_change_may_be_executed_for_a_pass(#[case] time: Duration, #[case] violated: Option<&str>) {
    running(1, &["a", "b"])
        .apply("MachineDeployment", sized(2))
        .after(time)
        .apply("Machine", terminating("b"))
        .violates(violated);
}

#[rstest]
#[case::within_a_pass(SOON, None)]
#[case::after_it(LATER, Some("I7"))]
fn machines_that_a_user_deleted_count_for_a_pass(#[case] time: Duration, #[case] violated: Option<&str>) {
    by_user(running(2, &["a", "b", "c"]), "b")
        .after(time)
        .apply("Machine", terminating("c"))
        .violates(violated);
}

/// An earlier decision removes a machine that is not available. Meanwhile it has become available, and its set removes another one.
#[rstest]
#[case::now("ms", Duration::ZERO, None)]
#[case::some_time_ago("ms", Duration::from_secs(2), Some("I7"))]
#[case::in_another_set("new", Duration::ZERO, Some("I7"))]
fn a_machine_that_has_just_become_available_may_be_meant_by_a_removal(
    #[case] set: &str,
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let owned = |machine: Value, set: &str| {
        let owner = json!([{ "kind": "MachineSet", "name": set, "controller": true }]);
        with(machine, json!({ "metadata": { "ownerReferences": owner } }))
    };
    Story::new()
        .apply("MachineDeployment", sized(2))
        .apply("Machine", owned(member("a", "Running"), "ms"))
        .apply("Machine", owned(member("b", "Pending"), set))
        .apply("Machine", owned(member("b", "Running"), set))
        .after(time)
        .apply("Machine", owned(terminating("a"), "ms"))
        .violates(violated);
}

#[rstest]
#[case::within_a_pass("Failed:Preserved", SOON, None)]
#[case::after_it("Failed:Preserved", LATER, Some("I7"))]
#[case::not_preserved("Failed", SOON, Some("I7"))]
fn preserved_failed_machines_count_for_a_pass_after_their_removal(
    #[case] phase: &str,
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let expiry = phase.ends_with("Preserved").then_some("1970-01-01T00:00:00Z");
    let failed = json!({ "status": { "currentStatus": { "phase": phase, "preserveExpiryTime": expiry } } });
    running(2, &["a", "b", "c"])
        .apply("Machine", with(member("b", phase), failed.clone()))
        .apply("Machine", with(terminating("b"), failed))
        .after(time)
        .apply("Machine", terminating("c"))
        .violates(violated);
}

#[rstest]
#[case::preserved("1970-01-04T00:00:00Z", None)]
#[case::not_preserved("", Some("I7"))]
fn a_preserved_machine_that_never_joined_is_removed_last(#[case] expiry: &str, #[case] violated: Option<&str>) {
    let kept = json!({ "status": { "currentStatus": { "preserveExpiryTime": expiry } } });
    running(1, &["a"])
        .apply("Machine", with(member("b", "Pending"), kept))
        .apply("Machine", terminating("a"))
        .violates(violated);
}

#[rstest]
#[case::it_is_listed("b~1970-01-01T00:00:00Z", None)]
#[case::another_one_is_listed("c~1970-01-01T00:00:00Z", Some("I7"))]
fn a_machine_that_cluster_autoscaler_lists_may_be_removed(#[case] list: &str, #[case] violated: Option<&str>) {
    let named = json!({ "metadata": { "annotations": { keys::TRIGGER_DELETION_ANNOTATION: list } } });
    running(2, &["a", "b"])
        .apply("MachineDeployment", with(sized(2), named))
        .apply("Machine", terminating("b"))
        .violates(violated);
}

#[rstest]
#[case::within_a_pass(SOON, None)]
#[case::after_it(LATER, Some("I7"))]
fn a_machine_that_cluster_autoscaler_listed_recently_may_be_removed(
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let named =
        json!({ "metadata": { "annotations": { keys::TRIGGER_DELETION_ANNOTATION: "b~1970-01-01T00:00:00Z" } } });
    running(2, &["a", "b"])
        .apply("MachineDeployment", with(sized(2), named))
        .apply("MachineDeployment", sized(2))
        .after(time)
        .apply("Machine", terminating("b"))
        .violates(violated);
}

#[test]
fn a_failed_machine_counts_as_lost_after_a_user_removed_its_expiry() {
    let mut story = running(1, &["a"]);
    story.invariants.rules.ended_by_user.insert("b".to_owned());
    let kept = json!({ "status": { "currentStatus": { "preserveExpiryTime": "1970-01-04T00:00:00Z" } } });
    story
        .apply("Machine", with(member("b", "Failed:Preserved"), kept))
        .apply("Machine", member("b", "Failed:Preserved"))
        .apply("Machine", terminating("a"))
        .violates(None);
}

#[rstest]
#[case::a_rollout(json!({}), Some("I7"))]
#[case::all_at_once(json!({ "spec": { "strategy": { "type": "Recreate" } } }), None)]
#[case::being_deleted(deleted_at(0), None)]
fn recreate_and_deleted_deployments_require_no_available_machines(
    #[case] change: Value,
    #[case] violated: Option<&str>,
) {
    running(1, &["a"])
        .apply("MachineDeployment", with(sized(1), change))
        .apply("Machine", terminating("a"))
        .violates(violated);
}

fn lease(holder: &str) -> Value {
    json!({
        "metadata": { "name": "machine-controller-manager" },
        "spec": { "holderIdentity": holder, "renewTime": "1970-01-01T00:00:00.000000Z", "leaseDurationSeconds": 3600 },
    })
}

#[rstest]
#[case::the_same_leader("mcm-0_1", SOON, Some("I7"))]
#[case::a_new_leader("mcm-1_1", SOON, None)]
#[case::a_leader_for_longer_than_a_pass("mcm-1_1", LATER, Some("I7"))]
fn a_new_leader_may_act_on_old_sets_for_a_pass(
    #[case] leader: &str,
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let story = Story::new()
        .apply("Lease", lease("mcm-0_1"))
        .apply("MachineDeployment", sized(3))
        .apply("Machine", member("a", "Running"))
        .after(Duration::from_secs(1))
        .apply("MachineDeployment", sized(1))
        .after(Duration::from_secs(1))
        .apply("Lease", lease(leader))
        .after(time)
        .apply("Machine", member("b", ""));
    story.apply("Machine", member("c", "")).violates(violated);
}

/// The generation that a deployment has, and the one that its status has observed.
fn observed(generation: u32, observed: u32) -> Value {
    json!({ "metadata": { "generation": generation }, "status": { "observedGeneration": observed } })
}

#[rstest]
#[case::not_observed(false, 1, SOON, None)]
#[case::not_observed_for_long(false, 1, LATER, None)]
#[case::observed_by_its_status(false, 2, SOON, Some("I7"))]
#[case::within_a_pass_after_the_disturbance(true, 1, SOON, None)]
#[case::later_than_a_pass_after_the_disturbance(true, 1, LATER, Some("I7"))]
fn the_previous_limit_applies_until_mcm_can_have_observed_the_new_one(
    #[case] undisturbed: bool,
    #[case] seen: u32,
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let story = Story::new()
        .disturbed()
        .apply("MachineDeployment", with(sized(3), observed(1, 1)))
        .apply("Machine", member("a", "Running"))
        .after(Duration::from_secs(1))
        .apply("MachineDeployment", with(sized(1), observed(2, seen)))
        .after(Duration::from_secs(1));
    let story = if undisturbed { story.undisturbed() } else { story };
    let story = story.after(time).apply("Machine", member("b", ""));
    story.apply("Machine", member("c", "")).after(LATER).violates(violated);
}

/// Sets the object's resourceVersion.
fn at(revision: u32, object: Value) -> Value {
    with(
        object,
        json!({ "metadata": { "resourceVersion": revision.to_string() } }),
    )
}

#[rstest]
#[case::created_before_the_acknowledgement(8, SOON, None)]
#[case::requested_before_the_acknowledgement(12, Duration::from_secs(1), None)]
#[case::created_after_the_acknowledgement(12, Duration::from_secs(2), Some("I7"))]
fn a_machine_created_before_mcm_observed_a_new_limit_may_be_observed_later(
    #[case] created: u32,
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    Story::new()
        .disturbed()
        .apply("MachineDeployment", at(1, with(sized(3), observed(1, 1))))
        .apply("Machine", at(2, member("a", "Running")))
        .apply("Machine", at(3, member("b", "Running")))
        .apply("MachineDeployment", at(5, with(sized(1), observed(2, 1))))
        .apply("MachineDeployment", at(10, with(sized(1), observed(2, 2))))
        .apply("MachineDeployment", at(11, with(sized(1), observed(2, 2))))
        .after(time)
        .apply("Machine", at(created, member("c", "")))
        .after(LATER)
        .violates(violated);
}

#[rstest]
#[case::in_time(SOON, None)]
#[case::for_long(LATER, Some("I7"))]
fn a_decision_under_the_previous_strategy_may_still_be_executed(
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let strategy = |strategy: Value| with(sized(1), json!({ "spec": { "strategy": strategy } }));
    Story::new()
        .apply("MachineDeployment", strategy(json!({ "type": "Recreate" })))
        .apply("Machine", member("a", "Running"))
        .apply(
            "MachineDeployment",
            strategy(json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0 } })),
        )
        .after(time)
        .apply("Machine", with(member("a", "Running"), deleted_at(0)))
        .violates(violated);
}

#[rstest]
#[case::it_was_written_before(8, None)]
#[case::it_was_written_after(12, Some("I7"))]
fn a_new_limit_may_be_observed_after_a_machine_that_it_allows(#[case] written: u32, #[case] violated: Option<&str>) {
    Story::new()
        .disturbed()
        .apply("MachineDeployment", at(1, with(sized(1), observed(1, 1))))
        .apply("Machine", at(2, member("a", "Running")))
        .apply("Machine", at(3, member("b", "Running")))
        .apply("Machine", at(10, member("c", "")))
        .apply("MachineDeployment", at(written, with(sized(2), observed(2, 2))))
        .after(LATER)
        .violates(violated);
}

#[rstest]
#[case::not_observed_by_mcm(1, None)]
#[case::observed_by_mcm(2, Some("I7"))]
fn terminating_machines_count_against_a_surge_that_mcm_has_observed(#[case] seen: u32, #[case] violated: Option<&str>) {
    let surge = |surge: u32| json!({ "spec": { "strategy": { "rollingUpdate": { "maxSurge": surge } } } });
    Story::new()
        .disturbed()
        .apply("MachineDeployment", with(with(sized(2), surge(2)), observed(1, 1)))
        .apply("Machine", terminating("a"))
        .apply("Machine", member("b", "Running"))
        .apply("Machine", member("c", "Running"))
        .apply("MachineDeployment", with(with(sized(2), surge(1)), observed(2, seen)))
        .apply("Machine", member("d", ""))
        .after(LATER)
        .violates(violated);
}

#[rstest]
#[case::a_user_set_a_priority(true, "1", None)]
#[case::a_user_changed_it(true, "3", Some("I7"))]
#[case::a_controller_set_a_priority(false, "1", Some("I7"))]
fn a_machine_with_a_priority_of_a_user_may_be_removed(
    #[case] by_user: bool,
    #[case] priority: &str,
    #[case] violated: Option<&str>,
) {
    let preferred = json!({ "metadata": { "annotations": { keys::PRIORITY_ANNOTATION: priority } } });
    let story = running(2, &["a", "b"]);
    let story = if by_user { story.touched("Machine", "b") } else { story };
    story
        .apply("Machine", with(terminating("b"), preferred))
        .violates(violated);
}

#[rstest]
#[case::recently(minutes(1), None)]
#[case::long_ago(minutes(11), Some("I9"))]
fn vms_requested_before_a_scale_down_may_be_created(#[case] time: Duration, #[case] violated: Option<&str>) {
    let Seen::Cloud(CloudEvent::Vm(vm)) = vm_of("a") else {
        unreachable!()
    };
    let state = VmState::Pending;
    Story::new()
        .disturbed()
        .apply("MachineDeployment", sized(3))
        .apply("Machine", member("a", ""))
        .apply(
            "MachineDeployment",
            with(
                sized(0),
                json!({ "spec": { "strategy": { "rollingUpdate": { "maxSurge": 0 } } } }),
            ),
        )
        .after(time)
        .observe(Seen::Cloud(CloudEvent::Vm(Vm { state, ..vm })))
        .violates(violated);
}

#[rstest]
#[case::created_before(0, None)]
#[case::created_again(2, Some("I3"))]
fn a_machine_may_be_observed_after_it_was_removed_with_its_vm(#[case] second: u32, #[case] violated: Option<&str>) {
    let created = json!({ "metadata": { "creationTimestamp": format!("1970-01-01T00:00:{second:02}Z") } });
    Story::new()
        .disturbed()
        .after(Duration::from_secs(1))
        .observe_call(call("DeleteMachine", ""), &ServerTruth::Gone)
        .after(Duration::from_secs(1))
        .apply("Machine", with(machine(""), created))
        .violates(violated);
}

#[rstest]
#[case::of_a_rolling_update(json!({ "type": "RollingUpdate" }), 3, Some("I7"))]
#[case::of_an_update_in_place(json!({ "type": "InPlaceUpdate", "inPlaceUpdate": { "maxSurge": 2 } }), 3, None)]
#[case::beyond_that_of_an_update_in_place(json!({ "type": "InPlaceUpdate", "inPlaceUpdate": { "maxSurge": 2 } }), 4, Some("I7"))]
fn the_surge_is_that_of_the_strategy(#[case] strategy: Value, #[case] count: usize, #[case] violated: Option<&str>) {
    let story = Story::new().disturbed().apply(
        "MachineDeployment",
        with(sized(1), json!({ "spec": { "strategy": strategy } })),
    );
    let create = |story: Story, number| story.apply("Machine", member(&format!("m-{number}"), ""));
    (0..count).fold(story, create).after(LATER).violates(violated);
}

#[rstest]
#[case::it_runs(VmState::Running, Some("I7"))]
#[case::it_has_ended(VmState::Terminated, None)]
fn a_machine_whose_vm_has_ended_may_be_removed(#[case] state: VmState, #[case] violated: Option<&str>) {
    let Seen::Cloud(CloudEvent::Vm(vm)) = vm_of("b") else {
        unreachable!()
    };
    running(2, &["a", "b"])
        .observe(Seen::Cloud(CloudEvent::Vm(Vm { state, ..vm })))
        .apply("Machine", terminating("b"))
        .violates(violated);
}

#[rstest]
#[case::during_a_recreate("Recreate", true, None)]
#[case::before_a_recreate("Recreate", false, Some("I7"))]
#[case::of_a_rolling_update("RollingUpdate", true, Some("I7"))]
fn a_paused_recreate_deployment_scales_back_at_once(
    #[case] strategy: &str,
    #[case] paused: bool,
    #[case] violated: Option<&str>,
) {
    let of = |paused: bool| json!({ "spec": { "paused": paused, "strategy": { "type": strategy } } });
    running(2, &["a", "b"])
        .apply("MachineDeployment", with(sized(2), of(false)))
        .apply("Machine", terminating("a"))
        .apply("Machine", terminating("b"))
        .apply("MachineDeployment", with(sized(2), of(paused)))
        .apply("Machine", member("c", ""))
        .apply("Machine", member("d", ""))
        .after(LATER)
        .violates(violated);
}

#[rstest]
#[case::deleted_before(0, None)]
#[case::deleted_after(5, Some("I7"))]
fn the_deletion_of_a_machine_may_be_observed_after_the_creation_of_its_replacement(
    #[case] second: u64,
    #[case] violated: Option<&str>,
) {
    let created = json!({ "metadata": { "creationTimestamp": "1970-01-01T00:00:01Z" } });
    running(1, &["a", "b"])
        .apply("Machine", with(member("c", ""), created))
        .apply("Machine", with(member("a", "Running"), deleted_at(second)))
        .after(LATER)
        .violates(violated);
}
