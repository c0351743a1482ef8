//! Campaigns: runs of generated plans over many seeds.
//!
//! The modules generate plans, count events and group failures; all functions are pure. `cli` performs the plans and
//! prints the results.

pub mod generate;
pub mod groups;
pub mod mask;
pub mod suite;
pub mod tally;

pub use scenario::occurred::Occurred;
