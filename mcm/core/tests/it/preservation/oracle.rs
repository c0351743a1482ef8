//! What preservation is to do, as a table whose rows cite the sentence that decides them. Nothing of the program is used
//! here: only words.
//!
//! `doc` is the document on the preservation of machines, version 2, by its numbered points; `rule` a rule of this
//! project, by its first words in `docs/how-it-works/preservation-rules.md`.

/// One cell. Every field is a word of the table below.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// `v2`, `upstream`, `off`.
    pub dialect: &'a str,
    /// `fails`: it becomes Failed now; `recovers`: it was Failed and is healthy; `new`: it has none yet; else its phase,
    /// in which the Node's health decides nothing.
    pub phase: &'a str,
    /// How far its preservation is, and who asked. Not kept: `free`, `no-vm` (without a VM), `adopted` (it failed with
    /// another controller's word on it). Its pods leave: `draining`, `auto-draining`, `relapsing` (not for the first
    /// time). Kept: `auto`, `lowered` (the same, after the maximum was lowered below it), `now`, `when-failed`. At its
    /// end: `releasing` (who asked for it asks no more), `releasing-now` (`now` asked for it), `expired` (its time was
    /// over).
    pub kept: &'a str,
    /// `none`, `ahead`, `over`.
    pub expiry: &'a str,
    /// The annotation of the Node: `-` or its value; `gone`: there is no Node; `other`: without it, and another one than
    /// when the machine was preserved.
    pub node: &'a str,
    /// The annotation of the Machine; `copied`: `now`, which was written to it because its Node said so.
    pub machine: &'a str,
    /// Whether the maximum leaves room: `room`, `full`; `nobody`: there is no set that has one.
    pub limit: &'a str,
    /// Whether a rollout is under way: `rollout`, `calm`.
    pub rollout: &'a str,
}

/// The two annotations, what they ask for together (`node`, `machine`: what it says; else the word itself), and who says
/// so. The first row that matches decides.
#[rustfmt::skip]
const ASKED: [(&str, &str, &str, &str); 7] = [
    ("now|when-failed|false", "*", "node", "doc, points to note 6"),
    ("-", "copied", "-", "rule, when it goes, so does the Machine's"),
    ("*", "copied", "now", "rule, What a Node of another uid does not say was not removed; rule, An unknown value"),
    ("gone", "*", "machine", "doc, points to note 5"),
    ("other", "*", "machine", "doc, points to note 5"),
    ("-", "*", "machine", "doc, points to note 5"),
    ("maybe", "*", "machine", "rule, An unknown value"),
];

