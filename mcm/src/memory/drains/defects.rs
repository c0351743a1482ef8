//! A planted defect: a failed drain leaves its listener in place; once the listener is full, no drain receives events
//! of attachments.

use std::cell::Cell;

/// The capacity of the listener.
const CAPACITY: usize = 20;

thread_local! {
    /// The number of unread events after a failed drain; `None`: no drain failed.
    static WAITING: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Keeps the listener of a failed drain.
pub(super) fn leave_listener() {
    WAITING.set(Some(WAITING.get().unwrap_or(0)));
}

/// Adds an event; returns whether the listener is full.
pub(crate) fn fills_up() -> bool {
    WAITING.set(WAITING.get().map(|waiting| waiting + 1));
    is_full()
}

/// Whether the listener is full.
pub(crate) fn is_full() -> bool {
    WAITING.get().is_some_and(|waiting| waiting > CAPACITY)
}
