//! Requests to other controllers.

use std::time::Duration;

use harness::regression::{EXPECTED, Entry};
use scenario::Scenario;
use scenario::api_faults::{Action, At, Match, Pattern, Rule, Verb};
use scenario::builder::{all, api_fault_by, delete, kubelet, lift_api_fault, not, seconds, slack, wait};
use scenario::step::{Client, KubeletAction};
use serde_json::json;

use super::super::worlds::{case, merge};
use super::super::{joining, story};
use super::{entry, fill, free, patient};
use crate::regressions::external_remediation::{
    by_template, full_disk, rebooting, reference, remediation_exists, template,
};
use crate::regressions::health_check_steps::{
    CHECK, acting, check, check_condition, check_named, checked_pool, failed, healthy, not_ready, passed, recovered,
};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "R83",
            "mhc-second-machine-starves",
            "CAPI HEAD, patchUnhealthyTargets",
            vec![case("R83", second_machine(), &["I25", EXPECTED])],
        ),
        entry(
            "R84",
            "mhc-healthy-keeps-false",
            "CAPI HEAD, patchHealthyTargets",
            vec![case("R84", recovers_without_request(), &[EXPECTED])],
        ),
        entry(
            "R90",
            "mhc-condition-switch",
            "NHC PR#274",
            vec![case("R90", condition_switch(), &[EXPECTED])],
        ),
        entry(
            "R92",
            "mhc-two-checks-one-machine",
            "NHC 04718070",
            vec![case("R92", two_checks(), &["I23", EXPECTED])],
        ),
        entry(
            "R94",
            "mhc-finalizer-hides-end",
            "NHC 0cfed338",
            vec![case("R94", held_request(), &[EXPECTED])],
        ),
        entry(
            "R95",
            "mhc-orphan-request",
            "NHC 0cfed338",
            vec![case("R95", orphan_request(), &[EXPECTED])],
        ),
        entry(
            "R96",
            "mhc-nil-request-panics",
            "CAPI PR#4216, CAPI PR#7008",
            vec![case("R96", request_gone(), &["I25", EXPECTED])],
        ),
        entry(
            "R105",
            "mhc-template-edited-midway",
            "NHC d842a9cf",
            vec![case("R105", template_edited(), &[EXPECTED])],
        ),
        entry(
            "R106",
            "mhc-wrong-namespace",
            "CAPI PR#11361, NHC 44412ffc",
            vec![case("R106", wrong_namespace(), &[EXPECTED])],
        ),
        entry(
            "R107",
            "mhc-error-loop-without-limit",
            "NHC 6cccb2f3",
            vec![case("R107", unreadable_requests(), &["I18"])],
        ),
    ]
}

fn second_machine() -> Scenario {
    let story = story(
        "r83-second-machine",
        "Two machines are unhealthy at different times: the request of the first does not hide the second.",
    );
    rebooting(story, 3, by_template())
        .step(fill("md-a-1"))
        .eventually(acting(), remediation_exists("md-a-1"))
        .step(wait(seconds(60)))
        .step(fill("md-a-2"))
        .eventually(
            acting(),
            all([remediation_exists("md-a-1"), remediation_exists("md-a-2")]),
        )
        .steps([free("md-a-1"), free("md-a-2")])
        .eventually(2 * joining(), recovered(3))
}

fn recovers_without_request() -> Scenario {
    let story = story(
        "r84-healthy-keeps-false",
        "A machine fails its check while remediation is not allowed, and recovers: its condition says so.",
    );
    let mut check = by_template();
    check["maxUnhealthy"] = json!(0);
    rebooting(story, 2, check)
        .step(fill("md-a-1"))
        .eventually(acting(), failed("md-a-1"))
        .step(free("md-a-1"))
        .eventually(2 * slack(), passed("md-a-1"))
}

fn condition_switch() -> Scenario {
    let story = story(
        "r90-condition-switch",
        "After a power-cycle another condition is unhealthy, and its timeout runs: the machine does not pass its check.",
    );
    let mut rules = not_ready("2s");
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({ "type": "DiskPressure", "status": "True", "timeout": "20m" }));
    }
    let check = json!({ "remediationTemplate": reference("repair"), "unhealthyConditions": rules });
    rebooting(story, 2, check)
        .steps([fill("md-a-1"), kubelet("md-a-1", KubeletAction::Stop)])
        .eventually(acting(), remediation_exists("md-a-1"))
        .always(seconds(600), all([failed("md-a-1"), remediation_exists("md-a-1")]))
        .step(free("md-a-1"))
        .eventually(
            2 * joining(),
            all([passed("md-a-1"), not(remediation_exists("md-a-1"))]),
        )
}

fn two_checks() -> Scenario {
    let story = story(
        "r92-two-checks",
        "Two checks select one machine, and one of them has a template: neither remediates it.",
    );
    let mut other = by_template();
    other["remediationTemplate"] = reference("repair");
    rebooting(story, 2, full_disk(json!({})))
        .step(check_named("others", "md-a", other))
        .step(wait(slack()))
        .step(fill("md-a-1"))
        .never(acting(), failed("md-a-1"))
        .eventually(
            2 * slack(),
            check_condition("Evaluated", "False", "OverlappingMachineHealthCheck"),
        )
        .step(free("md-a-1"))
}

