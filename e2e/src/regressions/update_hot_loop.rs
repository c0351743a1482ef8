//! R71 `update-hot-loop`: an update that could not succeed was tried again at once, tens of thousands of times.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Match, Pattern, Rule, Verb};
use scenario::builder::{
    api_fault_by, delete, exists, field, force_delete, kubelet, medium_retry, not, seconds, struck, wait,
};
use scenario::step::{Client, KubeletAction};
use serde_json::json;

use super::worlds::{
    Pool, api_recovers, api_trouble, at_size, case, drains_end, drains_take_long, merge, pool, refusal, scale, settled,
    status,
};
use super::{POOL, joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R71",
        name: "update-hot-loop",
        origin: "MCM#686, MCM#382",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![
            case("R71", refused("r71-refused", refusal(500)), &["I18"]),
            case("R71/b", refused("r71-b-conflicts", refusal(409)), &["I18"]),
            case("R71/not-frozen", not_frozen(), &[]),
            case("R71/others", others(), &[]),
            case("R71/gone", gone(), &[]),
        ],
        open: "answers of 403: a run takes each of them for a missing right",
    }
}

fn refused(name: &str, action: Action) -> Scenario {
    let story = story(
        name,
        "For ten minutes no write of a deployment succeeds: it is tried now and then, and done when it may be.",
    );
    settled(story, &[pool(3)])
        .step(api_trouble(&[Verb::Patch], "machinedeployments*", action))
        .step(scale(4))
        .step(wait(seconds(600)))
        .eventually(seconds(1), struck("api", 2))
        .step(api_recovers())
        .eventually(joining(), at_size(4))
        .quiet_end(joining())
}

/// A set has too many machines, and for ten minutes nothing of it can be written, its freeze among it.
fn not_frozen() -> Scenario {
    let usual = pool(2);
    let extra = ["md-a-7", "md-a-8", "md-a-9"].map(|name| usual.machine(name, usual.class));
    let story = story(
        "r71-not-frozen",
        "A set is to be frozen, and for ten minutes no write of it succeeds: it is tried now and then, and done when it may be.",
    );
    settled(story, std::slice::from_ref(&usual))
        .step(drains_take_long())
        .step(api_trouble(&[Verb::Patch], "machinesets*", refusal(503)))
        .steps(extra)
        .step(wait(seconds(600)))
        .eventually(seconds(1), struck("api", 2))
        .step(api_recovers())
        .step(drains_end())
        .eventually(medium_retry() + 2 * joining(), at_size(2))
        .quiet_end(joining())
}

/// While no write of one deployment succeeds another one grows, and a third one comes and goes.
fn others() -> Scenario {
    let named = |name| Pool { name, ..pool(1) };
    let rule = Rule {
        matches: Match {
            verbs: vec![Verb::Patch],
            resource: Some(Pattern::new("machinedeployments*")),
            object: Some(Pattern::new(POOL)),
            ..Match::default()
        },
        ..Rule::new("api", refusal(500))
    };
    let third = named("md-c");
    let story = story(
        "r71-others",
        "For ten minutes no write of a deployment succeeds: others grow, come and go meanwhile.",
    );
    settled(story, &[pool(2), named("md-b")])
        .step(api_fault_by(Client::Mcm, rule))
        .step(scale(3))
        .step(merge("MachineDeployment", "md-b", json!({ "spec": { "replicas": 2 } })))
        .eventually(joining(), status("md-b", "availableReplicas", 2))
        .step(third.deployment())
        .eventually(joining(), status("md-c", "availableReplicas", 1))
        .step(delete("MachineDeployment", "md-c"))
        .eventually(joining(), not(exists("MachineDeployment", "md-c")))
        .eventually(seconds(1), struck("api", 2))
        .step(api_recovers())
        .eventually(seconds(60), field("MachineSet", &pool(2).set(), "/spec/replicas", 3))
        .eventually(joining(), at_size(3))
        .quiet_end(joining())
}

/// A machine is taken from the store, whatever holds it, while its status cannot be written.
fn gone() -> Scenario {
    let story = story(
        "r71-gone",
        "A machine vanishes while its status cannot be written: nobody goes on with it, and another one comes.",
    );
    settled(story, &[pool(2)])
        .step(api_trouble(&[Verb::Patch], "machines/status", refusal(500)))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .step(wait(seconds(120)))
        .step(force_delete("Machine", "md-a-1"))
        .step(wait(seconds(600)))
        .step(api_recovers())
        .eventually(joining(), at_size(2))
        .quiet_end(joining())
}
