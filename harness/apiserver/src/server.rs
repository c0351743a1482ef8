//! The server: its options and the in-process front end.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use clock::{Clock, NoEntropy, Seed};
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use parking_lot::Mutex;
use serde_json::json;

use crate::admission::Admission;
use crate::api_services::ApiServices;
use crate::authority::{Authority, CertificateError};
use crate::authorization::{Authorization, Authorizer};
use crate::data::{Data, DataError, Opened};
use crate::faults::{Faults, Marks, Pattern};
use crate::heavy::HeavyWork;
use crate::http::Body;
use crate::identity::Identity;
use crate::in_flight::InFlight;
use crate::inner::Inner;
use crate::keys::{KeptKeys, TokenSecret};
use crate::kinds;
use crate::life::{Disconnected, Life};
use crate::metrics::{Collector, Metrics};
use crate::observe::Observer;
pub use crate::registry::FieldManagers;
use crate::registry::{Registry, Settings};
use crate::service_port::ServicePort;
use crate::signer::Signer;
use crate::status::ApiError;
use crate::store::log::Loaded;
use crate::store::{Commit, CommitListener, Store};
use crate::views::Views;

/// Revisions start above this value, so that small numbers are "too old", as in a cluster with a history.
const FIRST_REVISION: u64 = 1000;
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The source of time.
    pub clock: Clock,
    /// The source of uids, name suffixes and watch timeouts; on a simulated clock also of the key that signs tokens.
    pub seed: Seed,
    /// The number of changes kept per resource, up to 64 MiB; a watch that is further behind gets 410.
    pub history: usize,
    /// The observer of requests and commits.
    pub observer: Option<Arc<dyn Observer>>,
    /// The users whose writes are compared with what they have been sent, and reported to the observer; see
    /// [`crate::views`]. `None`, the default, costs nothing.
    pub recorded_users: Option<Pattern>,
    /// Bearer tokens and their identities.
    pub tokens: BTreeMap<String, Identity>,
    /// Whether a garbage collector runs for this server. Without one, the server treats foreground deletion and
    /// orphaning as background deletion, because nothing would remove their finalizers.
    pub garbage_collector: bool,
    /// Whether controllers for namespaces run for this server: they create the default service account and the root
    /// certificate, and empty a deleted namespace. Without them the server does this itself. If this is set and no
    /// controllers run, a deleted namespace stays Terminating.
    pub namespace_controllers: bool,
    /// The authorization mode.
    pub authorization: Authorization,
    /// Whether a new pod gets a service account, which must exist, and a volume with its token, as with the admission
    /// plugin ServiceAccount.
    pub service_account_admission: bool,
    /// When the server records who wrote which fields (`metadata.managedFields`).
    pub field_managers: FieldManagers,
    /// Whether the server keeps an APIService for each group version that definitions serve. The default; a simulation
    /// has no client that reads them.
    pub api_services: bool,
    /// Whether a watch continues after its timeout while no fault rule can act on it. It then sends one bookmark per
    /// timeout. For virtual time, where clients would only restart the watch.
    pub lasting_watches: bool,
    /// Metrics of other parts of this process that `/metrics` contains.
    pub metrics: Vec<Arc<dyn Collector>>,
    /// Where the services run that webhooks and API services name. Others are looked up in EndpointSlices.
    pub services: BTreeMap<ServicePort, SocketAddr>,
    /// The folder of the server's data: its objects survive its end, also by a signal. `None`: they end with it.
    pub data: Option<PathBuf>,
}

impl Options {
    /// The defaults: a history of 10,000 changes per resource, no observer, no tokens, no authorization.
    pub fn new(clock: Clock, seed: Seed) -> Self {
        Self {
            clock,
            seed,
            history: 10_000,
            observer: None,
            recorded_users: None,
            tokens: BTreeMap::new(),
            garbage_collector: false,
            namespace_controllers: false,
            authorization: Authorization::default(),
            service_account_admission: false,
            field_managers: FieldManagers::default(),
            api_services: true,
            lasting_watches: false,
            metrics: Vec::new(),
            services: BTreeMap::new(),
            data: None,
        }
    }
}

/// A failure to set up a server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificates could not be created.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// The operating system provides no randomness for the key of tokens.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// The data folder cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The initial objects of the cluster could not be created.
    #[error("creating the cluster's initial objects: {0}")]
    Seeding(#[from] ApiError),
}

