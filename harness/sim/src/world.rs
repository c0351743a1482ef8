//! One run: a fresh thread, a paused single-thread runtime, a clock, a seed and a trace.

use std::future::Future;
use std::panic::resume_unwind;

use clock::{Clock, Seed};
use jiff::Timestamp;

use crate::entropy::seed_this_thread;
use crate::{Keep, Trace};

/// When every simulated world begins: 2030-01-01T00:00:00Z.
pub const EPOCH: Timestamp = Timestamp::constant(1_893_456_000, 0);

/// Whole scenarios are deep futures; a test thread's two megabytes are tight for them in debug builds.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// What a simulated world is built from.
#[derive(Clone, Debug)]
pub struct World {
    /// Virtual time, beginning at [`EPOCH`].
    pub clock: Clock,
    /// The root of all randomness of this run.
    pub seed: Seed,
    /// Where everything that happens is recorded.
    pub trace: Trace,
}

/// Runs a world to its end under `seed` and returns what it returns.
///
/// The world gets a fresh thread (the standard library draws a thread's hash keys once, so only a
/// fresh thread draws them from this seed) and a current-thread Tokio runtime with paused time: when
/// every task waits, time jumps to the next timer. Sockets, files and `spawn_blocking` do not
/// belong in it. A world in which every task waits and no timer is left would wait for ever; give
/// it a limit of virtual time (`tokio::time::timeout`), which is such a timer.
///
/// # Panics
/// With the world's own panic; when the operating system refuses the thread or the runtime.
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

/// There is nothing to simulate in, and nothing that a caller could do but end: as `std::thread::spawn`.
#[expect(
    clippy::panic,
    reason = "documented at `run`; it spares every caller an error that it cannot handle"
)]
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
    #[should_panic(expected = "the scenario's own words")]
    fn a_panic_of_the_world_reaches_the_caller_unchanged() {
        run(1, |_| async { panic!("the scenario's own words") })
    }

    #[test]
    fn the_world_may_borrow_from_its_caller() {
        let words = String::from("borrowed");
        assert_eq!(run(1, |_| async { words.len() }), 8);
    }
}
