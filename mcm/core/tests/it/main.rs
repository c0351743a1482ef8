//! The decisions about machines: tables a rule, plans as snapshots, and whole lives in a small world.

#[cfg(test)]
mod creation;
#[cfg(test)]
mod deletion;
mod drain;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod health;
#[cfg(test)]
mod life;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod world;
