//! The processes of a simulated world.

use std::sync::Arc;

use apiserver::Identity;
use clock::{Clock, Pulses, Seed, Stream};
use mcm_driver::Driver;
use sim::{Gate, Handle};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::{Layer, ServiceBuilder};

use super::defective::{self, Creations};
use crate::clusters::Clusters;
use crate::deploy::FAKECLOUD_ACCOUNT;
use crate::naming::name_agent;
use crate::plan::effects::RESTART_DELAY;
use crate::writes::Writes;
use crate::{NAMESPACE, controllers};

/// A process without replicas.
pub(super) struct Part {
    pub(super) gate: Gate,
    pub(super) handle: Handle,
}

/// A process that not every world has. It has a gate in any case.
pub(super) struct OptionalPart {
    pub(super) gate: Gate,
    pub(super) handle: Option<Handle>,
}

impl OptionalPart {
    pub(super) fn of(part: Part) -> Self {
        Self {
            gate: part.gate,
            handle: Some(part.handle),
        }
    }
}

impl Part {
    /// The built-in controllers.
    pub(super) fn controllers(
        gate: &Gate,
        server: &apiserver::Server,
        clock: &Clock,
        seed: &Seed,
        settings: ::controllers::Settings,
        parts: &mut JoinSet<String>,
    ) -> Self {
        let (at, server, clock, seed) = (gate.clone(), server.clone(), clock.clone(), seed.clone());
        let process = sim::process("controllers", gate.clone(), move || {
            let service = at.api().layer(server.service(Identity::admin()));
            let seed = seed.child(&format!("controllers {}", at.incarnation()));
            controllers::run(
                kube::Client::new(service, NAMESPACE),
                clock.clone(),
                seed,
                settings.clone(),
            )
        });
        Self::spawn(process, gate, parts)
    }

    /// The active parts of fakecloud: kubelets, storage and cloud controller. The ledger survives a crash of this
    /// process.
    pub(super) fn kubelets(
        gate: &Gate,
        server: &apiserver::Server,
        fakecloud: &fakecloud::Fakecloud,
        parts: &mut JoinSet<String>,
    ) -> Self {
        let (at, server, fakecloud) = (gate.clone(), server.clone(), fakecloud.clone());
        let process = sim::process("kubelets", gate.clone(), move || {
            let account = Identity::service_account(NAMESPACE, FAKECLOUD_ACCOUNT);
            let client = kube::Client::new(at.api().layer(server.service(account)), NAMESPACE);
            let fakecloud = fakecloud.clone();
            async move {
                fakecloud.run(client, CancellationToken::new()).await;
                "the kubelets ended".to_owned()
            }
        });
        Self::spawn(process, gate, parts)
    }

    pub(super) fn spawn<F, Fut>(process: sim::Process<F, String>, gate: &Gate, parts: &mut JoinSet<String>) -> Self
    where
        F: FnMut() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = String> + Send + 'static,
    {
        let process = process.restart_delay(RESTART_DELAY);
        let handle = process.handle();
        parts.spawn(process.run());
        Self {
            gate: gate.clone(),
            handle,
        }
    }
}

/// Settings of each incarnation of mcm.
pub(super) struct Incarnations {
    pub(super) gate: Gate,
    /// The service account.
    pub(super) account: &'static str,
    pub(super) clock: Clock,
    pub(super) seed: Seed,
    pub(super) options: mcm::Options,
    pub(super) no_target: bool,
    /// The creations that defective drivers have recorded.
    pub(super) creations: Creations,
    pub(super) pulses: Option<Pulses>,
    /// Records the writes of mcm; `None` if the job does not request them.
    pub(super) writes: Option<Writes>,
}

impl Incarnations {
    /// A client of a server that uses the service account.
    pub(super) fn client(&self, server: &apiserver::Server) -> kube::Client {
        let account = Identity::service_account(&self.options.namespace, self.account);
        let (name, writes) = (self.gate.name().to_owned(), self.writes.clone());
        let service = ServiceBuilder::new()
            .layer(self.gate.api())
            .map_request(move |request: http::Request<kube::client::Body>| {
                if let Some(writes) = &writes {
                    writes.request(&request);
                }
                name_agent(request, &name)
            })
            .service(server.service(account));
        kube::Client::new(service, NAMESPACE)
    }

    /// The identity of the current incarnation in leader election.
    pub(super) fn identity(&self) -> String {
        format!("{}_{}", self.gate.name(), self.gate.incarnation())
    }

    /// The sessions of the drivers that register with the current incarnation.
    pub(super) fn sessions(&self) -> Stream {
        self.seed.child(&self.identity()).stream("driver sessions")
    }

    /// Runs the next incarnation, with its own caches, identity and seed.
    pub(super) fn next(&self, clusters: &Clusters, driver: Arc<dyn Driver>) -> impl Future<Output = String> + use<> {
        let identity = self.identity();
        let driver = self.creations.driver(driver);
        let driver = match &self.writes {
            Some(writes) => writes.of_driver(driver),
            None => driver,
        };
        let environment = mcm::Environment {
            control: clusters.control().clone(),
            target: (!self.no_target).then(|| clusters.target().clone()),
            driver,
            clock: self.clock.clone(),
            seed: self.seed.child(&identity),
            identity,
            metrics: mcm::Metrics::default(),
            pulses: self.pulses.clone(),
        };
        let options = defective::options(self.options.clone());
        async move { format!("{:?}", mcm::run(options, environment, CancellationToken::new()).await) }
    }
}
