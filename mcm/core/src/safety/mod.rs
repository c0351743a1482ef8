//! Decisions that keep a controller from doing harm: which VMs are orphans, whether the API servers can be relied on,
//! and which Nodes are nobody's.
//!
//! What lives here: pure rules over what a pass has seen. What must not: a single machine's life, which is
//! [`crate::machine`]'s, and anything that awaits.

pub mod api_health;
pub mod nodes;
pub mod orphans;
