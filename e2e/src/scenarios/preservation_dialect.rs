//! Preservation as the reference has it, for those who move over from it.

use harness::scenario::PreservationDialect;
use harness::scenario::builder::{all, field, kubelet, machine_gone, not, phase, preserve_timeout, slack};
use harness::scenario::step::KubeletAction;
use harness::{Scenario, StageKind};
use mcm_api::{Phase, keys};
use serde_json::Value;

use super::joining;
use super::preservation::{failing, pool, preserve};

/// All scenarios about another dialect.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![as_upstream()]
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
    let free = |machine: &str| expiry(machine, Value::Null);
    let key = format!("/metadata/annotations/{}", keys::PRESERVE_ANNOTATION.replace('/', "~1"));
    let word = |machine: &str, is: Value| field("Machine", machine, &key, is);
    let mut story = pool(
        "preserve_as_upstream",
        "In the reference's dialect phases have no sub-phase, an automatic preservation is an annotation, and it ends with a recovery.",
        &["m-1", "m-2"],
        1,
    )
    .only_on([StageKind::Sim], "mcm is started with --preservation-dialect=upstream");
    story.world.preservation = PreservationDialect::Upstream;
    story
        .step(kubelet("m-1", KubeletAction::Stop))
        .eventually(
            failing() + slack(),
            all([
                phase("m-1", Phase::Failed),
                kept("m-1"),
                word("m-1", "auto-preserved".into()),
            ]),
        )
        .always(slack(), phase("m-1", Phase::Failed))
        .step(kubelet("m-1", KubeletAction::Start))
        .eventually(
            2 * slack(),
            all([phase("m-1", Phase::Running), free("m-1"), word("m-1", Value::Null)]),
        )
        .step(preserve("Node", "m-2", "now"))
        .eventually(slack(), all([phase("m-2", Phase::Running), kept("m-2")]))
        .step(kubelet("m-2", KubeletAction::Stop))
        .eventually(failing() + slack(), all([phase("m-2", Phase::Failed), kept("m-2")]))
        .eventually(preserve_timeout() + joining(), machine_gone("m-2"))
}
