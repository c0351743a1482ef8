//! Deployments, their sets and machines over one small world: whole rollouts in fixed and in any order, and tables.

mod deployments;
mod in_place;
mod overshoot;
mod preserved;
mod sequences;
mod sets;
mod world;
