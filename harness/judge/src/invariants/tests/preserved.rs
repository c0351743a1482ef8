//! Preservation: entries in an owner's list, releases when a maximum is lowered, expiries, cordons, requests, and
//! `failedMachines`.

use super::*;

/// An entry in an owner's list.
fn entry(name: &str, by: &str, released: bool) -> Value {
    json!({
        "name": name, "uid": name, "by": by, "released": released,
        "created": format!("1970-01-01T00:00:0{}Z", name.len()),
    })
}

pub(super) fn auto(name: &str) -> Value {
    entry(name, "auto", false)
}

/// A deployment with that list and maximum, which last rolled out class `a`.
pub(super) fn listed(entries: &[Value], maximum: u32, class: &str) -> Value {
    let template = json!({ "spec": { "class": { "name": class } } });
    deployment(json!({
        "spec": { "autoPreserveFailedMax": maximum, "template": template },
        "status": { "preservations": entries, "rolledOut": "1" },
    }))
}

#[rstest]
#[case::there_is_room(&[auto("m")], 1, "a", "Unknown", None)]
#[case::full(&[auto("other"), auto("m")], 1, "a", "Unknown", Some("I4"))]
#[case::full_because_of_a_request(&[entry("other", "node", false), auto("m")], 1, "a", "Unknown", Some("I4"))]
#[case::full_and_requested(&[auto("other"), entry("m", "node", false)], 1, "a", "Unknown", None)]
#[case::preserved_before(&[auto("other"), auto("m")], 1, "a", "Running:Preserved", None)]
#[case::in_a_rollout(&[entry("m", "node", false)], 1, "b", "Unknown", Some("I4"))]
#[case::in_a_rollout_and_preserved_before(&[auto("m")], 1, "b", "Failed:Preserved", None)]
fn an_entry_is_added_only_if_it_is_legal(
    #[case] entries: &[Value],
    #[case] maximum: u32,
    #[case] class: &str,
    #[case] phase: &str,
    #[case] violated: Option<&str>,
) {
    let expiry = phase.ends_with("Preserved").then_some("1970-01-04T00:00:00Z");
    let machine = with(
        machine(phase),
        json!({ "status": { "currentStatus": { "preserveExpiryTime": expiry } } }),
    );
    let others: Vec<Value> = entries.iter().filter(|entry| entry["name"] != "m").cloned().collect();
    Story::new()
        .apply("Machine", machine)
        .apply("MachineDeployment", listed(&others, maximum, "a"))
        .apply("MachineDeployment", listed(&others, maximum, class))
        .apply("MachineDeployment", listed(entries, maximum, class))
        .violates(violated);
}

#[rstest]
#[case::it_relapses("Running:Preserved", &[1, 0, 0], None)]
#[case::it_was_not_preserved_before("Unknown", &[1, 0, 0], Some("I4"))]
#[case::the_limit_was_lowered_again("Running:Preserved", &[2, 1, 0], Some("I4"))]
fn a_relapsed_machine_is_preserved_again_whatever_the_limit(
    #[case] phase: &str,
    #[case] limits: &[u32; 3],
    #[case] violated: Option<&str>,
) {
    let expiry = phase.ends_with("Preserved").then_some("1970-01-04T00:00:00Z");
    let status = json!({ "status": { "currentStatus": { "preserveExpiryTime": expiry } } });
    let [at_first, when_it_fails, at_last] = *limits;
    Story::new()
        .apply("Machine", with(machine(phase), status))
        .apply("MachineDeployment", listed(&[], at_first, "a"))
        .apply("MachineDeployment", listed(&[], when_it_fails, "a"))
        .apply("MachineDeployment", listed(&[auto("m")], when_it_fails, "a"))
        .apply("MachineDeployment", listed(&[auto("m")], at_last, "a"))
        .after(minutes(5))
        .violates(violated);
}

