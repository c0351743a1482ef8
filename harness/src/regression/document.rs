//! The corpus as a page: what each entry is, what found its mutant, and which invariants have something to see.

use std::fmt::Write;
use std::time::Duration;

use judge::evaluate::short;
use judge::invariants::{ALL, Coverage};

use super::{Entry, Verdicts};

const HEAD: &str = "# Regression corpus

Made by `drydock regressions --document docs/reference/regressions.md`; a test fails when it is stale.

Bugs that real machine controllers had, each as a scenario that brings it back in virtual time. An entry is a
scenario and a *mutant*: the old behaviour behind a switch that exists in test builds alone. Without the mutant the
scenario must pass with every invariant; with it, one of the invariants that the entry names must break, or, where it
says *expected*, what the scenario expects beyond them.

```
drydock regressions                    # every entry, with the exact times
drydock regressions R04 R36            # some of them
drydock regressions --seeds 100        # and 99 more seeds, with times moved by up to a tenth
drydock run --stage sim --mutant R04 r04-lost-lease   # one case, as a run with a narrative
```

The exit status is 1 when the product fails an entry or a mutant is not found.
";

/// The page.
pub fn document(entries: &[Entry], verdicts: &Verdicts) -> String {
    let mut page = HEAD.to_owned();
    let _ = writeln!(
        page,
        "\n{} of {} known bugs detected.\n",
        verdicts.detected, verdicts.mutants
    );
    for (group, (found, all)) in &verdicts.by_group {
        let _ = writeln!(page, "- {group}: {found} of {all}");
    }
    page += "\n## Entries\n\n";
    page += "| case | what happened | origin | confidence | found by | at virtual time |\n|---|---|---|---|---|---|\n";
    for entry in entries {
        for case in &entry.cases {
            let verdict = verdicts.cases.iter().find(|verdict| verdict.id == case.id);
            let (by, at) = match verdict.and_then(|verdict| verdict.detection.as_ref()) {
                Some(found) => (
                    found.invariant.clone(),
                    short(Duration::from_secs_f64(found.after_seconds)),
                ),
                None if case.mutant => ("nothing".to_owned(), String::new()),
                None => ("no planted defect of its own".to_owned(), String::new()),
            };
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {by} | {at} |",
                case.id,
                case.scenario.about,
                entry.origin,
                entry.confidence.letter()
            );
        }
    }
    let open: Vec<&Entry> = entries.iter().filter(|entry| !entry.open.is_empty()).collect();
    if !open.is_empty() {
        page += "\nNot in it yet:\n\n";
        for entry in open {
            let _ = writeln!(page, "- {} `{}`: {}", entry.id, entry.name, entry.open);
        }
    }
    page += "\n## Invariants\n\n";
    page += "Every scenario runs with all of them. One without a detecting entry is held by its unit tests alone.\n\n";
    page += "| | statement | today | detecting entries |\n|---|---|---|---|\n";
    for invariant in &ALL {
        let today = match invariant.coverage {
            Coverage::Full => "judged".to_owned(),
            Coverage::Partial(why) => format!("in part: {why}"),
            Coverage::Nothing(why) => format!("holds trivially: {why}"),
        };
        let found = verdicts.by_invariant.get(invariant.name);
        let found: Vec<&str> = found.into_iter().flatten().map(String::as_str).collect();
        let _ = writeln!(
            page,
            "| {} | {} | {today} | {} |",
            invariant.name,
            invariant.statement,
            found.join(", ")
        );
    }
    page
}
