//! Runs a world: a new thread, a paused single-thread runtime, a clock, a seed and a trace.

use std::future::Future;
use std::panic::resume_unwind;

use clock::{Clock, Seed};
use jiff::Timestamp;

use crate::entropy::seed_this_thread;
use crate::{Keep, Trace};

/// The start time of every simulated world: 2030-01-01T00:00:00Z.
pub const EPOCH: Timestamp = Timestamp::constant(1_893_456_000, 0);

/// Scenarios are deep futures; in debug builds the two megabytes of a test thread are barely enough.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// The inputs of a simulated world.
#[derive(Clone, Debug)]
pub struct World {
    /// Virtual time, which begins at [`EPOCH`].
    pub clock: Clock,
    /// The source of all randomness of this run.
    pub seed: Seed,
    /// The record of all events of this run.
    pub trace: Trace,
}

/// Runs a world under `seed` and returns its result.
///
/// The world gets a new thread (the standard library reads a thread's hash keys once, so only a new thread reads them
/// from this seed) and a current-thread Tokio runtime with paused time: when every task waits, time jumps to the next
/// timer. A world must not use sockets, files or `spawn_blocking`. If every task waits and no timer is left, the run
/// hangs; a limit of virtual time (`tokio::time::timeout`) prevents that.
///
/// # Panics
/// If the world panics, or if the operating system refuses the thread or the runtime.
pub fn run<T, F, Fut>(seed: u64, world: F) -> T
where
    T: Send,
    F: FnOnce(World) -> Fut + Send,
    Fut: Future<Output = T>,
{
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name(format!("seed-{seed}"))
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, move || run_here(seed, world))
            .unwrap_or_else(|error| out_of_resources("a thread", &error));
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn run_here<T, F, Fut>(seed: u64, world: F) -> T
where
    F: FnOnce(World) -> Fut,
    Fut: Future<Output = T>,
{
    let seed = Seed::new(seed);
    seed_this_thread(seed.stream("sim/getrandom"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|error| out_of_resources("a runtime", &error));
    runtime.block_on(async move {
        let clock = Clock::simulated(EPOCH);
        let trace = Trace::new(clock.clone(), Keep::default());
        Box::pin(world(World { clock, seed, trace })).await
    })
}

/// Without a thread there is no simulation, and the caller cannot recover; `std::thread::spawn` panics too.
#[expect(clippy::panic, reason = "documented at `run`; no caller could handle an error")]
fn out_of_resources(what: &str, error: &std::io::Error) -> ! {
    panic!("the operating system refuses {what} for a simulation: {error}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_world_begins_at_the_epoch_and_time_jumps() {
        let (start, end) = run(1, |world| async move {
            let start = world.clock.now();
            world.clock.sleep(Duration::from_secs(72 * 3600)).await;
            (start, world.clock.now())
        });
        assert_eq!(start.to_string(), "2030-01-01T00:00:00Z");
        assert_eq!(end.duration_since(start), SignedDuration::from_hours(72));
    }

    #[test]
    #[should_panic(expected = "message of the scenario")]
    fn a_panic_of_the_world_reaches_the_caller_unchanged() {
        run(1, |_| async { panic!("message of the scenario") })
    }

    #[test]
    fn the_world_may_borrow_from_its_caller() {
        let text = String::from("borrowed");
        assert_eq!(run(1, |_| async { text.len() }), 8);
    }
}
