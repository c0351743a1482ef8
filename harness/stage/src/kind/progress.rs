//! What a person sees while a cluster comes up: each step with the wall time that it took.

use std::sync::Arc;

use clock::Clock;
use judge::evaluate::between;

/// Takes one line.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// Performs `work`, and tells its name with its time when it is done.
///
/// # Errors
/// Those of `work`.
pub(super) async fn step<T, E>(
    progress: &Progress,
    what: &str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let clock = Clock::wall();
    let started = clock.now();
    let done = work.await?;
    progress(&format!("{what}: {:.1} s", between(started, clock.now()).as_secs_f64()));
    Ok(done)
}
