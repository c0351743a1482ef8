//! R57 `ca-annotation-typo`: the annotation that protects the nodes of a rollout from cluster-autoscaler had a
//! value that it does not recognize.

use harness::regression::{Confidence, Entry, Group};
use mcm_api::keys;
use scenario::Scenario;
use scenario::builder::{all, field, seconds, slack};
use serde_json::{Value, json};

use super::story;
use super::worlds::{at_size, case, class, pool, settled, to_class};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R57",
        name: "ca-annotation-typo",
        origin: "MCM PR#685",
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case("R57", kept_away(), &["I15"])],
        open: "",
    }
}

fn kept_away() -> Scenario {
    let disabled = |name: &str, is: Value| {
        let key = keys::SCALE_DOWN_DISABLED_ANNOTATION.replace('/', "~1");
        field("Node", name, &format!("/metadata/annotations/{key}"), is)
    };
    let story = story(
        "r57-kept-away",
        "The nodes of a rollout are protected from cluster-autoscaler by the annotation value that it recognizes.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[pool(3)])
        .step(to_class("class-b"))
        .eventually(
            slack(),
            all(["md-a-1", "md-a-2", "md-a-3"].map(|name| disabled(name, json!("true")))),
        )
        .step(to_class("class-a"))
        .eventually(seconds(3600), at_size(3))
        .eventually(
            slack(),
            all(["md-a-1", "md-a-2", "md-a-3"].map(|name| disabled(name, Value::Null))),
        )
}
