//! The server: its options, and the in-process front end.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use clock::{Clock, Seed};
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::json;

use crate::authority::{Authority, CertificateError};
use crate::authorization::{Authorization, Authorizer};
use crate::faults::{Faults, Marks};
use crate::http::Body;
use crate::identity::Identity;
use crate::inner::Inner;
use crate::kinds;
use crate::life::{Disconnected, Life};
use crate::observe::Observer;
use crate::registry::{Registry, Settings, WriteOptions};
use crate::signer::Signer;
use crate::status::ApiError;
use crate::store::{Commit, CommitListener, Store};

/// The first revision is above this. Room below it keeps small numbers "too old", as clients of a
/// cluster with a past see them.
const FIRST_REVISION: u64 = 1000;
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// What time it is.
    pub clock: Clock,
    /// Where uids, name suffixes and watch lifetimes come from.
    pub seed: Seed,
    /// Changes kept for each resource; a watch that is further behind gets 410.
    pub history: usize,
    /// Who looks on.
    pub observer: Option<Arc<dyn Observer>>,
    /// Bearer tokens and whose they are.
    pub tokens: BTreeMap<String, Identity>,
    /// Whether a garbage collector runs beside this server. Without one, foreground deletion and
    /// orphaning count as background deletion: nobody would remove their finalizers.
    pub garbage_collector: bool,
    /// Whether controllers run beside this server that give each namespace its default service
    /// account and root certificate, and that empty one which is deleted. Without them the server does
    /// it itself; with this set and nobody there, a deleted namespace stays Terminating.
    pub namespace_controllers: bool,
    /// Who may do what.
    pub authorization: Authorization,
    /// Whether a new pod gets a service account, which must exist, and a volume with its token, as
    /// the admission plugin ServiceAccount does it.
    pub service_account_admission: bool,
    /// Whether a watch outlives its timeout where nobody would miss its end: as long as no fault rule is left. It then
    /// has one bookmark for each timeout. For virtual time, in which clients would only begin it again.
    pub lasting_watches: bool,
}

impl Options {
    /// The defaults: 10,000 changes of history for each resource, nobody looking on, no tokens,
    /// everything allowed.
    pub fn new(clock: Clock, seed: Seed) -> Self {
        Self {
            clock,
            seed,
            history: 10_000,
            observer: None,
            tokens: BTreeMap::new(),
            garbage_collector: false,
            namespace_controllers: false,
            authorization: Authorization::default(),
            service_account_admission: false,
            lasting_watches: false,
        }
    }
}

/// Why a server cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificates could not be made.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// The objects that every cluster has could not be created.
    #[error("creating the cluster's first objects: {0}")]
    Seeding(#[from] ApiError),
}

/// Marks the time of each commit, then passes it on.
#[derive(Debug)]
struct Marking {
    marks: Arc<Marks>,
    observer: Option<Arc<dyn Observer>>,
}

impl CommitListener for Marking {
    fn committed(&self, commit: &Commit<'_>) {
        self.marks.committed(commit.change.revision);
        if let Some(observer) = &self.observer {
            observer.commit(commit);
        }
    }
}

/// An embedded API server. Cheap to clone; dropping the last clone ends it.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

