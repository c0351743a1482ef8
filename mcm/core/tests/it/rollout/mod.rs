//! Deployments, their sets and machines over one small world: whole rollouts in fixed and in any order, and tables.

mod api;
mod chosen;
mod deployments;
mod in_place;
mod in_place_steps;
mod machines;
mod newest;
mod nodes;
mod objects;
mod orders;
mod overshoot;
mod preserved;
mod reconcile;
mod referee;
mod sequences;
mod set_rules;
mod sets;
mod sizes;
mod world;
