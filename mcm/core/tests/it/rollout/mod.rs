//! Deployments, their sets and machines over one small world: whole rollouts in fixed and in any order, and tables.

mod chosen;
mod deployments;
mod in_place;
mod in_place_steps;
mod newest;
mod nodes;
mod objects;
mod overshoot;
mod preserved;
mod reconcile;
mod sequences;
mod set_rules;
mod sets;
mod sizes;
mod world;
