//! Requests with large bodies, which take long to process: they run beside the threads that serve all others.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// From this size of the body in bytes a request is large.
const LARGE: usize = 64 * 1024;
/// How many large requests are processed at the same time; others wait.
const AT_ONCE: usize = 4;

/// Processes large requests.
#[derive(Debug)]
pub(crate) struct HeavyWork(Semaphore);

impl Default for HeavyWork {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl HeavyWork {
    /// Performs `work` for a request with a body of `size` bytes. On a runtime with several threads, another thread takes
    /// over the tasks of this one during large work.
    pub(crate) async fn perform<T>(&self, size: usize, work: impl Future<Output = T>) -> T {
        let can_move = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if size < LARGE || !can_move() {
            return work.await;
        }
        // The semaphore is never closed.
        let _permit = self.0.acquire().await.ok();
        tokio::task::block_in_place(|| Handle::current().block_on(work))
    }
}
