//! R36 `flap-resets-health-timeout`: an Unknown machine was never replaced although its node had been unhealthy
//! for hours, because a condition of the node changed all the time.

use harness::regression::{Case, Confidence, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, flap, health_timeout, keep, kubelet, machine_gone, node_grace, phase, seconds, slack, wait,
};
use scenario::step::KubeletAction;

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R36",
        name: "flap-resets-health-timeout",
        origin: "MCM#811",
        group: Group::Timeouts,
        confidence: Confidence::Symptom,
        cases: vec![
            Case {
                id: "R36",
                scenario: flaps(
                    "r36-flap",
                    "A condition of an Unknown machine's node changes every two seconds: the machine is Failed in \
                     time.",
                    ("CustomProblem", ["True", "False"], 2),
                ),
                mutant: true,
                breaks: &["I13"],
            },
            Case {
                id: "R36/ready",
                scenario: flaps(
                    "r36-flap-ready",
                    "Ready of an Unknown machine's node changes between False and Unknown: the machine is Failed in \
                     time.",
                    ("Ready", ["False", "Unknown"], 30),
                ),
                mutant: false,
                breaks: &["I13"],
            },
        ],
        open: "",
    }
}

fn flaps(name: &str, about: &str, (condition, values, every): (&str, [&str; 2], u64)) -> Scenario {
    story(name, about)
        .keeper(POOL, 0, serde_json::Value::Null)
        .step(keep(3))
        .eventually(joining(), all(["md-a-1", "md-a-2", "md-a-3"].map(well)))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(node_grace() + slack(), phase("md-a-1", Phase::Unknown))
        .eventually(health_timeout() + 2 * slack(), phase("md-a-1", Phase::Failed))
        .meanwhile()
        .step(wait(seconds(60)))
        .step(flap("md-a-1", condition, values, seconds(every), seconds(1800)))
        .eventually(seconds(600), machine_gone("md-a-1"))
        .eventually(joining(), well("md-a-4"))
        .quiet_end(joining())
}
