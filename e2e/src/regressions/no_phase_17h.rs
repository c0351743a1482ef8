//! R74 `no-phase-17h`: machines stayed without a phase for seventeen hours: the preservation code, although
//! unused, read their nodes first, and ended every pass when there were none.

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::api_faults::Verb;
use scenario::builder::{
    all, at_any_time, between, creation_timeout, fault_hits, history, keep, machine_gone, seconds, slack, wait,
};

use super::worlds::{api_recovers, api_trouble_times, case};
use super::{POOL, refused, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R74",
        name: "no-phase-17h",
        origin: "MCM#1110, MCM PR#1111, MCM PR#1118",
        group: Group::Preservation,
        confidence: Confidence::Cause,
        cases: vec![case("R74", never_joins(), &["I13", EXPECTED])],
        open: "",
    }
}

/// The first status of each machine is refused after its VM exists, and the kubelets never start.
fn never_joins() -> Scenario {
    let machines = ["md-a-1", "md-a-2"];
    let times = |machine| {
        let failed = between(
            Phase::Failed,
            creation_timeout() - slack(),
            creation_timeout() + slack(),
        );
        history(
            machine,
            [at_any_time(Phase::Pending), failed, at_any_time(Phase::Terminating)],
        )
    };
    story(
        "r74-no-phase",
        "The first status of a machine with a VM is refused, and its node never joins: it is Pending soon, and Failed \
         in time.",
    )
    .boots_in(seconds(10 * 3600))
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(api_trouble_times(
        &[Verb::Patch],
        "machines/status",
        refused(409),
        Some(2),
    ))
    .step(keep(2))
    .step(wait(seconds(60)))
    .step(api_recovers())
    .step(wait(seconds(39 * 60)))
    .eventually(seconds(1), all(machines.map(machine_gone)))
    .eventually(seconds(1), all(machines.map(times)))
    .eventually(seconds(1), fault_hits("api", 2))
}
