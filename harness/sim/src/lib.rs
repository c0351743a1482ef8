//! The virtual-time world of one seed: time that jumps, randomness that repeats, a trace that
//! tells two runs apart, and gates that crash a process at a chosen effect.
//!
//! What lives here: [`run`] (thread, paused runtime, seeded `getrandom`), [`Trace`], [`Gate`],
//! the supervisor [`process`] and [`check_determinism`]. What must not: anything that knows of
//! machines, Kubernetes objects or scenarios.
//!
//! # What replays exactly
//! One seed gives one trace when the world runs in a process of its own: [`run`] puts it on a fresh
//! thread, whose hash keys come from the seed. A second run in the same process repeats the first
//! with one exception: Tokio seeds what it leaves to chance (the branch order of an unbiased `tokio::select!`,
//! the wake-up order of several receivers of one `tokio::sync::watch`) from a count of the runtimes
//! that the process has had. Code that runs here therefore writes `biased;`, and what has to replay to
//! the bit runs one world a process.
//!
//! Out of the seed's reach are orders that follow addresses, as that of kube-runtime's stores does
//! (their hasher mixes in where it lies): sort what comes out of them.

mod determinism;
mod entropy;
mod gate;
mod process;
mod trace;
mod world;

pub use determinism::{Difference, Report, Run, SeedRuns, check_determinism};
pub use entropy::exact_replay;
pub use gate::{Blow, CrashPoint, Effect, EffectKind, Gate, GateBody, GateLayer, GateService, Lag, Side};
pub use process::{Handle, Process, process};
pub use trace::{Entry, Keep, Trace};
pub use world::{EPOCH, World, run};
