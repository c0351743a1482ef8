//! mcm copies the metadata of a machine's node template to its Node, restores it after edits, and removes it
//! when it is removed from the template; other metadata of the Node stays.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, annotate, apply, field, patch_spec, phase, slack};
use serde_json::{Value, json};

use super::joining;

const NOTE: &str = "/metadata/annotations/example.com~1note";
const MORE: &str = "/metadata/annotations/example.com~1more";
const OWN: &str = "/metadata/annotations/example.com~1own";

pub(super) fn scenario() -> Scenario {
    let machine = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": "m-1" },
        "spec": {
            "class": { "kind": "MachineClass", "name": "class-a" },
            "nodeTemplate": {
                "metadata": {
                    "labels": { "pool": "a" },
                    "annotations": { "example.com/note": "as-wanted", "example.com/more": "x" },
                },
            },
        },
    });
    let note = |pointer: &str, value: Value| field("Node", "m-1", pointer, value);
    Scenario::new(
        "node_template",
        "Labels and annotations of a machine's node template are kept on its Node, also after edits.",
    )
    .step(apply(machine))
    .eventually(joining(), phase("m-1", Phase::Running))
    .eventually(
        slack(),
        all([
            note("/metadata/labels/pool", json!("a")),
            note(NOTE, json!("as-wanted")),
            note(MORE, json!("x")),
        ]),
    )
    .step(annotate("Node", "m-1", "example.com/own", "a-persons"))
    .step(annotate("Node", "m-1", "example.com/note", "edited"))
    .eventually(slack(), note(NOTE, json!("as-wanted")))
    .step(patch_spec(
        "Machine",
        "m-1",
        json!({ "nodeTemplate": { "metadata": { "annotations": { "example.com/more": null } } } }),
    ))
    .eventually(
        slack(),
        all([
            note(MORE, Value::Null),
            note(NOTE, json!("as-wanted")),
            note(OWN, json!("a-persons")),
        ]),
    )
}
