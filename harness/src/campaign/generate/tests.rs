use std::collections::BTreeSet;

use super::*;
use crate::campaign::suite::SUITES;
use crate::scenario::Timeouts;

fn plans(seeds: std::ops::Range<u64>) -> impl Iterator<Item = Plan> {
    seeds.flat_map(|seed| SUITES.iter().map(move |suite| plan(suite, seed, None)))
}

#[test]
fn every_plan_is_valid_and_the_same_after_it_was_written_and_read() {
    for plan in plans(0..200) {
        plan.validate().unwrap();
        let yaml = plan.to_yaml().unwrap();
        assert_eq!(Plan::from_yaml(&yaml, "a.yaml", &[]).unwrap(), plan, "{yaml}");
    }
}

#[test]
fn a_seed_gives_its_plan_again_and_others_give_others() {
    let texts = |seeds| plans(seeds).map(|plan| plan.to_yaml().unwrap()).collect::<Vec<_>>();
    let first = texts(0..100);
    assert_eq!(first, texts(0..100));
    assert!(first.iter().collect::<BTreeSet<_>>().len() > 180);
}

#[test]
fn sizes_take_turns() {
    let machines = |seed| {
        let plan = plan(&SUITES[0], seed, None);
        let names = plan
            .scenario
            .steps
            .iter()
            .filter(|step| matches!(step, crate::scenario::Step::Apply(_)));
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
                Disturbance::Cloud(fault) => assert!(fault.until.is_some(), "{disturbance}"),
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
