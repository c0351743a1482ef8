//! R52 `stale-desired-replicas-blocks-roll`: the recorded size of the deployment on a set was out of date while
//! the set's own size was right; every pass saw a changed size, did nothing, and the rollout never started.

use harness::regression::{Confidence, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{all, phase, seconds, slack};
use serde_json::{Value, json};

use super::worlds::{Pool, at_size, case, class, merge, pool, rolled, rolling, settled, to_class, updated};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    let recreate = json!({ "type": "Recreate" });
    Entry {
        id: "R52",
        name: "stale-desired-replicas-blocks-roll",
        origin: "MCM#815, MCM PR#821",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![
            case("R52", replaced("r52-out-of-date", rolling(1, 0)), &["I11"]),
            case("R52/recreate", replaced("r52-recreate", recreate), &[]),
            case("R52/in-place", in_place(), &[]),
        ],
        open: "",
    }
}

/// The recorded size is wrong when the class changes.
fn out_of_date(name: &str, usual: &Pool) -> Scenario {
    let stale_size = json!({ "metadata": { "annotations": { keys::DESIRED_REPLICAS_ANNOTATION: "5" } } });
    let story = story(
        name,
        "A set records a stale size of its deployment, and has the right size itself: a rollout proceeds all the same.",
    )
    .step(class("class-b", "z1"));
    settled(story, std::slice::from_ref(usual))
        .step(merge("MachineSet", &usual.set(), stale_size))
        .step(to_class("class-b"))
}

fn replaced(name: &str, strategy: Value) -> Scenario {
    out_of_date(name, &Pool { strategy, ..pool(3) })
        .eventually(seconds(30 * 60), rolled(3))
        .quiet_end(joining())
}

fn in_place() -> Scenario {
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto" },
    });
    let usual = Pool { strategy, ..pool(2) };
    let succeeded = json!({ "metadata": { "labels": { keys::UPDATE_RESULT_LABEL: keys::UPDATE_SUCCESSFUL } } });
    let mut story = out_of_date("r52-in-place", &usual);
    for (name, done) in usual.names().iter().zip(1..) {
        story = story
            .eventually(2 * slack(), phase(name, Phase::InPlaceUpdating))
            .step(merge("Node", name, succeeded.clone()))
            .eventually(2 * slack(), all([phase(name, Phase::Running), updated(done)]));
    }
    story.eventually(2 * slack(), at_size(2)).quiet_end(joining())
}