fn held_request() -> Scenario {
    let story = story(
        "r94-held-request",
        "A finalizer holds the request of a machine that recovered, and the machine fails again: it gets a new request when the \
         old one is gone.",
    );
    let hold = |finalizers: &[&str]| {
        merge(
            "FakeCloudRemediation",
            "md-a-1",
            json!({ "metadata": { "finalizers": finalizers } }),
        )
    };
    let ours = "remediation.fakecloud.drydock.dev/vm";
    rebooting(story, 2, by_template())
        .step(fill("md-a-1"))
        .eventually(acting(), remediation_exists("md-a-1"))
        .step(wait(seconds(180)))
        .step(hold(&[ours, "example.com/hold"]))
        .step(free("md-a-1"))
        .step(wait(seconds(120)))
        .step(fill("md-a-1"))
        .step(wait(seconds(120)))
        .step(hold(&[]))
        .step(wait(seconds(5)))
        .eventually(seconds(60), remediation_exists("md-a-1"))
        .step(free("md-a-1"))
        .eventually(2 * joining(), all([not(remediation_exists("md-a-1")), recovered(2)]))
}

fn orphan_request() -> Scenario {
    let story = story(
        "r95-orphan-request",
        "The selector of a check changes while a request exists: the request of the machine it left is deleted.",
    );
    rebooting(story, 2, by_template())
        .step(fill("md-a-1"))
        .eventually(acting(), remediation_exists("md-a-1"))
        .step(merge(
            "MachineHealthCheck",
            CHECK,
            json!({ "spec": { "selector": { "matchLabels": { "name": "others" } } } }),
        ))
        .eventually(2 * joining(), not(remediation_exists("md-a-1")))
        .step(free("md-a-1"))
}

fn request_gone() -> Scenario {
    let story = story(
        "r96-request-gone",
        "A request is gone when the check deletes it: the machine that waits for its turn gets its request all the same.",
    );
    let late = Rule {
        matches: Match {
            verbs: vec![Verb::Delete],
            resource: Some(Pattern::new("fakecloudremediations")),
            ..Match::default()
        },
        ..Rule::new(
            "late",
            Action::Delay {
                at: At::BeforeCommit,
                by: Duration::from_secs(60),
            },
        )
    };
    let mut check = by_template();
    check["maxInFlight"] = json!(1);
    rebooting(story, 3, check)
        .step(fill("md-a-1"))
        .eventually(acting(), remediation_exists("md-a-1"))
        .step(fill("md-a-2"))
        .eventually(acting(), failed("md-a-2"))
        .step(wait(seconds(240)))
        .step(api_fault_by(Client::Mcm, late))
        .step(free("md-a-1"))
        .step(wait(seconds(40)))
        .step(delete("FakeCloudRemediation", "md-a-1"))
        .eventually(acting(), remediation_exists("md-a-2"))
        .step(lift_api_fault("late"))
        .step(free("md-a-2"))
        .eventually(4 * joining(), recovered(3))
}

fn template_edited() -> Scenario {
    let story = story(
        "r105-template-edited",
        "The template of a check is replaced by one of another kind while a request exists: the request is deleted.",
    );
    rebooting(story, 2, by_template())
        .step(fill("md-a-1"))
        .eventually(acting(), remediation_exists("md-a-1"))
        .step(merge(
            "MachineHealthCheck",
            CHECK,
            json!({ "spec": { "remediationTemplate": null, "maxUnhealthy": 0 } }),
        ))
        .eventually(2 * joining(), not(remediation_exists("md-a-1")))
        .step(free("md-a-1"))
        .eventually(2 * slack(), recovered(2))
}

fn wrong_namespace() -> Scenario {
    let story = story(
        "r106-wrong-namespace",
        "A check names a template in another namespace: it says so, and creates no request.",
    );
    let mut other = reference("repair");
    other["namespace"] = json!("elsewhere");
    let spec = json!({ "strategy": "Reboot" });
    let story = checked_pool(
        story.remediation().step(template("repair", &spec)),
        &patient(2),
        json!({}),
    )
    .step(check(full_disk(json!({ "remediationTemplate": other }))));
    story
        .step(wait(slack()))
        .step(fill("md-a-1"))
        .never(acting(), failed("md-a-1"))
        .eventually(slack(), check_condition("Evaluated", "False", "InvalidSpec"))
        .step(free("md-a-1"))
}

fn unreadable_requests() -> Scenario {
    let story = story(
        "r107-unreadable-requests",
        "Requests cannot be listed for ten minutes: the check repeats that with increasing waits.",
    );
    let refused = Rule {
        matches: Match {
            verbs: vec![Verb::List],
            resource: Some(Pattern::new("fakecloudremediations")),
            ..Match::default()
        },
        ..Rule::new(
            "refused",
            Action::Fail {
                code: 500,
                at: At::BeforeCommit,
                retry_after: None,
                message: None,
            },
        )
    };
    rebooting(story, 2, by_template())
        .step(api_fault_by(Client::Mcm, refused))
        .step(fill("md-a-1"))
        .step(wait(seconds(600)))
        .step(lift_api_fault("refused"))
        .eventually(acting(), remediation_exists("md-a-1"))
        .step(free("md-a-1"))
        .eventually(2 * joining(), healthy(2, 2))
}
