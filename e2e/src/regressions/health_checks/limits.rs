//! The limits of health checks, and their status.

use harness::regression::{EXPECTED, Entry};
use scenario::Scenario;
use scenario::api_faults::{Action, Cut, Rule};
use scenario::builder::{all, any, api_fault_by, apply, delete, lift_api_fault, not, seconds, slack, wait};
use scenario::step::Client;
use serde_json::json;

use super::super::worlds::case;
use super::super::{joining, story};
use super::{entry, fill, free, patient, start, stop, without_validation};
use crate::regressions::external_remediation::{full_disk, reference, remediation_exists, repaired};
use crate::regressions::health_check_steps::{
    CHECK, acting, check, check_condition, check_status, checked, checked_pool, failed, healthy, not_ready, recovered,
    requested,
};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "R85",
            "mhc-reboots-the-pool",
            "MAO PR#898, MAO PR#902, BZ 1975296",
            vec![case("R85", reboots_the_pool(), &["I23", EXPECTED])],
        ),
        entry(
            "R86",
            "mhc-recovery-storm",
            "NHC stormCooldownDuration",
            vec![case("R86", recovery_storm(), &["I23", EXPECTED])],
        ),
        entry(
            "R97",
            "mhc-status-never-rests",
            "CAPI PR#3999, CAPI PR#10585, NHC efefaa12",
            vec![case("R97", status_rests(), &["I11"])],
        ),
        entry(
            "R98",
            "mhc-bad-number-means-all",
            "MAO 19bfe1b45, MAO a3960f631",
            vec![case("R98", bad_number(), &["I23", EXPECTED])],
        ),
        entry(
            "R99",
            "mhc-restricted-sleeps",
            "CAPI PR#12924, CAPI PR#13422",
            vec![case("R99", restricted(), &[EXPECTED])],
        ),
        entry(
            "R102",
            "mhc-connection-down",
            "CAPI#12363",
            vec![case("R102", connection_down(), &["I24", EXPECTED])],
        ),
        entry(
            "R108",
            "mhc-metric-outlives-object",
            "MAO abb4eeb2f",
            vec![case("R108", deleted_check(), &[])],
        ),
    ]
}

fn reboots_the_pool() -> Scenario {
    let story = story(
        "r85-reboots-the-pool",
        "One machine may be unhealthy, and is power-cycled: another one that fails is not power-cycled as well.",
    );
    let spec = json!({ "strategy": "Reboot", "retryLimit": 9, "timeout": "10m" });
    let check = full_disk(json!({ "remediationTemplate": reference("repair"), "maxUnhealthy": 1 }));
    repaired(story, 4, &spec, check)
        .step(fill("md-a-1"))
        .eventually(acting(), remediation_exists("md-a-1"))
        .step(fill("md-a-2"))
        .eventually(acting(), failed("md-a-2"))
        .never(seconds(300), remediation_exists("md-a-2"))
        .may_miss()
        .steps([free("md-a-1"), free("md-a-2")])
        .eventually(2 * joining(), recovered(4))
}

fn recovery_storm() -> Scenario {
    let story = story(
        "r86-recovery-storm",
        "Most nodes are unhealthy for twenty minutes, and recover one after the other: none is replaced at the end.",
    );
    let spec = json!({ "maxUnhealthy": "40%", "stormCooldown": "10m", "unhealthyConditions": not_ready("1m") });
    checked_pool(story, &patient(5), spec)
        .throughout(not(any(["md-a-1", "md-a-2", "md-a-3"].map(requested))))
        .steps(["md-a-1", "md-a-2", "md-a-3"].map(stop))
        .step(wait(seconds(1200)))
        .steps([
            start("md-a-1"),
            wait(seconds(60)),
            start("md-a-2"),
            wait(seconds(60)),
            start("md-a-3"),
        ])
        .eventually(seconds(600), recovered(5))
}

fn status_rests() -> Scenario {
    let story = story(
        "r97-status-rests",
        "Nothing changes: the status of a check is not written.",
    );
    checked(story, 4, json!({})).step(wait(seconds(300))).quiet_end(slack())
}

fn bad_number() -> Scenario {
    let story = story(
        "r98-bad-number",
        "A check of an API server without validation has a limit that is no number: it remediates nothing.",
    );
    without_validation(checked_pool(story, &patient(2), full_disk(json!({}))))
        .step(check(full_disk(json!({ "maxUnhealthy": "abc" }))))
        .eventually(2 * slack(), check_condition("Evaluated", "False", "InvalidSpec"))
        .step(fill("md-a-1"))
        .never(acting(), requested("md-a-1"))
        .step(free("md-a-1"))
}

/// A machine whose VM boots for an hour: nothing changes until its startup timeout ends.
fn restricted() -> Scenario {
    let story = story(
        "r99-restricted",
        "Remediation is not allowed, and a startup timeout ends without any other change: the machine is marked.",
    )
    .boots_in(seconds(3600));
    story
        .health_checks()
        .step(apply(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "Machine",
            "metadata": { "name": "m-1", "labels": { "name": "md-a" } },
            "spec": { "class": { "kind": "MachineClass", "name": "class-a" }, "creationTimeout": "3h0m0s" },
        })))
        .step(wait(seconds(60)))
        .step(check(json!({ "maxUnhealthy": 0 })))
        .eventually(
            slack(),
            check_condition("RemediationAllowed", "False", "TooManyUnhealthy"),
        )
        .eventually(seconds(600) + slack(), failed("m-1"))
}

fn connection_down() -> Scenario {
    let story = story(
        "r102-connection-down",
        "mcm reaches no API server for an hour, and conditions are old when it returns: nothing is requested at once.",
    );
    let cut = Rule::new("cut", Action::Partition { how: Cut::Refuse });
    checked_pool(
        story,
        &patient(4),
        json!({ "unhealthyConditions": not_ready("5m"), "maxUnhealthy": "50%" }),
    )
    .step(api_fault_by(Client::Mcm, cut))
    .step(wait(seconds(300)))
    .steps(["md-a-1", "md-a-2"].map(stop))
    .step(wait(seconds(3300)))
    .step(lift_api_fault("cut"))
    .never(seconds(55), any(["md-a-1", "md-a-2"].map(requested)))
    .steps(["md-a-1", "md-a-2"].map(start))
    .eventually(seconds(600), recovered(4))
}

/// The unit test `the_metrics_of_a_check_disappear_with_it` shows the bug.
fn deleted_check() -> Scenario {
    let story = story(
        "r108-deleted-check",
        "A check is deleted while machines are unhealthy: what it requested goes on, and nothing new is requested.",
    );
    checked_pool(story, &patient(3), full_disk(json!({ "maxUnhealthy": 0 })))
        .step(fill("md-a-1"))
        .eventually(
            acting(),
            all([failed("md-a-1"), check_status("remediationsAllowed", 0)]),
        )
        .step(delete("MachineHealthCheck", CHECK))
        .never(seconds(300), requested("md-a-1"))
        .step(free("md-a-1"))
        .step(check(full_disk(json!({}))))
        .eventually(2 * slack(), healthy(3, 3))
}
