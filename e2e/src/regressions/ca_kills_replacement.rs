//! R44 `ca-kills-replacement`: creation timeout and cluster-autoscaler's limit are equal; what it took back had been replaced
//! a moment before, and a healthy machine went.

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
        open: "a look in each second of two minutes: three offsets; a scripted autoscaler that takes Failed for alive",
    }
}

/// Cluster-autoscaler gives a machine up that does not come up, so long after it was made; the creation timeout is twenty
/// minutes.
fn late(name: &str, after: u64) -> Scenario {
    let usual = pool(3);
    let four = Pool {
        replicas: 4,
        ..usual.clone()
    };
    let story = story(
        name,
        "A machine that never comes up is named about when it is replaced: none that runs goes.",
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
