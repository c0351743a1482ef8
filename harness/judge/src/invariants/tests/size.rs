//! I7, the size of a deployment: what it allows beyond its plain statement, and where each allowance ends.

use mcm_api::keys;

use super::allowances::{LATER, SOON, member, sized, vm_of};
use super::*;

/// A member that is being deleted.
fn going(name: &str) -> Value {
    with(member(name, "Running"), deleted_at(0))
}

/// A story of deployment `md` with these members, all Running.
fn running(replicas: u32, names: &[&str]) -> Story {
    let story = Story::new().disturbed().apply("MachineDeployment", sized(replicas));
    names
        .iter()
        .fold(story, |story, name| story.apply("Machine", member(name, "Running")))
}

fn by_person(mut story: Story, name: &str) -> Story {
    let deleted = ("Machine".to_owned(), name.to_owned());
    story.invariants.rules.deleted_by_user.insert(deleted);
    story.apply("Machine", going(name))
}

#[rstest]
#[case::nothing_failed(&[], Some("I7"))]
#[case::one_has_failed(&["Failed"], None)]
#[case::one_was_unknown(&["Unknown", "Running"], None)]
#[case::one_did_not_come_up(&["CrashLoopBackOff", "Running"], None)]
fn machines_that_go_count_until_one_fails(#[case] phases: &[&str], #[case] broken: Option<&str>) {
    let story = Story::new()
        .disturbed()
        .apply("MachineDeployment", sized(1))
        .apply("Machine", going("a"))
        .apply("Machine", member("b", "Running"));
    let story = phases
        .iter()
        .fold(story, |story, phase| story.apply("Machine", member("b", phase)));
    story.apply("Machine", member("c", "")).after(LATER).breaks(broken);
}

#[test]
fn machines_that_a_person_deletes_are_replaced_at_once() {
    let story = by_person(by_person(running(2, &["a", "b"]), "a"), "b");
    story
        .apply("Machine", member("c", ""))
        .apply("Machine", member("d", ""))
        .breaks(None);
}

#[rstest]
#[case::it_was_gone(VmState::Terminated, None)]
#[case::it_ran(VmState::Running, Some("I7"))]
fn a_machine_whose_vm_others_deleted_is_replaced_at_once(#[case] state: VmState, #[case] broken: Option<&str>) {
    running(2, &["m", "b", "c"])
        .vm("a", VmState::Running)
        .vm("a", state)
        .apply("Machine", going("m"))
        .apply("Machine", member("d", ""))
        .after(LATER)
        .breaks(broken);
}

#[rstest]
#[case::another_one_of_theirs("x", None)]
#[case::one_more_of_the_controllers("c", Some("I7"))]
fn machines_that_a_person_makes_are_not_the_controllers(#[case] name: &str, #[case] broken: Option<&str>) {
    running(1, &["a", "b"])
        .touched("Machine", "x")
        .apply("Machine", member(name, ""))
        .after(LATER)
        .breaks(broken);
}

#[rstest]
#[case::within_a_pass(SOON, None)]
#[case::after_it(LATER, Some("I7"))]
fn an_order_of_before_a_change_may_be_carried_out_for_a_pass(#[case] time: Duration, #[case] broken: Option<&str>) {
    running(1, &["a", "b"])
        .apply("MachineDeployment", sized(2))
        .after(time)
        .apply("Machine", going("b"))
        .breaks(broken);
}

#[rstest]
#[case::within_a_pass(SOON, None)]
#[case::after_it(LATER, Some("I7"))]
fn machines_that_a_person_took_count_for_a_pass(#[case] time: Duration, #[case] broken: Option<&str>) {
    by_person(running(2, &["a", "b", "c"]), "b")
        .after(time)
        .apply("Machine", going("c"))
        .breaks(broken);
}

#[rstest]
#[case::within_a_pass("Failed:Preserved", SOON, None)]
#[case::after_it("Failed:Preserved", LATER, Some("I7"))]
#[case::one_that_was_not_kept("Failed", SOON, Some("I7"))]
fn failed_machines_that_were_kept_count_for_a_pass_after_they_went(
    #[case] phase: &str,
    #[case] time: Duration,
    #[case] broken: Option<&str>,
) {
    let expiry = phase.ends_with("Preserved").then_some("1970-01-01T00:00:00Z");
    let failed = json!({ "status": { "currentStatus": { "phase": phase, "preserveExpiryTime": expiry } } });
    running(2, &["a", "b", "c"])
        .apply("Machine", with(member("b", phase), failed.clone()))
        .apply("Machine", with(going("b"), failed))
        .after(time)
        .apply("Machine", going("c"))
        .breaks(broken);
}

