//! The results of several runs as Markdown, for the job summary of GitHub Actions.

use std::fmt::Write as _;

use scenario::shortened;

use crate::{RunRecord, Span, SpanClass};

/// The maximum number of runs in the table. Failed runs come first.
const MOST_ROWS: usize = 200;
/// The maximum number of failed runs with a timeline.
const MOST_TIMELINES: usize = 5;
/// The maximum length of a reason, a command or a name, in characters.
const MOST_CHARACTERS: usize = 2_000;
/// The maximum number of states in a timeline.
const MOST_SPANS: usize = 20;

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct SummaryRow<'a> {
    /// The name of the scenario.
    pub scenario: &'a str,
    /// The stage, or both stages.
    pub place: &'a str,
    /// The seed.
    pub seed: u64,
    /// Why the run failed; `None`: it passed.
    pub failure: Option<&'a str>,
    /// The duration by the wall clock, in seconds.
    pub seconds: f64,
    /// The command that repeats the run.
    pub replay: &'a str,
    /// The record, if the run left one.
    pub record: Option<&'a RunRecord>,
}

/// One table of all runs, and for each of the first failed ones the reason, the command that repeats it, and a timeline of
/// its main states. Says what is left out. Stays far below GitHub's limit of 1 MiB.
pub fn summary(title: &str, runs: &[SummaryRow<'_>]) -> String {
    let (failed, passed): (Vec<&SummaryRow<'_>>, Vec<&SummaryRow<'_>>) =
        runs.iter().partition(|run| run.failure.is_some());
    let mut text = format!(
        "## {}\n\n{} passed, {} failed\n\n",
        cell(title),
        passed.len(),
        failed.len()
    );
    if runs.is_empty() {
        return text;
    }
    text.push_str("| | scenario | stage | seed | seconds |\n|---|---|---|---|---|\n");
    for run in failed.iter().chain(passed.iter()).take(MOST_ROWS) {
        let mark = if run.failure.is_some() {
            "❌ failed"
        } else {
            "✅ passed"
        };
        let _ = writeln!(
            text,
            "| {mark} | {} | {} | {} | {:.1} |",
            cell(run.scenario),
            cell(run.place),
            run.seed,
            run.seconds
        );
    }
    if runs.len() > MOST_ROWS {
        let _ = writeln!(text, "\n{} more runs are not shown.", runs.len() - MOST_ROWS);
    }
    for run in failed.iter().take(MOST_TIMELINES) {
        text.push_str(&details(run));
    }
    if failed.len() > MOST_TIMELINES {
        let _ = writeln!(
            text,
            "\nThe details of {} more failed runs are not shown.",
            failed.len() - MOST_TIMELINES
        );
    }
    text
}

fn details(run: &SummaryRow<'_>) -> String {
    let mut text = format!(
        "\n### {} on {}, seed {}\n\n",
        cell(run.scenario),
        cell(run.place),
        run.seed
    );
    let _ = writeln!(text, "{}\n", cell(run.failure.unwrap_or_default()));
    let _ = writeln!(
        text,
        "```\n{}\n```",
        shortened(run.replay, MOST_CHARACTERS).replace("```", "'''")
    );
    if let Some(record) = run.record {
        text.push_str(&timeline(record));
    }
    text
}

/// A Mermaid chart of the main states; empty without states.
fn timeline(record: &RunRecord) -> String {
    let spans = main_spans(record);
    if spans.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n```mermaid\ngantt\n  dateFormat x\n  axisFormat %M:%S\n");
    let mut section = "";
    for span in spans {
        if section != span.actor {
            section = &span.actor;
            let _ = writeln!(text, "  section {}", label(section));
        }
        let end = span.to.unwrap_or(record.meta.lasted).0 / 1000;
        let from = span.from.0 / 1000;
        let _ = writeln!(text, "  {} : {from}, {}", label(&span.label), end.max(from + 1));
    }
    text.push_str("```\n");
    text
}

/// Faults first, then the states of the actor that failed, then those of processes and machines; at most [`MOST_SPANS`], in
/// the order of actors and times.
fn main_spans(record: &RunRecord) -> Vec<&Span> {
    let failed = record.meta.verdict.point;
    let failed = failed.and_then(|number| record.points.iter().find(|point| point.number == number));
    let failed = failed.map(|point| &*point.actor);
    let rank = |span: &Span| match span.class {
        SpanClass::Fault => 0,
        _ if failed == Some(&*span.actor) => 1,
        SpanClass::Process | SpanClass::Leader => 2,
        SpanClass::Phase => 3,
        SpanClass::Vm | SpanClass::Node | SpanClass::Drain => 4,
        SpanClass::Step => 5,
    };
    let mut spans: Vec<&Span> = record.spans.iter().collect();
    spans.sort_by_key(|span| rank(span));
    spans.truncate(MOST_SPANS);
    spans.sort_by(|a, b| (&a.actor, a.from).cmp(&(&b.actor, b.from)));
    spans
}

/// Text that cannot end a cell, a heading or a paragraph, contains no HTML and is not longer than [`MOST_CHARACTERS`].
fn cell(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let one_line = shortened(&one_line, MOST_CHARACTERS);
    let escaped = one_line.replace('&', "&amp;").replace('<', "&lt;");
    ['\\', '|', '`', '*', '_', '[', ']', '#']
        .iter()
        .fold(escaped, |text, character| {
            text.replace(*character, &format!("\\{character}"))
        })
}

/// Text without the characters that have a meaning in a Mermaid chart.
fn label(text: &str) -> String {
    let keeps = |character: char| match character {
        ':' | ';' | '#' | ',' | '%' | '<' | '>' | '`' | '\n' | '\r' => ' ',
        other => other,
    };
    text.chars().map(keeps).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;

    fn run(failure: Option<&'static str>) -> SummaryRow<'static> {
        SummaryRow {
            scenario: "one_machine",
            place: "sim",
            seed: 7,
            failure,
            seconds: 0.13,
            replay: "drydock run one_machine --seed 7",
            record: None,
        }
    }

    #[test]
    fn failed_runs_come_first_with_reason_command_and_timeline() {
        let record = record();
        let failed = SummaryRow {
            record: Some(&record),
            ..run(Some("I1 is violated: a VM | has <no> machine"))
        };
        let expected = "## drydock run

1 passed, 1 failed

| | scenario | stage | seed | seconds |
|---|---|---|---|---|
| ❌ failed | one\\_machine | sim | 7 | 0.1 |
| ✅ passed | one\\_machine | sim | 7 | 0.1 |

### one\\_machine on sim, seed 7

I1 is violated: a VM \\| has &lt;no> machine

```
drydock run one_machine --seed 7
```

```mermaid
gantt
  dateFormat x
  axisFormat %M:%S
  section machine/m-1
  Pending : 1000, 4000
  Running : 4000, 9000
  section process/mcm
  running : 0, 5000
  leader : 0, 8000
  down : 5000, 9000
  section vm/vm-1
  Pending : 2000, 2001
  Running : 2000, 9000
```
";
        assert_eq!(summary("drydock run", &[run(None), failed]), expected);
    }

    #[test]
    fn what_is_left_out_is_said_and_the_text_stays_small() {
        let long = "it failed | ".repeat(100_000);
        let failed = SummaryRow {
            failure: Some(&long),
            replay: &long,
            ..run(None)
        };
        let runs = vec![failed; 10_000];
        let text = summary("drydock chaos", &runs);
        assert!(text.contains("9800 more runs are not shown."));
        assert!(text.contains("The details of 9995 more failed runs are not shown."));
        assert!(text.len() < 1 << 16, "{}", text.len());
    }

    #[test]
    fn without_runs_there_is_no_table() {
        assert_eq!(summary("drydock run", &[]), "## drydock run\n\n0 passed, 0 failed\n\n");
    }
}
