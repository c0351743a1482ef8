//! Reports the writes of clients, and what they are sent, to `views`, if their writes are recorded.

use std::sync::Arc;

use http::Response;

use super::path::Route;
use super::{Arrival, Body, Exchange};
use crate::faults::Verb;
use crate::inner::Inner;
use crate::life::Disconnected;
use crate::registry::{Entry, Event, FieldSelector, ListOptions, Page, Watch, WatchOptions};
use crate::resource::Endpoint;
use crate::selector::LabelSelector;
use crate::store::{Key, Object};
use crate::views::{ArrivedWrite, ClientId, Collection, CollectionId, Received, Target, Views};

/// What an open watch has sent to a client.
#[derive(Debug)]
pub(super) struct SentByWatch {
    views: Arc<Views>,
    client: ClientId,
    collection: CollectionId,
    /// The number of initial events that have not been sent. They are not in the order of revisions.
    initial: usize,
    /// The revision of the initial events.
    start: u64,
}

impl SentByWatch {
    /// The connection sends an event.
    pub(super) fn send(&mut self, event: &Event) {
        let revision = match event {
            Event::Object { .. } if self.initial > 0 => {
                self.initial = self.initial.saturating_sub(1);
                if self.initial > 0 {
                    return;
                }
                self.start
            }
            Event::Object { revision, .. } | Event::Bookmark { revision, .. } => *revision,
        };
        self.views.send_up_to(self.client, self.collection, revision);
    }
}

impl Inner {
    /// Handles a request, and records its write and what its client was sent.
    pub(super) async fn exchange_recorded(self: &Arc<Self>, arrival: &Arrival) -> Result<Response<Body>, Disconnected> {
        let client = self.recorded_client(arrival);
        let (Some(views), Some(client)) = (&self.views, client) else {
            return self.pass_faults(arrival).await;
        };
        let write = self.arrived_write(views, client, arrival);
        let mut result = match &write {
            Some(write) => write.perform(self.pass_faults(arrival)).await,
            None => self.pass_faults(arrival).await,
        };
        let response = result.as_mut().ok();
        let code = response.as_ref().map(|response| response.status().as_u16());
        let received = response.and_then(|response| response.extensions_mut().remove::<Received>());
        // Before the response, which a write must not be compared with.
        let record = write.and_then(|write| views.end_write(write, code));
        if let Some(received) = &received {
            views.send(client, received);
        }
        if let (Some(record), Some(observer)) = (&record, &self.observer) {
            observer.write(record);
        }
        result
    }

    /// The client of a request, if its writes are recorded and it may send the request.
    fn recorded_client(&self, arrival: &Arrival) -> Option<ClientId> {
        let views = self.views.as_ref()?;
        let caller = arrival.admitted.as_ref().ok()?;
        views.client(&caller.user)
    }

    /// The write that a request is; `None`: it writes nothing that is stored.
    fn arrived_write(&self, views: &Views, client: ClientId, arrival: &Arrival) -> Option<ArrivedWrite> {
        let Route::Resource(target) = &arrival.route else {
            return None;
        };
        let verb = Verb::of(arrival.verb).filter(|verb| Verb::WRITES.contains(verb))?;
        let catalog = self.registry.catalog();
        let entry = catalog.find(&target.group, &target.version, &target.plural)?;
        let subresource = target.subresource.clone().unwrap_or_default();
        if entry.resource.endpoint != Endpoint::Stored || subresource == "token" {
            return None;
        }
        let target = Target {
            verb,
            resource: Arc::clone(&entry.table),
            subresource,
            namespace: target.namespace.clone().unwrap_or_default(),
            name: target.name.clone().unwrap_or_default(),
        };
        let now = self.registry.clock().now();
        let revision = self.registry.store().revision();
        views.begin_write(client, target, arrival.agent(), now, revision)
    }
}

impl Exchange<'_> {
    /// Whether the content of the response is recorded.
    fn is_recorded(&self) -> bool {
        self.server.recorded_client(self.arrival).is_some()
    }

    /// Notes that the response contains an object.
    pub(super) fn note_object(&self, entry: &Entry, object: &Object, response: &mut Response<Body>) {
        if self.is_recorded() {
            response.extensions_mut().insert(Received::Object {
                resource: Arc::clone(&entry.table),
                key: Key::clone(&object.key),
                revision: object.revision,
            });
        }
    }

    /// Notes that the response contains the last page of a list.
    pub(super) fn note_list(
        &self,
        entry: &Entry,
        namespace: Option<&str>,
        options: &ListOptions,
        page: &Page,
        response: &mut Response<Body>,
    ) {
        if page.continue_token.is_none() && self.is_recorded() {
            let collection = self.collection(entry, namespace, (&options.labels, &options.fields));
            let revision = page.revision;
            response
                .extensions_mut()
                .insert(Received::Collection { collection, revision });
        }
    }

    /// Follows what a watch sends; `None`: it is not recorded.
    pub(super) fn sent_by_watch(
        &self,
        entry: &Entry,
        namespace: Option<&str>,
        options: &WatchOptions,
        watch: &Watch,
    ) -> Option<SentByWatch> {
        let client = self.server.recorded_client(self.arrival)?;
        let views = self.server.views.as_ref()?;
        let collection = self.collection(entry, namespace, (&options.labels, &options.fields));
        Some(SentByWatch {
            views: Arc::clone(views),
            client,
            collection: views.collection(client, &collection)?,
            initial: watch.initial_objects(),
            start: watch.revision(),
        })
    }

    fn collection(
        &self,
        entry: &Entry,
        namespace: Option<&str>,
        (labels, fields): (&LabelSelector, &FieldSelector),
    ) -> Collection {
        let selectors = ["labelSelector", "fieldSelector"].map(|name| self.query.get(name));
        Collection {
            resource: entry.table.to_string(),
            namespace: namespace.map(str::to_owned),
            labels: labels.clone(),
            fields: fields.clone(),
            selector: selectors.into_iter().flatten().collect::<Vec<_>>().join(" "),
        }
    }
}
