//! The views of all clients whose writes are recorded.

use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use quantity::Saturating as _;

use super::changes::{Author, Changes, Recorded};
use super::client::{ClientView, Collection, CollectionId};
use super::contradiction::{Effect, Written};
use super::record::WriteRecord;
use super::views_of_write::Comparison;
use crate::faults::{Pattern, Verb};
use crate::store::{ChangeKind, Commit, Key};

/// The maximum number of clients whose writes are recorded: the first ones.
const CLIENTS: usize = 64;

tokio::task_local! {
    /// The request whose changes are being committed.
    static AUTHOR: Author;
}

/// A client whose writes are recorded, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId(usize);

/// The views of all clients whose writes are recorded, and the recent changes.
#[derive(Debug)]
pub(crate) struct Views {
    users: Pattern,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    changes: Changes,
    clients: Vec<ClientView>,
    writes: u64,
}

/// The content of a response.
#[derive(Clone, Debug)]
pub(crate) enum Received {
    /// One state of an object.
    Object {
        resource: Arc<str>,
        key: Key,
        revision: u64,
    },
    /// All objects of a collection at a revision.
    Collection { collection: Collection, revision: u64 },
}

/// The target of a write.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) verb: Verb,
    pub(crate) resource: Arc<str>,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    /// Empty for a creation and for a collection.
    pub(crate) name: String,
}

/// A write that has arrived.
#[derive(Debug)]
pub(crate) struct ArrivedWrite {
    author: Author,
    target: Target,
    at: Timestamp,
    agent: String,
    /// What had been sent of the client's collections.
    sent: Vec<u64>,
    /// The newest revision of the object that was sent by itself.
    single: u64,
    /// The newest revision of the server.
    revision: u64,
}

impl Views {
    /// Records the writes of users whose name matches.
    pub(crate) fn new(users: Pattern) -> Self {
        Self {
            users,
            state: Mutex::default(),
        }
    }

    /// Records a change. The store calls it in its critical section.
    pub(crate) fn committed(&self, commit: &Commit<'_>) {
        let author = AUTHOR.try_with(|author| *author).ok();
        let mut state = self.state.lock();
        state.changes.push(commit.resource, commit.change.clone(), author);
    }

    /// The client with this user name; `None` if its writes are not recorded.
    pub(crate) fn client(&self, user: &str) -> Option<ClientId> {
        if !self.users.matches(user) {
            return None;
        }
        let clients = &mut self.state.lock().clients;
        if let Some(known) = clients.iter().position(|client| client.user == user) {
            return Some(ClientId(known));
        }
        if clients.len() >= CLIENTS {
            return None;
        }
        clients.push(ClientView::new(user));
        Some(ClientId(clients.len().saturating_sub(1)))
    }

    /// The id of a collection of a client; `None` if it has too many.
    pub(crate) fn collection(&self, client: ClientId, collection: &Collection) -> Option<CollectionId> {
        self.with(client, |view| view.collection(collection))?
    }

    /// All changes of a collection up to `revision` have been sent to the client.
    pub(crate) fn send_up_to(&self, client: ClientId, collection: CollectionId, revision: u64) {
        self.with(client, |view| view.send_up_to(collection, revision));
    }

    /// A response has been sent to the client.
    pub(crate) fn send(&self, client: ClientId, received: &Received) {
        self.with(client, |view| match received {
            Received::Object {
                resource,
                key,
                revision,
            } => view.send_object(resource, key, *revision),
            Received::Collection { collection, revision } => {
                if let Some(id) = view.collection(collection) {
                    view.send_up_to(id, *revision);
                }
            }
        });
    }

    fn with<T>(&self, client: ClientId, change: impl FnOnce(&mut ClientView) -> T) -> Option<T> {
        self.state.lock().clients.get_mut(client.0).map(change)
    }

