//! The expected outcomes of preservation, as a table whose rows cite the deciding rule. This file uses strings only and
//! no code under test.
//!
//! `doc` cites a numbered point of version 2 of the document on machine preservation; `rule` quotes a rule of this
//! project in `docs/how-it-works/preservation-rules.md`.

/// One cell of the table. Every field is one of the strings in the patterns below.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// `v2`, `upstream`, `off`.
    pub dialect: &'a str,
    /// `fails`: the machine becomes Failed now; `recovers`: it was Failed and is healthy; `new`: it has no phase yet;
    /// else its phase, in which the Node's health is irrelevant.
    pub phase: &'a str,
    /// The stage of its preservation, and the request. Not preserved: `free`, `no-vm` (without a VM), `adopted` (it
    /// failed with the mark of another controller). Draining: `draining`, `auto-draining`, `relapsing` (not for the
    /// first time). Preserved: `auto`, `lowered` (the same, after the maximum was lowered below it), `now`,
    /// `when-failed`. Ending: `releasing` (the request was removed), `releasing-now` (requested by `now`), `expired`
    /// (at its expiry).
    pub kept: &'a str,
    /// `none`, `ahead`, `over`.
    pub expiry: &'a str,
    /// The annotation of the Node: `-` or its value; `absent`: there is no Node; `other`: another Node than the one
    /// that the machine was preserved with, without the annotation.
    pub node: &'a str,
    /// The annotation of the Machine; `copied`: `now`, copied from the annotation of its Node.
    pub machine: &'a str,
    /// Whether the maximum leaves room: `room`, `full`; `no-owner`: there is no set with a maximum.
    pub limit: &'a str,
    /// Whether a rollout is in progress: `rollout`, `no-rollout`.
    pub rollout: &'a str,
}

/// The annotations of Node and Machine, the resulting request (`node`, `machine`: the value of that annotation; else
/// the value itself), and the citation. The first row that matches decides.
#[rustfmt::skip]
const REQUESTS: [(&str, &str, &str, &str); 7] = [
    ("now|when-failed|false", "*", "node", "doc, points to note 6"),
    ("-", "copied", "-", "rule, when it goes, so does the Machine's"),
    ("*", "copied", "now", "rule, What a Node of another uid does not say was not removed; rule, An unknown value"),
    ("absent", "*", "machine", "doc, points to note 5"),
    ("other", "*", "machine", "doc, points to note 5"),
    ("-", "*", "machine", "doc, points to note 5"),
    ("maybe", "*", "machine", "rule, An unknown value"),
];