/// Phase, kept, expiry, asked, limit, rollout, outcome, citation. The first row that matches decides.
type Row = [&'static str; 8];

#[rustfmt::skip]
const ROWS: [Row; 55] = [
    // What fails.
    ["fails", "auto|lowered|now|when-failed", "over", "*", "*", "*", "release", "doc, proposal 5, After timeout"],
    ["fails", "auto|lowered|now|when-failed", "ahead", "false", "*", "*", "release", "doc, proposal 8"],
    ["fails", "now|when-failed", "ahead", "-", "*", "*", "release", "rule, The annotation is removed"],
    ["fails", "lowered", "ahead", "-|maybe", "*", "*", "release", "rule, When it is lowered, automatic ones end"],
    ["fails", "auto|lowered|now|when-failed", "ahead", "*", "*", "rollout", "release", "doc, points to note 1"],
    ["fails", "auto|lowered|now|when-failed", "ahead", "*", "*", "calm", "keep-failed", "doc, proposal 4, moved to Failed:Preserved"],
    ["fails", "*", "*", "false", "*", "*", "replace", "rule, false on a machine that is not preserved"],
    ["fails", "*", "*", "*", "*", "rollout", "replace", "doc, points to note 1"],
    ["fails", "*", "*", "now|when-failed", "*", "calm", "keep-failed", "doc, proposal 5"],
    ["fails", "no-vm", "*", "-|maybe", "*", "calm", "replace", "rule, A machine without a VM"],
    ["fails", "*", "*", "-|maybe", "room", "calm", "keep-failed", "doc, proposal 6"],
    ["fails", "*", "*", "-|maybe", "full", "calm", "replace", "doc, diagram 2, if autoPreserveFailedMax breached"],
    ["fails", "*", "*", "-|maybe", "nobody", "calm", "replace", "rule, nor is one of no set"],
    // What recovers.
    ["recovers", "free|no-vm|releasing|releasing-now|expired", "*", "*", "*", "*", "run", "rule, Expired and healthy at once"],
    ["recovers", "*", "over", "*", "*", "*", "release", "doc, proposal 7, After the timeout"],
    ["recovers", "*", "*", "false", "*", "*", "release", "doc, proposal 8"],
    ["recovers", "now|when-failed|draining|relapsing", "*", "-", "*", "*", "release", "rule, The annotation is removed"],
    ["recovers", "relapsing", "none", "*", "*", "*", "release", "rule, Preserved means that the expiry is set"],
    ["recovers", "lowered", "*", "-|maybe", "*", "*", "release", "rule, When it is lowered, automatic ones end"],
    ["recovers", "*", "*", "*", "*", "*", "run-preserved", "doc, proposal 7"],
    // What is being deleted.
    ["Terminating", "*", "*", "*", "*", "*", "nothing", "rule, now is honoured in every phase but Terminating"],
    // What is not preserved.
    ["Failed", "free|no-vm", "*", "now|when-failed", "*", "calm", "keep-failed", "rule, A new now or when-failed"],
    ["Failed", "free|no-vm", "*", "now|when-failed", "*", "rollout", "nothing", "doc, points to note 1"],
    ["*", "free|no-vm", "*", "now", "*", "*", "start", "doc, proposal 4; rule, now is honoured in every phase but Terminating"],
    ["*", "free|no-vm", "*", "*", "*", "*", "nothing", "doc, diagram 1, Running + Requested"],
    // What another controller was about to keep.
    ["*", "adopted", "*", "now|when-failed", "*", "calm", "keep-failed", "rule, A new now or when-failed"],
    ["*", "adopted", "*", "now|when-failed", "*", "rollout", "nothing", "doc, points to note 1"],
    ["*", "adopted", "*", "false", "*", "*", "nothing", "rule, false on a machine that is not preserved"],
    ["*", "adopted", "*", "*", "room", "calm", "keep-failed", "rule, is kept if there is"],
    ["*", "adopted", "*", "*", "*", "*", "finish", "rule, is kept if there is"],
    // What drains.
    ["*", "draining|auto-draining|relapsing", "over", "*", "*", "*", "release", "rule, The expiry of a relapse passes"],
    ["*", "draining|auto-draining|relapsing", "*", "false", "*", "*", "release", "rule, false goes by the current phase"],
    ["*", "draining|relapsing", "*", "-", "*", "*", "release", "rule, The annotation is removed"],
    ["*", "relapsing", "none", "*", "*", "*", "release", "rule, Preserved means that the expiry is set"],
    ["*", "auto-draining", "*", "-", "*", "*", "drain", "rule, an automatic one goes on"],
    ["*", "draining|auto-draining|relapsing", "*", "*", "*", "*", "drain", "doc, proposal 5, The machine is drained"],
    // What is preserved.
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
    // What ends.
    ["*", "expired", "ahead|over", "*", "*", "*", "finish", "rule, On expiry the annotation that asked is removed"],
    ["*", "releasing-now", "*", "now", "*", "*", "finish", "rule, Releasing never starts a preservation again"],
    ["Failed", "releasing|releasing-now|expired", "*", "now|when-failed", "*", "calm", "keep-failed", "rule, A new now or when-failed"],
    ["Failed", "releasing|releasing-now|expired", "*", "now|when-failed", "*", "rollout", "finish", "doc, points to note 1"],
    ["*", "releasing|releasing-now|expired", "*", "now", "*", "*", "start", "rule, A new now or when-failed"],
    ["*", "releasing|releasing-now|expired", "*", "*", "*", "*", "finish", "rule, Releasing never starts a preservation again"],
    ["*", "*", "*", "*", "*", "*", "?", "no row decides"],
];

/// What is otherwise where the dialect is upstream's.
#[rustfmt::skip]
const UPSTREAM: [Row; 5] = [
    ["recovers", "draining|auto-draining|relapsing", "*", "-|when-failed|false|maybe", "*", "*", "release", RECOVERS],
    ["recovers", "auto|lowered|now|when-failed", "*", "-|when-failed|false|maybe", "*", "*", "release", RECOVERS],
    ["Failed|fails|recovers|Terminating", "*", "*", "*", "*", "*", "", "as in ROWS"],
    ["*", "auto|lowered|now|when-failed", "*", "-|when-failed|false|maybe", "*", "*", "release", RECOVERS],
    ["*", "*", "*", "*", "*", "*", "", "as in ROWS"],
];
const RECOVERS: &str = "rule, of what recovers only that stays preserved which";

/// Where it is off.
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

/// Every citation.
pub fn citations() -> Vec<&'static str> {
    let rows = ROWS.iter().chain(&UPSTREAM).chain(&OFF);
    let all = rows.map(|row| row[7]).chain(ASKED.iter().map(|row| row.3));
    all.flat_map(|cited| cited.split("; ")).collect()
}

/// The outcome and who says so.
pub fn outcome(cell: &Cell<'_>) -> (&'static str, &'static str) {
    let asked = ASKED.iter().find(|row| is(row.0, cell.node) && is(row.1, cell.machine));
    let asked = match asked.unwrap().2 {
        "node" => cell.node,
        "machine" => cell.machine,
        word => word,
    };
    let decides = |row: &&Row| {
        is(row[0], cell.phase)
            && is(row[1], cell.kept)
            && is(row[2], cell.expiry)
            && is(row[3], asked)
            && is(row[4], cell.limit)
            && is(row[5], cell.rollout)
    };
    let otherwise: &[Row] = match cell.dialect {
        "upstream" => &UPSTREAM,
        "off" => &OFF,
        _ => &[],
    };
    let row = otherwise.iter().find(decides).filter(|row| !row[6].is_empty());
    let row = row.or_else(|| ROWS.iter().find(decides)).unwrap();
    (row[6], row[7])
}

fn is(pattern: &str, word: &str) -> bool {
    pattern == "*" || pattern.split('|').any(|one| one == word)
}
