//! The limits of health checks: the circuit breaker, storms, delays, outages, and specs that cannot be used.

use mcm_api::{Phase, keys};
use scenario::api_faults::{Action, Cut, Rule};
use scenario::builder::{
    all, annotate, any, api_fault_by, event_count, kubelet, lift_api_fault, machine_gone, node_grace, not, phase,
    seconds, slack, wait,
};
use scenario::step::{Client, KubeletAction};
use scenario::{Condition, HealthChecks, Scenario, StageKind, Step};
use serde_json::json;

use super::joining;
use crate::regressions::POOL;
use crate::regressions::external_remediation::full_disk;
use crate::regressions::health_check_steps::{
    CHECK, acting, check, check_condition, check_named, check_status, checked, checked_pool, failed, healthy,
    not_ready, recovered, requested,
};
use crate::regressions::worlds::{Pool, merge, pool, settled};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        limit(),
        exclusive_limit(),
        range(),
        rounded_down(),
        in_flight(),
        storm(true),
        storm(false),
        healthy_delay(),
        control_cut(),
        two_checks(),
        unusable(),
    ]
}

fn stop(machine: &str) -> Step {
    kubelet(machine, KubeletAction::Partition)
}

fn start(machine: &str) -> Step {
    kubelet(machine, KubeletAction::Reconnect)
}

fn names(machines: u32) -> Vec<String> {
    pool(machines).names()
}

/// A pool whose machines only the check finds unhealthy.
fn patient(machines: u32) -> Pool {
    Pool {
        patient: true,
        ..pool(machines)
    }
}

/// The disks of several machines become full while their check is paused, so that it finds them unhealthy in one pass.
fn fail_together(story: Scenario, machines: &[&str]) -> Scenario {
    paused(story, |story| {
        story
            .steps(machines.iter().map(|machine| kubelet(machine, KubeletAction::FillDisk)))
            .eventually(
                2 * slack(),
                all(machines.iter().map(|machine| phase(machine, Phase::Unknown))),
            )
    })
}

/// The disks of machines have space again; the check is paused until all of them are Running.
fn recover_together(story: Scenario, machines: &[&str]) -> Scenario {
    paused(story, |story| {
        story
            .steps(machines.iter().map(|machine| kubelet(machine, KubeletAction::FreeDisk)))
            .eventually(
                2 * slack(),
                all(machines.iter().map(|machine| phase(machine, Phase::Running))),
            )
    })
}

/// What happens while the check is paused.
fn paused(story: Scenario, happens: impl FnOnce(Scenario) -> Scenario) -> Scenario {
    let pause = |value| annotate("MachineHealthCheck", CHECK, keys::PAUSED_ANNOTATION, value);
    let story = story
        .step(pause("true"))
        .eventually(slack(), check_condition("Paused", "True", "Paused"));
    happens(story).step(pause("false"))
}

/// M5.
fn limit() -> Scenario {
    let story = Scenario::new(
        "health_check_limit",
        "Three of five machines are unhealthy and 40 % may be: none is replaced until one has recovered.",
    );
    let three = ["md-a-1", "md-a-2", "md-a-3"];
    let story = checked_pool(story, &patient(5), full_disk(json!({ "maxUnhealthy": "40%" })));
    fail_together(story, &three)
        .eventually(
            2 * slack(),
            all([
                healthy(5, 2),
                check_condition("RemediationAllowed", "False", "TooManyUnhealthy"),
                check_status("remediationsAllowed", 0),
                failed("md-a-1"),
            ]),
        )
        .eventually(
            slack(),
            event_count("MachineHealthCheck", CHECK, "RemediationRestricted", 1),
        )
        .never(slack(), any(three.map(requested)))
        .step(kubelet("md-a-3", KubeletAction::FreeDisk))
        .eventually(4 * slack(), all(["md-a-1", "md-a-2"].map(replaced)))
        .eventually(4 * joining(), all([machine_gone("md-a-1"), machine_gone("md-a-2")]))
        .eventually(joining() + slack(), recovered(5))
}

/// The machine is requested, or gone already.
fn replaced(machine: &str) -> Condition {
    any([requested(machine), machine_gone(machine)])
}

