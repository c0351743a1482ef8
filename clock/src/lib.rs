//! The one clock and the one source of randomness of the whole project.
//!
//! What lives here: [`Clock`] (wall or virtual time), [`Seed`] (named, independent random
//! streams), [`LostTime`] (time lost to a busy machine) and [`Pulses`] (regular signs of life). What must not: anything that knows of Kubernetes, machines or clouds. Everything
//! else in the workspace takes a `Clock` and a `Seed` as arguments, which is what makes a
//! simulated run replay exactly; clippy's `disallowed-methods` holds that.

mod lost_time;
mod pulse;
mod random;
mod time;

pub use lost_time::LostTime;
pub use pulse::Pulses;
pub use random::{NoEntropy, Seed, Stream};
pub use time::Clock;
