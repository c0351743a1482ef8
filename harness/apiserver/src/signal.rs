//! A value with change notification, like `tokio::sync::watch`, but waiters wake in the order in which they began to
//! wait. Tokio picks the order at random without a seed, so that two watches of one collection would resume in
//! different orders, and runs would not repeat.

use quantity::Saturating as _;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The sender was dropped: the value no longer changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender was dropped, the value no longer changes")]
pub struct Closed;

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    value: T,
    /// The number of changes of the value.
    version: u64,
    closed: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }
}

/// A lock of the value: hold it briefly, and never across an await.
#[derive(Debug)]
pub struct Ref<'a, T>(MutexGuard<'a, State<T>>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

/// Sets the value. Each value has one sender.
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// A sender with an initial value.
    pub fn new(value: T) -> Self {
        let state = State {
            value,
            version: 0,
            closed: false,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            changed: Notify::new(),
        }))
    }

    /// A receiver that has seen the current value.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            seen: self.0.lock().version,
            shared: Arc::clone(&self.0),
        }
    }

    /// The current value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.0.lock())
    }

    /// Changes the value and wakes the waiters.
    pub fn modify(&self, change: impl FnOnce(&mut T)) {
        let mut state = self.0.lock();
        change(&mut state.value);
        state.version.raise(1);
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Sets the value and wakes the waiters.
    pub fn set(&self, value: T) {
        self.modify(|present| *present = value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_waiters();
    }
}

/// Reads the value and waits for changes.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T> Receiver<T> {
    /// The current value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.lock())
    }

    /// The current value; marks it as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = self.shared.lock();
        self.seen = state.version;
        Ref(state)
    }

    /// Marks the current value as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.lock().version;
    }

    /// Whether the value has changed since it was last seen.
    pub fn has_changed(&self) -> bool {
        self.shared.lock().version != self.seen
    }

    /// Waits until the value changes, and marks it as seen.
    ///
    /// # Errors
    /// [`Closed`] if the value has not changed and the sender was dropped.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Register before the check, so that no change in between is lost.
            let notified = self.shared.changed.notified();
            {
                let state = self.shared.lock();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if state.closed {
                    return Err(Closed);
                }
            }
            notified.await;
        }
    }

    /// Waits until the value meets the condition; returns immediately if it already does.
    ///
    /// # Errors
    /// [`Closed`] if the value does not meet the condition and the sender was dropped.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&T) -> bool) -> Result<(), Closed> {
        loop {
            if condition(&self.borrow_and_update()) {
                return Ok(());
            }
            self.changed().await?;
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            seen: self.seen,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&*self.borrow()).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&*self.borrow()).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use futures::stream::FuturesUnordered;

    use super::*;

    #[tokio::test]
    async fn waiters_wake_in_the_order_in_which_they_began_to_wait() {
        let sender = Sender::new(0);
        let mut waiting: FuturesUnordered<_> = (0..50)
            .map(|number| {
                let mut receiver = sender.subscribe();
                async move {
                    receiver.changed().await.unwrap();
                    number
                }
            })
            .collect();
        assert!(futures::poll!(waiting.next()).is_pending());
        // The set polls its members in the order of their wakes.
        sender.set(1);
        let first: Vec<usize> = waiting.by_ref().collect().await;
        assert_eq!(first, (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_before_the_wait_counts_unless_it_was_seen() {
        let sender = Sender::new(0);
        let mut receiver = sender.subscribe();
        sender.set(1);
        assert!(receiver.has_changed());
        receiver.changed().await.unwrap();
        assert!(!receiver.has_changed());
        sender.set(2);
        assert_eq!(*receiver.borrow_and_update(), 2);
        assert!(futures::poll!(std::pin::pin!(receiver.changed())).is_pending());
        sender.modify(|value| *value += 1);
        receiver.mark_unchanged();
        assert!(futures::poll!(std::pin::pin!(receiver.changed())).is_pending());
    }

    #[tokio::test]
    async fn wait_for_returns_immediately_if_the_condition_holds() {
        let sender = Sender::new(3);
        let mut receiver = sender.subscribe();
        receiver.wait_for(|value| *value >= 3).await.unwrap();
        let mut waiting = std::pin::pin!(receiver.wait_for(|value| *value >= 5));
        for (value, there) in [(4, false), (5, true)] {
            sender.set(value);
            assert_eq!(futures::poll!(waiting.as_mut()).is_ready(), there, "{value}");
        }
    }

    #[tokio::test]
    async fn receivers_see_the_last_value_before_the_end_of_the_sender() {
        let sender = Sender::new(0);
        let mut receiver = sender.subscribe();
        let mut late = receiver.clone();
        let mut waiting = std::pin::pin!(receiver.changed());
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        sender.set(1);
        drop(sender);
        assert_eq!(waiting.await, Ok(()));
        assert_eq!(late.changed().await, Ok(()));
        assert_eq!(late.changed().await, Err(Closed));
        assert_eq!(late.wait_for(|value| *value == 2).await, Err(Closed));
    }
}
