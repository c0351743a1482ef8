//! R81 `auto-max-picks-wrong-victim`: lowering the maximum released another machine than documented.

use std::time::Duration;

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Verb};
use scenario::builder::{all, fault_hits, kubelet, machine_gone, patch_status, seconds, slack, wait};
use scenario::step::KubeletAction;
use serde_json::json;

use super::story;
use super::worlds::{Pool, api_fails, case, failing, kept, pool, settled, spec, status};

pub(super) fn entry() -> Entry {
    let late = |scenario: Scenario| {
        let lag = Action::LagWatch {
            by: Duration::from_secs(5),
        };
        scenario.step(api_fails(&[Verb::Watch], "machines", lag))
    };
    Entry {
        id: "R81",
        name: "auto-max-picks-wrong-victim",
        origin: "MCM PR#1138",
        group: Group::Preservation,
        confidence: Confidence::Cause,
        cases: vec![
            case("R81", lowered("r81-lowered", |scenario| scenario), &["I15", "I4"]),
            case(
                "R81/lag",
                lowered("r81-late-watch", late).eventually(seconds(1), fault_hits("api", 1)),
                &[],
            ),
        ],
        open: "",
    }
}

/// The machines were created at the same time, so that their names break the tie.
fn lowered(name: &str, disturbed: impl FnOnce(Scenario) -> Scenario) -> Scenario {
    let story = story(
        name,
        "Three machines are preserved, and the maximum is lowered to one: exactly the two that were created first are \
         released.",
    );
    let five = Pool {
        maximum: 3,
        kept_for: Some("72h0m0s"),
        ..pool(5)
    };
    let mut story = settled(story, &[five]);
    for machine in ["md-a-3", "md-a-1", "md-a-2"] {
        story = story
            .step(kubelet(machine, KubeletAction::Stop))
            .eventually(failing(), kept(machine))
            .step(wait(seconds(20 * 60)));
    }
    let latest = json!({ "status": { "currentStatus": { "preserveExpiryTime": "2199-01-01T00:00:00Z" } } });
    disturbed(story.step(patch_status("Machine", "md-a-1", latest)))
        .step(spec(json!({ "autoPreserveFailedMax": 1 })))
        .eventually(4 * slack(), all([machine_gone("md-a-1"), machine_gone("md-a-2")]))
        .eventually(
            6 * slack(),
            all([kept("md-a-3"), status("md-a", "availableReplicas", 4)]),
        )
        .always(seconds(3600), kept("md-a-3"))
}
