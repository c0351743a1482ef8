//! The results of invariants and expectations in a record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Micros;

/// An invariant or an expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// The kind.
    pub kind: CheckKind,
    /// The name of the invariant, or `step N`.
    pub name: String,
    /// The rule, or what is expected.
    pub statement: String,
    /// The number of the expectation's step, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// How often it was evaluated.
    pub evaluated: u64,
    /// When it was evaluated for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Micros>,
    /// When it was evaluated for the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Micros>,
    /// The result.
    pub state: CheckState,
    /// What was observed when the result was known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub observed: String,
    /// How the values changed that an expectation read, one text for each value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<String>,
    /// The parts of a missed expectation that did not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<Unmet>,
    /// The number of the event at which it was violated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violated: Option<u32>,
}

/// A part of a missed expectation that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unmet {
    /// The condition.
    pub wanted: String,
    /// What was observed instead.
    pub found: String,
}

/// The kinds of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CheckKind {
    /// A rule that holds in every run.
    Invariant,
    /// A step of the scenario.
    Expectation,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CheckState {
    /// It held.
    Held,
    /// It was violated or missed.
    Violated,
    /// The run ended before the result was known.
    Undecided,
}
