//! The decisions about machines: tables a rule, plans as snapshots, and whole lives in a small world. Those about classes and
//! safety that an acceptance list of the specification asks for, too.

#[cfg(test)]
mod class;
#[cfg(test)]
mod cloud;
#[cfg(test)]
mod creation;
#[cfg(test)]
mod deletion;
#[cfg(test)]
mod dice;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod health;
#[cfg(test)]
mod in_place;
#[cfg(test)]
mod life;
#[cfg(test)]
mod node;
#[cfg(test)]
mod patches;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod preservation;
#[cfg(test)]
mod rollout;
#[cfg(test)]
mod safety;
#[cfg(test)]
mod update;
#[cfg(test)]
mod world;
