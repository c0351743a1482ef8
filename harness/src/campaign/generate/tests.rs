use std::collections::BTreeSet;
use std::sync::LazyLock;

use rstest::rstest;
use scenario::Timeouts;

use super::*;
use crate::campaign::suite::SUITES;

fn plans(seeds: std::ops::Range<u64>) -> impl Iterator<Item = Plan> {
    seeds.flat_map(|seed| SUITES.iter().map(move |suite| plan(suite, seed, None)))
}

#[test]
fn every_plan_is_valid_and_survives_a_round_trip_through_yaml() {
    for plan in plans(0..200) {
        plan.validate().unwrap();
        let yaml = plan.to_yaml().unwrap();
        assert_eq!(Plan::from_yaml(&yaml, "a.yaml", &[]).unwrap(), plan, "{yaml}");
    }
}

#[test]
fn a_plan_depends_only_on_its_seed() {
    let texts = |seeds| plans(seeds).map(|plan| plan.to_yaml().unwrap()).collect::<Vec<_>>();
    let first = texts(0..100);
    assert_eq!(first, texts(0..100));
    assert!(first.iter().collect::<BTreeSet<_>>().len() > 180);
}

#[test]
fn drivers_register_in_some_worlds() {
    let drivers: BTreeSet<u32> = plans(0..100).map(|plan| plan.scenario.world.drivers).collect();
    assert_eq!(drivers, BTreeSet::from([0, 1, 2]));
}

#[test]
fn consecutive_seeds_alternate_between_sizes() {
    let machines = |seed| {
        let plan = plan(&SUITES[0], seed, None);
        let names = plan
            .scenario
            .steps
            .iter()
            .filter(|step| matches!(step, scenario::Step::Apply(_)));
        names.count()
    };
    let most = |size| (0..40).map(|turn| machines(turn * SIZES + size)).max();
    assert_eq!(most(0), Some(1));
    assert_eq!(most(3), Some(4));
}

#[test]
fn every_fault_ends() {
    let timeouts = Timeouts::production();
    for plan in plans(0..300) {
        for disturbance in &plan.disturbances {
            match disturbance {
                Disturbance::Cloud(fault) => {
                    let window = fault.matches.window.as_ref();
                    assert!(window.is_some_and(|window| window.until.is_some()), "{disturbance}");
                }
                Disturbance::Api(rule) => {
                    assert!(
                        rule.matches.window.is_some_and(|window| window.until.is_some()),
                        "{disturbance}"
                    );
                    assert_eq!(rule.action.class(), apiserver::faults::Class::Legal, "{disturbance}");
                }
                Disturbance::Lag(lag) => assert!(lag.lasts.is_some(), "{disturbance}"),
                Disturbance::Pause(pause) => assert!(pause.time.value(&timeouts) < timeouts.health, "{disturbance}"),
                _ => {}
            }
        }
    }
}

/// Plans of the suite `preservation` in YAML.
fn preservations() -> Vec<String> {
    plans_of(PRESERVATION)
}

/// 200 plans of a suite in YAML.
fn plans_of(suite: &str) -> Vec<String> {
    let suite = crate::campaign::suite::find(suite).unwrap();
    let plans = (0..200).map(|seed| plan(suite, seed, None).to_yaml().unwrap());
    plans.collect()
}

#[rstest]
#[case::a_standalone_set("kind: MachineSet", 15..70)]
#[case::the_upstream_name_of_the_maximum("autoPreserveFailedMachineMax", 20..85)]
#[case::the_first_version("firstVersion: true", 20..180)]
#[case::an_expiry_in_the_past("expireAgo", 8..150)]
#[case::a_removed_expiry("removeExpiry", 8..150)]
#[case::a_preserve_timeout_of_one_machine("preserveTimeout", 15..120)]
#[case::a_request_in_the_template("nodeTemplate", 15..80)]
#[case::scale_down_enabled_in_the_template("scale-down-disabled", 4..50)]
#[case::cluster_autoscaler("scaleDown", 20..110)]
#[case::a_cordon("cordon", 5..150)]
#[case::an_uncordon("uncordon", 3..150)]
#[case::preservation_at_once("value: now", 100..201)]
#[case::an_invalid_value("value: perhaps", 10..150)]
#[case::a_stateful_set("statefulSet:", 90..150)]
#[case::volumes("volume: 1Gi", 50..115)]
#[case::a_vm_stopped_for_its_pods("fencing: stop-vm", 35..90)]
#[case::a_kubelet_cut_off("kubelet: partition", 20..180)]
fn every_kind_of_preservation_is_drawn(#[case] word: &str, #[case] seeds: std::ops::Range<usize>) {
    let with_it = preservations().iter().filter(|plan| plan.contains(word)).count();
    assert!(seeds.contains(&with_it), "{word} in {with_it} of 200 plans");
}

#[test]
fn a_plan_uses_one_name_of_the_maximum() {
    for plan in preservations() {
        assert_ne!(
            plan.contains("autoPreserveFailedMax:"),
            plan.contains("autoPreserveFailedMachineMax:"),
            "{plan}"
        );
    }
}

#[test]
fn a_plan_with_a_standalone_set_has_no_rollout_and_no_cluster_autoscaler() {
    let standalone = |plan: &&String| plan.contains("kind: MachineSet");
    for plan in preservations().iter().filter(standalone) {
        for word in ["MachineDeployment", "paused", "scaleDown"] {
            assert!(!plan.contains(word), "{word}: {plan}");
        }
    }
}

/// Plans of the suite `health-check`.
static HEALTH_CHECKS: LazyLock<Vec<String>> = LazyLock::new(|| plans_of(HEALTH_CHECK));

#[rstest]
#[case::flat_conditions("  unhealthyConditions:", 80..150)]
#[case::nested_conditions("unhealthyNodeConditions:", 60..130)]
#[case::phases("type: Phase=", 60..120)]
#[case::a_flat_startup_timeout("nodeStartupTimeout:", 50..105)]
#[case::a_nested_startup_timeout("nodeStartupTimeoutSeconds:", 35..80)]
#[case::a_range("unhealthyRange: \"[", 20..60)]
#[case::a_nested_range("unhealthyInRange: \"[", 15..50)]
#[case::a_template("remediationTemplate:", 40..100)]
#[case::a_nested_template("templateRef:", 20..65)]
#[case::templates_in_order("escalatingRemediations:", 20..65)]
#[case::a_limit_in_flight("maxInFlight:", 90..160)]
#[case::an_excluded_machine("skip-remediation", 40..95)]
#[case::a_requested_remediation("remediate-machine", 85..160)]
#[case::annotations_of_cluster_api("cluster.x-k8s.io/", 85..160)]
#[case::two_checks("name: others", 7..35)]
#[case::an_outage("name: outage", 13..50)]
#[case::a_process_of_its_own("healthChecks: separate", 30..80)]
#[case::the_exclusive_limit("healthChecks: exclusive", 15..50)]
#[case::only_the_check("disableHealthTimeout: true", 65..135)]
#[case::a_machine_without_a_set("name: single", 10..50)]
#[case::a_deleted_template("- delete:\n      kind: FakeCloudRemediationTemplate", 15..75)]
#[case::a_deleted_node("do: deleteNode", 60..160)]
fn every_kind_of_health_check_is_drawn(#[case] word: &str, #[case] seeds: std::ops::Range<usize>) {
    let with_it = HEALTH_CHECKS.iter().filter(|plan| plan.contains(word)).count();
    assert!(seeds.contains(&with_it), "{word} in {with_it} of 200 plans");
}
