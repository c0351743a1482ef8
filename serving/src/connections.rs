//! The open connections of a server: a bounded number, so that clients cannot exhaust its memory and file descriptors.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::resource::{Resource, getrlimit};
use parking_lot::Mutex;
use tokio::task::{AbortHandle, Id, JoinSet};

/// Open connections, each with a task. When there is no room for another one, the connection that has been idle longest
/// is closed: clients that only keep connections open cannot lock others out. Dropping this closes all connections.
#[derive(Debug)]
pub struct Connections {
    limit: usize,
    tasks: JoinSet<()>,
    open: HashMap<Id, (Usage, AbortHandle)>,
    /// The number of changes to idle so far, which orders idle connections.
    changes: Arc<AtomicU64>,
}

/// Whether a connection is used by requests. Clones share the state.
#[derive(Clone, Debug)]
pub struct Usage {
    state: Arc<Mutex<State>>,
    changes: Arc<AtomicU64>,
}

#[derive(Debug)]
struct State {
    requests: usize,
    idle_since: u64,
}

/// A request on a connection, until it is dropped.
#[derive(Debug)]
pub struct InUse(Usage);

impl Usage {
    fn new(changes: Arc<AtomicU64>) -> Self {
        let idle_since = changes.fetch_add(1, Ordering::Relaxed);
        let state = State {
            requests: 0,
            idle_since,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            changes,
        }
    }

    /// Marks the connection as used until the returned value is dropped.
    pub fn begin(&self) -> InUse {
        let mut state = self.state.lock();
        state.requests = state.requests.saturating_add(1);
        InUse(self.clone())
    }

    /// `None` while a request uses the connection; otherwise a number that is different after each request.
    pub fn idle_since(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.requests == 0).then_some(state.idle_since)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.requests = state.requests.saturating_sub(1);
        if state.requests == 0 {
            state.idle_since = self.0.changes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Half of the files that this process may open, so that connections leave room for everything else, and at most `limit`.
pub fn within_file_limit(limit: usize) -> usize {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    usize::try_from(files / 2).map_or(limit, |half| half.clamp(1, limit))
}

impl Connections {
    /// At most `limit` connections.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            tasks: JoinSet::new(),
            open: HashMap::new(),
            changes: Arc::default(),
        }
    }

    /// Adds a connection, which ends when its future does. Returns `false` and drops `connection` if there is no room:
    /// then requests use all connections.
    pub fn spawn<F>(&mut self, connection: impl FnOnce(Usage) -> F) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if !self.make_room() {
            return false;
        }
        let usage = Usage::new(Arc::clone(&self.changes));
        let task = self.tasks.spawn(connection(usage.clone()));
        self.open.insert(task.id(), (usage, task));
        true
    }

    fn make_room(&mut self) -> bool {
        if self.open.len() < self.limit {
            return true;
        }
        let idle = self
            .open
            .iter()
            .filter_map(|(id, (usage, _))| Some((usage.idle_since()?, *id)));
        let Some((_, oldest)) = idle.min_by_key(|(since, _)| *since) else {
            return false;
        };
        if let Some((_, task)) = self.open.remove(&oldest) {
            task.abort();
        }
        true
    }

    /// Waits until a connection has ended; for ever if there is none.
    pub async fn one_ended(&mut self) {
        let ended = match self.tasks.join_next_with_id().await {
            None => return std::future::pending().await,
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
        };
        self.open.remove(&ended);
    }

    /// Waits until all connections have ended.
    pub async fn all_ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    /// Adds a connection that never ends by itself. Returns its usage and a channel that closes when it ends.
    fn connect(connections: &mut Connections) -> Option<(Usage, oneshot::Receiver<()>)> {
        let (alive, ended) = oneshot::channel::<()>();
        let mut given = None;
        let added = connections.spawn(|usage| {
            given = Some(usage);
            async move {
                let _alive = alive;
                pending().await
            }
        });
        added.then(|| (given.unwrap(), ended))
    }

    #[tokio::test]
    async fn the_connection_that_is_idle_longest_is_closed_for_another_one() {
        let mut connections = Connections::new(2);
        let (first, mut first_ended) = connect(&mut connections).unwrap();
        let (_second, second_ended) = connect(&mut connections).unwrap();
        // The first one is used later than the second.
        drop(first.begin());
        connect(&mut connections).unwrap();
        second_ended.await.unwrap_err();
        assert!(
            first_ended
                .try_recv()
                .is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
        );
        connections.one_ended().await;
    }

    #[tokio::test]
    async fn a_connection_in_use_is_not_closed() {
        let mut connections = Connections::new(1);
        let (usage, ended) = connect(&mut connections).unwrap();
        let (one, two) = (usage.begin(), usage.begin());
        assert!(connect(&mut connections).is_none());
        drop(one);
        assert!(connect(&mut connections).is_none());
        drop(two);
        assert!(connect(&mut connections).is_some());
        ended.await.unwrap_err();
    }

    #[test]
    fn the_limit_leaves_files_for_the_rest() {
        let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(within_file_limit(usize::MAX) as u64 <= soft);
        assert_eq!(within_file_limit(1), 1);
    }

    #[tokio::test]
    async fn an_ended_connection_leaves_room() {
        let mut connections = Connections::new(1);
        assert!(connections.spawn(|usage| async move { drop(usage.begin()) }));
        connections.one_ended().await;
        let (_usage, ended) = connect(&mut connections).unwrap();
        drop(connections);
        ended.await.unwrap_err();
    }
}
