//! Deployments, their sets and machines over one small world: whole rollouts in fixed and in any order, and tables.

mod api;
mod deployments;
mod in_place;
mod machines;
mod orders;
mod overshoot;
mod preserved;
mod referee;
mod sequences;
mod sets;
mod world;
