//! Programs outside the server, which webhooks and API services name: where they are, and calls of them.

mod callback;
mod client;
mod connection;
mod endpoints;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Stream};
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};

pub(crate) use callback::NoAnswer;
pub(crate) use client::Client;
pub(crate) use connection::{Connection, NotConnected, Peer, Place, Tls, Trust};
pub(crate) use endpoints::{Missing, SERVICES, SLICES};

use callback::{Callback, Caller};

use crate::service_port::ServicePort;
use crate::store::Store;

/// A call of a webhook.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The webhook.
    pub(crate) client: Client,
    /// After this time there is no answer.
    pub(crate) timeout: Duration,
    /// JSON.
    pub(crate) body: Vec<u8>,
}

/// Calls webhooks.
#[derive(Debug)]
pub(crate) struct Network {
    caller: Caller,
    /// Where the services run; others are looked up in the store.
    services: BTreeMap<ServicePort, SocketAddr>,
    store: Arc<Store>,
    clock: Clock,
    ids: Arc<Mutex<Stream>>,
}

impl Network {
    pub(crate) fn new(
        store: Arc<Store>,
        clock: Clock,
        ids: Arc<Mutex<Stream>>,
        services: BTreeMap<ServicePort, SocketAddr>,
    ) -> Self {
        Self {
            caller: Caller::default(),
            services,
            store,
            clock,
            ids,
        }
    }

    /// An identity for a question.
    pub(crate) fn uid(&self) -> String {
        self.ids.lock().uuid()
    }

    /// Calls webhooks at the same time. Returns their responses, or the reason why there is none.
    pub(crate) fn call(&self, calls: Vec<Call>) -> Vec<Result<Vec<u8>, NoAnswer>> {
        let refuse = |why: &str| calls.iter().map(|_| Err(NoAnswer::new(why))).collect();
        if self.clock.is_simulated() {
            return refuse("a simulated API server has no network");
        }
        match Handle::try_current() {
            Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => self
                .caller
                .send(calls.into_iter().map(|call| self.callback(call)).collect()),
            _ => refuse("it needs a runtime of tokio with several threads (flavor = \"multi_thread\")"),
        }
    }

    /// Where a port of a service is.
    pub(crate) fn place(&self, port: &ServicePort) -> Result<Place, Missing> {
        match self.services.get(port) {
            Some(address) => Ok(Place {
                host: address.ip().to_string(),
                port: address.port(),
            }),
            None => endpoints::place_of(&self.store, port),
        }
    }

    fn callback(&self, call: Call) -> Callback {
        Callback {
            url: call.client.url(),
            place: call.client.service().and_then(|port| self.place(port).ok()),
            authorities: call.client.authorities,
            timeout: call.timeout,
            body: call.body,
        }
    }
}
