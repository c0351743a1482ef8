//! What invariants allow beyond their plain statement, and where each allowance ends.

use mcm_api::keys;

use super::*;

/// A machine of the deployment `md` with a node and a VM of its own name.
pub(super) fn member(name: &str, phase: &str) -> Value {
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

/// Deployment `md` of that size, with a surge of one and none unavailable.
pub(super) fn sized(replicas: u32) -> Value {
    deployment(json!({ "spec": { "replicas": replicas } }))
}

/// A moment within one pass of a controller, and one beyond it.
pub(super) const SOON: Duration = Duration::from_secs(30);
pub(super) const LATER: Duration = Duration::from_secs(90);

/// A member of the set `ms`.
fn of_set(name: &str, phase: &str) -> Value {
    let owned =
        json!({ "metadata": { "ownerReferences": [{ "kind": "MachineSet", "name": "ms", "controller": true }] } });
    with(member(name, phase), owned)
}

pub(super) fn vm_of(name: &str) -> Seen {
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
    story.invariants.rules.deleted_by_user.insert(deleted);
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
#[case::a_person_removed_its_expiry(true, None)]
#[case::it_is_kept(false, Some("I5"))]
fn a_failed_machine_goes_when_a_person_ends_its_preservation(#[case] removed: bool, #[case] broken: Option<&str>) {
    let mut story = set_of_three(3);
    story.invariants.rules.ended_by_user.insert("b".to_owned());
    let expiry = json!({ "status": { "currentStatus": { "preserveExpiryTime": "1970-01-04T00:00:00Z" } } });
    let kept = with(of_set("b", "Failed:Preserved"), expiry);
    let edited = if removed {
        of_set("b", "Failed:Preserved")
    } else {
        kept.clone()
    };
    story
        .apply("Machine", kept)
        .apply("Machine", edited.clone())
        .apply("Machine", with(edited, deleted_at(0)))
        .breaks(broken);
}

#[rstest]
#[case::of_its_template(Some("false"), None)]
#[case::of_nobody(None, Some("I15"))]
fn a_template_may_let_cluster_autoscaler_in_in_the_midst_of_a_rollout(
    #[case] template: Option<&str>,
    #[case] broken: Option<&str>,
) {
    let wanted = json!({ "metadata": { "annotations": { keys::SCALE_DOWN_DISABLED_ANNOTATION: template } } });
    let machine = with(machine("Running"), json!({ "spec": { "nodeTemplate": wanted } }));
    let marked = json!({ "metadata": { "annotations": {
        keys::SCALE_DOWN_DISABLED_ANNOTATION: "false", keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION: "true",
    } } });
    Story::new()
        .apply("Machine", machine)
        .apply("Node", node(marked))
        .breaks(broken);
}

#[rstest]
#[case::it_was_read_now(0, None)]
#[case::it_was_read_earlier(1, Some("I15"))]
fn a_spec_that_nobody_saw_may_have_asked_for_it(#[case] second: u64, #[case] broken: Option<&str>) {
    let mut story = set_of_three(3);
    let now = story.now;
    story.invariants.rules.leapt.insert("ms".to_owned(), now);
    story
        .after(Duration::from_secs(second))
        .apply("Machine", with(of_set("b", "Running"), deleted_at(0)))
        .breaks(broken);
}

/// The set wants two of three; one goes for that, and later cluster-autoscaler names another one.
#[rstest]
#[case::in_the_place_of_that_one(SOON, Some("I15"))]
#[case::beside_it(LATER, None)]
fn who_is_named_goes_beyond_the_number(#[case] time: Duration, #[case] broken: Option<&str>) {
    let list =
        json!({ "metadata": { "annotations": { keys::TRIGGER_DELETION_ANNOTATION: "b~1970-01-01T00:00:00Z" } } });
    set_of_three(2)
        .apply("Machine", with(of_set("a", "Running"), deleted_at(0)))
        .after(time)
        .apply("MachineDeployment", with(deployment(json!({})), list))
        .apply("MachineDeployment", deployment(json!({})))
        .apply("Machine", with(of_set("b", "Running"), deleted_at(0)))
        .breaks(broken);
}

/// A machine fails after the health timeout, and a sibling was made so long ago and has no phase.
#[rstest]
#[case::a_moment(0, None)]
#[case::longer(2, Some("I12"))]
fn nobody_has_heard_of_a_machine_that_is_made_in_that_moment(#[case] second: u64, #[case] broken: Option<&str>) {
    let made = json!({ "metadata": { "creationTimestamp": "1970-01-01T00:10:00Z" }, "status": null });
    let story = Story::new().disturbed().apply("Machine", member("x", "Unknown"));
    story
        .after(Duration::from_mins(10))
        .apply("Machine", with(member("s", ""), made))
        .after(Duration::from_secs(second))
        .apply("Machine", member("x", "Failed"))
        .breaks(broken);
}

/// The number was one for a while, and is three again.
#[rstest]
#[case::to_whoever_has_not_heard_of_the_new_one(false, SOON, None)]
#[case::to_whoever_hears_at_once(true, SOON, Some("I15"))]
#[case::not_for_long(false, LATER, Some("I15"))]
fn the_smaller_number_of_before_is_an_order(#[case] calm: bool, #[case] time: Duration, #[case] broken: Option<&str>) {
    let written = |number: u32| json!({ "metadata": { "generation": number, "resourceVersion": number.to_string() } });
    let story = set_of_three(1)
        .apply("MachineSet", with(set(1), written(3)))
        .after(SOON)
        .apply("MachineSet", with(set(3), written(4)));
    let story = if calm { story.calm() } else { story };
    story
        .after(time)
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
