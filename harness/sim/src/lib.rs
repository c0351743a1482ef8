//! The virtual-time world of one seed: time that jumps, randomness that repeats, a trace that
//! tells two runs apart, and gates that crash a process at a chosen effect.
//!
//! What lives here: [`run`] (thread, paused runtime, seeded `getrandom`), [`Trace`], [`Gate`],
//! the supervisor [`process`] and [`check_determinism`]. What must not: anything that knows of
//! machines, Kubernetes objects or scenarios.
//!
//! # What replays exactly
//! One seed gives one trace when the world runs in a process of its own. Within one process a
//! second run repeats the first too (each gets a fresh thread, hence fresh hash keys), with
//! one exception: Tokio numbers its runtimes process-wide and seeds the branch order of an unbiased
//! `tokio::select!` from that number. Code that runs here therefore writes `biased;`, and what
//! has to replay to the bit runs one world a process.

mod determinism;
mod entropy;
mod gate;
mod process;
mod trace;
mod world;

pub use determinism::{Difference, Report, Run, SeedRuns, check_determinism};
pub use entropy::exact_replay;
pub use gate::{CrashPoint, Effect, EffectKind, Gate, GateBody, GateLayer, GateService, Side};
pub use process::{Handle, Process, process};
pub use trace::{Entry, Keep, Trace};
pub use world::{EPOCH, World, run};
