//! Every cell of phase, health, annotations, expiry, limit and rollout, against the oracle.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::{Phase, PreservedBy, keys};
use mcm_core::preservation::{
    Admission, Dialect, Expiry, Failure, PreservationProgress, PreservationRequest, Request, Situation, Step,
    on_failure, on_recovery, on_unchanged_phase, resolve, started_late,
};

use super::oracle::{Cell, citations, outcome};

const RULES: &str = include_str!("../../../../../docs/how-it-works/preservation-rules.md");

pub const DIALECTS: [(&str, Dialect); 3] = [
    ("v2", Dialect::V2),
    ("upstream", Dialect::Upstream),
    ("off", Dialect::Off),
];
const PHASES: [&str; 13] = [
    "fails",
    "recovers",
    "new",
    "Running",
    "Available",
    "Failed",
    "Unknown",
    "Pending",
    "CrashLoopBackOff",
    "InPlaceUpdating",
    "InPlaceUpdateFailed",
    "InPlaceUpdateSuccessful",
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
const OF_NODE: [&str; 7] = ["absent", "other", "-", "now", "when-failed", "false", "maybe"];
const OF_MACHINE: [&str; 6] = ["-", "now", "when-failed", "false", "maybe", "copied"];
/// Limit and rollout.
const ADMISSIONS: [(&str, &str, Admission); 5] = [
    ("room", "no-rollout", Admission::Open),
    ("full", "no-rollout", Admission::Full),
    ("no-owner", "no-rollout", Admission::NoList),
    ("room", "rollout", Admission::RollingOut),
    ("full", "rollout", Admission::RollingOut),
];

/// Whether the cell is a possible state.
fn exists(cell: &Cell<'_>) -> bool {
    match cell.kept {
        "free" | "no-vm" => cell.expiry == "none",
        "adopted" => cell.phase == "Failed" && cell.expiry == "none" && cell.machine == "-",
        // A draining machine is Failed; a failing machine does not drain yet.
        "draining" | "auto-draining" | "relapsing" => matches!(cell.phase, "Failed" | "recovers"),
        "auto" | "lowered" | "now" | "when-failed" => {
            cell.expiry != "none" || !matches!(cell.phase, "fails" | "recovers")
        }
        _ => true,
    }
}

/// Metadata with the preserve annotation of that value.
pub fn metadata(value: &str) -> ObjectMeta {
    let annotation = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let annotations = match value {
        "-" | "other" => None,
        "copied" => Some(BTreeMap::from([
            annotation(keys::PRESERVE_ANNOTATION, "now"),
            annotation(keys::LAST_APPLIED_PRESERVE_ANNOTATION, "now"),
        ])),
        value => Some(BTreeMap::from([annotation(keys::PRESERVE_ANNOTATION, value)])),
    };
    ObjectMeta {
        annotations,
        ..ObjectMeta::default()
    }
}

fn situation(cell: &Cell<'_>, dialect: Dialect) -> Situation {
    let adopted = cell.kept == "adopted";
    let machine = metadata(if adopted { "auto-preserved" } else { cell.machine });
    let node = (cell.node != "absent").then(|| metadata(cell.node));
    let preserved = (cell.node == "other").then_some("of-another");
    let resolved = resolve(&machine, node.as_ref(), preserved, dialect);
    let (progress, by, asked) = match cell.kept {
        "draining" | "relapsing" => (
            PreservationProgress::Draining,
            Some(PreservedBy::Node),
            Some(PreservationRequest::WhenFailed),
        ),
        "auto-draining" => (PreservationProgress::Draining, Some(PreservedBy::Auto), None),
        "auto" | "lowered" => (PreservationProgress::Preserved, Some(PreservedBy::Auto), None),
        "now" => (
            PreservationProgress::Preserved,
            Some(PreservedBy::Node),
            Some(PreservationRequest::Now),
        ),
        "when-failed" => (
            PreservationProgress::Preserved,
            Some(PreservedBy::Machine),
            Some(PreservationRequest::WhenFailed),
        ),
        "releasing-now" => (
            PreservationProgress::Releasing,
            Some(PreservedBy::Node),
            Some(PreservationRequest::Now),
        ),
        "releasing" | "expired" => (PreservationProgress::Releasing, Some(PreservedBy::Node), None),
        _ => (PreservationProgress::Free, None, None),
    };
    Situation {
        dialect,
        phase: match cell.phase {
            "new" => None,
            "fails" => Some(Phase::Unknown),
            "recovers" => Some(Phase::Failed),
            phase => Some(Phase::from(phase)),
        },
        progress,
        by,
        recorded_request: asked,
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

fn decided(cell: &Cell<'_>, dialect: Dialect, admission: Admission) -> &'static str {
    let now = situation(cell, dialect);
    match cell.phase {
        "fails" => match on_failure(&now, admission) {
            Failure::Replace => "replace",
            Failure::Keep | Failure::KeepRequested => "keep-failed",
            Failure::Release(_) => "release",
        },
        "recovers" => match on_recovery(&now) {
            Ok(()) => "run-preserved",
            Err(None) => "run",
            Err(Some(_)) => "release",
        },
        _ => match on_unchanged_phase(&now) {
            Step::StartFailed => step_name(started_late(&now, admission)),
            step => step_name(step),
        },
    }
}

fn step_name(step: Step) -> &'static str {
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
fn every_cited_rule_exists_in_the_rules_page() {
    let rules = citations().into_iter().filter_map(|cited| cited.strip_prefix("rule, "));
    let missing: Vec<_> = rules.filter(|rule| !RULES.contains(rule)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Selects an element by a mixed-radix digit of the number.
fn pick<T: Copy>(number: &mut usize, all: &[T]) -> T {
    let one = all[*number % all.len()];
    *number /= all.len();
    one
}

/// Every possible cell.
pub fn cells() -> impl Iterator<Item = (Cell<'static>, Dialect, Admission)> {
    let situations = DIALECTS.len() * ADMISSIONS.len() * PHASES.len() * KEPT.len() * EXPIRIES.len();
    let count = situations * OF_NODE.len() * OF_MACHINE.len();
    let cells = (0..count).map(|mut number| {
        let (name, dialect) = pick(&mut number, &DIALECTS);
        let (limit, rollout, admission) = pick(&mut number, &ADMISSIONS);
        let cell = Cell {
            dialect: name,
            phase: pick(&mut number, &PHASES),
            kept: pick(&mut number, &KEPT),
            expiry: pick(&mut number, &EXPIRIES),
            node: pick(&mut number, &OF_NODE),
            machine: pick(&mut number, &OF_MACHINE),
            limit,
            rollout,
        };
        (cell, dialect, admission)
    });
    cells.filter(|(cell, ..)| exists(cell))
}

#[test]
fn every_cell_matches_the_oracle() {
    let all = cells().map(|(cell, dialect, admission)| (outcome(&cell), decided(&cell, dialect, admission), cell));
    let (right, wrong): (Vec<_>, Vec<_>) = all.partition(|((expected, _), decided, _)| decided == expected);
    assert!(right.len() + wrong.len() > 100_000, "{} cells", right.len());
    let listed: Vec<_> = wrong
        .iter()
        .take(20)
        .map(|((expected, citation), decided, cell)| format!("{cell:?}: {decided}, not {expected} ({citation})"))
        .collect();
    let all = right.len() + wrong.len();
    assert!(
        wrong.is_empty(),
        "{} of {all} wrong:\n{}",
        wrong.len(),
        listed.join("\n")
    );
}
