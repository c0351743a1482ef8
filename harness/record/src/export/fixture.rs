//! A small record: a machine and its VM are created, and the machine runs until the run fails.

use scenario::StageKind;

use crate::{
    Actor, ActorKind, Causes, Counter, CounterStep, Meta, Micros, Place, Point, RunRecord, Span, SpanClass, TraceHash,
    VERSION, Verb, Verdict,
};

fn actor(id: &str, kind: ActorKind, parent: Option<&str>) -> Actor {
    Actor {
        id: id.to_owned(),
        kind,
        name: id.rsplit('/').next().unwrap_or(id).to_owned(),
        parent: parent.map(str::to_owned),
        zone: None,
    }
}

fn span(actor: &str, from: u64, to: Option<u64>, label: &str, class: SpanClass) -> Span {
    Span {
        actor: actor.to_owned(),
        from: Micros(from),
        to: to.map(Micros),
        label: label.to_owned(),
        class,
        cause: None,
    }
}

fn point(number: u32, at: u64, actor: &str, verb: Verb, summary: &str, cause: Option<u32>) -> Point {
    Point {
        number,
        at: Micros(at),
        actor: actor.to_owned(),
        verb,
        summary: summary.to_owned(),
        object: None,
        revision: None,
        by: Some("mcm".to_owned()),
        cause,
        link: None,
        seen: Vec::new(),
        previous: None,
        incomplete: false,
        diff: None,
        cut: false,
        call: None,
        delay: None,
        code: None,
        fault: None,
        violates: None,
        step: None,
    }
}

/// The VM's actor stands before its parent's, and the leader is killed before its Lease ends.
pub(crate) fn record() -> RunRecord {
    RunRecord {
        version: VERSION,
        meta: Meta {
            drydock: "0.1.0".to_owned(),
            commit: None,
            place: Place {
                scenario: "one_machine".to_owned(),
                about: String::new(),
                stage: StageKind::Sim,
                target: None,
                seed: 7,
                mutant: None,
                controller: None,
            },
            plan: "scenario: one_machine".to_owned(),
            disturbances: Vec::new(),
            started: "2030-01-01T00:00:00Z".parse().unwrap(),
            lasted: Micros(9_000_000),
            wall_seconds: 0.1,
            trace: Some(TraceHash {
                hash: "0123456789abcdef".repeat(4),
                entries: 4,
            }),
            verdict: Verdict {
                passed: false,
                sentence: "I1 is violated: a VM | has no machine".to_owned(),
                at: Some(Micros(9_000_000)),
                step: Some(2),
                point: Some(4),
            },
            replay: "drydock run one_machine --seed 7".to_owned(),
            causes: Causes::Recorded,
        },
        actors: vec![
            actor("vm/vm-1", ActorKind::Vm, Some("machine/m-1")),
            actor("machine/m-1", ActorKind::Machine, None),
            actor("process/mcm", ActorKind::Process, None),
        ],
        spans: vec![
            span("machine/m-1", 1_000_000, Some(4_000_000), "Pending", SpanClass::Phase),
            span("machine/m-1", 4_000_000, None, "Running", SpanClass::Phase),
            span("vm/vm-1", 2_000_000, Some(2_000_000), "Pending", SpanClass::Vm),
            span("vm/vm-1", 2_000_000, None, "Running", SpanClass::Vm),
            span("process/mcm", 0, Some(5_000_000), "running", SpanClass::Process),
            span("process/mcm", 0, Some(8_000_000), "leader", SpanClass::Leader),
            span("process/mcm", 5_000_000, None, "down", SpanClass::Process),
        ],
        points: vec![
            point(1, 1_000_000, "machine/m-1", Verb::Write, "Machine m-1 is created", None),
            point(2, 2_000_000, "vm/vm-1", Verb::Call, "CreateMachine: OK", Some(1)),
            point(
                3,
                4_000_000,
                "machine/m-1",
                Verb::Write,
                "phase: Pending → Running",
                None,
            ),
        ],
        counters: vec![Counter {
            name: "machines Running".to_owned(),
            chart: "machines by phase".to_owned(),
            steps: vec![
                CounterStep {
                    at: Micros(0),
                    value: 0,
                    point: None,
                },
                CounterStep {
                    at: Micros(4_000_000),
                    value: 1,
                    point: None,
                },
            ],
        }],
        checks: Vec::new(),
        logs: Vec::new(),
        dropped: Vec::new(),
    }
}
