//! Allowances of invariants beyond their plain statement, and where each allowance ends.

use mcm_api::keys;

use super::*;

/// A machine of the deployment `md` whose node and VM have its name.
pub(super) fn member(name: &str, phase: &str) -> Value {
    let own = json!({
        "metadata": { "name": name, "uid": name, "labels": { "name": "md", "node": name } },
        "spec": { "providerID": format!("fakecloud:///z/{name}") },
    });
    with(machine(phase), own)
}

/// The machine, in its phase since that minute.
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
#[case::long_after_the_grace(18, "Unknown", Some("I13"))]
fn a_machine_has_time_to_recover_after_the_sibling_that_it_waited_for_joined(
    #[case] minute: u64,
    #[case] phase: &str,
    #[case] violated: Option<&str>,
) {
    let joined = json!({ "status": { "lastOperation": { "type": "Create" } } });
    Story::new()
        .disturbed()
        .apply("Machine", member("s", "Pending"))
        .apply("Machine", member("x", "Running"))
        .undisturbed()
        .apply("Machine", since(0, member("x", "Unknown")))
        .after(minutes(12))
        .apply("Machine", since(12, with(member("s", "Running"), joined)))
        .after(minutes(minute - 12))
        .apply("Machine", since(0, member("x", phase)))
        .violates(violated);
}

#[rstest]
#[case::at_once(12, None)]
#[case::much_later(18, Some("I13"))]
fn a_machine_fails_at_once_after_the_sibling_that_it_waited_for_was_removed(
    #[case] minute: u64,
    #[case] violated: Option<&str>,
) {
    Story::new()
        .disturbed()
        .apply("Machine", member("s", "Pending"))
        .apply("Machine", member("x", "Running"))
        .undisturbed()
        .apply("Machine", since(0, member("x", "Unknown")))
        .after(minutes(12))
        .delete("Machine", member("s", "Terminating"))
        .apply("Machine", since(0, member("x", "Unknown")))
        .after(minutes(minute - 12))
        .apply("Machine", since(0, member("x", "Failed")))
        .violates(violated);
}

#[rstest]
#[case::a_delayed_write(Duration::from_secs(10), Duration::from_secs(590), None)]
#[case::before_the_timeout_from_the_time_in_the_status(Duration::from_secs(10), Duration::from_secs(580), Some("I13"))]
#[case::a_time_long_past(minutes(5), minutes(5), Some("I13"))]
fn the_health_timeout_counts_from_the_time_in_the_status(
    #[case] delay: Duration,
    #[case] unknown_for: Duration,
    #[case] violated: Option<&str>,
) {
    Story::new()
        .disturbed()
        .apply("Machine", member("x", "Running"))
        .after(delay)
        .apply("Machine", since(0, member("x", "Unknown")))
        .after(unknown_for)
        .apply("Machine", since(0, member("x", "Failed")))
        .violates(violated);
}

/// Deployment `md` of that size, with a surge of one and none unavailable.
pub(super) fn sized(replicas: u32) -> Value {
    deployment(json!({ "spec": { "replicas": replicas } }))
}

/// Within one pass of a controller, and after it.
pub(super) const SOON: Duration = Duration::from_secs(30);
pub(super) const LATER: Duration = Duration::from_secs(90);

/// A machine of the set `ms`.
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

/// Set `ms` with that size and machines a, b and c, which were created under an older generation.
fn set_of_three(replicas: u32) -> Story {
    let generation = json!({ "metadata": { "generation": 2 } });
    let story = Story::new().disturbed().apply("MachineSet", set(3));
    let created = ["a", "b", "c"].iter().fold(story, |story, name| {
        story.observe(vm_of(name)).apply("Machine", of_set(name, "Running"))
    });
    created.apply("MachineSet", with(set(replicas), generation))
}

#[rstest]
#[case::within_a_pass(SOON, None)]
#[case::after_it(LATER, Some("I15"))]
fn machines_that_the_set_did_not_remove_count_for_a_pass(#[case] time: Duration, #[case] violated: Option<&str>) {
    let deleting = |name| with(of_set(name, "Running"), deleted_at(0));
    let mut story = set_of_three(2);
    let deleted = ("Machine".to_owned(), "a".to_owned());
    story.invariants.rules.deleted_by_user.insert(deleted);
    story
        .apply("Machine", deleting("a"))
        .after(time)
        .apply("Machine", deleting("b"))
        .violates(violated);
}

#[rstest]
#[case::failed(with(of_set("b", "Failed"), deleted_at(0)), true, None)]
#[case::running_before_a_relist(with(of_set("b", "Terminating"), deleted_at(0)), true, Some("I15"))]
#[case::without_a_vm(with(of_set("b", "Running"), deleted_at(0)), false, None)]
#[case::running(with(of_set("b", "Running"), deleted_at(0)), true, Some("I15"))]
fn a_machine_that_failed_or_lost_its_vm_is_removed_without_a_request(
    #[case] removed: Value,
    #[case] vm: bool,
    #[case] violated: Option<&str>,
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
        story.observe(Seen::Cloud(CloudEvent::Vm(ended)))
    };
    story.apply("Machine", removed).violates(violated);
}

