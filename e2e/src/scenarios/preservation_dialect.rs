//! Preservation after a migration from the reference or from the first version of the proposal: their
//! annotation values, and the reference's dialect.

use mcm_api::{Phase, keys};
use scenario::PreservationDialect;
use scenario::builder::{
    all, annotate, boot_delay, event_count, field, kubelet, machine_gone, not, phase, preserve_timeout, slack,
};
use scenario::step::KubeletAction;
use scenario::{Scenario, StageKind};
use serde_json::{Value, json};

use super::joining;
use super::preservation_steps::{SET, annotation, expiring_pool, failing, kept, long, pool, preserve, preserved};
use crate::regressions::POOL;
use crate::regressions::worlds::{self, at_size, settled, spec, status};

/// All scenarios about dialects.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![first_version(), maximum_of_the_reference(), as_upstream()]
}

fn first_version() -> Scenario {
    let old = keys::PRESERVE_WHEN_FAILED_ANNOTATION;
    let all_three = ["m-1", "m-2", "m-3"];
    let understood = |machine: &str| {
        all([
            event_count("Machine", machine, "PreserveAnnotationRenamed", 1),
            annotation("Machine", machine, keys::PRESERVE_ANNOTATION, "when-failed"),
        ])
    };
    let ignored = |machine: &str| event_count("Machine", machine, "PreserveValueIgnored", 1);
    let ready = |machines: u32| field("MachineSet", SET, "/status/readyReplicas", machines);
    pool(
        "preserve_in_old_words",
        "Annotation values of the proposal's first version work on Node and Machine; unknown values neither start nor \
         end a preservation.",
        &all_three,
        0,
    )
    .step(annotate("Node", "m-1", old, "true"))
    .step(annotate("Machine", "m-2", old, "true"))
    .step(preserve("Machine", "m-3", "yes"))
    .eventually(slack(), all([understood("m-1"), understood("m-2"), ignored("m-3")]))
    .steps(all_three.map(|machine| kubelet(machine, KubeletAction::Stop)))
    .eventually(
        2 * failing() + joining(),
        all([kept("m-1"), kept("m-2"), machine_gone("m-3"), ready(1)]),
    )
    .step(preserve("Node", "m-2", "for ever"))
    .eventually(slack(), ignored("m-2"))
    .always(slack(), kept("m-2"))
    .step(annotate("Node", "m-1", old, "false"))
    .step(preserve("Node", "m-2", "false"))
    .eventually(2 * slack() + boot_delay(), all(["m-1", "m-2"].map(machine_gone)))
    .eventually(2 * joining(), ready(3))
}

fn maximum_of_the_reference() -> Scenario {
    let maximum = |machines: u32| spec(json!({ "autoPreserveFailedMachineMax": machines }));
    let story = Scenario::new(
        "preserve_maximum_of_the_reference",
        "The maximum in the reference's field: of two failed machines one is preserved, and none with a maximum of \
         zero.",
    );
    settled(story, &[long(worlds::pool(3))])
        .step(maximum(1))
        .steps(["md-a-1", "md-a-2"].map(|machine| kubelet(machine, KubeletAction::Stop)))
        .eventually(
            2 * failing() + 2 * joining(),
            all([preserved(1), status(POOL, "readyReplicas", 2)]),
        )
        .always(2 * slack(), preserved(1))
        .step(maximum(0))
        .eventually(failing() + 2 * joining(), all([preserved(Value::Null), at_size(3)]))
}

fn as_upstream() -> Scenario {
    let expiry = |machine: &str, is: Value| {
        let there = field(
            "Machine",
            machine,
            "/status/currentStatus/preserveExpiryTime",
            Value::Null,
        );
        if is == Value::Null { there } else { not(there) }
    };
    let kept = |machine: &str| expiry(machine, Value::Bool(true));
    let not_preserved = |machine: &str| expiry(machine, Value::Null);
    let key = format!("/metadata/annotations/{}", keys::PRESERVE_ANNOTATION.replace('/', "~1"));
    let annotated = |machine: &str, is: Value| field("Machine", machine, &key, is);
    let mut story = expiring_pool(
        "preserve_as_upstream",
        "In the upstream dialect phases have no sub-phase, an automatic preservation is an annotation, and it ends on \
         recovery.",
        &["m-1", "m-2"],
        1,
    )
    .only_on([StageKind::Sim], "mcm runs with --preservation-dialect=upstream");
    story.world.preservation = PreservationDialect::Upstream;
    story
        .step(kubelet("m-1", KubeletAction::Stop))
        .eventually(
            failing() + slack(),
            all([
                phase("m-1", Phase::Failed),
                kept("m-1"),
                annotated("m-1", "auto-preserved".into()),
            ]),
        )
        .always(slack(), phase("m-1", Phase::Failed))
        .step(kubelet("m-1", KubeletAction::Start))
        .eventually(
            2 * slack(),
            all([
                phase("m-1", Phase::Running),
                not_preserved("m-1"),
                annotated("m-1", Value::Null),
            ]),
        )
        .step(preserve("Node", "m-2", "now"))
        .eventually(slack(), all([phase("m-2", Phase::Running), kept("m-2")]))
        .step(kubelet("m-2", KubeletAction::Stop))
        .eventually(failing() + slack(), all([phase("m-2", Phase::Failed), kept("m-2")]))
        .eventually(preserve_timeout() + joining(), machine_gone("m-2"))
}
