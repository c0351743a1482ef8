//! Every cell of phase, health, annotations, expiry, limit and rollout, against the oracle.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::{Phase, PreservedBy, keys};
use mcm_core::preservation::{
    Asked, Dialect, Expiry, Failure, Gate, Situation, Step, Track, on_failure, on_recovery, resolve, standing,
};

use super::oracle::{Cell, outcome};

const PHASES: [&str; 8] = [
    "fails",
    "recovers",
    "Running",
    "Failed",
    "Unknown",
    "Pending",
    "CrashLoopBackOff",
    "Terminating",
];
const KEPT: [&str; 6] = ["free", "draining", "auto", "now", "when-failed", "releasing"];
const EXPIRIES: [&str; 3] = ["none", "ahead", "over"];
const VALUES: [&str; 5] = ["-", "now", "when-failed", "false", "maybe"];

/// Which of the cells there can be.
fn exists(cell: &Cell<'_>) -> bool {
    match cell.kept {
        "free" => cell.expiry == "none",
        // A machine that drains is Failed, one that fails does not drain yet.
        "draining" => matches!(cell.phase, "Failed" | "recovers"),
        "auto" | "now" | "when-failed" => cell.expiry != "none" || !matches!(cell.phase, "fails" | "recovers"),
        _ => true,
    }
}

fn metadata(value: &str) -> ObjectMeta {
    let annotation = (keys::PRESERVE_ANNOTATION.to_owned(), value.to_owned());
    ObjectMeta {
        annotations: (value != "-").then(|| BTreeMap::from([annotation])),
        ..ObjectMeta::default()
    }
}

fn situation(cell: &Cell<'_>) -> Situation {
    let resolved = resolve(&metadata(cell.machine), Some(&metadata(cell.node)), true, Dialect::V2);
    let (track, by, asked) = match cell.kept {
        "draining" => (Track::Draining, Some(PreservedBy::Node), Some(Asked::WhenFailed)),
        "auto" => (Track::Preserved, Some(PreservedBy::Auto), None),
        "now" => (Track::Preserved, Some(PreservedBy::Node), Some(Asked::Now)),
        "when-failed" => (Track::Preserved, Some(PreservedBy::Machine), Some(Asked::WhenFailed)),
        "releasing" => (Track::Releasing, Some(PreservedBy::Node), Some(Asked::Now)),
        _ => (Track::Free, None, None),
    };
    Situation {
        dialect: Dialect::V2,
        phase: match cell.phase {
            "fails" => Some(Phase::Unknown),
            "recovers" => Some(Phase::Failed),
            phase => Some(Phase::from(phase)),
        },
        track,
        by,
        asked,
        expiry: match cell.expiry {
            "ahead" => Expiry::Ahead,
            "over" => Expiry::Over,
            _ => Expiry::None,
        },
        request: resolved.request,
        marked: false,
        expired_before: false,
        relapse: false,
        adopted: false,
        vm: true,
    }
}

fn decided(cell: &Cell<'_>) -> &'static str {
    let now = situation(cell);
    let gate = match (cell.rollout, cell.limit) {
        ("rollout", _) => Gate::RollingOut,
        (_, "full") => Gate::Full,
        _ => Gate::Open,
    };
    match cell.phase {
        "fails" => match on_failure(&now, gate) {
            Failure::Replace => "replace",
            Failure::Keep | Failure::KeepAsked => "keep-failed",
            Failure::Release(_) => "release",
        },
        "recovers" => match on_recovery(&now) {
            Ok(()) => "run-preserved",
            Err(None) => "run",
            Err(Some(_)) => "release",
        },
        _ => match standing(&now) {
            Step::Nothing => "nothing",
            Step::Start => "start",
            Step::StartFailed => "keep-failed",
            Step::Drain => "drain",
            Step::Keep => "keep",
            Step::Release(_) => "release",
            Step::Finish => "finish",
        },
    }
}

#[test]
fn every_cell_is_decided_as_the_documents_say() {
    let mut cells = 0;
    let mut wrong = Vec::new();
    for phase in PHASES {
        for kept in KEPT {
            for expiry in EXPIRIES {
                for node in VALUES {
                    for machine in VALUES {
                        for limit in ["room", "full"] {
                            for rollout in ["calm", "rollout"] {
                                let cell = Cell {
                                    phase,
                                    kept,
                                    expiry,
                                    node,
                                    machine,
                                    limit,
                                    rollout,
                                };
                                if !exists(&cell) {
                                    continue;
                                }
                                cells += 1;
                                let (expected, why) = outcome(&cell);
                                let decided = decided(&cell);
                                if decided != expected {
                                    wrong.push(format!("{cell:?}: {decided}, not {expected} ({why})"));
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(cells > 10_000, "{cells} cells");
    assert!(
        wrong.is_empty(),
        "{} of {cells} cells:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}
