//! What invariants allow beyond their plain statement, and where each allowance ends.

use mcm_api::keys;

use super::*;

/// A machine of the deployment `md` with a node and a VM of its own name.
fn member(name: &str, phase: &str) -> Value {
    let own = json!({
        "metadata": { "name": name, "uid": name, "labels": { "name": "md", "node": name } },
        "spec": { "providerID": format!("fakecloud:///z/{name}") },
    });
    with(machine(phase), own)
}

/// The same, which entered its phase at that minute.
fn since(minute: u64, machine: Value) -> Value {
    let at = format!("1970-01-01T00:{minute:02}:00Z");
    with(
        machine,
        json!({ "status": { "currentStatus": { "lastUpdateTime": at } } }),
    )
}

#[rstest]
#[case::within_the_grace(13, "Unknown", None)]
#[case::failed_at_its_end(15, "Failed", None)]
#[case::failed_before_its_end(14, "Failed", Some("I13"))]
#[case::long_after_it(18, "Unknown", Some("I13"))]
fn a_machine_has_time_to_come_back_when_a_sibling_joined_for_which_it_waited(
    #[case] minute: u64,
    #[case] phase: &str,
    #[case] broken: Option<&str>,
) {
    let joined = json!({ "status": { "lastOperation": { "type": "Create" } } });
    Story::new()
        .disturbed()
        .apply("Machine", member("s", "Pending"))
        .apply("Machine", member("x", "Running"))
        .calm()
        .apply("Machine", since(0, member("x", "Unknown")))
        .after(minutes(12))
        .apply("Machine", since(12, with(member("s", "Running"), joined)))
        .after(minutes(minute - 12))
        .apply("Machine", since(0, member("x", phase)))
        .breaks(broken);
}

#[rstest]
#[case::at_once(12, None)]
#[case::much_later(18, Some("I13"))]
fn a_machine_fails_at_once_when_a_sibling_went_for_which_it_waited(#[case] minute: u64, #[case] broken: Option<&str>) {
    Story::new()
        .disturbed()
        .apply("Machine", member("s", "Pending"))
        .apply("Machine", member("x", "Running"))
        .calm()
        .apply("Machine", since(0, member("x", "Unknown")))
        .after(minutes(12))
        .delete("Machine", member("s", "Terminating"))
        .apply("Machine", since(0, member("x", "Unknown")))
        .after(minutes(minute - 12))
        .apply("Machine", since(0, member("x", "Failed")))
        .breaks(broken);
}

#[rstest]
#[case::a_write_that_was_held_up(Duration::from_secs(10), Duration::from_secs(590), None)]
#[case::before_its_timeout_from_the_moment_it_names(Duration::from_secs(10), Duration::from_secs(580), Some("I13"))]
#[case::a_moment_that_is_long_past(minutes(5), minutes(5), Some("I13"))]
fn the_health_timeout_counts_from_the_moment_that_the_status_names(
    #[case] held_up: Duration,
    #[case] unknown_for: Duration,
    #[case] broken: Option<&str>,
) {
    Story::new()
        .disturbed()
        .apply("Machine", member("x", "Running"))
        .after(held_up)
        .apply("Machine", since(0, member("x", "Unknown")))
        .after(unknown_for)
        .apply("Machine", since(0, member("x", "Failed")))
        .breaks(broken);
}

/// A moment within one pass of a controller, and one beyond it.
const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(90);

/// Deployment `md` of that size, with a surge of one and none unavailable.
fn sized(replicas: u32) -> Value {
    deployment(json!({ "spec": { "replicas": replicas } }))
}

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
    story.invariants.terms.deleted_by_user.insert(deleted);
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
        .see_with(call("DeleteMachine", ""), Some(None))
        .after(Duration::from_secs(1))
        .apply("Machine", with(machine(""), made))
        .breaks(broken);
}

/// A member of the set `ms`.
fn of_set(name: &str, phase: &str) -> Value {
    let owned =
        json!({ "metadata": { "ownerReferences": [{ "kind": "MachineSet", "name": "ms", "controller": true }] } });
    with(member(name, phase), owned)
}

fn vm_of(name: &str) -> Seen {
    Seen::Cloud(CloudEvent::Vm(Vm {
        id: name.to_owned(),
        machine: name.to_owned(),
        machine_uid: name.to_owned(),
        provider_id: format!("fakecloud:///z/{name}"),
        node: name.to_owned(),
        state: VmState::Running,
        revision: 1,
    }))
}

