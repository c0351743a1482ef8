//! Decisions of the safety controller: which VMs are orphans, whether the API servers are healthy, and which Nodes have
//! no machine.
//!
//! In scope: pure rules over the observations of a pass. Out of scope: the lifecycle of one machine, see
//! [`crate::machine`], and async code.

pub mod api_health;
pub mod nodes;
pub mod orphans;
