//! Reports the progress of a cluster's start to the user: each step with its duration.

use std::sync::Arc;

use clock::Clock;
use judge::evaluate::between;

/// Receives one line of progress.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// Performs `work`, and reports its name and duration when it succeeds.
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
