//! Preservation in statuses: the record of one machine, and the list with which an owner counts preserved machines.
//!
//! All fields are optional; controllers that do not use them preserve them.

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::wire_enum::wire_enum;

/// The record of a preservation: who requested it, its stage, and since when. Written with phase and expiry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preservation {
    /// Who requested it.
    pub by: PreservedBy,
    /// Its stage.
    pub stage: PreservationStage,
    /// The uid of the machine's Node; empty: the machine had none.
    #[serde(rename = "nodeUID", skip_serializing_if = "String::is_empty")]
    pub node_uid: String,
    /// When the stage was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The value of the annotation that requested it; empty: no annotation did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// Why it ends, in the stage Releasing; `Relapse` while the node of a machine is drained again because it failed
    /// during its preservation, whose expiry stays.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The progress of stopping its VM; absent: the controller did not stop it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fencing: Option<Fencing>,
}

/// How far the controller is with stopping the VM of a preserved machine whose node does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Fencing {
    /// How far.
    pub state: FencingState,
    /// When this was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The machine code with which StopMachine last failed, in the state Failed; empty: it succeeds, but the driver does not
    /// report the VM as stopped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_code: String,
}

/// A preserved failed machine, in the status of its deployment or set. The length of the list counts against the
/// maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreservationEntry {
    /// The machine's uid.
    pub uid: String,
    /// The machine's name.
    pub name: String,
    /// Who requested it.
    pub by: PreservedBy,
    /// When the machine was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// True: the maximum was lowered, and this preservation must end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

wire_enum! {
    /// Who requested a preservation.
    PreservedBy {
        /// The controller, because the machine failed.
        Auto = "auto",
        /// The annotation on the Machine.
        Machine = "machine",
        /// The annotation on the Node.
        Node = "node",
    }
}

wire_enum! {
    /// The stage of a preservation.
    PreservationStage {
        /// The machine failed and its node is drained. It is protected from this stage on.
        Draining = "Draining",
        /// The machine is kept until its expiry.
        Preserved = "Preserved",
        /// The preservation ends; the controller removes its marks from the Node.
        Releasing = "Releasing",
    }
}

wire_enum! {
    /// How far the controller is with stopping a VM.
    FencingState {
        /// StopMachine is called; the VM may be stopped.
        Stopping = "Stopping",
        /// StopMachine failed, or succeeded for minutes without a stopped VM, and is repeated; the VM may be stopped.
        Failed = "Failed",
        /// The driver reported the VM as stopped.
        Stopped = "Stopped",
    }
}

impl Default for FencingState {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl Default for PreservedBy {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl Default for PreservationStage {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// Parses the time of an expiry. Users write the last second of 9999 for "forever", and the machine must stay readable:
/// a time beyond [`Timestamp::MAX`], in the last days of that year, becomes that maximum.
pub fn read_expiry(text: &str) -> Result<Timestamp, jiff::Error> {
    let whole = |pieces: &Pieces| pieces.time().is_some() && pieces.offset().is_some();
    text.parse().or_else(|error| match Pieces::parse(text) {
        Ok(pieces) if whole(&pieces) && pieces.date().year() == 9999 => {
            Timestamp::from_second(Timestamp::MAX.as_second())
        }
        _ => Err(error),
    })
}
