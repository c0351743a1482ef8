//! How a run failed, without names, numbers and times: two runs with the same signature show the same defect.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a failed run violates.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// The invariant of that name.
    Invariant(String),
    /// An expectation of the scenario.
    Expectation,
    /// A step cannot be performed.
    Step,
    /// A step or a disturbance has no effect.
    NoEffect,
    /// It ends in another state than the same run without disturbance.
    End,
    /// The run does not start, does not end, or has another result than it should have.
    #[default]
    Run,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invariant(name) => name,
            Self::Expectation => "expectation",
            Self::Step => "step",
            Self::NoEffect => "no effect",
            Self::End => "end state",
            Self::Run => "run",
        })
    }
}

/// How a run failed: its cause, and the ways in which objects contradict it, which contain the kinds of these objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signature {
    /// What is violated.
    pub cause: Cause,
    /// For example `eventually: phase Running of Machine: Pending`. An expectation of several conditions can fail in
    /// several ways.
    pub ways: BTreeSet<String>,
}

impl Signature {
    /// A failure whose message contains no names that are known.
    pub fn of_text(cause: Cause, message: &str) -> Self {
        Self {
            cause,
            ways: BTreeSet::from([generalised(message, |_| None)]),
        }
    }

    /// Whether `other` is the same failure: its cause, and no other ways. An expectation about many machines stays the
    /// same with fewer of them.
    pub fn covers(&self, other: &Self) -> bool {
        self.cause == other.cause && !other.ways.is_empty() && other.ways.is_subset(&self.ways)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ways: Vec<&str> = self.ways.iter().map(String::as_str).collect();
        write!(f, "{}: {}", self.cause, ways.join("; "))
    }
}

/// A message without what differs between runs with the same defect: names become their kind in angle brackets
/// (`kind_of` returns it), words with a digit become `#`, and texts in parentheses or quotes are omitted. Lists of equal
/// words become one word.
pub fn generalised<'a>(message: &str, kind_of: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut general = String::new();
    for part in tokens(&without_details(message)) {
        let is_word = part.starts_with(is_of_word);
        match kind_of(part.trim_end_matches('.')).filter(|_| is_word) {
            Some(kind) => general += &format!("<{kind}>"),
            None if is_word && part.bytes().any(|byte| byte.is_ascii_digit()) => general.push('#'),
            None => general += part,
        }
    }
    collapsed(&general)
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || ['-', '_', '.'].contains(&c)
}

/// Words, and what is between them.
fn tokens(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let in_word = is_of_word(first);
        let end = rest.find(|c| is_of_word(c) != in_word).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    parts
}

/// The text without what parentheses and quotes enclose.
fn without_details(text: &str) -> String {
    let (mut kept, mut depth, mut quoted) = (String::new(), 0_usize, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => continue,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 || (c == '(' && depth == 1) {
            kept.push(c);
        }
    }
    kept.replace("()", "")
}

/// Repeated elements of lists, which commas, semicolons or `and` separate, are omitted.
fn collapsed(text: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in text
        .split(", ")
        .flat_map(|part| part.split("; "))
        .flat_map(|part| part.split(" and "))
    {
        let part = part.trim();
        // In `left: <VM>, <VM>` only the end of the first part repeats.
        let repeats = parts.last().is_some_and(|last| last.ends_with(part));
        if !repeats && !part.is_empty() {
            parts.push(part);
        }
    }
    parts.join(", ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn kind(name: &str) -> Option<&'static str> {
        match name {
            "alpha" | "m-1" | "m-2" => Some("Machine"),
            "web" => Some("Pod"),
            _ => None,
        }
    }

    #[rstest]
    #[case::a_name_without_a_digit("machine alpha is lost", "machine <Machine> is lost")]
    #[case::numbers_and_times(
        "machine m-1 waits since 2026-01-01T00:00:00Z: 3 VMs",
        "machine <Machine> waits since #:#:#: # VMs"
    )]
    #[case::a_path("PATCH of /machines/m-1/status", "PATCH of /machines/<Machine>/status")]
    #[case::a_list("left: m-1, m-2, web", "left: <Machine>, <Pod>")]
    #[case::details("alpha was written (/status/x: 1 -> 2) late", "<Machine> was written late")]
    #[case::a_quoted_text("it has \"m-1 and more\" now", "it has \"\" now")]
    #[case::the_end_of_a_sentence("it is alpha.", "it is <Machine>")]
    fn names_and_numbers_are_omitted(#[case] message: &str, #[case] expected: &str) {
        assert_eq!(generalised(message, kind), expected);
    }

    #[test]
    fn fewer_ways_are_the_same_failure_and_other_ways_are_not() {
        let signature = |cause: Cause, ways: &[&str]| Signature {
            cause,
            ways: ways.iter().map(|way| (*way).to_owned()).collect(),
        };
        let original = signature(Cause::Expectation, &["a", "b"]);
        assert!(original.covers(&signature(Cause::Expectation, &["b"])));
        assert!(!original.covers(&signature(Cause::Expectation, &["b", "c"])));
        assert!(!original.covers(&signature(Cause::Expectation, &[])));
        assert!(!original.covers(&signature(Cause::Invariant("I1".to_owned()), &["a"])));
    }
}
