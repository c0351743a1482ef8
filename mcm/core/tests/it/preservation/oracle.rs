//! What preservation is to do, as a table whose rows cite the sentence that decides them. Nothing of the program is used
//! here: only words.
//!
//! `doc` is the document on the preservation of machines, version 2, by its numbered points; `rule` a rule of this
//! project, by its first words in `docs/preservation.md`.

/// One cell. Every field is a word of the table below.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// `fails`: it becomes Failed now; `recovers`: it was Failed and is healthy; else its phase.
    pub phase: &'a str,
    /// How far its preservation is, and who asked: `free`, `draining`, `auto`, `now`, `when-failed`, `releasing`.
    pub kept: &'a str,
    /// `none`, `ahead`, `over`.
    pub expiry: &'a str,
    /// The annotation of the Node: `-` or its value.
    pub node: &'a str,
    /// The annotation of the Machine.
    pub machine: &'a str,
    /// Whether the maximum leaves room: `room`, `full`.
    pub limit: &'a str,
    /// Whether a rollout is under way: `rollout`, `calm`.
    pub rollout: &'a str,
}

/// The two annotations, what they ask for together, and who says so. The first row that matches decides.
const ASKED: [(&str, &str, &str, &str); 3] = [
    ("now|when-failed|false", "*", "node", "doc, points to note 6"),
    ("-", "*", "machine", "doc, points to note 5"),
    ("maybe", "*", "machine", "rule, An unknown value"),
];

/// Phase, kept, expiry, asked, limit, rollout, outcome, citation. The first row that matches decides.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