/// Set `ms` has that size and machines a, b and c, which were made under an older generation.
fn set_of_three(replicas: u32) -> Story {
    let generation = json!({ "metadata": { "generation": 2 } });
    let story = Story::new().disturbed().apply("MachineSet", set(3));
    let made = ["a", "b", "c"].iter().fold(story, |story, name| {
        story.see(vm_of(name)).apply("Machine", of_set(name, "Running"))
    });
    made.apply("MachineSet", with(set(replicas), generation))
}

#[rstest]
#[case::within_a_pass(SOON, None)]
#[case::after_it(LATER, Some("I15"))]
fn machines_that_went_by_themselves_count_for_a_pass(#[case] time: Duration, #[case] broken: Option<&str>) {
    let taken = |name| with(of_set(name, "Running"), deleted_at(0));
    let mut story = set_of_three(2);
    let deleted = ("Machine".to_owned(), "a".to_owned());
    story.invariants.terms.deleted_by_user.insert(deleted);
    story
        .apply("Machine", taken("a"))
        .after(time)
        .apply("Machine", taken("b"))
        .breaks(broken);
}

#[rstest]
#[case::one_that_failed(with(of_set("b", "Failed"), deleted_at(0)), true, None)]
#[case::one_without_a_vm(with(of_set("b", "Running"), deleted_at(0)), false, None)]
#[case::one_that_serves(with(of_set("b", "Running"), deleted_at(0)), true, Some("I15"))]
fn what_serves_nobody_goes_without_being_asked_for(
    #[case] gone: Value,
    #[case] vm: bool,
    #[case] broken: Option<&str>,
) {
    let story = set_of_three(3);
    let story = if vm {
        story
    } else {
        let Seen::Cloud(CloudEvent::Vm(vm)) = vm_of("b") else {
            unreachable!()
        };
        let ended = Vm {
            state: VmState::Terminated,
            revision: 2,
            ..vm
        };
        story.see(Seen::Cloud(CloudEvent::Vm(ended)))
    };
    story.apply("Machine", gone).breaks(broken);
}

#[rstest]
#[case::it_was_read_now(0, None)]
#[case::it_was_read_earlier(1, Some("I15"))]
fn a_spec_that_nobody_saw_may_have_asked_for_it(#[case] second: u64, #[case] broken: Option<&str>) {
    let mut story = set_of_three(3);
    let now = story.now;
    story.invariants.terms.leapt.insert("ms".to_owned(), now);
    story
        .after(Duration::from_secs(second))
        .apply("Machine", with(of_set("b", "Running"), deleted_at(0)))
        .breaks(broken);
}

#[rstest]
#[case::before_anybody_can_know(SOON, None)]
#[case::for_long(LATER, Some("I15"))]
fn a_priority_counts_when_it_can_be_known(#[case] time: Duration, #[case] broken: Option<&str>) {
    let first = json!({ "metadata": { "annotations": { keys::PRIORITY_ANNOTATION: "1" } } });
    set_of_three(2)
        .calm()
        .apply("Machine", with(of_set("a", "Running"), first))
        .after(time)
        .apply("Machine", with(of_set("b", "Running"), deleted_at(0)))
        .breaks(broken);
}

#[rstest]
#[case::paused(json!({ "spec": { "paused": true } }), "8", None)]
#[case::told_late_of_what_was_before(json!({}), "6", None)]
#[case::it_rolls_out(json!({}), "8", Some("I15"))]
fn a_set_of_an_older_template_grows_while_its_deployment_is_paused_or_seems_to(
    #[case] change: Value,
    #[case] version: &str,
    #[case] broken: Option<&str>,
) {
    let class = |name: &str| json!({ "spec": { "template": { "spec": { "class": { "name": name } } } } });
    let old = |replicas, version: &str| {
        let owned = json!({ "metadata": {
            "resourceVersion": version,
            "ownerReferences": [{ "kind": "MachineDeployment", "name": "md", "controller": true }],
        } });
        with(with(set(replicas), class("old")), owned)
    };
    Story::new()
        .apply("MachineDeployment", with(with(sized(1), class("new")), change))
        .apply("MachineSet", old(1, "7"))
        .after(LATER)
        .apply("MachineSet", old(2, version))
        .breaks(broken);
}