/// Marks the time of each commit, then forwards it.
#[derive(Debug)]
struct Marking {
    marks: Arc<Marks>,
    views: Option<Arc<Views>>,
    observer: Option<Arc<dyn Observer>>,
}

impl CommitListener for Marking {
    fn committed(&self, commit: &Commit<'_>) {
        self.marks.committed(commit.change.revision);
        if let Some(views) = &self.views {
            views.committed(commit);
        }
        if let Some(observer) = &self.observer {
            observer.commit(commit);
        }
    }
}

/// The authority of the server's certificates, and the key that signs tokens; on a simulated clock there is no
/// authority. A data folder keeps both.
fn credentials(
    seed: &Seed,
    clock: &Clock,
    data: Option<(&Data, Option<KeptKeys>)>,
) -> Result<(Option<Authority>, TokenSecret), Error> {
    // Tokens repeat in a simulated run; elsewhere a client must not be able to predict the key.
    let secrets = if clock.is_simulated() {
        seed.clone()
    } else {
        Seed::from_entropy()?
    };
    let token_secret = TokenSecret::new(&mut secrets.stream("apiserver token key"));
    match data {
        _ if clock.is_simulated() => Ok((None, token_secret)),
        None => Ok((Some(Authority::new()?), token_secret)),
        Some((data, keys)) => {
            let (authority, token_secret) = data.credentials(keys, token_secret)?;
            Ok((Some(authority), token_secret))
        }
    }
}

/// Restores the objects of a data folder, and creates the initial objects of a cluster that are missing.
fn fill(
    registry: &Registry,
    authorization: Authorization,
    seed: &Seed,
    loaded: Option<(&Data, &Loaded)>,
) -> Result<(), Error> {
    if let Some((data, loaded)) = loaded {
        data.restore(loaded, registry)?;
    }
    if authorization == Authorization::Rbac {
        registry.seed_roles(&mut seed.stream("apiserver role ids"), loaded.is_some())?;
    }
    registry.seed_cluster(&mut seed.stream("apiserver cluster ids"), loaded.is_some())?;
    Ok(())
}

/// An embedded API server. Clones are cheap; dropping the last clone ends the server.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

impl Server {
    /// A server with the initial objects of a cluster, or with those of its data folder. It does not listen yet.
    ///
    /// # Errors
    /// If certificates cannot be created, which does not happen on a healthy system, or the data folder cannot be used.
    pub fn new(options: Options) -> Result<Self, Error> {
        let Options {
            clock,
            seed,
            history,
            observer,
            recorded_users,
            tokens,
            garbage_collector,
            namespace_controllers,
            authorization,
            service_account_admission,
            field_managers,
            api_services,
            lasting_watches,
            metrics,
            services,
            data,
        } = options;
        if data.is_some() && clock.is_simulated() {
            return Err(DataError::Simulated.into());
        }
        let (data, loaded, keys) = match data.as_deref().map(Data::open).transpose()? {
            Some(Opened { data, loaded, keys }) => (Some(data), loaded, keys),
            None => (None, None, None),
        };
        // A restarted server must not repeat the ids of its predecessor.
        let seed = match &loaded {
            Some(loaded) => seed.child(&format!("after revision {}", loaded.revision())),
            None => seed,
        };
        let (authority, token_secret) = credentials(&seed, &clock, data.as_ref().zip(Some(keys)))?;
        let certificate_authority = authority.as_ref().map(Authority::pem).unwrap_or_default();
        let settings = Settings {
            garbage_collector,
            namespace_controllers,
            certificate_authority,
            aggregates_roles: authorization == Authorization::Rbac,
            service_account_admission,
            field_managers,
            api_services,
            services,
        };
        let marks = Arc::new(Marks::new(clock.clone()));
        let views = recorded_users.map(|users| Arc::new(Views::new(users)));
        let marking = Marking {
            marks: Arc::clone(&marks),
            views: views.clone(),
            observer: observer.clone(),
        };
        let first_revision = loaded.as_ref().map_or(FIRST_REVISION, |loaded| loaded.base);
        let store = Store::new(first_revision, history, Some(Arc::new(marking)));
        let ids = seed.stream("apiserver ids");
        let life = Arc::new(Life::new());
        let faults = Faults::new(
            clock.clone(),
            seed.child("apiserver faults"),
            Arc::clone(&life),
            marks,
            store.revisions(),
        );
        let registry = Registry::new(store, kinds::builtin(), clock, ids, settings);
        fill(&registry, authorization, &seed, data.as_ref().zip(loaded.as_ref()))?;
        let authorizer = Authorizer::new(authorization, registry.store());
        let admission = Admission::new(registry.store());
        let api_services = ApiServices::new(registry.store());
        let inner = Inner {
            registry,
            observer,
            views,
            life,
            authority,
            tokens: Mutex::new(tokens),
            authorizer,
            admission,
            api_services,
            faults,
            in_flight: InFlight::default(),
            metrics: Metrics::new(metrics),
            heavy: HeavyWork::default(),
            lasting_watches,
            signer: Signer::new(&token_secret)?,
            token_ids: Mutex::new(seed.stream("apiserver token ids")),
            audit_ids: Mutex::new(seed.stream("apiserver audit ids")),
            lifetimes: Mutex::new(seed.stream("apiserver watch lifetimes")),
            data,
        };
        let server = Self { inner: Arc::new(inner) };
        server.create_namespaces()?;
        server.inner.registry.seed_priorities()?;
        if let (Some(data), None) = (&server.inner.data, loaded) {
            data.begin(&server.inner.registry)?;
        }
        Ok(server)
    }