const ROWS: [Row; 38] = [
    // What fails.
    (
        "fails",
        "auto|now|when-failed",
        "over",
        "*",
        "*",
        "*",
        "release",
        "doc, proposal 5, After timeout",
    ),
    (
        "fails",
        "auto|now|when-failed",
        "ahead",
        "false",
        "*",
        "*",
        "release",
        "doc, proposal 8",
    ),
    (
        "fails",
        "now|when-failed",
        "ahead",
        "-",
        "*",
        "*",
        "release",
        "rule, The annotation is removed",
    ),
    (
        "fails",
        "auto|now|when-failed",
        "ahead",
        "*",
        "*",
        "rollout",
        "release",
        "doc, points to note 1",
    ),
    (
        "fails",
        "auto|now|when-failed",
        "ahead",
        "*",
        "*",
        "calm",
        "keep-failed",
        "doc, proposal 4, moved to Failed:Preserved",
    ),
    (
        "fails",
        "*",
        "*",
        "false",
        "*",
        "*",
        "replace",
        "rule, false on a machine that is not preserved",
    ),
    (
        "fails",
        "*",
        "*",
        "*",
        "*",
        "rollout",
        "replace",
        "doc, points to note 1",
    ),
    (
        "fails",
        "*",
        "*",
        "now|when-failed",
        "*",
        "calm",
        "keep-failed",
        "doc, proposal 5",
    ),
    (
        "fails",
        "*",
        "*",
        "-|maybe",
        "room",
        "calm",
        "keep-failed",
        "doc, proposal 6",
    ),
    (
        "fails",
        "*",
        "*",
        "-|maybe",
        "full",
        "calm",
        "replace",
        "doc, diagram 2, if autoPreserveFailedMax breached",
    ),
    // What recovers.
    (
        "recovers",
        "free|releasing",
        "*",
        "*",
        "*",
        "*",
        "run",
        "rule, Expired and healthy at once",
    ),
    (
        "recovers",
        "*",
        "over",
        "*",
        "*",
        "*",
        "release",
        "doc, proposal 7, After the timeout",
    ),
    ("recovers", "*", "*", "false", "*", "*", "release", "doc, proposal 8"),
    (
        "recovers",
        "now|when-failed|draining",
        "*",
        "-",
        "*",
        "*",
        "release",
        "rule, The annotation is removed",
    ),
    ("recovers", "*", "*", "*", "*", "*", "run-preserved", "doc, proposal 7"),
    // What is being deleted.
    (
        "Terminating",
        "*",
        "*",
        "*",
        "*",
        "*",
        "nothing",
        "rule, now is honoured in every phase but Terminating",
    ),
    // What is not preserved.
    (
        "Failed",
        "free",
        "*",
        "now|when-failed",
        "*",
        "*",
        "keep-failed",
        "rule, A new now or when-failed",
    ),
    (
        "*",
        "free",
        "*",
        "now",
        "*",
        "*",
        "start",
        "doc, proposal 4; rule, now is honoured in every phase but Terminating",
    ),
    (
        "*",
        "free",
        "*",
        "*",
        "*",
        "*",
        "nothing",
        "doc, diagram 1, Running + Requested",
    ),
    // What drains.
    (
        "*",
        "draining",
        "over",
        "*",
        "*",
        "*",
        "release",
        "rule, The expiry of a relapse passes",
    ),
    (
        "*",
        "draining",
        "*",
        "false",
        "*",
        "*",
        "release",
        "rule, false goes by the current phase",
    ),
    (
        "*",
        "draining",
        "*",
        "-",
        "*",
        "*",
        "release",
        "rule, The annotation is removed",
    ),
    (
        "*",
        "draining",
        "*",
        "*",
        "*",
        "*",
        "drain",
        "doc, proposal 5, The machine is drained",
    ),
    // What is preserved.
    (
        "*",
        "auto|now|when-failed",
        "over",
        "*",
        "*",
        "*",
        "release",
        "doc, proposal 4 to 6, After timeout",
    ),
    (
        "*",
        "auto|now|when-failed",
        "none",
        "false",
        "*",
        "*",
        "release",
        "doc, proposal 8",
    ),
    (
        "*",
        "auto|now|when-failed",
        "none",
        "*",
        "*",
        "*",
        "release",
        "rule, Preserved means that the expiry is set",
    ),
    (
        "*",
        "auto|now|when-failed",
        "*",
        "false",
        "*",
        "*",
        "release",
        "doc, proposal 8, use case 4",
    ),
    (
        "*",
        "now|when-failed",
        "*",
        "-",
        "*",
        "*",
        "release",
        "rule, The annotation is removed",
    ),
    (
        "Failed",
        "now",
        "*",
        "when-failed",
        "*",
        "*",
        "keep",
        "rule, A new now or when-failed",
    ),
    (
        "*",
        "now",
        "*",
        "when-failed",
        "*",
        "*",
        "release",
        "rule, when-failed on a preservation that now asked for",
    ),
    (
        "*",
        "auto",
        "*",
        "-",
        "*",
        "*",
        "keep",
        "rule, an automatic one goes on",
    ),
    (
        "*",
        "auto",
        "*",
        "now|when-failed",
        "*",
        "*",
        "keep",
        "rule, it becomes manual",
    ),
    (
        "*",
        "when-failed",
        "*",
        "now",
        "*",
        "*",
        "keep",
        "rule, on any other changes nothing",
    ),
    (
        "*",
        "auto|now|when-failed",
        "*",
        "*",
        "*",
        "*",
        "keep",
        "doc, proposal 4 to 6",
    ),
    // What ends.
    (
        "Failed",
        "releasing",
        "*",
        "now|when-failed",
        "*",
        "*",
        "keep-failed",
        "rule, A new now or when-failed",
    ),
    (
        "*",
        "releasing",
        "*",
        "now",
        "*",
        "*",
        "start",
        "rule, A new now or when-failed",
    ),
    (
        "*",
        "releasing",
        "*",
        "*",
        "*",
        "*",
        "finish",
        "rule, Releasing never starts a preservation again",
    ),
    ("*", "*", "*", "*", "*", "*", "?", "no row decides"),
];

/// The outcome and who says so.
pub fn outcome(cell: &Cell<'_>) -> (&'static str, &'static str) {
    let asked = ASKED.iter().find(|row| is(row.0, cell.node) && is(row.1, cell.machine));
    let asked = if asked.unwrap().2 == "node" {
        cell.node
    } else {
        cell.machine
    };
    let row = ROWS.iter().find(|row| {
        is(row.0, cell.phase)
            && is(row.1, cell.kept)
            && is(row.2, cell.expiry)
            && is(row.3, asked)
            && is(row.4, cell.limit)
            && is(row.5, cell.rollout)
    });
    let row = row.unwrap();
    (row.6, row.7)
}

fn is(pattern: &str, word: &str) -> bool {
    pattern == "*" || pattern.split('|').any(|one| one == word)
}
