//! The shared state of the front ends of one server.

use std::collections::BTreeMap;
use std::sync::Arc;

use clock::Stream;
use parking_lot::Mutex;

use crate::admission::{self, Admission};
use crate::api_services::ApiServices;
use crate::authority::Authority;
use crate::authorization::Authorizer;
use crate::data::Data;
use crate::faults::Faults;
use crate::heavy::HeavyWork;
use crate::identity::Identity;
use crate::in_flight::InFlight;
use crate::life::Life;
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::registry::Registry;
use crate::signer::Signer;
use crate::views::Views;

/// The shared state of the front ends.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) registry: Registry,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// What clients have been sent; `None`: no writes are recorded.
    pub(crate) views: Option<Arc<Views>>,
    pub(crate) life: Arc<Life>,
    /// Issues certificates; `None` for a simulated server, which has no sockets.
    pub(crate) authority: Option<Authority>,
    pub(crate) tokens: Mutex<BTreeMap<String, Identity>>,
    pub(crate) authorizer: Authorizer,
    /// The policies that decide about writes.
    pub(crate) admission: Admission,
    /// The group versions that other servers serve.
    pub(crate) api_services: ApiServices,
    pub(crate) faults: Faults,
    /// The bodies of requests in progress.
    pub(crate) in_flight: InFlight,
    pub(crate) metrics: Metrics,
    /// Requests with large bodies.
    pub(crate) heavy: HeavyWork,
    /// See `Options::lasting_watches`.
    pub(crate) lasting_watches: bool,
    /// Signs the tokens of service accounts.
    pub(crate) signer: Signer,
    pub(crate) token_ids: Mutex<Stream>,
    pub(crate) audit_ids: Mutex<Stream>,
    pub(crate) lifetimes: Mutex<Stream>,
    /// The locked data folder, if the server has one.
    pub(crate) data: Option<Data>,
}

impl Inner {
    /// An id for the `Audit-Id` header.
    pub(crate) fn audit_id(&self) -> String {
        self.audit_ids.lock().uuid()
    }

    /// An id for a token.
    pub(crate) fn token_id(&self) -> String {
        self.token_ids.lock().uuid()
    }

    /// A random timeout between `least` and twice that.
    pub(crate) fn watch_seconds(&self, least: u64) -> u64 {
        least.saturating_add(self.lifetimes.lock().below(least))
    }
}

impl admission::Context for Inner {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    fn uid(&self) -> String {
        self.audit_id()
    }
}