    fn create_namespaces(&self) -> Result<(), ApiError> {
        let catalog = self.inner.registry.catalog();
        let Some(entry) = catalog.find("", "v1", "namespaces") else {
            return Ok(());
        };
        for name in NAMESPACES {
            let namespace = json!({ "metadata": { "name": name } });
            self.inner.registry.create_missing(entry, "", namespace)?;
        }
        Ok(())
    }

    /// Accepts a bearer token from now on.
    pub fn add_token(&self, token: impl Into<String>, identity: Identity) {
        self.inner.tokens.lock().insert(token.into(), identity);
    }

    /// An in-process service for one client, as `kube::Client::new` expects it.
    pub fn service(&self, identity: Identity) -> Service {
        Service {
            inner: Arc::clone(&self.inner),
            identity: Some(Arc::new(identity.authenticated())),
            agent: None,
        }
    }

    /// An in-process service for clients that authenticate each request by a bearer token, or are anonymous.
    pub fn open_service(&self) -> Service {
        Service {
            inner: Arc::clone(&self.inner),
            identity: None,
            agent: None,
        }
    }

    /// Handles one request; `None` is a client without a certificate, which can use a bearer token.
    ///
    /// # Errors
    /// If a fault rule breaks the connection.
    pub async fn handle(
        &self,
        identity: Option<&Identity>,
        request: Request<Bytes>,
    ) -> Result<Response<Body>, Disconnected> {
        self.inner.handle(identity, request.map(Full::new)).await
    }

    /// The CA certificate of this server in PEM; empty on a simulated clock. Controllers publish it in every
    /// namespace.
    pub fn certificate_authority(&self) -> String {
        self.inner.authority.as_ref().map(Authority::pem).unwrap_or_default()
    }

    /// The fault rules of the server.
    pub fn faults(&self) -> Faults {
        self.inner.faults.clone()
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.inner.registry.store().revision()
    }

    /// Discards all history: watches that are behind get 410 Gone.
    pub fn compact(&self) {
        self.inner.registry.store().compact();
    }

    /// Restarts the server: every connection and watch breaks, and new connections are refused for `down`. Objects
    /// are kept; the history, which watches need to resume, is kept if `keep_history` is set.
    pub fn restart(&self, keep_history: bool, down: Duration) {
        if !keep_history {
            self.compact();
        }
        self.inner.faults.restart(down, self.inner.registry.clock().now());
    }

    /// Ends every watch and connection; the server still completes requests in progress.
    pub fn shut_down(&self) {
        self.inner.life.shut_down();
    }
}

/// An in-process client connection to the server.
#[derive(Clone, Debug)]
pub struct Service {
    inner: Arc<Inner>,
    identity: Option<Arc<Identity>>,
    agent: Option<HeaderValue>,
}

impl Service {
    /// The same connection for a program of that name, the user agent of its requests. Their writes are recorded under
    /// it; see [`FieldManagers`].
    #[must_use]
    pub fn named(self, program: &'static str) -> Self {
        Self {
            agent: Some(HeaderValue::from_static(program)),
            ..self
        }
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Disconnected;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Disconnected>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Self { inner, identity, agent } = self.clone();
        if let Some(agent) = agent {
            request.headers_mut().entry(USER_AGENT).or_insert(agent);
        }
        Box::pin(async move { inner.handle(identity.as_deref(), request).await })
    }
}
