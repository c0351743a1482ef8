//! Deployments, their sets and machines in a simulated world: tables of single decisions, and whole rollouts in fixed
//! and random orders.

mod api;
mod chosen;
mod deployments;
mod hostile;
mod in_place;
mod in_place_steps;
mod invariants;
mod machines;
mod newest;
mod nodes;
mod objects;
mod orders;
mod overshoot;
mod preserved;
mod reconcile;
mod requested;
mod sequences;
mod set_rules;
mod sets;
mod sizes;
mod world;
