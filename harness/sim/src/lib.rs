//! The simulated world of one seed: virtual time, seeded randomness, a trace that identifies a run, and gates that
//! crash a process at a chosen effect.
//!
//! Contains [`run`] (thread, paused runtime, seeded `getrandom`), [`Trace`], [`Gate`], the supervisor [`process`] and
//! [`check_determinism`]. It knows nothing of machines, Kubernetes objects or scenarios.
//!
//! # What replays exactly
//! One seed produces one trace if the world runs in its own process: [`run`] starts a new thread, whose hash keys
//! come from the seed. A second run in the same process repeats the first with one exception: Tokio seeds its own
//! random choices (the branch order of an unbiased `tokio::select!`, the wake-up order of several receivers of one
//! `tokio::sync::watch`) from the number of runtimes that the process has created. Code that runs here therefore uses
//! `biased;`, and a run that must replay exactly gets its own process.
//! The seed does not control orders that depend on addresses, such as those of kube-runtime's stores (their hasher
//! mixes in its own address). Sort what you read from them.

mod determinism;
mod entropy;
mod gate;
mod process;
mod trace;
mod world;

pub use determinism::{Difference, Report, Run, SeedRuns, check_determinism};
pub use entropy::exact_replay;
pub use gate::{CrashPoint, DisturbanceKind, Effect, EffectKind, Gate, GateBody, GateLayer, GateService, Lag, Side};
pub use process::{Handle, Process, current_process, process};
pub use trace::{Entry, Event, Keep, Trace};
pub use world::{EPOCH, World, run};
