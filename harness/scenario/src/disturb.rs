//! Steps that disturb more than the cloud: the API server, a process that stands still, a node that flaps, and the quiet
//! end, at which all of it stops. And the keeper, who replaces machines.

pub use apiserver::faults as api;
use apiserver::faults::Rule;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::duration::DurationExpression;
use super::step::Process;

/// A rule by which the API server fails; stages with our own server alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiFault {
    /// The rule: its name, what it matches, what happens.
    pub rule: Rule,
    /// Whom it strikes; absent: whom the rule's `match.client` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Client>,
}

/// A client of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Client {
    /// Every mcm.
    Mcm,
    /// The mcm that leads when the rule is added.
    Leader,
}

/// A process stands still for a while, as between SIGSTOP and SIGCONT: of several the one that leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pause {
    /// Which.
    pub process: Process,
    /// How long.
    pub time: DurationExpression,
}

/// The next creation for a machine takes effect later, whether or not anybody still waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowCreation {
    /// The rule's name: reports count its hits under it.
    pub name: String,
    /// Of which machine.
    pub machine: String,
    /// By how much.
    pub by: DurationExpression,
}

/// An agent on a node writes a condition whose status is one thing and another by turns. The step lasts as long as it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flap {
    /// The machine on whose node.
    pub machine: String,
    /// The condition's type.
    pub condition: String,
    /// Its status by turns.
    #[serde(default = "true_and_false")]
    pub values: [String; 2],
    /// How long it has one value.
    pub every: DurationExpression,
    /// How long it goes on.
    pub lasts: DurationExpression,
}

/// Somebody takes a label from each new machine that has it, a second after the machine was made. The step lasts as long as
/// they do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Strip {
    /// The label's key.
    pub label: String,
    /// Its value.
    pub value: String,
    /// How long they go on.
    pub lasts: DurationExpression,
}

/// cluster-autoscaler, as far as it removes nodes that are empty: it names the machine and lowers the deployment's number.
/// Nodes whose annotation keeps it away it leaves alone. The step lasts as long as it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Autoscaler {
    /// Of which deployment.
    pub deployment: String,
    /// How long a node must have been empty.
    pub idle: DurationExpression,
    /// How long it goes on.
    pub lasts: DurationExpression,
}

fn true_and_false() -> [String; 2] {
    ["True", "False"].map(str::to_owned)
}

/// How many machines the keeper keeps from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keep {
    /// How many.
    pub replicas: u32,
}

/// The end of a scenario: all faults are lifted, what is under way may settle, and then nothing is written any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuietEnd {
    /// How long it may take to settle.
    pub settles: DurationExpression,
}

/// Somebody who keeps so many machines: each that is Failed, being deleted or gone is replaced by one, and a Failed one is
/// deleted. They are called LABEL-1, LABEL-2 and so on, and carry `name: LABEL`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keeper {
    /// The machines' label `name`, and how their names begin.
    pub label: String,
    /// How many.
    pub replicas: u32,
    /// What their spec has beside the class.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub spec: Value,
}
