//! R79 `preserve-in-any-strategy`: nodes were powered off for some time with a request to preserve their
//! machines, and with strategies other than RollingUpdate the machines were replaced.

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{annotate, kubelet, phase, seconds, unchanged, vm_count, wait};
use scenario::step::KubeletAction;
use serde_json::{Value, json};

use super::story;
use super::worlds::{Pool, case, failing, kept, pool, rolling, settled};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R79",
        name: "preserve-in-any-strategy",
        origin: "MCM#1075, MCM PR#1112",
        group: Group::Preservation,
        confidence: Confidence::Symptom,
        cases: vec![
            case(
                "R79",
                powered_off("r79-recreate", json!({ "type": "Recreate" })),
                &["I5", "I11", EXPECTED],
            ),
            case("R79/rolling", powered_off("r79-rolling", rolling(1, 0)), &[]),
            case("R79/auto", powered_off("r79-auto", in_place("Auto")), &[]),
            case("R79/manual", powered_off("r79-manual", in_place("Manual")), &[]),
        ],
        open: "",
    }
}

fn in_place(how: &str) -> Value {
    json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": how },
    })
}

fn powered_off(name: &str, strategy: Value) -> Scenario {
    let story = story(
        name,
        "A machine with a preservation request fails because its node is away for three hours: the same machine \
         recovers, with any strategy.",
    );
    let kept_long = Pool {
        strategy,
        kept_for: Some("72h0m0s"),
        ..pool(3)
    };
    settled(story, &[kept_long])
        .step(annotate("Machine", "md-a-1", keys::PRESERVE_ANNOTATION, "when-failed"))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .always(seconds(3 * 3600), unchanged("Machine", "md-a-1", "/metadata/uid"))
        .meanwhile()
        .eventually(failing(), kept("md-a-1"))
        .step(wait(seconds(3 * 3600 - 660)))
        .step(kubelet("md-a-1", KubeletAction::Start))
        .eventually(seconds(120), phase("md-a-1", Phase::RunningPreserved))
        .eventually(seconds(1), vm_count("md-a-1", 1))
}