#[rstest]
#[case::a_user_removed_its_expiry(true, None)]
#[case::it_is_preserved(false, Some("I5"))]
fn a_failed_machine_is_removed_when_a_user_ends_its_preservation(
    #[case] removed: bool,
    #[case] violated: Option<&str>,
) {
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
        .violates(violated);
}

#[rstest]
#[case::of_the_template(Some("false"), None)]
#[case::of_no_template(None, Some("I15"))]
fn a_template_may_enable_scale_down_during_a_rollout(#[case] template: Option<&str>, #[case] violated: Option<&str>) {
    let wanted = json!({ "metadata": { "annotations": { keys::SCALE_DOWN_DISABLED_ANNOTATION: template } } });
    let machine = with(machine("Running"), json!({ "spec": { "nodeTemplate": wanted } }));
    let marked = json!({ "metadata": { "annotations": {
        keys::SCALE_DOWN_DISABLED_ANNOTATION: "false", keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION: "true",
    } } });
    Story::new()
        .apply("Machine", machine)
        .apply("Node", node(marked))
        .violates(violated);
}

#[rstest]
#[case::it_was_read_now(0, None)]
#[case::it_was_read_earlier(1, Some("I15"))]
fn a_spec_change_that_no_watch_delivered_may_have_requested_the_removal(
    #[case] second: u64,
    #[case] violated: Option<&str>,
) {
    let mut story = set_of_three(3);
    let now = story.now;
    story.invariants.rules.skipped_changes.insert("ms".to_owned(), now);
    story
        .after(Duration::from_secs(second))
        .apply("Machine", with(of_set("b", "Running"), deleted_at(0)))
        .violates(violated);
}

/// The set has three machines and two replicas; one machine is removed, and later cluster-autoscaler lists another one.
#[rstest]
#[case::instead_of_the_first(SOON, Some("I15"))]
#[case::in_addition(LATER, None)]
fn a_listed_machine_may_be_removed_in_addition_to_a_scale_down(#[case] time: Duration, #[case] violated: Option<&str>) {
    let list =
        json!({ "metadata": { "annotations": { keys::TRIGGER_DELETION_ANNOTATION: "b~1970-01-01T00:00:00Z" } } });
    set_of_three(2)
        .apply("Machine", with(of_set("a", "Running"), deleted_at(0)))
        .after(time)
        .apply("MachineDeployment", with(deployment(json!({})), list))
        .apply("MachineDeployment", deployment(json!({})))
        .apply("Machine", with(of_set("b", "Running"), deleted_at(0)))
        .violates(violated);
}

/// A machine fails after the health timeout; a sibling was created that long ago and has no phase.
#[rstest]
#[case::at_that_moment(0, None)]
#[case::longer(2, Some("I12"))]
fn a_sibling_that_was_just_created_does_not_count(#[case] second: u64, #[case] violated: Option<&str>) {
    let created = json!({ "metadata": { "creationTimestamp": "1970-01-01T00:10:00Z" }, "status": null });
    let story = Story::new().disturbed().apply("Machine", member("x", "Unknown"));
    story
        .after(Duration::from_mins(10))
        .apply("Machine", with(member("s", ""), created))
        .after(Duration::from_secs(second))
        .apply("Machine", member("x", "Failed"))
        .violates(violated);
}

/// The size was one for some time, and is three again.
#[rstest]
#[case::while_watches_may_lag(false, SOON, None)]
#[case::without_watch_lag(true, SOON, Some("I15"))]
#[case::only_for_a_pass(false, LATER, Some("I15"))]
fn the_previous_smaller_size_is_a_legal_request_while_watches_lag(
    #[case] undisturbed: bool,
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let written = |number: u32| json!({ "metadata": { "generation": number, "resourceVersion": number.to_string() } });
    let story = set_of_three(1)
        .apply("MachineSet", with(set(1), written(3)))
        .after(SOON)
        .apply("MachineSet", with(set(3), written(4)));
    let story = if undisturbed { story.undisturbed() } else { story };
    story
        .after(time)
        .apply("Machine", with(of_set("b", "Running"), deleted_at(0)))
        .violates(violated);
}

#[rstest]
#[case::within_a_pass(SOON, None)]
#[case::for_long(LATER, Some("I15"))]
fn a_priority_counts_after_a_pass(#[case] time: Duration, #[case] violated: Option<&str>) {
    let first = json!({ "metadata": { "annotations": { keys::PRIORITY_ANNOTATION: "1" } } });
    set_of_three(2)
        .undisturbed()
        .apply("Machine", with(of_set("a", "Running"), first))
        .after(time)
        .apply("Machine", with(of_set("b", "Running"), deleted_at(0)))
        .violates(violated);
}

