//! R44 `ca-kills-replacement`: the creation timeout equals cluster-autoscaler's limit; the machine that it
//! selected had just been replaced, and a healthy machine was deleted.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, machine_gone, seconds, wait};

use super::worlds::{Pool, TIMES, at_size, autoscaler, bad_class, case, pool};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R44",
        name: "ca-kills-replacement",
        origin: "GA#118, GA PR#125, GA#55; MCM#826",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![
            case("R44", late("r44-early", 1140), &[]),
            case("R44/b", late("r44-b-late", 1290), &["I15", "I7"]),
            case("R44/at-once", late("r44-at-once", 1200), &[]),
        ],
        open: "an observation in each second of two minutes: three offsets; a simulated autoscaler that takes Failed \
         for alive",
    }
}

/// cluster-autoscaler gives up on a machine that does not join, this long after its creation; the creation
/// timeout is twenty minutes.
fn late(name: &str, after: u64) -> Scenario {
    let usual = pool(3);
    let four = Pool {
        replicas: 4,
        ..usual.clone()
    };
    let story = story(
        name,
        "cluster-autoscaler selects a machine that never joins about when it is replaced: no Running machine is \
         deleted.",
    )
    .steps(bad_class())
    .steps(usual.names().iter().map(|name| usual.machine(name, usual.class)))
    .eventually(joining(), usual.runs())
    .step(usual.machine("md-a-4", "class-bad"))
    .step(four.deployment());
    story
        .step(wait(seconds(after)))
        .step(autoscaler("md-a-4", TIMES[0], 3))
        .eventually(seconds(40 * 60), all([machine_gone("md-a-4"), at_size(3)]))
        .eventually(seconds(1), usual.runs())
}