/// M5 with the proposal's reading.
fn exclusive_limit() -> Scenario {
    let story = Scenario::new(
        "health_check_exclusive_limit",
        "With the exclusive flag remediation stops at the limit itself: two of five are too many for 40 %, one is not.",
    )
    .with_health_checks(HealthChecks::Exclusive);
    let story = settled(story, &[patient(5)])
        .step(check(full_disk(json!({ "maxUnhealthy": "40%" }))))
        .eventually(slack(), healthy(5, 5));
    fail_together(story, &["md-a-1", "md-a-2"])
        .eventually(
            2 * slack(),
            check_condition("RemediationAllowed", "False", "TooManyUnhealthy"),
        )
        .eventually(slack(), all([failed("md-a-1"), failed("md-a-2")]))
        .never(slack(), any(["md-a-1", "md-a-2"].map(requested)))
        .step(kubelet("md-a-2", KubeletAction::FreeDisk))
        .eventually(2 * slack(), replaced("md-a-1"))
        .eventually(2 * joining(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), recovered(5))
}

/// M6.
fn range() -> Scenario {
    let story = Scenario::new(
        "health_check_range",
        "Machines are remediated while two or three are unhealthy: neither at one nor at four.",
    );
    let four = ["md-a-1", "md-a-2", "md-a-3", "md-a-4"];
    let story = checked_pool(story, &patient(5), full_disk(json!({ "unhealthyRange": "[2-3]" })))
        .step(kubelet("md-a-1", KubeletAction::FillDisk))
        .eventually(2 * slack(), failed("md-a-1"))
        .never(slack(), requested("md-a-1"))
        .step(kubelet("md-a-1", KubeletAction::FreeDisk))
        .eventually(2 * slack(), healthy(5, 5));
    let story = fail_together(story, &four)
        .eventually(2 * slack(), all([healthy(5, 1), failed("md-a-4")]))
        .never(slack(), any(four.map(requested)));
    recover_together(story, &["md-a-3", "md-a-4"])
        .eventually(2 * slack(), any(["md-a-1", "md-a-2"].map(replaced)))
        .eventually(2 * joining(), any([machine_gone("md-a-1"), machine_gone("md-a-2")]))
}

/// M7.
fn rounded_down() -> Scenario {
    let story = Scenario::new(
        "health_check_rounds_down",
        "40 % of six machines are two: two are replaced, three are not.",
    );
    let three = ["md-a-1", "md-a-2", "md-a-3"];
    let story = checked_pool(story, &patient(6), full_disk(json!({ "maxUnhealthy": "40%" })))
        .eventually(slack(), check_status("remediationsAllowed", 2));
    fail_together(story, &three)
        .eventually(2 * slack(), all(three.map(failed)))
        .never(slack(), any(three.map(requested)))
        .step(kubelet("md-a-1", KubeletAction::FreeDisk))
        .eventually(2 * slack(), all(["md-a-2", "md-a-3"].map(replaced)))
}

/// The number of simultaneous remediations of the check itself.
fn in_flight() -> Scenario {
    let story = Scenario::new(
        "health_check_in_flight",
        "At most one machine is remediated at a time: the other unhealthy ones follow.",
    );
    checked(story, 4, json!({ "maxInFlight": 1 }))
        .throughout(not(all([requested("md-a-1"), requested("md-a-2")])))
        .steps(["md-a-1", "md-a-2"].map(stop))
        .eventually(
            acting() + 4 * joining(),
            all([machine_gone("md-a-1"), machine_gone("md-a-2")]),
        )
        .eventually(joining() + slack(), recovered(4))
}

/// M17.
fn storm(cooldown: bool) -> Scenario {
    let (name, about, time) = match cooldown {
        true => (
            "health_check_storm",
            "Three of five machines are unhealthy for twenty minutes and recover within three: with a cooldown none is replaced.",
            "5m",
        ),
        false => (
            "health_check_storm_without_cooldown",
            "The same without a cooldown: those that recover last are replaced, although they would have recovered.",
            "0s",
        ),
    };
    let story = Scenario::new(name, about).only_on([StageKind::Sim], "it takes half an hour");
    let spec = json!({ "maxUnhealthy": "40%", "stormCooldown": time, "unhealthyConditions": not_ready("1m") });
    // mcm's own health timeout is out of the way.
    let story = settled(story.health_checks(), &[patient(5)])
        .step(check(spec))
        .eventually(slack(), healthy(5, 5))
        .steps(["md-a-1", "md-a-2", "md-a-3"].map(stop))
        .step(wait(seconds(1200)))
        .eventually(slack(), healthy(5, 2));
    if cooldown {
        let none_requested = not(any(["md-a-1", "md-a-2", "md-a-3"].map(requested)));
        return story
            .throughout(none_requested)
            .step(start("md-a-1"))
            .step(wait(seconds(90)))
            .step(start("md-a-2"))
            .step(wait(seconds(90)))
            .step(start("md-a-3"))
            .eventually(seconds(600), recovered(5));
    }
    story
        .step(start("md-a-1"))
        .eventually(seconds(90), all(["md-a-2", "md-a-3"].map(requested)))
        .eventually(2 * joining(), machine_gone("md-a-2"))
}

