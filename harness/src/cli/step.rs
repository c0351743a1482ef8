//! `drydock step`: walks through the events of a record in the terminal.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use judge::evaluate::short;
use record::{Link, Point, RunRecord, Verb};
use serde_json::Value;

use super::output::{prompt, say};
use super::report::found;
use super::{Ended, Outcome, Stop};
use crate::report::record::read_from;

/// The commands, for the prompt and for an unknown one.
const HELP: &str = "n next, p previous, NUMBER that event, f TEXT next event with that text, c what led to it or came before it, v the violated event, \
                    d its change, o the object after it, q quit; an empty line repeats the last n, p or f";

/// Walks through the events of a run: one event at a time, its change, its cause and the object after it.
///
/// Reads commands line by line, so that it also works with a pipe.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock step sim-lifecycle-1\n  printf 'v\\nd\\nc\\nd\\n' | drydock step .drydock/reports/sim-lifecycle-1"
)]
pub(super) struct StepCommand {
    /// A record, its folder, or the name of a report folder
    #[arg(value_name = "RECORD|FOLDER")]
    record: PathBuf,
}

impl StepCommand {
    pub(super) fn execute(self) -> Ended {
        let record = read_from(&found(&self.record)?)?;
        say!("{}", record.meta.verdict.sentence);
        say!("{} events. {HELP}", record.points.len());
        let mut stepper = Stepper::new(&record);
        if let Some(first) = stepper.current() {
            say!("{}", line(first));
        }
        let mut input = std::io::stdin().lock();
        loop {
            prompt(format_args!("> "));
            let mut text = String::new();
            let read = input.read_line(&mut text);
            let read = read.map_err(|error| Stop::Usage(format!("cannot read the commands: {error}")))?;
            if read == 0 {
                return Ok(Outcome::Passed);
            }
            match stepper.perform(text.trim()) {
                Some(answer) => say!("{answer}"),
                None => return Ok(Outcome::Passed),
            }
        }
    }
}

/// A position in a record.
struct Stepper<'a> {
    record: &'a RunRecord,
    /// The index of the current event.
    at: usize,
    /// The command that an empty line repeats.
    last: String,
}

impl<'a> Stepper<'a> {
    fn new(record: &'a RunRecord) -> Self {
        Self {
            record,
            at: 0,
            last: "n".to_owned(),
        }
    }

    fn current(&self) -> Option<&'a Point> {
        self.record.points.get(self.at)
    }

    /// The answer to a command; `None`: the user quits.
    fn perform(&mut self, given: &str) -> Option<String> {
        let command = match given {
            "" => self.last.clone(),
            given => given.to_owned(),
        };
        let (name, text) = command.split_once(' ').unwrap_or((&command, ""));
        if matches!(name, "n" | "p") || name == "f" && !text.is_empty() {
            self.last.clone_from(&command);
        }
        let points = &self.record.points;
        let Some(current) = self.current() else {
            return (name != "q").then(|| "the record has no events".to_owned());
        };
        let target = match name {
            "q" => return None,
            "d" => return Some(change(current)),
            "o" => return Some(self.object(current)),
            "n" => Ok((self.at + 1).min(points.len() - 1)),
            "p" => Ok(self.at.saturating_sub(1)),
            "c" => self.numbered(current.cause).ok_or("its cause is not known"),
            "v" => self
                .numbered(self.record.meta.verdict.point)
                .ok_or("no event violates a check"),
            "f" if !text.is_empty() => {
                let has = |point: &Point| point.summary.contains(text) || point.actor.contains(text);
                let found = points.iter().skip(self.at + 1).position(has);
                found
                    .map(|after| self.at + 1 + after)
                    .ok_or("no later event has that text")
            }
            number => match number.parse::<u32>() {
                Ok(number) => self.numbered(Some(number)).ok_or("there is no event with that number"),
                Err(_) => Err(HELP),
            },
        };
        let how = if name == "c" { how(current.link) } else { "" };
        Some(match target {
            Ok(at) => {
                self.at = at;
                self.current()
                    .map(|point| format!("{how}{}", line(point)))
                    .unwrap_or_default()
            }
            Err(problem) => problem.to_owned(),
        })
    }

    /// The index of the event with a number.
    fn numbered(&self, number: Option<u32>) -> Option<usize> {
        let number = number?;
        self.record.points.iter().position(|point| point.number == number)
    }

    /// The object after the event, from all changes since its creation.
    fn object(&self, point: &Point) -> String {
        let Some(name) = &point.object else {
            return "the event is not about an object".to_owned();
        };
        if point.verb == Verb::Delete {
            return format!("{name} is deleted");
        }
        let mut versions = vec![point];
        while let Some(before) = versions.last().and_then(|last| self.numbered(last.previous)) {
            versions.push(&self.record.points[before]);
        }
        let incomplete = versions.iter().any(|version| version.incomplete || version.cut);
        let mut object = Value::Null;
        for diff in versions.iter().rev().filter_map(|version| version.diff.as_ref()) {
            json_patch::merge(&mut object, diff);
        }
        let note = if incomplete {
            " (earlier changes are not part of the record)"
        } else {
            ""
        };
        format!("{name}{note}:\n{}", indented(&object))
    }
}

