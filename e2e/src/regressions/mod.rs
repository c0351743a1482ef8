//! The regression corpus: bugs that machine controllers had, one entry a file.
//!
//! What lives here: for each entry its scenario, with the times at which it happened, and what must find its mutant. What
//! must not: the mutants, which stand in `mcm` where the rule is that they break, behind the feature `mutants`.

mod a01;
mod a02;
mod a07;
mod a10;
mod a12;
mod a13;
mod a14;
mod a15;
mod appendix;
mod quirks;
mod r01;
mod r02;
mod r03;
mod r04;
mod r05;
mod r06;
mod r07;
mod r08;
mod r09;
mod r10;
mod r12;
mod r13;
mod r14;
mod r15;
mod r16;
mod r17;
mod r18;
mod r19;
mod r20;
mod r21;
mod r22;
mod r23;
mod r26;
mod r27;
mod r28;
mod r29;
mod r30;
mod r31;
mod r32;
mod r33;
mod r34;
mod r35;
mod r36;
mod r37;
mod r38;
mod r39;
mod r41;
mod r42;
mod r43;
mod r44;
mod r45;
mod r46;
mod r47;
mod r48;
mod r49;
mod r50;
mod r51;
mod r52;
mod r53;
mod r54;
mod r55;
mod r56;
mod r57;
mod r58;
mod r59;
mod r60;
mod r61;
mod r62;
mod r63;
mod r64;
mod r65;
mod r66;
mod r67;
mod r68;
mod r69;
mod r70;
mod r71;
mod r72;
mod r73;
mod r74;
mod r75;
mod r76;
mod r77;
mod r78;
mod r79;
mod r80;
mod r81;
mod r82;
pub(crate) mod worlds;

use std::time::Duration;

use harness::regression::Entry;
use harness::scenario::DurationExpression;
use harness::scenario::Step;
use harness::scenario::builder::{
    all, boot_delay, budget, delete, deployment, keep, phase, pods, slack, vm_count, workload,
};
use harness::scenario::disturb::api::{Action, At};
use harness::scenario::expect::{Condition, PodState};
use harness::{Scenario, StageKind};
use mcm_api::Phase;

use self::worlds::merge;

/// All entries, in the order of their numbers.
pub fn regressions() -> Vec<Entry> {
    let mut entries = vec![
        r01::entry(),
        r02::entry(),
        r03::entry(),
        r04::entry(),
        r05::entry(),
        r06::entry(),
        r07::entry(),
        r08::entry(),
        r09::entry(),
        r10::entry(),
        r12::entry(),
        r13::entry(),
        r14::entry(),
        r15::entry(),
        r16::entry(),
        r17::entry(),
        r18::entry(),
        r19::entry(),
        r20::entry(),
        r21::entry(),
        r22::entry(),
        r23::entry(),
        r26::entry(),
        r27::entry(),
        r28::entry(),
        r29::entry(),
        r30::entry(),
        r31::entry(),
        r32::entry(),
        r33::entry(),
        r34::entry(),
        r35::entry(),
        r36::entry(),
        r37::entry(),
        r38::entry(),
        r39::entry(),
        r41::entry(),
        r42::entry(),
        r43::entry(),
        r44::entry(),
        r45::entry(),
        r46::entry(),
        r47::entry(),
        r48::entry(),
        r49::entry(),
        r50::entry(),
        r51::entry(),
        r52::entry(),
        r53::entry(),
        r54::entry(),
        r55::entry(),
        r56::entry(),
        r57::entry(),
        r58::entry(),
        r59::entry(),
        r60::entry(),
        r61::entry(),
        r62::entry(),
        r63::entry(),
        r64::entry(),
        r65::entry(),
        r66::entry(),
        r67::entry(),
        r68::entry(),
        r69::entry(),
        r70::entry(),
        r71::entry(),
        r72::entry(),
        r73::entry(),
        r74::entry(),
        r75::entry(),
        r76::entry(),
        r77::entry(),
        r78::entry(),
        r79::entry(),
        r80::entry(),
        r81::entry(),
        r82::entry(),
        a01::entry(),
        a02::entry(),
        a07::entry(),
        a10::entry(),
        a12::entry(),
        a13::entry(),
        a14::entry(),
        a15::entry(),
    ];
    entries.extend(appendix::entries());
    entries.extend(quirks::entries());
    entries
}

/// The machines' label.
pub(crate) const POOL: &str = "md-a";

/// A story with the exact times of an entry: they are those of production.
fn story(name: &str, about: &str) -> Scenario {
    Scenario::new(name, about).only_on([StageKind::Sim], "its times are those at which the bug happened")
}

/// A machine is Running on its only VM.
fn well(machine: &str) -> Condition {
    all([phase(machine, Phase::Running), vm_count(machine, 1)])
}

/// How long a machine may take from its creation to Running.
fn joining() -> DurationExpression {
    boot_delay() + slack()
}

/// A machine with a pod that no budget lets go.
fn undrainable(name: &str, about: &str) -> Scenario {
    story(name, about)
        .keeper(POOL, 0, serde_json::Value::Null)
        .step(keep(1))
        .step(deployment(workload("web")))
        .step(budget("web", 0))
        .eventually(
            joining() + slack(),
            pods("web").on("md-a-1").are(PodState::Ready).exactly(1),
        )
}

/// Requests are refused with that code, and nothing is done.
fn refused(code: u16) -> Action {
    Action::Fail {
        code,
        at: At::BeforeCommit,
        retry_after: None,
        message: None,
    }
}

/// Requests take so much longer.
fn delayed(by: Duration) -> Action {
    Action::Delay {
        at: At::BeforeCommit,
        by,
    }
}

/// An object is deleted, and its finalizers are taken away.
fn removed(kind: &str, name: &str) -> [Step; 2] {
    let bare = serde_json::json!({ "metadata": { "finalizers": null } });
    [delete(kind, name), merge(kind, name, bare)]
}