#[rstest]
#[case::paused(json!({ "spec": { "paused": true } }), "8", None)]
#[case::delivered_late(json!({}), "6", None)]
#[case::it_rolls_out(json!({}), "8", Some("I15"))]
fn a_set_of_an_older_template_may_grow_while_its_deployment_is_paused_or_by_a_late_event(
    #[case] change: Value,
    #[case] version: &str,
    #[case] violated: Option<&str>,
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
        .violates(violated);
}

#[rstest]
#[case::none_changed("machinesets", 30, None, None)]
#[case::none_changed_and_one_more("machinesets", 31, None, Some("I18"))]
#[case::one_changed("machinesets", 38, Some(0), None)]
#[case::one_changed_and_one_more("machinesets", 39, Some(0), Some("I18"))]
#[case::one_changed_long_ago("machinesets", 31, Some(61), Some("I18"))]
#[case::it_is_no_owner("machines", 31, Some(0), Some("I18"))]
fn a_set_may_get_more_requests_for_each_change_of_its_machines(
    #[case] resource: &str,
    #[case] count: usize,
    #[case] changed: Option<u64>,
    #[case] violated: Option<&str>,
) {
    let story = Story::new().disturbed();
    let story = match changed {
        Some(seconds) => story
            .apply("Machine", of_set("a", "Running"))
            .after(Duration::from_secs(seconds)),
        None => story,
    };
    let patch = |story: Story, _| story.observe(request("patch", resource, "ms"));
    (0..count).fold(story, patch).violates(violated);
}

#[rstest]
#[case::it_has_the_label(false)]
#[case::the_label_was_removed(true)]
fn vms_count_for_the_deployment_that_they_were_created_for(#[case] stripped: bool) {
    let story = Story::new().disturbed().apply("MachineDeployment", sized(1));
    let create = |story: Story, number: usize| {
        let name = format!("m-{number}");
        let story = story.apply(
            "Machine",
            with(member(&name, ""), json!({ "metadata": { "labels": { "node": "" } } })),
        );
        let story = if stripped {
            let removed = json!({ "metadata": { "labels": { "name": "" } } });
            story.apply("Machine", with(member(&name, ""), removed))
        } else {
            story.apply("Machine", with(member(&name, ""), deleted_at(0)))
        };
        let Seen::Cloud(CloudEvent::Vm(vm)) = vm_of(&name) else {
            unreachable!()
        };
        let state = VmState::Pending;
        story.observe(Seen::Cloud(CloudEvent::Vm(Vm { state, ..vm })))
    };
    let story = (0..3).fold(story, create);
    // Deleted machines count as lost, which allows replacements.
    let found = story.found.is_some_and(|violation| violation.invariant == "I9");
    assert_eq!(found, stripped);
}

#[rstest]
#[case::before_the_freeze("6", None, None)]
#[case::during_the_freeze("8", None, Some("I8"))]
#[case::after_it("10", Some("9"), None)]
#[case::before_the_thaw("8", Some("9"), Some("I8"))]
fn the_resource_version_shows_when_a_machine_was_created(
    #[case] version: &str,
    #[case] thawed: Option<&str>,
    #[case] violated: Option<&str>,
) {
    let of = |freeze: &str, version: &str| {
        let change = json!({ "metadata": { "labels": { "freeze": freeze }, "resourceVersion": version } });
        with(set(1), change)
    };
    let created = json!({ "metadata": { "resourceVersion": version } });
    let story = Story::new()
        .disturbed()
        .apply("MachineSet", of("True", "7"))
        .apply("Machine", with(of_set("a", ""), created));
    let story = match thawed {
        Some(version) => story.apply("MachineSet", of("", version)),
        None => story,
    };
    story.after(Duration::from_secs(2)).violates(violated);
}

#[rstest]
#[case::updated_in_place("successful", None)]
#[case::not_updated("", Some("I10"))]
fn a_node_that_was_updated_in_place_may_be_uncordoned(#[case] result: &str, #[case] violated: Option<&str>) {
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
        .violates(violated);
}

#[rstest]
#[case::before_the_scale_down("6", false, SOON, None)]
#[case::after_the_scale_down("8", false, SOON, Some("I15"))]
#[case::by_a_slow_request("8", true, SOON, None)]
#[case::too_late_for_a_slow_request("8", true, LATER, Some("I15"))]
fn the_resource_version_shows_for_which_spec_a_machine_was_created(
    #[case] version: &str,
    #[case] slow: bool,
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let of = |replicas, generation: u32, version: &str| {
        let change = json!({ "metadata": { "generation": generation, "resourceVersion": version } });
        with(set(replicas), change)
    };
    let created = json!({ "metadata": { "resourceVersion": version } });
    let story = Story::new()
        .observe(vm_of("a"))
        .apply("MachineSet", of(1, 1, "5"))
        .apply("MachineSet", of(0, 2, "7"));
    let story = if slow { story.disturbed() } else { story };
    story
        .after(time)
        .apply("Machine", with(of_set("a", "Running"), created))
        .apply("Machine", with(of_set("a", "Running"), deleted_at(0)))
        .violates(violated);
}
