//! What is judged of preservation: entries in an owner's list, who ends when a maximum is lowered, expiries, cordons,
//! requests, and who is called failed.

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

/// A deployment with that list and maximum, which rolled out class `a`.
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
#[case::full_by_one_that_was_asked_for(&[entry("other", "node", false), auto("m")], 1, "a", "Unknown", Some("I4"))]
#[case::full_and_asked_for(&[auto("other"), entry("m", "node", false)], 1, "a", "Unknown", None)]
#[case::kept_before(&[auto("other"), auto("m")], 1, "a", "Running:Preserved", None)]
#[case::in_a_rollout(&[entry("m", "node", false)], 1, "b", "Unknown", Some("I4"))]
#[case::in_a_rollout_and_kept_before(&[auto("m")], 1, "b", "Failed:Preserved", None)]
fn an_entry_is_made_only_where_one_may_be(
    #[case] entries: &[Value],
    #[case] maximum: u32,
    #[case] class: &str,
    #[case] phase: &str,
    #[case] broken: Option<&str>,
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
        .breaks(broken);
}

#[rstest]
#[case::it_relapses("Running:Preserved", &[1, 0, 0], None)]
#[case::it_was_not_kept_before("Unknown", &[1, 0, 0], Some("I4"))]
#[case::the_limit_was_lowered_once_more("Running:Preserved", &[2, 1, 0], Some("I4"))]
fn one_that_was_kept_before_is_kept_again_whatever_the_limit(
    #[case] phase: &str,
    #[case] limits: &[u32; 3],
    #[case] broken: Option<&str>,
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
        .breaks(broken);
}

