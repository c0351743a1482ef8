//! The API server refuses mcm's deletions of Machines. Users request deletions through Nodes, by annotating or
//! deleting them; mcm retries until the API server accepts, and deletes nothing of the machine before.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::api_faults::{Action, At, Match, Pattern, Rule, Verb};
use scenario::builder::{
    all, annotate, api_fault_by, create_machine, creation_timeout, delete, exists, fault_hits, lift_api_fault, phase,
    slack, vm_count,
};
use scenario::step::Client;

use super::{joining, nothing_left};

const MACHINES: [&str; 2] = ["m-1", "m-2"];

pub(super) fn scenario() -> Scenario {
    let broken = Action::Fail {
        code: 500,
        at: At::BeforeCommit,
        retry_after: None,
        message: Some("failed calling webhook: it does not answer".to_owned()),
    };
    let refusal = Rule {
        matches: Match {
            verbs: vec![Verb::Delete],
            resource: Some(Pattern::new("machines")),
            ..Match::default()
        },
        ..Rule::new("refusal", broken)
    };
    let there = |machine| all([exists("Machine", machine), vm_count(machine, 1)]);
    Scenario::new(
        "deletes_refused",
        "The API server refuses machine deletions that users request through Nodes: mcm retries them until they \
         succeed.",
    )
    .steps(MACHINES.map(create_machine))
    .eventually(joining(), all(MACHINES.map(|machine| phase(machine, Phase::Running))))
    .step(api_fault_by(Client::Mcm, refusal))
    .step(annotate("Node", "m-1", keys::TRIGGER_DELETION_ANNOTATION, "true"))
    .step(delete("Node", "m-2"))
    .eventually(slack(), fault_hits("refusal", 4))
    .always(slack(), all(MACHINES.map(there)))
    .step(lift_api_fault("refusal"))
    .eventually(creation_timeout(), all(MACHINES.map(nothing_left)))
}