#[rstest]
#[case::none_changed("machinesets", 30, None, None)]
#[case::none_changed_and_one_more("machinesets", 31, None, Some("I18"))]
#[case::one_changed("machinesets", 38, Some(0), None)]
#[case::one_changed_and_one_more("machinesets", 39, Some(0), Some("I18"))]
#[case::one_changed_long_ago("machinesets", 31, Some(61), Some("I18"))]
#[case::it_is_no_owner("machines", 31, Some(0), Some("I18"))]
fn a_set_may_be_asked_for_more_often_for_each_change_of_its_machines(
    #[case] resource: &str,
    #[case] count: usize,
    #[case] changed: Option<u64>,
    #[case] broken: Option<&str>,
) {
    let story = Story::new().disturbed();
    let story = match changed {
        Some(seconds) => story
            .apply("Machine", of_set("a", "Running"))
            .after(Duration::from_secs(seconds)),
        None => story,
    };
    let ask = |story: Story, _| story.see(request("patch", resource, "ms"));
    (0..count).fold(story, ask).breaks(broken);
}

#[rstest]
#[case::it_has_the_label_of_its_deployment(false)]
#[case::somebody_took_it(true)]
fn vms_count_for_the_deployment_that_they_were_made_for(#[case] stripped: bool) {
    let story = Story::new().disturbed().apply("MachineDeployment", sized(1));
    let make = |story: Story, number: usize| {
        let name = format!("m-{number}");
        let story = story.apply(
            "Machine",
            with(member(&name, ""), json!({ "metadata": { "labels": { "node": "" } } })),
        );
        let story = if stripped {
            let gone = json!({ "metadata": { "labels": { "name": "" } } });
            story.apply("Machine", with(member(&name, ""), gone))
        } else {
            story.apply("Machine", with(member(&name, ""), deleted_at(0)))
        };
        let Seen::Cloud(CloudEvent::Vm(vm)) = vm_of(&name) else {
            unreachable!()
        };
        let state = VmState::Pending;
        story.see(Seen::Cloud(CloudEvent::Vm(Vm { state, ..vm })))
    };
    let story = (0..3).fold(story, make);
    // Those that are deleted were lost, which asks for others.
    let found = story.found.is_some_and(|violation| violation.invariant == "I9");
    assert_eq!(found, stripped);
}

#[rstest]
#[case::before_the_freeze("6", None, None)]
#[case::in_it("8", None, Some("I8"))]
#[case::after_it("10", Some("9"), None)]
#[case::before_its_end("8", Some("9"), Some("I8"))]
fn when_a_machine_was_made_its_version_says(
    #[case] version: &str,
    #[case] thawed: Option<&str>,
    #[case] broken: Option<&str>,
) {
    let of = |freeze: &str, version: &str| {
        let change = json!({ "metadata": { "labels": { "freeze": freeze }, "resourceVersion": version } });
        with(set(1), change)
    };
    let made = json!({ "metadata": { "resourceVersion": version } });
    let story = Story::new()
        .disturbed()
        .apply("MachineSet", of("True", "7"))
        .apply("Machine", with(of_set("a", ""), made));
    let story = match thawed {
        Some(version) => story.apply("MachineSet", of("", version)),
        None => story,
    };
    story.after(Duration::from_secs(2)).breaks(broken);
}

#[rstest]
#[case::it_was_updated_in_place("successful", None)]
#[case::it_was_not("", Some("I10"))]
fn a_node_that_was_updated_in_place_takes_pods_again(#[case] result: &str, #[case] broken: Option<&str>) {
    let cordoned = |cordoned: bool| {
        let labels = json!({ keys::UPDATE_RESULT_LABEL: if cordoned { result } else { "" } });
        node(json!({ "metadata": { "labels": labels }, "spec": { "unschedulable": cordoned } }))
    };
    Story::new()
        .disturbed()
        .vm("a", VmState::Running)
        .apply("Machine", machine("Running"))
        .apply("Node", cordoned(true))
        .apply("Node", cordoned(false))
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
#[case::before_its_set_was_lowered("6", false, SOON, None)]
#[case::after_that("8", false, SOON, Some("I15"))]
#[case::its_request_took_long("8", true, SOON, None)]
#[case::no_request_takes_that_long("8", true, LATER, Some("I15"))]
fn for_what_a_machine_was_made_its_version_says(
    #[case] version: &str,
    #[case] slow: bool,
    #[case] time: Duration,
    #[case] broken: Option<&str>,
) {
    let of = |replicas, generation: u32, version: &str| {
        let change = json!({ "metadata": { "generation": generation, "resourceVersion": version } });
        with(set(replicas), change)
    };
    let made = json!({ "metadata": { "resourceVersion": version } });
    let story = Story::new()
        .see(vm_of("a"))
        .apply("MachineSet", of(1, 1, "5"))
        .apply("MachineSet", of(0, 2, "7"));
    let story = if slow { story.disturbed() } else { story };
    story
        .after(time)
        .apply("Machine", with(of_set("a", "Running"), made))
        .apply("Machine", with(of_set("a", "Running"), deleted_at(0)))
        .breaks(broken);
}