/// M18.
fn healthy_delay() -> Scenario {
    let story = Scenario::new(
        "health_check_healthy_delay",
        "A node that becomes Ready again for shorter than the delay does not count as healthy.",
    )
    .only_on([StageKind::Sim], "the delay is several times the node's grace period");
    let spec = json!({ "healthyDelay": "10m", "maxUnhealthy": 0 });
    settled(story.health_checks(), &[patient(2)])
        .step(check(spec))
        .eventually(slack(), healthy(2, 2))
        .step(stop("md-a-1"))
        .eventually(acting(), failed("md-a-1"))
        .always(seconds(1800), failed("md-a-1"))
        .meanwhile()
        .steps([start("md-a-1"), wait(seconds(300)), stop("md-a-1"), wait(seconds(300))])
        .steps([start("md-a-1"), wait(seconds(300)), stop("md-a-1"), wait(seconds(300))])
        .steps([start("md-a-1"), wait(seconds(300)), stop("md-a-1"), wait(seconds(350))])
        .step(start("md-a-1"))
        .never(seconds(500), healthy(2, 2))
        .eventually(seconds(200), healthy(2, 2))
}

/// M20.
fn control_cut() -> Scenario {
    let story = Scenario::new(
        "health_check_after_an_outage",
        "mcm reaches no API server for an hour while two nodes are not Ready: nothing happens within the grace afterwards, and \
         then one machine at a time is replaced.",
    )
    .only_on([StageKind::Sim], "it takes an hour");
    let cut = Rule::new("cut", Action::Partition { how: Cut::Refuse });
    checked(
        story,
        4,
        json!({ "unhealthyConditions": not_ready("5m"), "maxUnhealthy": "50%" }),
    )
    .step(api_fault_by(Client::Mcm, cut))
    .step(wait(seconds(300)))
    .steps(["md-a-1", "md-a-2"].map(stop))
    .step(wait(seconds(3300)))
    .step(lift_api_fault("cut"))
    .never(seconds(60), any(["md-a-1", "md-a-2"].map(requested)))
    .eventually(seconds(120), any(["md-a-1", "md-a-2"].map(requested)))
    .eventually(4 * joining(), all([machine_gone("md-a-1"), machine_gone("md-a-2")]))
    .eventually(joining() + slack(), recovered(4))
}

/// Bad input: two checks of one machine.
fn two_checks() -> Scenario {
    let story = Scenario::new(
        "health_check_twice",
        "Two checks select the same machines: neither remediates them, and both say so.",
    );
    checked(story, 2, full_disk(json!({})))
        .step(check_named("others", POOL, full_disk(json!({}))))
        .eventually(
            2 * slack(),
            check_condition("Evaluated", "False", "OverlappingMachineHealthCheck"),
        )
        .step(annotate(
            "Machine",
            "md-a-1",
            keys::REMEDIATE_MACHINE_ANNOTATION,
            "true",
        ))
        .never(2 * slack(), requested("md-a-1"))
        .step(annotate(
            "MachineHealthCheck",
            "others",
            keys::PAUSED_ANNOTATION,
            "true",
        ))
        .eventually(2 * slack(), requested("md-a-1"))
        .eventually(2 * joining(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), recovered(2))
}

/// Bad input that the definition accepts: the controller reports it.
fn unusable() -> Scenario {
    let story = Scenario::new(
        "health_check_unusable",
        "A check with a template in another namespace reports it, and remediates nothing until it is corrected.",
    );
    let template = json!({
        "apiVersion": "remediation.fakecloud.drydock.dev/v1alpha1", "kind": "FakeCloudRemediationTemplate", "name": "reboot",
        "namespace": "elsewhere",
    });
    settled(story.health_checks(), &[pool(2)])
        .step(check(full_disk(json!({ "remediationTemplate": template }))))
        .eventually(slack(), check_condition("Evaluated", "False", "InvalidSpec"))
        .eventually(slack(), event_count("MachineHealthCheck", CHECK, "InvalidSpec", 1))
        .step(annotate(
            "Machine",
            "md-a-1",
            keys::REMEDIATE_MACHINE_ANNOTATION,
            "true",
        ))
        .never(slack() + node_grace(), failed("md-a-1"))
        .step(merge(
            "MachineHealthCheck",
            CHECK,
            json!({ "spec": { "remediationTemplate": null } }),
        ))
        .eventually(2 * slack(), requested("md-a-1"))
        .eventually(2 * joining(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), recovered(2))
        .always(
            slack(),
            all(names(2).iter().skip(1).map(|machine| phase(machine, Phase::Running))),
        )
}
