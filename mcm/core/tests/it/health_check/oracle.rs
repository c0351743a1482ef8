//! The expected outcomes of a pass over one machine, as tables whose first matching row decides. This file uses strings only
//! and no code under test.
//!
//! The last column quotes the page `docs/using/machine-health-check.md`; a test looks the quotations up.

/// One cell of the table. Every field is one of the strings in the patterns below.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// `active`, `paused`; `overlaps`: another check selects the machine too.
    pub check: &'a str,
    /// `up`, `lost`; `back`: an outage ended within the grace.
    pub connection: &'a str,
    /// `-`, `skip`, `remediate`.
    pub annotation: &'a str,
    /// `alive`, `deleting`, `preserved`, `standalone` (without an owner).
    pub life: &'a str,
    /// Has not joined: `starting`, `late` (after the startup timeout). Has joined: `deleted`, `ready`, `failing` (its timeout
    /// runs), `failed`.
    pub node: &'a str,
    /// The conditions of the machine: `-`, `marked` (it failed its check), `requested` (its owner is to replace it, too).
    pub mark: &'a str,
    /// Who remediates: `owner`, `template`; `no-template`: the template does not exist.
    pub by: &'a str,
    /// The request to another controller: `-`, `exists`, `ends` (it is being deleted), `foreign` (another controller or a
    /// user created it).
    pub request: &'a str,
    /// `open`, `closed` (too many are unhealthy), `cooldown`, `taken` (another machine has the only place).
    pub limit: &'a str,
}

/// Check, connection, annotation, life, node; verdict, citation.
type VerdictRow = [&'static str; 7];

#[rustfmt::skip]
const VERDICTS: [VerdictRow; 12] = [
    ["paused", "*", "*", "*", "*", "ignored", "on a check stops it"],
    ["*", "lost", "*", "*", "*", "ignored", "While an API server does not respond, nothing is evaluated"],
    ["overlaps", "*", "*", "*", "*", "excluded", "neither remediates the machine"],
    ["*", "*", "skip", "*", "*", "excluded", "on a machine exclude it"],
    ["*", "*", "*", "deleting", "*", "NotEvaluated", "it is being deleted | not counted"],
    ["*", "*", "remediate", "*", "*", "HasRemediateAnnotation", "unhealthy at once | `HasRemediateAnnotation`"],
    ["*", "*", "*", "*", "deleted", "NodeDeleted", "its Node joined and is gone | unhealthy at once"],
    ["*", "back", "*", "*", "late|failed", "Pending", "After an outage, timeouts count from the beginning again"],
    ["*", "*", "*", "*", "starting|failing", "Pending", "one of these timeouts runs | pending"],
    ["*", "*", "*", "*", "late", "NodeStartupTimeout", "its Node has not joined after `nodeStartupTimeout`"],
    ["*", "*", "*", "*", "failed", "UnhealthyNode", "of `unhealthyConditions` lasts longer than its timeout"],
    ["*", "*", "*", "*", "ready", "healthy", "otherwise | healthy"],
];

/// Verdict, by, mark, request, life, permission; action, citation. Permission: `given`, or `refused` by a limit or by the grace
/// after an outage.
type ActionRow = [&'static str; 8];

const UNHEALTHY: &str = "HasRemediateAnnotation|NodeDeleted|NodeStartupTimeout|UnhealthyNode";

#[rustfmt::skip]
const ACTIONS: [ActionRow; 13] = [
    ["excluded", "*", "*", "exists", "*", "*", "delete", "annotation or another check excludes the machine"],
    ["ignored|excluded|NotEvaluated|Pending", "*", "*", "*", "*", "*", "-", ""],
    ["healthy", "*", "*", "exists", "*", "*", "delete", "It deletes the object when the machine is healthy again"],
    ["healthy", "*", "*", "*", "*", "*", "-", ""],
    [UNHEALTHY, "owner", "*", "exists", "*", "*", "delete", "also when the check has no template any more"],
    [UNHEALTHY, "owner", "*", "ends|foreign", "*", "*", "-", "gets no other request, and its owner is not asked"],
    [UNHEALTHY, "*", "requested", "*", "*", "*", "-", "its set replaces"],
    [UNHEALTHY, "owner", "*", "*", "*", "given", "ask", "The check sets the conditions"],
    [UNHEALTHY, "*", "*", "foreign", "*", "*", "-", "gets no other request, and its owner is not asked"],
    [UNHEALTHY, "*", "*", "exists", "preserved", "*", "delete", "and one that exists is deleted"],
    [UNHEALTHY, "*", "*", "exists|ends", "*", "*", "-", "gets no other request, and its owner is not asked"],
    [UNHEALTHY, "template", "*", "-", "alive|standalone", "given", "create", "The check creates an object from the template"],
    ["*", "*", "*", "*", "*", "*", "-", ""],
];

/// What a pass does about the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// The condition `HealthCheckSucceeded` afterwards: `True`, `False`, `-`.
    pub mark: &'a str,
    /// `ask`: the owner; `create`, `delete`: the request; `-`.
    pub action: &'a str,
    /// The reason in the status of the check; `-`: the machine is not listed.
    pub listed: &'a str,
}

/// The quotations of all rows.
pub fn quotations() -> impl Iterator<Item = &'static str> {
    let verdicts = VERDICTS.iter().map(|row| row[6]);
    verdicts.chain(ACTIONS.iter().map(|row| row[7]))
}

fn matches(pattern: &str, value: &str) -> bool {
    pattern == "*" || pattern.split('|').any(|one| one == value)
}

fn decide<const N: usize>(rows: &[[&'static str; N]], values: &[&str]) -> &'static str {
    let row = rows
        .iter()
        .find(|row| row.iter().zip(values).all(|(pattern, value)| matches(pattern, value)));
    row.map_or("no row", |row| row[values.len()])
}

/// The outcome of the first row that matches.
pub fn outcome(cell: &Cell<'_>) -> Outcome<'static> {
    let verdict = decide(
        &VERDICTS,
        &[cell.check, cell.connection, cell.annotation, cell.life, cell.node],
    );
    let permission = match (cell.limit, cell.connection) {
        ("open", "up") => "given",
        _ => "refused",
    };
    let action = decide(
        &ACTIONS,
        &[verdict, cell.by, cell.mark, cell.request, cell.life, permission],
    );
    let mark = match (verdict, cell.mark) {
        ("healthy", _) => "True",
        ("ignored" | "excluded" | "Pending" | "NotEvaluated", "-") => "-",
        _ => "False",
    };
    let listed = match (verdict, cell.request) {
        ("ignored" | "excluded", _) | ("healthy", "-") => "-",
        ("healthy", _) => "Recovered",
        _ => verdict,
    };
    Outcome { mark, action, listed }
}
