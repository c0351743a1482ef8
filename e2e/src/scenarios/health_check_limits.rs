//! The limits of health checks: the circuit breaker, storms, delays, outages, and specs that cannot be used.

use mcm_api::{Phase, keys};
use scenario::api_faults::{Action, At, Cut, Match, Pattern, Rule};
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
    node_condition, not_ready, recovered, requested,
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
        objects_cut(),
        two_checks(),
        unusable(),
    ]
}

fn stop(machine: &str) -> Step {
    kubelet(machine, KubeletAction::Partition)
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
            "Three of five machines are unhealthy, and recover one after the other: with a cooldown none is replaced.",
            "1m",
        ),
        false => (
            "health_check_storm_without_cooldown",
            "The same without a cooldown: those that recover last are replaced, although they would have recovered.",
            "0s",
        ),
    };
    let spec = full_disk(json!({ "maxUnhealthy": "40%", "stormCooldown": time }));
    let story = checked_pool(Scenario::new(name, about), &patient(5), spec);
    let story = fail_together(story, &["md-a-1", "md-a-2", "md-a-3"])
        .eventually(
            2 * slack(),
            all([
                healthy(5, 2),
                check_condition("RemediationAllowed", "False", "TooManyUnhealthy"),
            ]),
        )
        .never(3 * slack(), any(["md-a-1", "md-a-2", "md-a-3"].map(requested)));
    let recover = |machine| kubelet(machine, KubeletAction::FreeDisk);
    if cooldown {
        return story
            .throughout(not(any(["md-a-1", "md-a-2", "md-a-3"].map(requested))))
            .step(recover("md-a-1"))
            .eventually(
                2 * slack(),
                check_condition("RemediationAllowed", "False", "StormCooldown"),
            )
            .step(wait(seconds(10)))
            .step(recover("md-a-2"))
            .step(wait(seconds(10)))
            .step(recover("md-a-3"))
            .eventually(2 * slack(), recovered(5))
            .eventually(
                seconds(60) + slack(),
                check_condition("RemediationAllowed", "True", "RemediationAllowed"),
            );
    }
    story
        .step(recover("md-a-1"))
        .eventually(2 * slack(), all(["md-a-2", "md-a-3"].map(replaced)))
        .eventually(2 * joining(), machine_gone("md-a-2"))
}

/// M18.
fn healthy_delay() -> Scenario {
    let story = Scenario::new(
        "health_check_healthy_delay",
        "A node whose disk has space again for shorter than the delay does not count as healthy.",
    );
    let spec = full_disk(json!({ "healthyDelay": "20s", "maxUnhealthy": 0 }));
    let (fill, free) = (
        || kubelet("md-a-1", KubeletAction::FillDisk),
        || kubelet("md-a-1", KubeletAction::FreeDisk),
    );
    checked_pool(story, &patient(2), spec)
        .step(fill())
        .eventually(acting(), failed("md-a-1"))
        .always(seconds(50), failed("md-a-1"))
        .meanwhile()
        .steps([free(), wait(seconds(10)), fill(), wait(seconds(10))])
        .steps([free(), wait(seconds(10)), fill(), wait(seconds(10))])
        .step(free())
        .never(seconds(12), healthy(2, 2))
        .eventually(seconds(10) + 2 * slack(), healthy(2, 2))
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

/// M20 on the wall clock, where an mcm that reaches nothing ends, because it cannot renew its Lease.
fn objects_cut() -> Scenario {
    let story = Scenario::new(
        "health_check_without_its_objects",
        "mcm cannot read Machines and Nodes while two nodes are not Ready: nothing happens within the grace afterwards, and \
         then both machines are replaced.",
    );
    let rule = |name: &str, resource: &str, action| {
        let matches = Match {
            resource: Some(Pattern::new(resource)),
            ..Match::default()
        };
        api_fault_by(
            Client::Mcm,
            Rule {
                matches,
                ..Rule::new(name, action)
            },
        )
    };
    let ended = || Action::TruncateWatch {
        after_events: 0,
        midway: false,
    };
    let lost = || Action::Drop { at: At::default() };
    checked(story, 4, json!({ "maxUnhealthy": "50%" }))
        .step(rule("machines", "machines", lost()))
        .step(rule("nodes", "nodes", lost()))
        .step(rule("machine-watches", "machines", ended()))
        .step(rule("node-watches", "nodes", ended()))
        .steps(["md-a-1", "md-a-2"].map(stop))
        .eventually(
            node_grace() + slack(),
            all(["md-a-1", "md-a-2"].map(|node| node_condition(node, "Ready", "Unknown"))),
        )
        .step(wait(3 * slack()))
        .steps(["machines", "nodes", "machine-watches", "node-watches"].map(lift_api_fault))
        .never(slack(), any(["md-a-1", "md-a-2"].map(requested)))
        .eventually(4 * slack(), any(["md-a-1", "md-a-2"].map(replaced)))
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
