//! Campaigns: many plans from many seeds, what happened in them, and what they found.
//!
//! What lives here: making plans from seeds, counting, and grouping; all pure. What must not: performing plans, and
//! what is printed (`cli`).

pub mod generate;
pub mod groups;
pub mod mask;
pub mod suite;
pub mod tally;

pub use scenario::occurred::Occurred;