#[rstest]
#[case::preserved("when-failed", "Draining", json!({}), "a", Some(minutes(10)), None)]
#[case::ignored("when-failed", "", json!({}), "a", Some(minutes(10)), Some("I5"))]
#[case::ignored_now("now", "", json!({}), "a", Some(minutes(10)), Some("I5"))]
#[case::refuses("false", "", json!({}), "a", Some(minutes(10)), None)]
#[case::request_removed("when-failed", "", json!({ "metadata": { "annotations": { "node.machine.sapcloud.io/preserve": null } } }), "a", Some(minutes(10)), None)]
#[case::by_its_node("when-failed", "", json!({ "metadata": { "annotations": { "node.machine.sapcloud.io/last-applied-node-preserve-value": "when-failed" } } }), "a", Some(minutes(10)), None)]
#[case::in_a_rollout("when-failed", "", json!({}), "b", Some(minutes(10)), None)]
#[case::a_rollout_ended_just_now("when-failed", "", json!({}), "a", None, None)]
fn a_machine_that_requests_preservation_is_preserved_when_it_fails(
    #[case] request: &str,
    #[case] stage: &str,
    #[case] change: Value,
    #[case] class: &str,
    #[case] settled: Option<Duration>,
    #[case] violated: Option<&str>,
) {
    let set = json!({
        "metadata": { "name": "ms", "ownerReferences": [{ "kind": "MachineDeployment", "name": "md", "controller": true }] },
        "spec": { "replicas": 1 },
    });
    let owned = json!({
        "metadata": {
            "annotations": { "node.machine.sapcloud.io/preserve": request },
            "ownerReferences": [{ "kind": "MachineSet", "name": "ms", "controller": true }],
        },
    });
    let failed = json!({ "status": { "preservation": { "stage": stage } } });
    let unknown = with(machine("Unknown"), owned.clone());
    let failed = with(with(with(machine("Failed"), owned), failed), change);
    let found = Story::new()
        .apply("MachineDeployment", listed(&[], 1, "a"))
        .apply("MachineDeployment", listed(&[], 1, class))
        .apply("MachineSet", set)
        .apply("Machine", unknown)
        .after(settled.unwrap_or(Duration::from_secs(1)))
        .disturbed()
        .apply("Machine", failed)
        .found;
    // The timeout of the failure is not under test.
    let found = found
        .map(|violation| violation.invariant)
        .filter(|invariant| *invariant == "I5");
    assert_eq!(found, violated);
}

#[rstest]
#[case::the_oldest(&["a"], 2, None)]
#[case::the_two_oldest(&["a", "bb"], 1, None)]
#[case::a_younger_one(&["bb"], 2, Some("I15"))]
#[case::one_too_many(&["a", "bb"], 2, Some("I15"))]
fn a_lowered_maximum_releases_the_oldest_machines(
    #[case] ending: &[&str],
    #[case] maximum: u32,
    #[case] violated: Option<&str>,
) {
    let all = ["a", "bb", "ccc"];
    let after: Vec<Value> = all
        .iter()
        .map(|name| entry(name, "auto", ending.contains(name)))
        .collect();
    Story::new()
        .apply("MachineDeployment", listed(&all.map(auto), maximum, "a"))
        .apply("MachineDeployment", listed(&after, maximum, "a"))
        .violates(violated);
}

#[rstest]
#[case::before_its_expiry(json!({}), minutes(60), None)]
#[case::after_its_expiry(json!({}), minutes(75), Some("I13"))]
#[case::it_ends(json!({ "status": { "preservation": { "stage": "Releasing" } } }), minutes(75), None)]
fn a_preservation_ends_at_its_expiry(#[case] change: Value, #[case] time: Duration, #[case] violated: Option<&str>) {
    let preserved = json!({
        "status": { "currentStatus": { "phase": "Running:Preserved", "preserveExpiryTime": "1970-01-01T01:10:00Z" } },
    });
    Story::new()
        .apply("Machine", with(machine("Running"), with(preserved, change)))
        .after(time)
        .violates(violated);
}

#[rstest]
#[case::at_once(Duration::from_secs(1), None)]
#[case::a_pass_later(minutes(5), Some("I13"))]
fn an_expiry_that_is_moved_into_the_past_is_due_at_the_edit(#[case] time: Duration, #[case] violated: Option<&str>) {
    let preserved = |expiry: &str| {
        let status = json!({ "currentStatus": { "phase": "Running:Preserved", "preserveExpiryTime": expiry } });
        with(machine("Running"), json!({ "status": status }))
    };
    Story::new()
        .apply("Machine", preserved("1970-01-01T10:00:00Z"))
        .after(minutes(60))
        .apply("Machine", preserved("1970-01-01T00:01:00Z"))
        .after(time)
        .violates(violated);
}

/// Machine `m`, which is Running and preserved until then.
pub(super) fn preserved_until(expiry: &str) -> Value {
    let status = json!({
        "currentStatus": { "phase": "Running:Preserved", "preserveExpiryTime": expiry },
        "preservation": { "stage": "Preserved", "by": "auto" },
    });
    with(machine("Running"), json!({ "status": status }))
}

/// The machine of [`preserved_until`] while it is being released.
pub(super) fn ending(expiry: &str) -> Value {
    let record = json!({ "status": { "preservation": { "stage": "Releasing", "reason": "Expired" } } });
    with(preserved_until(expiry), record)
}

