//! Carries out the disturbances of a plan.

pub mod effects;
pub mod hits;
pub mod schedule;