#[rstest]
#[case::kept("when-failed", "Draining", json!({}), "a", Some(minutes(10)), None)]
#[case::not_heard("when-failed", "", json!({}), "a", Some(minutes(10)), Some("I5"))]
#[case::not_heard_now("now", "", json!({}), "a", Some(minutes(10)), Some("I5"))]
#[case::refuses("false", "", json!({}), "a", Some(minutes(10)), None)]
#[case::taken_back("when-failed", "", json!({ "metadata": { "annotations": { "node.machine.sapcloud.io/preserve": null } } }), "a", Some(minutes(10)), None)]
#[case::by_its_node("when-failed", "", json!({ "metadata": { "annotations": { "node.machine.sapcloud.io/last-applied-node-preserve-value": "when-failed" } } }), "a", Some(minutes(10)), None)]
#[case::in_a_rollout("when-failed", "", json!({}), "b", Some(minutes(10)), None)]
#[case::a_rollout_was_there_just_now("when-failed", "", json!({}), "a", None, None)]
fn who_asks_to_be_kept_when_it_fails_is(
    #[case] asked: &str,
    #[case] stage: &str,
    #[case] change: Value,
    #[case] class: &str,
    #[case] settled: Option<Duration>,
    #[case] broken: Option<&str>,
) {
    let set = json!({
        "metadata": { "name": "ms", "ownerReferences": [{ "kind": "MachineDeployment", "name": "md", "controller": true }] },
        "spec": { "replicas": 1 },
    });
    let owned = json!({
        "metadata": {
            "annotations": { "node.machine.sapcloud.io/preserve": asked },
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
    // When it may fail is not asked here.
    let found = found
        .map(|violation| violation.invariant)
        .filter(|invariant| *invariant == "I5");
    assert_eq!(found, broken);
}

#[rstest]
#[case::the_oldest(&["a"], 2, None)]
#[case::the_two_oldest(&["a", "bb"], 1, None)]
#[case::a_younger_one(&["bb"], 2, Some("I15"))]
#[case::one_too_many(&["a", "bb"], 2, Some("I15"))]
fn a_lowered_maximum_ends_those_that_were_created_first(
    #[case] ending: &[&str],
    #[case] maximum: u32,
    #[case] broken: Option<&str>,
) {
    let all = ["a", "bb", "ccc"];
    let after: Vec<Value> = all
        .iter()
        .map(|name| entry(name, "auto", ending.contains(name)))
        .collect();
    Story::new()
        .apply("MachineDeployment", listed(&all.map(auto), maximum, "a"))
        .apply("MachineDeployment", listed(&after, maximum, "a"))
        .breaks(broken);
}

#[rstest]
#[case::before_its_expiry(json!({}), minutes(60), None)]
#[case::after_its_expiry(json!({}), minutes(75), Some("I13"))]
#[case::it_ends(json!({ "status": { "preservation": { "stage": "Releasing" } } }), minutes(75), None)]
fn a_preservation_ends_at_its_expiry(#[case] change: Value, #[case] time: Duration, #[case] broken: Option<&str>) {
    let preserved = json!({
        "status": { "currentStatus": { "phase": "Running:Preserved", "preserveExpiryTime": "1970-01-01T01:10:00Z" } },
    });
    Story::new()
        .apply("Machine", with(machine("Running"), with(preserved, change)))
        .after(time)
        .breaks(broken);
}

#[rstest]
#[case::at_once(Duration::from_secs(1), None)]
#[case::a_pass_later(minutes(5), Some("I13"))]
fn an_expiry_that_somebody_puts_into_the_past_is_due_then(#[case] time: Duration, #[case] broken: Option<&str>) {
    let preserved = |expiry: &str| {
        let status = json!({ "currentStatus": { "phase": "Running:Preserved", "preserveExpiryTime": expiry } });
        with(machine("Running"), json!({ "status": status }))
    };
    Story::new()
        .apply("Machine", preserved("1970-01-01T10:00:00Z"))
        .after(minutes(60))
        .apply("Machine", preserved("1970-01-01T00:01:00Z"))
        .after(time)
        .breaks(broken);
}

/// Machine `m`, which runs and is preserved until then.
pub(super) fn preserved_until(expiry: &str) -> Value {
    let status = json!({
        "currentStatus": { "phase": "Running:Preserved", "preserveExpiryTime": expiry },
        "preservation": { "stage": "Preserved", "by": "auto" },
    });
    with(machine("Running"), json!({ "status": status }))
}

/// The same while that ends.
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

/// After an hour and ten minutes.
pub(super) const EXPIRY: &str = "1970-01-01T01:10:00Z";

#[rstest]
#[case::at_once(0, None)]
#[case::within_a_second(1, None)]
#[case::later(2, Some("I13"))]
fn a_preservation_ends_within_a_second_of_its_expiry(#[case] later: u64, #[case] broken: Option<&str>) {
    Story::new()
        .apply("Lease", led_by("mcm-0_1"))
        .apply("Machine", preserved_until(EXPIRY))
        .after(minutes(70) + seconds(later))
        .apply("Machine", ending(EXPIRY))
        .after(seconds(1))
        .breaks(broken);
}

#[rstest]
#[case::to_a_moment_that_is_past("1970-01-01T00:01:00Z", 1, None)]
#[case::to_one_that_is_past_and_late("1970-01-01T00:01:00Z", 3, Some("I13"))]
#[case::to_one_ahead("1970-01-01T01:00:30Z", 31, None)]
#[case::to_one_ahead_and_late("1970-01-01T01:00:30Z", 33, Some("I13"))]
fn a_preservation_whose_expiry_somebody_moves_ends_within_a_second_of_that(
    #[case] expiry: &str,
    #[case] later: u64,
    #[case] broken: Option<&str>,
) {
    Story::new()
        .apply("Machine", preserved_until("1970-01-01T10:00:00Z"))
        .after(minutes(60))
        .apply("Machine", preserved_until(expiry))
        .after(seconds(later))
        .apply("Machine", ending(expiry))
        .after(seconds(1))
        .breaks(broken);
}

#[rstest]
#[case::the_same("mcm-0_1", Some("I13"))]
#[case::another_one("mcm-0_2", None)]
fn who_leads_only_since_an_expiry_ends_a_preservation_later(#[case] holder: &str, #[case] broken: Option<&str>) {
    let story = || {
        Story::new()
            .apply("Lease", led_by("mcm-0_1"))
            .apply("Machine", preserved_until(EXPIRY))
            .after(minutes(70) + seconds(20))
    };
    let told_before = story()
        .apply("Lease", led_by(holder))
        .apply("Machine", ending(EXPIRY))
        .after(seconds(1));
    told_before.breaks(broken);
    // Of a Lease and of Machines is told side by side.
    let told_after = story()
        .apply("Machine", ending(EXPIRY))
        .apply("Lease", led_by(holder))
        .after(seconds(1));
    told_after.breaks(broken);
}

#[test]
fn who_leads_for_a_moment_when_an_expiry_comes_may_still_be_starting() {
    Story::new()
        .apply("Lease", led_by("mcm-0_1"))
        .apply("Machine", preserved_until(EXPIRY))
        .after(minutes(69) + seconds(50))
        .apply("Lease", led_by("mcm-0_2"))
        .after(seconds(15))
        .apply("Machine", ending(EXPIRY))
        .after(seconds(1))
        .breaks(None);
}

#[rstest]
#[case::long_ago(60, 0, Some("I13"))]
#[case::a_moment_ago(69, 0, None)]
#[case::it_stood_still_until_a_moment_ago(60, 69, None)]
#[case::it_stood_still_long_ago(60, 65, Some("I13"))]
fn after_a_disturbance_a_preservation_ends_later(
    #[case] calm: u64,
    #[case] stood_still: i64,
    #[case] broken: Option<&str>,
) {
    let mut story = Story::new()
        .disturbed()
        .apply("Machine", preserved_until(EXPIRY))
        .after(minutes(calm))
        .calm();
    story.invariants.rules.stood_still = Timestamp::from_second(60 * stood_still).ok();
    story
        .after(minutes(70 - calm) + seconds(5))
        .apply("Machine", ending(EXPIRY))
        .after(seconds(1))
        .breaks(broken);
}

#[rstest]
#[case::as_long_as_it_may(6, None)]
#[case::longer(7, Some("I13"))]
fn by_the_wall_clock_requests_take_their_time(#[case] later: u64, #[case] broken: Option<&str>) {
    let mut story = Story::new();
    story.invariants.rules.timeouts = Timeouts::short();
    story
        .apply("Machine", preserved_until(EXPIRY))
        .after(minutes(70) + seconds(later))
        .apply("Machine", ending(EXPIRY))
        .after(seconds(1))
        .breaks(broken);
}

#[rstest]
#[case::of_a_person(true, Some("I10"))]
#[case::of_a_node_that_a_person_only_annotated(false, None)]
fn a_persons_cordon_stays(#[case] by_person: bool, #[case] broken: Option<&str>) {
    let mut story = Story::new().touched("Node", "n");
    if by_person {
        story.invariants.rules.cordons.insert("n".to_owned());
    }
    story
        .apply("Machine", machine("Running"))
        .apply("Node", node(json!({ "spec": { "unschedulable": true } })))
        .apply("Node", node(json!({})))
        .breaks(broken);
}

#[rstest]
#[case::by_somebody_else(Some("when-failed"), "when-failed", None, json!({}), Some("I10"))]
#[case::to_something_else(Some("when-failed"), "when-failed", Some("now"), json!({}), Some("I10"))]
#[case::by_the_person(None, "when-failed", None, json!({}), None)]
#[case::one_that_no_person_wrote(Some("now"), "auto-preserved", None, json!({}), None)]
#[case::with_what_its_node_asked_for(Some("now"), "now", None, json!({ "metadata": { "annotations": { "node.machine.sapcloud.io/last-applied-node-preserve-value": "now" } } }), None)]
#[case::at_the_expiry(Some("now"), "now", None, json!({ "status": { "preservation": { "stage": "Releasing", "reason": "Expired" } } }), None)]
#[case::at_the_removal_of_its_expiry(Some("now"), "now", None, json!({ "status": { "preservation": { "stage": "Releasing", "reason": "ExpiryRemoved" } } }), None)]
#[case::at_the_end_for_another_reason(Some("false"), "false", None, json!({ "status": { "preservation": { "stage": "Releasing", "reason": "Refused" } } }), Some("I10"))]
fn a_request_is_taken_away(
    #[case] written: Option<&str>,
    #[case] was: &str,
    #[case] is: Option<&str>,
    #[case] before: Value,
    #[case] broken: Option<&str>,
) {
    let asking = |value: Option<&str>| {
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
        .apply("Machine", with(asking(Some(was)), before))
        .apply("Machine", asking(is))
        .breaks(broken);
}

#[rstest]
#[case::kept("Failed:Preserved", "Preserved", minutes(5), Some("I19"))]
#[case::about_to_be_kept("Failed", "Draining", minutes(5), Some("I19"))]
#[case::kept_just_now("Failed:Preserved", "Preserved", Duration::from_secs(30), None)]
#[case::not_kept("Failed", "", minutes(5), None)]
#[case::kept_no_longer("Failed", "Releasing", minutes(5), None)]
fn a_failed_machine_that_is_kept_is_not_called_failed(
    #[case] phase: &str,
    #[case] stage: &str,
    #[case] time: Duration,
    #[case] broken: Option<&str>,
) {
    let failed = json!({ "status": { "failedMachines": [{ "name": "m" }] } });
    let owned = json!({
        "metadata": { "ownerReferences": [{ "kind": "MachineSet", "name": "ms", "controller": true }] },
        "status": { "currentStatus": { "preserveExpiryTime": (stage == "Preserved").then_some("1970-01-04T00:00:00Z") } },
    });
    let kept = json!({ "status": { "preservation": { "stage": stage } } });
    Story::new()
        .disturbed()
        .apply("MachineSet", with(json!({ "metadata": { "name": "ms" } }), failed))
        .apply("Machine", with(with(machine(phase), owned), kept))
        .calm()
        .after(time)
        .breaks(broken);
}

#[rstest]
#[case::it_is_deleted_behind_everybodys_back(VmState::Terminated, None)]
#[case::it_is_there(VmState::Stopped, Some("I5"))]
fn a_preserved_machine_goes_with_its_vm(#[case] state: VmState, #[case] broken: Option<&str>) {
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
        .breaks(broken);
}