#[rstest]
#[case::kept("1970-01-04T00:00:00Z", None)]
#[case::not_kept("", Some("I7"))]
fn a_machine_that_is_kept_before_it_has_joined_stays_before_others(#[case] expiry: &str, #[case] broken: Option<&str>) {
    let kept = json!({ "status": { "currentStatus": { "preserveExpiryTime": expiry } } });
    running(1, &["a"])
        .apply("Machine", with(member("b", "Pending"), kept))
        .apply("Machine", going("a"))
        .breaks(broken);
}

#[rstest]
#[case::it_is_named("b~1970-01-01T00:00:00Z", None)]
#[case::another_one_is("c~1970-01-01T00:00:00Z", Some("I7"))]
fn a_machine_that_cluster_autoscaler_names_may_be_missed(#[case] list: &str, #[case] broken: Option<&str>) {
    let named = json!({ "metadata": { "annotations": { keys::TRIGGER_DELETION_ANNOTATION: list } } });
    running(2, &["a", "b"])
        .apply("MachineDeployment", with(sized(2), named))
        .apply("Machine", going("b"))
        .breaks(broken);
}

#[rstest]
#[case::within_a_pass(SOON, None)]
#[case::after_it(LATER, Some("I7"))]
fn a_machine_may_be_missed_that_cluster_autoscaler_named_a_moment_ago(
    #[case] time: Duration,
    #[case] broken: Option<&str>,
) {
    let named =
        json!({ "metadata": { "annotations": { keys::TRIGGER_DELETION_ANNOTATION: "b~1970-01-01T00:00:00Z" } } });
    running(2, &["a", "b"])
        .apply("MachineDeployment", with(sized(2), named))
        .apply("MachineDeployment", sized(2))
        .after(time)
        .apply("Machine", going("b"))
        .breaks(broken);
}

#[test]
fn a_failed_machine_is_lost_also_when_a_person_removed_its_expiry() {
    let mut story = running(1, &["a"]);
    story.invariants.rules.ended_by_user.insert("b".to_owned());
    let kept = json!({ "status": { "currentStatus": { "preserveExpiryTime": "1970-01-04T00:00:00Z" } } });
    story
        .apply("Machine", with(member("b", "Failed:Preserved"), kept))
        .apply("Machine", member("b", "Failed:Preserved"))
        .apply("Machine", going("a"))
        .breaks(None);
}

#[rstest]
#[case::a_rollout(json!({}), Some("I7"))]
#[case::all_at_once(json!({ "spec": { "strategy": { "type": "Recreate" } } }), None)]
#[case::it_goes(deleted_at(0), None)]
fn nothing_need_be_available_where_nothing_is_promised(#[case] change: Value, #[case] broken: Option<&str>) {
    running(1, &["a"])
        .apply("MachineDeployment", with(sized(1), change))
        .apply("Machine", going("a"))
        .breaks(broken);
}

fn lease(holder: &str) -> Value {
    json!({
        "metadata": { "name": "machine-controller-manager" },
        "spec": { "holderIdentity": holder, "renewTime": "1970-01-01T00:00:00.000000Z", "leaseDurationSeconds": 3600 },
    })
}

#[rstest]
#[case::one_that_was_there("mcm-0_1", SOON, Some("I7"))]
#[case::a_new_one("mcm-1_1", SOON, None)]
#[case::one_that_is_not_new_any_more("mcm-1_1", LATER, Some("I7"))]
fn a_new_leader_may_work_on_sets_of_before_a_change_for_a_pass(
    #[case] leader: &str,
    #[case] time: Duration,
    #[case] broken: Option<&str>,
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
    story.apply("Machine", member("c", "")).breaks(broken);
}

/// What a deployment says that it has seen of its spec.
fn observed(generation: u32, observed: u32) -> Value {
    json!({ "metadata": { "generation": generation }, "status": { "observedGeneration": observed } })
}

