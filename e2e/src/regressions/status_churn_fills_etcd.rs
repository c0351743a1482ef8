//! R72 `status-churn-fills-etcd`: with invalid credentials the statuses of a thousand machines were written
//! repeatedly, and etcd filled up.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, calls, keep, long_retry, machine_gone, seconds, slack, wait};
use scenario::fixtures::{API_TOKEN, SECRET};
use scenario::step::{CloudCall, Step};
use serde_json::json;

use super::{POOL, joining, merge, story, well};

/// The number of deleted machines.
const MACHINES: u32 = 10;

pub(super) fn entry() -> Entry {
    Entry {
        id: "R72",
        name: "status-churn-fills-etcd",
        origin: "MCM#1030, MCM PR#1056",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R72",
                scenario: refused_credentials("r72-status-churn"),
                mutant: true,
                breaks: &["I18"],
            },
            Case {
                id: "R72/b",
                scenario: refused_credentials("r72-b-class-wakes"),
                mutant: true,
                breaks: &[EXPECTED],
            },
        ],
        open: "ten machines, not a thousand",
    }
}

fn token(token: &str) -> Step {
    merge("Secret", SECRET, json!({ "stringData": { "apiToken": token } }))
}

/// Each deletion is retried every ten minutes, regardless of changes of its node.
fn refused_credentials(name: &str) -> Scenario {
    let names: Vec<String> = (1..=MACHINES).map(|number| format!("{POOL}-{number}")).collect();
    story(
        name,
        "Machines are deleted while the cloud rejects the credentials for two hours: mcm writes little, and then they \
         are deleted.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(MACHINES))
    .eventually(2 * joining(), all(names.iter().map(|name| well(name))))
    .step(token("expired"))
    .at_most(14, seconds(2 * 3600), calls(CloudCall::DeleteMachine, &names[0]))
    .meanwhile()
    .step(keep(0))
    .step(wait(seconds(2 * 3600)))
    .step(token(API_TOKEN))
    .eventually(long_retry() + slack(), all(names.iter().map(|name| machine_gone(name))))
}