fn led_by(holder: &str) -> Value {
    json!({
        "metadata": { "name": "machine-controller-manager" },
        "spec": { "holderIdentity": holder, "renewTime": "1970-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15 },
    })
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An hour and ten minutes after the start.
pub(super) const EXPIRY: &str = "1970-01-01T01:10:00Z";

#[rstest]
#[case::at_once(0, None)]
#[case::within_a_second(1, None)]
#[case::later(2, Some("I13"))]
fn a_preservation_ends_within_a_second_of_its_expiry(#[case] later: u64, #[case] violated: Option<&str>) {
    Story::new()
        .apply("Lease", led_by("mcm-0_1"))
        .apply("Machine", preserved_until(EXPIRY))
        .after(minutes(70) + seconds(later))
        .apply("Machine", ending(EXPIRY))
        .after(seconds(1))
        .violates(violated);
}

#[rstest]
#[case::into_the_past("1970-01-01T00:01:00Z", 1, None)]
#[case::into_the_past_and_late("1970-01-01T00:01:00Z", 3, Some("I13"))]
#[case::into_the_future("1970-01-01T01:00:30Z", 31, None)]
#[case::into_the_future_and_late("1970-01-01T01:00:30Z", 33, Some("I13"))]
fn a_preservation_ends_within_a_second_of_its_moved_expiry(
    #[case] expiry: &str,
    #[case] later: u64,
    #[case] violated: Option<&str>,
) {
    Story::new()
        .apply("Machine", preserved_until("1970-01-01T10:00:00Z"))
        .after(minutes(60))
        .apply("Machine", preserved_until(expiry))
        .after(seconds(later))
        .apply("Machine", ending(expiry))
        .after(seconds(1))
        .violates(violated);
}

#[rstest]
#[case::the_same("mcm-0_1", Some("I13"))]
#[case::another_one("mcm-0_2", None)]
fn a_leader_that_took_over_after_the_expiry_may_end_a_preservation_late(
    #[case] holder: &str,
    #[case] violated: Option<&str>,
) {
    let story = || {
        Story::new()
            .apply("Lease", led_by("mcm-0_1"))
            .apply("Machine", preserved_until(EXPIRY))
            .after(minutes(70) + seconds(20))
    };
    let lease_first = story()
        .apply("Lease", led_by(holder))
        .apply("Machine", ending(EXPIRY))
        .after(seconds(1));
    lease_first.violates(violated);
    // The watches of Leases and Machines have no common order.
    let machine_first = story()
        .apply("Machine", ending(EXPIRY))
        .apply("Lease", led_by(holder))
        .after(seconds(1));
    machine_first.violates(violated);
}

#[test]
fn a_leader_that_took_over_just_before_the_expiry_may_still_be_starting() {
    Story::new()
        .apply("Lease", led_by("mcm-0_1"))
        .apply("Machine", preserved_until(EXPIRY))
        .after(minutes(69) + seconds(50))
        .apply("Lease", led_by("mcm-0_2"))
        .after(seconds(15))
        .apply("Machine", ending(EXPIRY))
        .after(seconds(1))
        .violates(None);
}

#[rstest]
#[case::long_ago(60, 0, Some("I13"))]
#[case::just_now(69, 0, None)]
#[case::paused_until_just_now(60, 69, None)]
#[case::paused_long_ago(60, 65, Some("I13"))]
fn a_preservation_may_end_late_after_a_disturbance(
    #[case] undisturbed_minute: u64,
    #[case] paused_until: i64,
    #[case] violated: Option<&str>,
) {
    let mut story = Story::new()
        .disturbed()
        .apply("Machine", preserved_until(EXPIRY))
        .after(minutes(undisturbed_minute))
        .undisturbed();
    story.invariants.rules.paused_until = Timestamp::from_second(60 * paused_until).ok();
    story
        .after(minutes(70 - undisturbed_minute) + seconds(5))
        .apply("Machine", ending(EXPIRY))
        .after(seconds(1))
        .violates(violated);
}

#[rstest]
#[case::within_the_tolerance(6, None)]
#[case::longer(7, Some("I13"))]
fn a_wall_clock_allows_for_the_duration_of_requests(#[case] later: u64, #[case] violated: Option<&str>) {
    let mut story = Story::new();
    story.invariants.rules.timeouts = Timeouts::short();
    story
        .apply("Machine", preserved_until(EXPIRY))
        .after(minutes(70) + seconds(later))
        .apply("Machine", ending(EXPIRY))
        .after(seconds(1))
        .violates(violated);
}

#[rstest]
#[case::of_a_user(true, Some("I10"))]
#[case::of_a_node_that_a_user_only_annotated(false, None)]
fn a_users_cordon_is_kept(#[case] by_user: bool, #[case] violated: Option<&str>) {
    let mut story = Story::new().touched("Node", "n");
    if by_user {
        story.invariants.rules.cordons.insert("n".to_owned());
    }
    story
        .apply("Machine", machine("Running"))
        .apply("Node", node(json!({ "spec": { "unschedulable": true } })))
        .apply("Node", node(json!({})))
        .violates(violated);
}

#[rstest]
#[case::by_another_writer(Some("when-failed"), "when-failed", None, json!({}), Some("I10"))]
#[case::to_another_value(Some("when-failed"), "when-failed", Some("now"), json!({}), Some("I10"))]
#[case::by_the_user(None, "when-failed", None, json!({}), None)]
#[case::not_written_by_a_user(Some("now"), "auto-preserved", None, json!({}), None)]
#[case::with_the_request_of_its_node(Some("now"), "now", None, json!({ "metadata": { "annotations": { "node.machine.sapcloud.io/last-applied-node-preserve-value": "now" } } }), None)]
#[case::at_the_expiry(Some("now"), "now", None, json!({ "status": { "preservation": { "stage": "Releasing", "reason": "Expired" } } }), None)]
#[case::at_the_removal_of_its_expiry(Some("now"), "now", None, json!({ "status": { "preservation": { "stage": "Releasing", "reason": "ExpiryRemoved" } } }), None)]
#[case::at_the_end_for_another_reason(Some("false"), "false", None, json!({ "status": { "preservation": { "stage": "Releasing", "reason": "Refused" } } }), Some("I10"))]
fn only_its_end_or_a_user_removes_a_request(
    #[case] written: Option<&str>,
    #[case] was: &str,
    #[case] is: Option<&str>,
    #[case] before: Value,
    #[case] violated: Option<&str>,
) {
    let requesting = |value: Option<&str>| {
        let annotations = json!({ "node.machine.sapcloud.io/preserve": value });
        with(
            machine("Running"),
            json!({ "metadata": { "annotations": annotations } }),
        )
    };
    let mut story = Story::new();
    let requests = &mut story.invariants.rules.requests;
    requests.insert("m".to_owned(), written.map(str::to_owned));
    story
        .apply("Machine", with(requesting(Some(was)), before))
        .apply("Machine", requesting(is))
        .violates(violated);
}

#[rstest]
#[case::preserved("Failed:Preserved", "Preserved", minutes(5), Some("I19"))]
#[case::draining_for_preservation("Failed", "Draining", minutes(5), Some("I19"))]
#[case::preserved_just_now("Failed:Preserved", "Preserved", Duration::from_secs(30), None)]
#[case::not_preserved("Failed", "", minutes(5), None)]
#[case::released("Failed", "Releasing", minutes(5), None)]
fn a_preserved_machine_is_not_listed_as_failed(
    #[case] phase: &str,
    #[case] stage: &str,
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    let failed = json!({ "status": { "failedMachines": [{ "name": "m" }] } });
    let owned = json!({
        "metadata": { "ownerReferences": [{ "kind": "MachineSet", "name": "ms", "controller": true }] },
        "status": { "currentStatus": { "preserveExpiryTime": (stage == "Preserved").then_some("1970-01-04T00:00:00Z") } },
    });
    let preserved = json!({ "status": { "preservation": { "stage": stage } } });
    Story::new()
        .disturbed()
        .apply("MachineSet", with(json!({ "metadata": { "name": "ms" } }), failed))
        .apply("Machine", with(with(machine(phase), owned), preserved))
        .undisturbed()
        .after(time)
        .violates(violated);
}

#[rstest]
#[case::its_vm_is_terminated(VmState::Terminated, None)]
#[case::its_vm_exists(VmState::Stopped, Some("I5"))]
fn a_preserved_machine_may_be_deleted_after_its_vm(#[case] state: VmState, #[case] violated: Option<&str>) {
    let owned = json!({
        "metadata": { "ownerReferences": [{ "kind": "MachineSet", "name": "ms", "controller": true }] },
        "status": { "currentStatus": { "preserveExpiryTime": "1970-01-04T00:00:00Z" } },
    });
    let preserved = with(machine("Running:Preserved"), owned);
    Story::new()
        .touched("VM", "m")
        .apply(
            "MachineSet",
            json!({ "metadata": { "name": "ms" }, "spec": { "replicas": 1 } }),
        )
        .vm("a", VmState::Running)
        .apply("Machine", preserved.clone())
        .vm("a", state)
        .apply("Machine", with(preserved, deleted_at(0)))
        .violates(violated);
}