#[rstest]
#[case::it_was_kept_from_it(false, 1, SOON, None)]
#[case::it_was_kept_from_it_for_long(false, 1, LATER, None)]
#[case::it_says_that_it_has(false, 2, SOON, Some("I7"))]
#[case::a_pass_after_the_calm_began(true, 1, SOON, None)]
#[case::longer_than_that(true, 1, LATER, Some("I7"))]
fn a_number_of_before_holds_until_mcm_can_have_seen_the_new_one(
    #[case] calm: bool,
    #[case] seen: u32,
    #[case] time: Duration,
    #[case] broken: Option<&str>,
) {
    let story = Story::new()
        .disturbed()
        .apply("MachineDeployment", with(sized(3), observed(1, 1)))
        .apply("Machine", member("a", "Running"))
        .after(Duration::from_secs(1))
        .apply("MachineDeployment", with(sized(1), observed(2, seen)))
        .after(Duration::from_secs(1));
    let story = if calm { story.calm() } else { story };
    let story = story.after(time).apply("Machine", member("b", ""));
    story.apply("Machine", member("c", "")).after(LATER).breaks(broken);
}

/// Written at that resourceVersion.
fn at(revision: u32, object: Value) -> Value {
    with(
        object,
        json!({ "metadata": { "resourceVersion": revision.to_string() } }),
    )
}

#[rstest]
#[case::made_before_it_said_so(8, SOON, None)]
#[case::asked_for_before_it_said_so(12, Duration::from_secs(1), None)]
#[case::made_after(12, Duration::from_secs(2), Some("I7"))]
fn what_was_made_before_mcm_knew_of_a_new_number_may_be_seen_later(
    #[case] made: u32,
    #[case] time: Duration,
    #[case] broken: Option<&str>,
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
        .apply("Machine", at(made, member("c", "")))
        .after(LATER)
        .breaks(broken);
}

#[rstest]
#[case::in_time(SOON, None)]
#[case::for_long(LATER, Some("I7"))]
fn what_a_strategy_of_before_allowed_may_still_be_carried_out(#[case] time: Duration, #[case] broken: Option<&str>) {
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
        .breaks(broken);
}

#[rstest]
#[case::it_was_written_before(8, None)]
#[case::it_was_written_after(12, Some("I7"))]
fn a_new_number_may_be_seen_after_a_machine_that_it_allows(#[case] written: u32, #[case] broken: Option<&str>) {
    Story::new()
        .disturbed()
        .apply("MachineDeployment", at(1, with(sized(1), observed(1, 1))))
        .apply("Machine", at(2, member("a", "Running")))
        .apply("Machine", at(3, member("b", "Running")))
        .apply("Machine", at(10, member("c", "")))
        .apply("MachineDeployment", at(written, with(sized(2), observed(2, 2))))
        .after(LATER)
        .breaks(broken);
}

#[rstest]
#[case::mcm_does_not_know(1, None)]
#[case::mcm_knows(2, Some("I7"))]
fn machines_that_go_count_against_a_surge_that_mcm_knows(#[case] seen: u32, #[case] broken: Option<&str>) {
    let surge = |surge: u32| json!({ "spec": { "strategy": { "rollingUpdate": { "maxSurge": surge } } } });
    Story::new()
        .disturbed()
        .apply("MachineDeployment", with(with(sized(2), surge(2)), observed(1, 1)))
        .apply("Machine", going("a"))
        .apply("Machine", member("b", "Running"))
        .apply("Machine", member("c", "Running"))
        .apply("MachineDeployment", with(with(sized(2), surge(1)), observed(2, seen)))
        .apply("Machine", member("d", ""))
        .after(LATER)
        .breaks(broken);
}

#[rstest]
#[case::a_person_prefers_it(true, "1", None)]
#[case::a_person_touched_it(true, "3", Some("I7"))]
#[case::a_controller_prefers_it(false, "1", Some("I7"))]
fn a_machine_that_a_person_prefers_may_be_missed(
    #[case] by_person: bool,
    #[case] priority: &str,
    #[case] broken: Option<&str>,
) {
    let preferred = json!({ "metadata": { "annotations": { keys::PRIORITY_ANNOTATION: priority } } });
    let story = running(2, &["a", "b"]);
    let story = if by_person {
        story.touched("Machine", "b")
    } else {
        story
    };
    story.apply("Machine", with(going("b"), preferred)).breaks(broken);
}

