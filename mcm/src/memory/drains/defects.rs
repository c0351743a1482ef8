//! A planted defect: a failed drain leaves its listener in place; once the listener is full, no drain receives events of
//! attachments.

use std::cell::Cell;

/// How many events wait at most.
const ROOM: usize = 20;

thread_local! {
    /// How many events wait for a drain that failed; `None`: none failed.
    static WAITING: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A drain failed, and its listener stays.
pub(super) fn leave_listener() {
    WAITING.set(Some(WAITING.get().unwrap_or(0)));
}

/// One more event waits. Whether there is no room for it.
pub(crate) fn fills_up() -> bool {
    WAITING.set(WAITING.get().map(|waiting| waiting + 1));
    is_full()
}

/// Whether there is no room for an event.
pub(crate) fn is_full() -> bool {
    WAITING.get().is_some_and(|waiting| waiting > ROOM)
}
