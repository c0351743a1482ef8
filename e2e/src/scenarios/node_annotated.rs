//! A user with permissions on nodes only requests the replacement of a machine by an annotation on its Node.
//! Only the value `true` has an effect.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{annotate, create_machine, creation_timeout, phase, slack};

use super::{joining, nothing_left};

pub(super) fn scenario() -> Scenario {
    let trigger = |value: &str| annotate("Node", "m-1", keys::TRIGGER_DELETION_ANNOTATION, value);
    Scenario::new(
        "node_annotated",
        "An annotation on its Node deletes a machine, but only with the value true.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(trigger("false"))
    .always(slack(), phase("m-1", Phase::Running))
    .step(trigger("true"))
    .eventually(creation_timeout(), nothing_left("m-1"))
}
