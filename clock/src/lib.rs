//! The clock and the source of randomness of all crates.
//!
//! Contains [`Clock`] (wall or virtual time), [`Seed`] (named, independent random streams), [`LostTime`] (time lost
//! on a busy machine) and [`Pulses`] (implied heartbeats). It knows nothing of Kubernetes, machines or clouds. All
//! other crates take a `Clock` and a `Seed` as arguments, so that a simulated run replays exactly; clippy's
//! `disallowed-methods` enforces this.

mod lost_time;
mod pulse;
mod random;
mod time;
mod waits;

pub use lost_time::{LostTime, Recorder};
pub use pulse::Pulses;
pub use random::{NoEntropy, Seed, Stream};
pub use time::Clock;
