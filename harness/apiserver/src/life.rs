//! What ends connections from within the server: shutting down, restarts, and watches that must begin
//! anew. One signal for all of it, so that a watch waits for one thing.

use std::fmt;
use std::io;

use tokio_util::sync::CancellationToken;

use crate::signal;

/// The connection ended without an answer, or in the middle of one.
///
/// In process it stands for what a client over a socket sees: the connection is closed early.
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

/// What has happened to the server so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// It is over.
    pub(crate) shut_down: bool,
    /// How often every connection broke.
    pub(crate) restarts: u64,
    /// How often every watch was told to begin anew.
    pub(crate) expulsions: u64,
    /// How often the fault rules changed.
    pub(crate) rules: u64,
}

/// The life of one server.
pub(crate) struct Life {
    shutdown: CancellationToken,
    moment: signal::Sender<Moment>,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self {
            shutdown: CancellationToken::new(),
            moment: signal::Sender::new(Moment::default()),
        }
    }

    /// What happens from now on.
    pub(crate) fn follow(&self) -> signal::Receiver<Moment> {
        self.moment.subscribe()
    }

    /// A token that ends with the server.
    pub(crate) fn child_token(&self) -> CancellationToken {
        self.shutdown.child_token()
    }

    pub(crate) fn shut_down(&self) {
        self.shutdown.cancel();
        self.moment.modify(|moment| moment.shut_down = true);
    }

    pub(crate) fn restart(&self) {
        self.moment.modify(|moment| moment.restarts += 1);
    }

    pub(crate) fn expel(&self) {
        self.moment.modify(|moment| moment.expulsions += 1);
    }

    pub(crate) fn rules_changed(&self) {
        self.moment.modify(|moment| moment.rules += 1);
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Life").field(&*self.moment.borrow()).finish()
    }
}

/// Returns when connections of now break: at the next restart.
pub(crate) fn restarted(life: signal::Receiver<Moment>) -> impl Future<Output = ()> + Send {
    until(life, |born, moment| moment.restarts != born.restarts)
}

/// Returns when nobody is answered any more: at the next restart, or when the server shuts down.
pub(crate) fn broken(life: signal::Receiver<Moment>) -> impl Future<Output = ()> + Send {
    until(life, |born, moment| {
        moment.shut_down || moment.restarts != born.restarts
    })
}

fn until(mut life: signal::Receiver<Moment>, over: fn(&Moment, &Moment) -> bool) -> impl Future<Output = ()> + Send {
    let born = *life.borrow_and_update();
    async move {
        // The sender lives as long as the server, and its end is an end too.
        let _ = life.wait_for(|moment| over(&born, moment)).await;
    }
}
