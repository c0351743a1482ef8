//! I13 and I14: timeouts expire neither early nor late, and work starts within a minute.

use super::*;

#[rstest]
#[case::in_time(10, "Failed", None)]
#[case::too_early(5, "Failed", Some("I13"))]
#[case::too_late(13, "Unknown", Some("I13"))]
#[case::it_recovers(5, "Running", None)]
fn the_health_timeout_holds(#[case] minute: u64, #[case] phase: &str, #[case] violated: Option<&str>) {
    Story::new()
        .apply("Machine", machine("Running"))
        .apply("Machine", machine("Unknown"))
        .after(minutes(minute))
        .apply("Machine", machine(phase))
        .violates(violated);
}

#[rstest]
#[case::in_time(19, None)]
#[case::too_late(32, Some("I13"))]
fn the_creation_timeout_holds(#[case] minute: u64, #[case] violated: Option<&str>) {
    Story::new()
        .apply("Machine", machine("Pending"))
        .after(minutes(minute))
        .violates(violated);
}

#[test]
fn a_disturbed_controller_is_not_late() {
    let story = Story::new().disturbed().apply("Machine", machine("Pending"));
    story.after(minutes(60)).violates(None);
}

#[rstest]
#[case::within_the_creation_timeout(10, Some("I13"))]
#[case::after_it(25, None)]
fn a_bootstrap_token_lasts_as_long_as_the_machine_may_join(#[case] minute: u64, #[case] violated: Option<&str>) {
    Story::new()
        .disturbed()
        .apply("Machine", machine("Pending"))
        .after(minutes(minute))
        .observe(Seen::Cloud(CloudEvent::Kubelet(Kubelet {
            machine: "m".to_owned(),
            what: "Refused".to_owned(),
            message: "its bootstrap token has expired".to_owned(),
        })))
        .violates(violated);
}

#[rstest]
#[case::the_cloud_is_called(true, None)]
#[case::it_waits(false, Some("I14"))]
fn a_new_machine_is_processed_within_a_minute(#[case] called: bool, #[case] violated: Option<&str>) {
    let new = json!({ "metadata": { "name": "m", "uid": "u", "creationTimestamp": "1970-01-01T00:00:00Z" } });
    let story = Story::new().apply("Machine", new);
    let story = if called {
        story.observe(call("GetMachineStatus", ""))
    } else {
        story
    };
    story.after(minutes(5)).violates(violated);
}

#[rstest]
#[case::it_starts("Terminating", None)]
#[case::it_waits("Running", Some("I14"))]
fn a_deletion_starts_within_a_minute(#[case] phase: &str, #[case] violated: Option<&str>) {
    Story::new()
        .apply("Machine", machine("Running"))
        .apply("Machine", with(machine(phase), deleted_at(0)))
        .after(minutes(5))
        .violates(violated);
}

/// When a user forces the deletion, the remaining drain timeout does not count any more: the VM is deleted soon after.
#[rstest]
#[case::soon(1, None)]
#[case::late(15, Some("I13"))]
fn a_shortened_timeout_counts_from_the_edit(#[case] minutes_later: u64, #[case] violated: Option<&str>) {
    let leaving = with(machine("Terminating"), deleted_at(1));
    let forced = json!({ "metadata": { "labels": { "force-deletion": "True" } } });
    Story::new()
        .vm("a", VmState::Running)
        .apply("Machine", machine("Running"))
        .apply("Machine", leaving.clone())
        .after(minutes(60))
        .apply("Machine", with(leaving, forced))
        .after(minutes(minutes_later))
        .violates(violated);
}
