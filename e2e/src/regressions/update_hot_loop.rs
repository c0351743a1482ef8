//! R71 `update-hot-loop`: an update that could not succeed was retried immediately, tens of thousands of times.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Match, Pattern, Rule, Verb};
use scenario::builder::{
    api_fault_by, delete, exists, fault_hits, field, force_delete, kubelet, medium_retry, not, seconds, wait,
};
use scenario::step::{Client, KubeletAction};
use serde_json::json;

use super::worlds::{
    Pool, api_fails, api_recovers, at_size, case, drains_end, drains_take_long, merge, pool, refusal, scale, settled,
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
            case("R71/gone", removed_by_force(), &[]),
        ],
        open: "responses with code 403: a run treats each of them as a missing permission",
    }
}

fn refused(name: &str, action: Action) -> Scenario {
    let story = story(
        name,
        "For ten minutes no write of a deployment succeeds: mcm retries with backoff, and succeeds afterwards.",
    );
    settled(story, &[pool(3)])
        .step(api_fails(&[Verb::Patch], "machinedeployments*", action))
        .step(scale(4))
        .step(wait(seconds(600)))
        .eventually(seconds(1), fault_hits("api", 2))
        .step(api_recovers())
        .eventually(joining(), at_size(4))
        .quiet_end(joining())
}

/// A set has surplus machines, and for ten minutes no write of it succeeds, including its freeze.
fn not_frozen() -> Scenario {
    let usual = pool(2);
    let extra = ["md-a-7", "md-a-8", "md-a-9"].map(|name| usual.machine(name, usual.class));
    let story = story(
        "r71-not-frozen",
        "A set must be frozen, and for ten minutes no write of it succeeds: mcm retries with backoff, and succeeds \
         afterwards.",
    );
    settled(story, std::slice::from_ref(&usual))
        .step(drains_take_long())
        .step(api_fails(&[Verb::Patch], "machinesets*", refusal(503)))
        .steps(extra)
        .step(wait(seconds(600)))
        .eventually(seconds(1), fault_hits("api", 2))
        .step(api_recovers())
        .step(drains_end())
        .eventually(medium_retry() + 2 * joining(), at_size(2))
        .quiet_end(joining())
}

/// While no write of one deployment succeeds, another one scales up, and a third one is created and deleted.
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
        "For ten minutes no write of a deployment succeeds: others scale up, are created and deleted in the meantime.",
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
        .eventually(seconds(1), fault_hits("api", 2))
        .step(api_recovers())
        .eventually(seconds(60), field("MachineSet", &pool(2).set(), "/spec/replicas", 3))
        .eventually(joining(), at_size(3))
        .quiet_end(joining())
}

/// A machine is removed from the store despite its finalizers, while its status cannot be written.
fn removed_by_force() -> Scenario {
    let story = story(
        "r71-gone",
        "A machine disappears while its status cannot be written: mcm stops reconciling it, and its set creates \
         another one.",
    );
    settled(story, &[pool(2)])
        .step(api_fails(&[Verb::Patch], "machines/status", refusal(500)))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .step(wait(seconds(120)))
        .step(force_delete("Machine", "md-a-1"))
        .step(wait(seconds(600)))
        .step(api_recovers())
        .eventually(joining(), at_size(2))
        .quiet_end(joining())
}
