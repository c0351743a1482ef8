//! Counts the open pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The number of open pages: the world is observed only for them. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readers(Arc<(AtomicUsize, Notify)>);

impl Readers {
    /// The number of open pages.
    pub fn count(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    /// Waits until it changes.
    pub async fn changed(&self) {
        self.0.1.notified().await;
    }

    /// Counts a page until the returned value is dropped.
    pub(crate) fn open(&self) -> OpenPage {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        self.0.1.notify_one();
        OpenPage(self.clone())
    }
}

/// An open page.
#[derive(Debug)]
pub(crate) struct OpenPage(Readers);

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::SeqCst);
        self.0.0.1.notify_one();
    }
}
