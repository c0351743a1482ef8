//! Requests that can take long to process, because of a large body or of one that can expand: they run beside the threads
//! that serve all others.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// From this size of the body in bytes a request is large.
const LARGE: usize = 64 * 1024;
/// A short body of these media types can describe a large value: by aliases, or by copies.
const EXPANDING: [&str; 2] = ["application/yaml", "application/json-patch+json"];
/// How many heavy requests are processed at the same time; others wait.
const AT_ONCE: usize = 4;

/// Whether a request with a body of `size` bytes can take long.
pub(crate) fn is_heavy(media_type: &str, size: usize) -> bool {
    size >= LARGE || EXPANDING.contains(&media_type)
}

/// Processes heavy requests.
#[derive(Debug)]
pub(crate) struct HeavyWork(Semaphore);

impl Default for HeavyWork {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl HeavyWork {
    /// Performs the work of a heavy request. On a runtime with several threads, another thread takes over the tasks of
    /// this one meanwhile. Work that waits for programs outside the server, which can send requests themselves, is not
    /// limited to some at the same time.
    pub(crate) async fn perform<T>(&self, work: impl Future<Output = T>, waits_for_others: bool) -> T {
        if Handle::current().runtime_flavor() != RuntimeFlavor::MultiThread {
            return work.await;
        }
        let _permit = match waits_for_others {
            true => None,
            // The semaphore is never closed.
            false => self.0.acquire().await.ok(),
        };
        tokio::task::block_in_place(|| Handle::current().block_on(work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_and_those_that_can_expand_are_heavy() {
        let cases = [
            ("application/json", 100, false),
            ("application/json", LARGE, true),
            ("application/yaml", 100, true),
            ("application/json-patch+json", 100, true),
            ("application/merge-patch+json", 100, false),
        ];
        for (media_type, size, expected) in cases {
            assert_eq!(is_heavy(media_type, size), expected, "{media_type} {size}");
        }
    }
}