#[rstest]
#[case::lately(minutes(1), None)]
#[case::long_ago(minutes(11), Some("I9"))]
fn vms_that_were_ordered_before_the_number_fell_may_be_made(#[case] time: Duration, #[case] broken: Option<&str>) {
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
        .see(Seen::Cloud(CloudEvent::Vm(Vm { state, ..vm })))
        .breaks(broken);
}

#[rstest]
#[case::it_was_made_before(0, None)]
#[case::it_was_made_again(2, Some("I3"))]
fn a_machine_may_be_seen_when_it_is_gone_with_its_vm(#[case] second: u32, #[case] broken: Option<&str>) {
    let made = json!({ "metadata": { "creationTimestamp": format!("1970-01-01T00:00:{second:02}Z") } });
    Story::new()
        .disturbed()
        .after(Duration::from_secs(1))
        .see_with(call("DeleteMachine", ""), &ServerTruth::Gone)
        .after(Duration::from_secs(1))
        .apply("Machine", with(machine(""), made))
        .breaks(broken);
}

#[rstest]
#[case::of_a_rolling_update(json!({ "type": "RollingUpdate" }), 3, Some("I7"))]
#[case::of_an_update_in_place(json!({ "type": "InPlaceUpdate", "inPlaceUpdate": { "maxSurge": 2 } }), 3, None)]
#[case::beyond_that_of_an_update_in_place(json!({ "type": "InPlaceUpdate", "inPlaceUpdate": { "maxSurge": 2 } }), 4, Some("I7"))]
fn the_surge_is_that_of_the_strategy(#[case] strategy: Value, #[case] count: usize, #[case] broken: Option<&str>) {
    let story = Story::new().disturbed().apply(
        "MachineDeployment",
        with(sized(1), json!({ "spec": { "strategy": strategy } })),
    );
    let make = |story: Story, number| story.apply("Machine", member(&format!("m-{number}"), ""));
    (0..count).fold(story, make).after(LATER).breaks(broken);
}

#[rstest]
#[case::it_runs(VmState::Running, Some("I7"))]
#[case::it_has_ended(VmState::Terminated, None)]
fn a_machine_whose_vm_has_ended_is_not_missed(#[case] state: VmState, #[case] broken: Option<&str>) {
    let Seen::Cloud(CloudEvent::Vm(vm)) = vm_of("b") else {
        unreachable!()
    };
    running(2, &["a", "b"])
        .see(Seen::Cloud(CloudEvent::Vm(Vm { state, ..vm })))
        .apply("Machine", going("b"))
        .breaks(broken);
}

#[rstest]
#[case::in_the_midst_of_recreate("Recreate", true, None)]
#[case::before_it("Recreate", false, Some("I7"))]
#[case::of_a_rolling_update("RollingUpdate", true, Some("I7"))]
fn a_deployment_that_is_paused_gets_its_number_back_at_once(
    #[case] strategy: &str,
    #[case] paused: bool,
    #[case] broken: Option<&str>,
) {
    let of = |paused: bool| json!({ "spec": { "paused": paused, "strategy": { "type": strategy } } });
    running(2, &["a", "b"])
        .apply("MachineDeployment", with(sized(2), of(false)))
        .apply("Machine", going("a"))
        .apply("Machine", going("b"))
        .apply("MachineDeployment", with(sized(2), of(paused)))
        .apply("Machine", member("c", ""))
        .apply("Machine", member("d", ""))
        .after(LATER)
        .breaks(broken);
}

#[rstest]
#[case::it_was_ordered_away_before(0, None)]
#[case::after_that(5, Some("I7"))]
fn a_machine_may_be_seen_to_go_after_the_one_that_was_made_for_it(#[case] second: u64, #[case] broken: Option<&str>) {
    let made = json!({ "metadata": { "creationTimestamp": "1970-01-01T00:00:01Z" } });
    running(1, &["a", "b"])
        .apply("Machine", with(member("c", ""), made))
        .apply("Machine", with(member("a", "Running"), deleted_at(second)))
        .after(LATER)
        .breaks(broken);
}