    /// A write has arrived; `revision` is the newest one of the server.
    pub(crate) fn begin_write(
        &self,
        client: ClientId,
        target: Target,
        agent: &str,
        at: Timestamp,
        revision: u64,
    ) -> Option<ArrivedWrite> {
        let mut state = self.state.lock();
        let key = Key::new(&target.namespace, &target.name);
        let view = state.clients.get(client.0)?;
        let (sent, single) = (view.sent(), view.object(&target.resource, &key));
        state.writes.raise(1);
        Some(ArrivedWrite {
            author: Author {
                client: client.0,
                request: state.writes,
            },
            target,
            at,
            agent: agent.to_owned(),
            sent,
            single,
            revision,
        })
    }

    /// A write has been performed; `code` is that of the response, which is about to be sent.
    pub(crate) fn end_write(&self, write: ArrivedWrite, code: Option<u16>) -> Option<WriteRecord> {
        let mut state = self.state.lock();
        let (record, changed) = state.record(write, code)?;
        let is_acknowledged = code.is_some_and(|code| (200..300).contains(&code));
        if let (Some((client, key)), Some(revision), true) = (changed, record.revision, is_acknowledged)
            && let Some(view) = state.clients.get_mut(client)
        {
            view.send_object(&record.resource, &key, revision);
        }
        Some(record)
    }
}

impl ArrivedWrite {
    /// Performs the write: its changes are recorded as those of this request.
    pub(crate) async fn perform<T>(&self, work: impl Future<Output = T>) -> T {
        AUTHOR.scope(self.author, work).await
    }
}

impl Target {
    fn effect(&self) -> Effect {
        match (self.verb, self.subresource.as_str()) {
            (Verb::Create, "") => Effect::Create,
            (Verb::Delete | Verb::DeleteCollection, _) | (Verb::Create, "eviction") => Effect::Delete,
            _ => Effect::Change,
        }
    }

    /// Whether a change of the request is the one of its target.
    fn is_changed_by(&self, recorded: &Recorded) -> bool {
        let key = recorded.key();
        let is_named = key.name == self.name && key.namespace == self.namespace;
        let is_created = recorded.change.kind == ChangeKind::Added && key.namespace == self.namespace;
        is_named || (self.name.is_empty() && (is_created || self.verb == Verb::DeleteCollection))
    }
}

impl State {
    /// The record of a write, and the object that it changed.
    fn record(&self, write: ArrivedWrite, code: Option<u16>) -> Option<(WriteRecord, Option<(usize, Key)>)> {
        let ArrivedWrite { author, target, .. } = &write;
        let view = self.clients.get(author.client)?;
        let log = self.changes.of(&target.resource);
        let own = log.into_iter().flat_map(|log| log.of_request(*author, write.revision));
        let mut own = own.filter(|recorded| target.is_changed_by(recorded)).peekable();
        let first = own.peek().copied();
        let revision = own.last().map(Recorded::revision);
        let is_collection = target.verb == Verb::DeleteCollection;
        let key = match first {
            Some(first) if !is_collection => first.key().clone(),
            _ => Key::new(&target.namespace, &target.name),
        };
        let facts = first.map(Recorded::facts);
        let comparison = Comparison {
            client: author.client,
            view,
            sent: &write.sent,
            changes: &self.changes,
            written: Written {
                effect: target.effect(),
                resource: &target.resource,
                key: &key,
                owner: facts.and_then(|facts| facts.owner.as_deref()),
            },
            uid: first
                .map(|first| first.change.object.meta.uid.as_str())
                .unwrap_or_default(),
            single: write.single,
            before: first.map_or(u64::MAX, Recorded::revision),
        };
        let has_object = !target.name.is_empty();
        let is_judged = first.is_some() && !is_collection;
        let record = WriteRecord {
            number: author.request,
            at: write.at,
            client: view.user.clone(),
            agent: write.agent.clone(),
            verb: target.verb,
            resource: target.resource.to_string(),
            subresource: target.subresource.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            code,
            revision,
            object: has_object.then(|| comparison.object()),
            kinds: comparison.kinds(),
            contradictions: if is_judged {
                comparison.contradictions()
            } else {
                Vec::new()
            },
        };
        let changed = is_judged.then_some((author.client, key));
        Some((record, changed))
    }
}
