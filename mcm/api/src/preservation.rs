//! What statuses say about preservation: the record of one machine, and the list by which an owner counts them.
//!
//! All of it is optional, and a controller that knows nothing of it carries it along.

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::wire_enum::wire_enum;

/// Who keeps a machine, how far that is, and since when. Written together with the phase and the expiry that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preservation {
    /// Who asked for it.
    pub by: PreservedBy,
    /// How far it is.
    pub stage: PreservationStage,
    /// The uid of the machine's Node; empty: there was none.
    #[serde(rename = "nodeUID", skip_serializing_if = "String::is_empty")]
    pub node_uid: String,
    /// When the stage was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The annotation's value that asked for it; empty: nobody did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// Why it ends, in the stage Releasing; `Relapse` while the pods of a machine leave that failed once more, and has an
    /// expiry from before.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A failed machine that is kept, in the status of the deployment or set that answers for it. The length of the list is
/// what counts against the maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreservationEntry {
    /// The machine's uid.
    pub uid: String,
    /// The machine's name.
    pub name: String,
    /// Who asked for it.
    pub by: PreservedBy,
    /// When the machine was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// True: the maximum was lowered, and this one is to end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

wire_enum! {
    /// Who asked for a preservation.
    PreservedBy {
        /// Nobody: the machine failed.
        Auto = "auto",
        /// The annotation on the Machine.
        Machine = "machine",
        /// The annotation on the Node.
        Node = "node",
    }
}

wire_enum! {
    /// How far a preservation is.
    PreservationStage {
        /// The machine failed; its pods leave. From here on it is protected.
        Draining = "Draining",
        /// It is kept until its expiry.
        Preserved = "Preserved",
        /// It ends; what it left on the Node is taken back.
        Releasing = "Releasing",
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

/// The time of an expiry. Whoever means for ever writes the last second that there is, which must not make the whole machine
/// unreadable: what lies beyond the last time that [`Timestamp`] holds, on the last days of the year 9999, is that.
pub fn read_expiry(text: &str) -> Result<Timestamp, jiff::Error> {
    let whole = |pieces: &Pieces| pieces.time().is_some() && pieces.offset().is_some();
    text.parse().or_else(|error| match Pieces::parse(text) {
        Ok(pieces) if whole(&pieces) && pieces.date().year() == 9999 => {
            Timestamp::from_second(Timestamp::MAX.as_second())
        }
        _ => Err(error),
    })
}
