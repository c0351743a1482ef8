//! R18 `api-path-outage-meltdown`: the kubelets lost their connection to the API server while the controllers
//! kept theirs; all nodes were replaced at once.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Cut, Match, Pattern, Rule};
use scenario::builder::{api_fault, fault_hits, lift_api_fault, seconds, wait};

use super::story;
use super::worlds::{at_size, case, pool, settled};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R18",
        name: "api-path-outage-meltdown",
        origin: "MCM#679, MCM#354, MCM PR#482",
        group: Group::Freeze,
        confidence: Confidence::Cause,
        cases: vec![case("R18", path_cut(), &["I12"])],
        open: "",
    }
}

/// For an hour no kubelet can connect to the API server, so that a replacement cannot join either.
fn path_cut() -> Scenario {
    let rule = Rule {
        matches: Match {
            client: Some(Pattern::new("*:fakecloud")),
            ..Match::default()
        },
        ..Rule::new("path", Action::Partition { how: Cut::Refuse })
    };
    let story = story(
        "r18-path-outage",
        "For an hour no kubelet can connect to the API server: machines of a deployment are replaced one at a time.",
    );
    settled(story, &[pool(10)])
        .step(wait(seconds(60)))
        .step(api_fault(rule))
        .step(wait(seconds(3600)))
        .eventually(seconds(1), fault_hits("path", 1))
        .step(lift_api_fault("path"))
        .eventually(seconds(40 * 60), at_size(10))
}