/// Phase, kept, expiry, request, limit, rollout, outcome, citation. The first row that matches decides.
type Row = [&'static str; 8];

#[rustfmt::skip]
const ROWS: [Row; 55] = [
    // Failures.
    ["fails", "auto|lowered|now|when-failed", "over", "*", "*", "*", "release", "doc, proposal 5, After timeout"],
    ["fails", "auto|lowered|now|when-failed", "ahead", "false", "*", "*", "release", "doc, proposal 8"],
    ["fails", "now|when-failed", "ahead", "-", "*", "*", "release", "rule, The annotation is removed"],
    ["fails", "lowered", "ahead", "-|maybe", "*", "*", "release", "rule, When it is lowered, automatic ones end"],
    ["fails", "auto|lowered|now|when-failed", "ahead", "*", "*", "rollout", "release", "doc, points to note 1"],
    ["fails", "auto|lowered|now|when-failed", "ahead", "*", "*", "no-rollout", "keep-failed", "doc, proposal 4, moved to Failed:Preserved"],
    ["fails", "*", "*", "false", "*", "*", "replace", "rule, false on a machine that is not preserved"],
    ["fails", "*", "*", "*", "*", "rollout", "replace", "doc, points to note 1"],
    ["fails", "*", "*", "now|when-failed", "*", "no-rollout", "keep-failed", "doc, proposal 5"],
    ["fails", "no-vm", "*", "-|maybe", "*", "no-rollout", "replace", "rule, A machine without a VM"],
    ["fails", "*", "*", "-|maybe", "room", "no-rollout", "keep-failed", "doc, proposal 6"],
    ["fails", "*", "*", "-|maybe", "full", "no-rollout", "replace", "doc, diagram 2, if autoPreserveFailedMax breached"],
    ["fails", "*", "*", "-|maybe", "no-owner", "no-rollout", "replace", "rule, nor is one of no set"],
    // Recoveries.
    ["recovers", "free|no-vm|releasing|releasing-now|expired", "*", "*", "*", "*", "run", "rule, Expired and healthy at once"],
    ["recovers", "*", "over", "*", "*", "*", "release", "doc, proposal 7, After the timeout"],
    ["recovers", "*", "*", "false", "*", "*", "release", "doc, proposal 8"],
    ["recovers", "now|when-failed|draining|relapsing", "*", "-", "*", "*", "release", "rule, The annotation is removed"],
    ["recovers", "relapsing", "none", "*", "*", "*", "release", "rule, Preserved means that the expiry is set"],
    ["recovers", "lowered", "*", "-|maybe", "*", "*", "release", "rule, When it is lowered, automatic ones end"],
    ["recovers", "*", "*", "*", "*", "*", "run-preserved", "doc, proposal 7"],
    // Deletions.
    ["Terminating", "*", "*", "*", "*", "*", "nothing", "rule, now is honoured in every phase but Terminating"],
    // Machines without a preservation.
    ["Failed", "free|no-vm", "*", "now|when-failed", "*", "no-rollout", "keep-failed", "rule, A new now or when-failed"],
    ["Failed", "free|no-vm", "*", "now|when-failed", "*", "rollout", "nothing", "doc, points to note 1"],
    ["*", "free|no-vm", "*", "now", "*", "*", "start", "doc, proposal 4; rule, now is honoured in every phase but Terminating"],
    ["*", "free|no-vm", "*", "*", "*", "*", "nothing", "doc, diagram 1, Running + Requested"],
    // Machines marked by another controller.
    ["*", "adopted", "*", "now|when-failed", "*", "no-rollout", "keep-failed", "rule, A new now or when-failed"],
    ["*", "adopted", "*", "now|when-failed", "*", "rollout", "nothing", "doc, points to note 1"],
    ["*", "adopted", "*", "false", "*", "*", "nothing", "rule, false on a machine that is not preserved"],
    ["*", "adopted", "*", "*", "room", "no-rollout", "keep-failed", "rule, is kept if there is"],
    ["*", "adopted", "*", "*", "*", "*", "finish", "rule, is kept if there is"],
    // Draining machines.
    ["*", "draining|auto-draining|relapsing", "over", "*", "*", "*", "release", "rule, The expiry of a relapse passes"],
    ["*", "draining|auto-draining|relapsing", "*", "false", "*", "*", "release", "rule, false goes by the current phase"],
    ["*", "draining|relapsing", "*", "-", "*", "*", "release", "rule, The annotation is removed"],
    ["*", "relapsing", "none", "*", "*", "*", "release", "rule, Preserved means that the expiry is set"],
    ["*", "auto-draining", "*", "-", "*", "*", "drain", "rule, an automatic one goes on"],
    ["*", "draining|auto-draining|relapsing", "*", "*", "*", "*", "drain", "doc, proposal 5, The machine is drained"],
    // Preserved machines.
    ["*", "auto|lowered|now|when-failed", "over", "*", "*", "*", "release", "doc, proposal 4 to 6, After timeout"],
    ["*", "auto|lowered|now|when-failed", "none", "false", "*", "*", "release", "doc, proposal 8"],
    ["*", "auto|lowered|now|when-failed", "none", "*", "*", "*", "release", "rule, Preserved means that the expiry is set"],
    ["*", "auto|lowered|now|when-failed", "*", "false", "*", "*", "release", "doc, proposal 8, use case 4"],
    ["*", "now|when-failed", "*", "-", "*", "*", "release", "rule, The annotation is removed"],
    ["*", "lowered", "*", "-|maybe", "*", "*", "release", "rule, When it is lowered, automatic ones end"],
    ["Failed", "now", "*", "when-failed", "*", "*", "keep", "rule, when-failed on a preservation that now asked for"],
    ["*", "now", "*", "when-failed", "*", "*", "release", "rule, when-failed on a preservation that now asked for"],
    ["*", "auto", "*", "-", "*", "*", "keep", "rule, an automatic one goes on"],
    ["*", "auto|lowered", "*", "now|when-failed", "*", "*", "keep", "rule, it becomes manual"],
    ["*", "when-failed", "*", "now", "*", "*", "keep", "rule, on any other changes nothing"],
    ["*", "auto|now|when-failed", "*", "*", "*", "*", "keep", "doc, proposal 4 to 6"],
    // Ending preservations.
    ["*", "expired", "ahead|over", "*", "*", "*", "finish", "rule, On expiry the annotation that asked is removed"],
    ["*", "releasing-now", "*", "now", "*", "*", "finish", "rule, Releasing never starts a preservation again"],
    ["Failed", "releasing|releasing-now|expired", "*", "now|when-failed", "*", "no-rollout", "keep-failed", "rule, A new now or when-failed"],
    ["Failed", "releasing|releasing-now|expired", "*", "now|when-failed", "*", "rollout", "finish", "doc, points to note 1"],
    ["*", "releasing|releasing-now|expired", "*", "now", "*", "*", "start", "rule, A new now or when-failed"],
    ["*", "releasing|releasing-now|expired", "*", "*", "*", "*", "finish", "rule, Releasing never starts a preservation again"],
    ["*", "*", "*", "*", "*", "*", "?", "no row decides"],
];

/// Exceptions in the upstream dialect.
#[rustfmt::skip]
const UPSTREAM: [Row; 5] = [
    ["recovers", "draining|auto-draining|relapsing", "*", "-|when-failed|false|maybe", "*", "*", "release", RECOVERS],
    ["recovers", "auto|lowered|now|when-failed", "*", "-|when-failed|false|maybe", "*", "*", "release", RECOVERS],
    ["Failed|fails|recovers|Terminating", "*", "*", "*", "*", "*", "", "as in ROWS"],
    ["*", "auto|lowered|now|when-failed", "*", "-|when-failed|false|maybe", "*", "*", "release", RECOVERS],
    ["*", "*", "*", "*", "*", "*", "", "as in ROWS"],
];
const RECOVERS: &str = "rule, of what recovers only that stays preserved which";

/// Exceptions in the dialect `off`.
#[rustfmt::skip]
const OFF: [Row; 8] = [
    ["fails", "auto|lowered|now|when-failed", "*", "*", "*", "*", "release", ENDS],
    ["fails", "*", "*", "*", "*", "*", "replace", ENDS],
    ["recovers", "free|no-vm|releasing|releasing-now|expired", "*", "*", "*", "*", "run", ENDS],
    ["Terminating", "*", "*", "*", "*", "*", "nothing", ENDS],
    ["*", "free|no-vm|adopted", "*", "*", "*", "*", "nothing", ENDS],
    ["*", "releasing|releasing-now|expired", "*", "*", "*", "*", "finish", ENDS],
    ["*", "*", "*", "*", "*", "*", "release", ENDS],
    ["*", "*", "*", "*", "*", "*", "?", "no row decides"],
];
const ENDS: &str = "rule, no annotation and no maximum means anything, and every preservation ends";

/// Every citation of the tables.
pub fn citations() -> Vec<&'static str> {
    let rows = ROWS.iter().chain(&UPSTREAM).chain(&OFF);
    let all = rows.map(|row| row[7]).chain(REQUESTS.iter().map(|row| row.3));
    all.flat_map(|cited| cited.split("; ")).collect()
}

/// The expected outcome and its citation.
pub fn outcome(cell: &Cell<'_>) -> (&'static str, &'static str) {
    let request = REQUESTS
        .iter()
        .find(|row| matches(row.0, cell.node) && matches(row.1, cell.machine));
    let request = match request.unwrap().2 {
        "node" => cell.node,
        "machine" => cell.machine,
        value => value,
    };
    let decides = |row: &&Row| {
        matches(row[0], cell.phase)
            && matches(row[1], cell.kept)
            && matches(row[2], cell.expiry)
            && matches(row[3], request)
            && matches(row[4], cell.limit)
            && matches(row[5], cell.rollout)
    };
    let exceptions: &[Row] = match cell.dialect {
        "upstream" => &UPSTREAM,
        "off" => &OFF,
        _ => &[],
    };
    let row = exceptions.iter().find(decides).filter(|row| !row[6].is_empty());
    let row = row.or_else(|| ROWS.iter().find(decides)).unwrap();
    (row[6], row[7])
}

fn matches(pattern: &str, value: &str) -> bool {
    pattern == "*" || pattern.split('|').any(|one| one == value)
}
