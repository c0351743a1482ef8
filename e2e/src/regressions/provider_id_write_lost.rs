//! R06 `provider-id-write-lost`: two VMs for one machine after the write of its provider ID conflicted, or
//! after a pass over a stale copy, while the cloud did not show the new VM yet.

use std::time::Duration;

use harness::regression::{Case, Confidence, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::api_faults::{Action, At, Match, Pattern, Rule, Verb};
use scenario::builder::{
    api_fault_by, calls, fail_calls, fault_hits, keep, lift, lift_api_fault, seconds, slow_call, vm_count, wait,
};
use scenario::step::{Client, CloudCall};

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    let refused = Action::Fail {
        code: 409,
        at: At::BeforeCommit,
        retry_after: None,
        message: None,
    };
    let unavailable = Action::Fail {
        code: 503,
        at: At::BeforeCommit,
        retry_after: None,
        message: None,
    };
    let lost = Action::Drop { at: At::AfterCommit };
    let lag = Action::LagWatch {
        by: Duration::from_secs(60),
    };
    let case = |id, scenario, mutant| Case {
        id,
        scenario,
        mutant,
        breaks: &["I1"],
    };
    Entry {
        id: "R06",
        name: "provider-id-write-lost",
        origin: "CAPA#6131",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![
            case("R06", invisible("r06-conflict", "conflicts", refused), true),
            case(
                "R06/unavailable",
                invisible("r06-unavailable", "is refused", unavailable),
                false,
            ),
            case(
                "R06/lost",
                invisible("r06-lost", "succeeds without a response", lost),
                false,
            ),
            case("R06/lag", invisible("r06-lag", "is observed a minute late", lag), false),
        ],
        open: "",
    }
}

/// The cloud hides the VM for half a minute, and the write of its provider ID is disturbed.
fn invisible(name: &str, what: &str, action: Action) -> Scenario {
    let watch = matches!(action, Action::LagWatch { .. });
    let verbs = if watch {
        vec![Verb::Watch]
    } else {
        vec![Verb::Update, Verb::Patch]
    };
    let rule = Rule {
        matches: Match {
            verbs,
            resource: Some(Pattern::new("machines")),
            times: (!watch).then_some(1),
            ..Match::default()
        },
        ..Rule::new("write", action)
    };
    let about = format!(
        "The write of a provider ID {what}, and the cloud hides the VM for half a minute: the machine has one VM."
    );
    story(name, &about)
        .keeper(POOL, 0, serde_json::Value::Null)
        .step(fail_calls(
            "invisible",
            CloudCall::GetMachineStatus,
            "md-a-1",
            Code::NotFound,
        ))
        .step(slow_call("late", CloudCall::CreateMachine, "md-a-1", seconds(2)))
        .step(keep(1))
        .eventually(seconds(60), vm_count("md-a-1", 1))
        .step(api_fault_by(Client::Mcm, rule))
        .at_most(1, seconds(600), calls(CloudCall::CreateMachine, "md-a-1"))
        .meanwhile()
        .step(wait(seconds(30)))
        .step(lift("invisible"))
        .step(lift("late"))
        .step(wait(seconds(60)))
        .eventually(seconds(1), fault_hits("write", 1))
        .step(lift_api_fault("write"))
        .eventually(joining(), well("md-a-1"))
        .quiet_end(joining())
}
