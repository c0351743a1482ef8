//! R19 `zone-outage-meltdown`: during a zone outage its machines were replaced one after the other, although no
//! replacement could join there.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::Verb;
use scenario::builder::{
    all, any, fail_zone, fault_hits, kubelet, machine_gone, restore_zone, seconds, vm_count, wait,
};
use scenario::step::{KubeletAction, ZoneFailure};

use super::worlds::{Pool, api_fails, api_recovers, at_size, case, class, pool, refusal, settled, status};
use super::{POOL, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R19",
        name: "zone-outage-meltdown",
        origin: "MCM#760",
        group: Group::Freeze,
        confidence: Confidence::Symptom,
        cases: vec![
            case("R19", outage("r19-zone-outage", ZoneFailure::Compute, false), &["I12"]),
            case("R19/b", outage("r19-b-zone-outage", ZoneFailure::Both, true), &["I12"]),
            case("R19/c", others_return(), &["I13"]),
        ],
        open: "",
    }
}

const ZONES: [&str; 3] = ["z1", "z2", "z3"];
const POOLS: [(&str, &str); 3] = [("md-z1", "class-z1"), ("md-z2", "class-z2"), ("md-z3", "class-z3")];

/// The zone is down for an hour and a half. New VMs are created and never boot; or the zone does not respond,
/// and no replacement can be created.
fn outage(name: &str, failure: ZoneFailure, no_new_ones: bool) -> Scenario {
    let pools = POOLS.map(|(name, class)| Pool { name, class, ..pool(4) });
    let story = story(
        name,
        "A zone is down for an hour and a half: its deployment loses at most one machine, and the others lose none.",
    )
    .steps(POOLS.into_iter().zip(ZONES).map(|((_, name), zone)| class(name, zone)));
    let mut story = settled(story, &pools).step(wait(seconds(60)));
    if no_new_ones {
        story = story.step(api_fails(&[Verb::Create], "machines", refusal(503)));
    }
    story = story.step(fail_zone("z1", failure)).step(wait(seconds(5400)));
    if no_new_ones {
        story = story.eventually(seconds(1), fault_hits("api", 1)).step(api_recovers());
    }
    let names = pools[0].names();
    let except = |lost: usize| {
        let others = names.iter().enumerate().filter(|(index, _)| *index != lost);
        all(others.map(|(_, name)| vm_count(name, 1)).collect::<Vec<_>>())
    };
    story
        .eventually(seconds(1), any((0..names.len()).map(except)))
        .step(restore_zone("z1"))
        .eventually(
            seconds(3600),
            all(POOLS.map(|(name, _)| status(name, "availableReplicas", 4))),
        )
        .eventually(seconds(1), all([pools[1].runs(), pools[2].runs()]))
}

/// The first machine's replacement joins while the others are still away; they come back a minute and a half
/// later.
fn others_return() -> Scenario {
    let usual = pool(4);
    let names = usual.names();
    let stop = |name: &String| kubelet(name, KubeletAction::Stop);
    let kept = names.iter().skip(1);
    let story = story(
        "r19-c-others-return",
        "One of four unreachable machines is replaced; the others come back a moment after the replacement joined, and \
         stay.",
    );
    settled(story, std::slice::from_ref(&usual))
        .step(wait(seconds(60)))
        .step(stop(&names[0]))
        .step(wait(seconds(20)))
        .steps(kept.clone().map(stop))
        .eventually(seconds(1200), machine_gone(&names[0]))
        .eventually(seconds(600), status(POOL, "readyReplicas", 1))
        .step(wait(seconds(90)))
        .steps(kept.clone().map(|name| kubelet(name, KubeletAction::Start)))
        .eventually(seconds(300), at_size(4))
        .eventually(seconds(1), all(kept.map(|name| well(name))))
}
