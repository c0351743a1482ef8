//! Every cell of phase, health, annotations, expiry, limit and rollout, against the oracle.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::{Phase, PreservedBy, keys};
use mcm_core::preservation::{
    Asked, Dialect, Expiry, Failure, Gate, Request, Situation, Step, Track, on_failure, on_recovery, resolve, standing,
    started_late,
};

use super::oracle::{Cell, citations, outcome};

const RULES: &str = include_str!("../../../../../docs/preservation.md");

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
const KEPT: [&str; 13] = [
    "free",
    "no-vm",
    "adopted",
    "draining",
    "auto-draining",
    "relapsing",
    "auto",
    "lowered",
    "now",
    "when-failed",
    "releasing",
    "releasing-now",
    "expired",
];
const EXPIRIES: [&str; 3] = ["none", "ahead", "over"];
const OF_NODE: [&str; 6] = ["gone", "-", "now", "when-failed", "false", "maybe"];
const OF_MACHINE: [&str; 5] = ["-", "now", "when-failed", "false", "maybe"];

/// Which of the cells there can be.
fn exists(cell: &Cell<'_>) -> bool {
    match cell.kept {
        "free" | "no-vm" => cell.expiry == "none",
        "adopted" => cell.phase == "Failed" && cell.expiry == "none" && cell.machine == "-",
        // A machine that drains is Failed, one that fails does not drain yet.
        "draining" | "auto-draining" | "relapsing" => matches!(cell.phase, "Failed" | "recovers"),
        "auto" | "lowered" | "now" | "when-failed" => {
            cell.expiry != "none" || !matches!(cell.phase, "fails" | "recovers")
        }
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
    let adopted = cell.kept == "adopted";
    let machine = metadata(if adopted { "auto-preserved" } else { cell.machine });
    let node = (cell.node != "gone").then(|| metadata(cell.node));
    let resolved = resolve(&machine, node.as_ref(), true, Dialect::V2);
    let (track, by, asked) = match cell.kept {
        "draining" | "relapsing" => (Track::Draining, Some(PreservedBy::Node), Some(Asked::WhenFailed)),
        "auto-draining" => (Track::Draining, Some(PreservedBy::Auto), None),
        "auto" | "lowered" => (Track::Preserved, Some(PreservedBy::Auto), None),
        "now" => (Track::Preserved, Some(PreservedBy::Node), Some(Asked::Now)),
        "when-failed" => (Track::Preserved, Some(PreservedBy::Machine), Some(Asked::WhenFailed)),
        "releasing-now" => (Track::Releasing, Some(PreservedBy::Node), Some(Asked::Now)),
        "releasing" | "expired" => (Track::Releasing, Some(PreservedBy::Node), None),
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
        marked: cell.kept == "lowered",
        expired_before: cell.kept == "expired",
        relapse: cell.kept == "relapsing",
        adopted: adopted && resolved.request == Request::None,
        vm: cell.kept != "no-vm",
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
            Step::StartFailed => word(started_late(&now, gate)),
            step => word(step),
        },
    }
}

fn word(step: Step) -> &'static str {
    match step {
        Step::Nothing => "nothing",
        Step::Start => "start",
        Step::StartFailed => "keep-failed",
        Step::Drain => "drain",
        Step::Keep => "keep",
        Step::Release(_) => "release",
        Step::Finish => "finish",
    }
}

#[test]
fn every_rule_that_a_row_cites_is_in_the_page() {
    let rules = citations().into_iter().filter_map(|cited| cited.strip_prefix("rule, "));
    let missing: Vec<_> = rules.filter(|rule| !RULES.contains(rule)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_cell_is_decided_as_the_documents_say() {
    let mut cells = 0;
    let mut wrong = Vec::new();
    for phase in PHASES {
        for kept in KEPT {
            for expiry in EXPIRIES {
                for node in OF_NODE {
                    for machine in OF_MACHINE {
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
    assert!(cells > 20_000, "{cells} cells");
    assert!(
        wrong.is_empty(),
        "{} of {cells} cells:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}