impl Server {
    /// A server with the objects that every cluster has. It listens nowhere yet.
    ///
    /// # Errors
    /// When certificates cannot be made, which does not happen on a sane system.
    pub fn new(options: Options) -> Result<Self, Error> {
        let Options {
            clock,
            seed,
            history,
            observer,
            tokens,
            garbage_collector,
            namespace_controllers,
            authorization,
            service_account_admission,
            lasting_watches,
        } = options;
        let authority = if clock.is_simulated() {
            None
        } else {
            Some(Authority::new()?)
        };
        let certificate_authority = authority.as_ref().map(Authority::pem).unwrap_or_default();
        let settings = Settings {
            garbage_collector,
            namespace_controllers,
            certificate_authority,
            gathers_roles: authorization == Authorization::Rbac,
            service_account_admission,
        };
        let marks = Arc::new(Marks::new(clock.clone()));
        let marking = Marking {
            marks: Arc::clone(&marks),
            observer: observer.clone(),
        };
        let store = Store::new(FIRST_REVISION, history, Some(Arc::new(marking)));
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
        if authorization == Authorization::Rbac {
            registry.seed_roles(&mut seed.stream("apiserver role ids"))?;
        }
        let authorizer = Authorizer::new(authorization, registry.store());
        let inner = Inner {
            registry,
            observer,
            life,
            authority,
            tokens: Mutex::new(tokens),
            authorizer,
            faults,
            lasting_watches,
            signer: Signer::new(&mut seed.stream("apiserver token key"))?,
            token_ids: Mutex::new(seed.stream("apiserver token ids")),
            audit_ids: Mutex::new(seed.stream("apiserver audit ids")),
            lifetimes: Mutex::new(seed.stream("apiserver watch lifetimes")),
        };
        let server = Self { inner: Arc::new(inner) };
        server.create_namespaces()?;
        server.inner.registry.seed_priorities()?;
        Ok(server)
    }

    fn create_namespaces(&self) -> Result<(), ApiError> {
        let catalog = self.inner.registry.catalog();
        let Some(entry) = catalog.find("", "v1", "namespaces") else {
            return Ok(());
        };
        for name in NAMESPACES {
            let namespace = json!({ "metadata": { "name": name } });
            self.inner
                .registry
                .create(entry, "", namespace, &WriteOptions::default())?;
        }
        Ok(())
    }

    /// Accepts a bearer token from now on.
    pub fn add_token(&self, token: impl Into<String>, identity: Identity) {
        self.inner.tokens.lock().insert(token.into(), identity);
    }

    /// The server as a service for one client, in process. What `kube::Client::new` takes.
    pub fn service(&self, identity: Identity) -> Service {
        Service {
            inner: Arc::clone(&self.inner),
            identity: Some(Arc::new(identity.authenticated())),
        }
    }

    /// The server as a service for clients that say who they are in each request, by a bearer token,
    /// or are nobody in particular.
    pub fn open_service(&self) -> Service {
        Service {
            inner: Arc::clone(&self.inner),
            identity: None,
        }
    }

    /// Answers one request; `None` is a client that did not say who it is, unless the request has a
    /// bearer token.
    ///
    /// # Errors
    /// When a fault rule breaks the connection.
    pub async fn handle(
        &self,
        identity: Option<&Identity>,
        request: Request<Bytes>,
    ) -> Result<Response<Body>, Disconnected> {
        self.inner.handle(identity, request).await
    }

    /// The certificate that vouches for this server's, in PEM; empty on a simulated one. What a
    /// publisher of root certificates puts into every namespace.
    pub fn certificate_authority(&self) -> String {
        self.inner.authority.as_ref().map(Authority::pem).unwrap_or_default()
    }

    /// The rules by which requests to this server go wrong.
    pub fn faults(&self) -> Faults {
        self.inner.faults.clone()
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.inner.registry.store().revision()
    }

    /// Forgets all history: watches that are behind get 410 Gone.
    pub fn compact(&self) {
        self.inner.registry.store().compact();
    }

    /// Goes down and comes back: every connection and watch breaks, and new ones are refused for `down`.
    /// Objects are kept; history, by which watches are resumed, where `keep_history` says so.
    pub fn restart(&self, keep_history: bool, down: Duration) {
        if !keep_history {
            self.compact();
        }
        self.inner.faults.restart(down, self.inner.registry.clock().now());
    }

    /// Ends every watch and connection; requests in process are still answered.
    pub fn shut_down(&self) {
        self.inner.life.shut_down();
    }
}

/// The server for one client, without a socket.
#[derive(Clone, Debug)]
pub struct Service {
    inner: Arc<Inner>,
    identity: Option<Arc<Identity>>,
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

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { inner, identity } = self.clone();
        Box::pin(async move { inner.handle_body(identity.as_deref(), request).await })
    }
}