/// How the cause of an event is known.
fn how(link: Option<Link>) -> &'static str {
    match link {
        Some(Link::Caused) => "caused by ",
        Some(Link::Own) => "own history: ",
        Some(Link::Named) => "last event of what it names: ",
        Some(Link::Before) | None => "came before: ",
    }
}

/// An event in one line: number, time, what happened, and by which process.
fn line(point: &Point) -> String {
    let by = point.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let code = point.code.as_ref().map(|code| format!(" [{code}]")).unwrap_or_default();
    let violates = if point.violates.is_some() {
        "  ← violates a check"
    } else {
        ""
    };
    format!(
        "event {}, +{}: {}{code}{by}{violates}",
        point.number,
        short(Duration::from_micros(point.at.0)),
        point.summary
    )
}

fn change(point: &Point) -> String {
    match &point.diff {
        Some(diff) => indented(diff),
        None => "the event changes no object".to_owned(),
    }
}

fn indented(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A record with a machine that is created and fails, and an event of the cloud between.
    fn record() -> RunRecord {
        let point = |number: u32, previous: Option<u32>, summary: &str, diff: Value| {
            json!({
                "number": number, "at": number * 1_000_000, "actor": "machine/m-1", "verb": "write", "summary": summary,
                "object": "Machine default/m-1", "previous": previous, "diff": diff, "by": "mcm",
                "cause": previous, "violates": (number == 3).then_some(0),
            })
        };
        let record = json!({
            "version": 1,
            "meta": {
                "drydock": "0.1.0", "scenario": "s", "stage": "sim", "seed": 1, "plan": "", "started": "2030-01-01T00:00:00Z",
                "lasted": 3_000_000, "wallSeconds": 0.1, "replay": "drydock run s", "causes": "recorded",
                "verdict": { "passed": false, "sentence": "I1 is violated", "point": 3 },
            },
            "actors": [], "spans": [], "counters": [], "checks": [],
            "points": [
                point(1, None, "Machine m-1 is created", json!({ "spec": { "class": "a" }, "status": { "phase": "Pending" } })),
                { "number": 2, "at": 2_000_000, "actor": "cloud", "verb": "call", "summary": "CreateMachine: OK" },
                point(3, Some(1), "phase: Pending → Failed", json!({ "status": { "phase": "Failed" } })),
            ],
        });
        serde_json::from_value(record).unwrap()
    }

    fn answers(commands: &[&str]) -> Vec<String> {
        let record = record();
        let mut stepper = Stepper::new(&record);
        commands
            .iter()
            .map(|command| stepper.perform(command).unwrap_or_else(|| "(quit)".to_owned()))
            .collect()
    }

    #[test]
    fn events_are_reached_by_steps_numbers_texts_causes_and_the_violation() {
        let created = "event 1, +1.000s: Machine m-1 is created by mcm";
        let called = "event 2, +2.000s: CreateMachine: OK";
        let failed = "event 3, +3.000s: phase: Pending → Failed by mcm  ← violates a check";
        assert_eq!(
            answers(&["n", "", "n", "p", "1", "v", "c", "f OK", "f created", "", "q"]),
            [
                called,
                failed,
                failed,
                called,
                created,
                failed,
                &format!("came before: {created}"),
                called,
                "no later event has that text",
                "no later event has that text",
                "(quit)"
            ]
        );
    }

    #[test]
    fn the_object_after_an_event_has_all_changes_before_it() {
        let answers = answers(&["o", "3", "o", "d", "2", "o", "d"]);
        assert!(
            answers[0].contains("Pending") && answers[0].contains("\"class\": \"a\""),
            "{}",
            answers[0]
        );
        assert!(
            answers[2].contains("Failed") && answers[2].contains("\"class\": \"a\""),
            "{}",
            answers[2]
        );
        assert!(
            answers[3].contains("Failed") && !answers[3].contains("class"),
            "{}",
            answers[3]
        );
        assert_eq!(
            answers[5..],
            ["the event is not about an object", "the event changes no object"]
        );
    }

    #[test]
    fn a_deleted_object_has_no_last_state() {
        let mut record = record();
        record.points[2].verb = Verb::Delete;
        let mut stepper = Stepper::new(&record);
        stepper.perform("3");
        assert_eq!(stepper.perform("o").unwrap(), "Machine default/m-1 is deleted");
    }

    #[test]
    fn an_unknown_command_is_answered_with_the_commands() {
        assert_eq!(
            answers(&["x", "9", "c"]),
            [HELP, "there is no event with that number", "its cause is not known"]
        );
    }
}
