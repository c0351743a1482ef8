//! Events that end connections from within the server: shutdown, restarts, and expired watches. One signal covers all
//! of them, so that a watch waits for one thing.

use std::fmt;
use std::io;

use tokio_util::sync::CancellationToken;

use crate::signal;
use quantity::Saturating as _;

/// The connection ended without a response, or in the middle of one.
///
/// For in-process clients it represents what a client on a socket sees: the connection is closed early.
#[derive(Debug, thiserror::Error)]
#[error("the connection was closed before the message completed")]
pub struct Disconnected {
    #[source]
    source: io::Error,
}

impl Disconnected {
    pub(crate) fn new() -> Self {
        Self {
            source: io::ErrorKind::UnexpectedEof.into(),
        }
    }
}

/// Counts of the events that end connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    /// Whether the server has shut down.
    pub(crate) shut_down: bool,
    /// How many times every connection broke.
    pub(crate) restarts: u64,
    /// How many times every watch expired.
    pub(crate) watch_expirations: u64,
    /// How many times the fault rules changed.
    pub(crate) rules: u64,
}

/// The connection events of one server.
pub(crate) struct Life {
    shutdown: CancellationToken,
    events: signal::Sender<Events>,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self {
            shutdown: CancellationToken::new(),
            events: signal::Sender::new(Events::default()),
        }
    }

    /// Receives events from now on.
    pub(crate) fn follow(&self) -> signal::Receiver<Events> {
        self.events.subscribe()
    }

    /// A token that is cancelled when the server ends.
    pub(crate) fn child_token(&self) -> CancellationToken {
        self.shutdown.child_token()
    }

    pub(crate) fn shut_down(&self) {
        self.shutdown.cancel();
        self.events.modify(|events| events.shut_down = true);
    }

    pub(crate) fn restart(&self) {
        self.events.modify(|events| events.restarts.raise(1));
    }

    pub(crate) fn expire_watches(&self) {
        self.events.modify(|events| events.watch_expirations.raise(1));
    }

    pub(crate) fn rules_changed(&self) {
        self.events.modify(|events| events.rules.raise(1));
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Life").field(&*self.events.borrow()).finish()
    }
}

/// Returns when current connections break: at the next restart.
pub(crate) fn restarted(life: signal::Receiver<Events>) -> impl Future<Output = ()> + Send {
    until(life, |at_start, events| events.restarts != at_start.restarts)
}

/// Returns when the server stops responding: at the next restart or at shutdown.
pub(crate) fn broken(life: signal::Receiver<Events>) -> impl Future<Output = ()> + Send {
    until(life, |at_start, events| {
        events.shut_down || events.restarts != at_start.restarts
    })
}

fn until(mut life: signal::Receiver<Events>, over: fn(&Events, &Events) -> bool) -> impl Future<Output = ()> + Send {
    let at_start = *life.borrow_and_update();
    async move {
        // The sender lives as long as the server; if it is dropped, the server has ended.
        let _ = life.wait_for(|events| over(&at_start, events)).await;
    }
}
