//! Starts a simulated world. The order in which its parts start is part of every trace.

use std::collections::HashSet;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apiserver::{FieldManagers, Identity, Server};
use clock::{Clock, Pulses, Seed};
use fakecloud::Fakecloud;
use fakecloud::remediation::{ControlledVms, PERIOD};
use mcm_driver::Driver;
use mcm_driver::client::GrpcDriver;
use scenario::job::Job;
use scenario::plan::is_disturbing;
use scenario::step::Process;
use scenario::{HealthChecks, PreservationDialect, Step, Timeouts};
use sim::{Gate, Handle, Trace, World};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Layer;

use super::SimStage;
use super::defective::Creations;
use super::parts::{Incarnations, OptionalPart, Part};
use super::registration::{Endpoint, stay_registered};
use super::stability::StabilityWatch;
use crate::audit::Audit;
use crate::cloud::CloudClient;
use crate::cloud_config::cloud_config;
use crate::clusters::Clusters;
use crate::deploy::{HEALTH_CHECK_ACCOUNT, MCM_ACCOUNT, REMEDIATION_ACCOUNT};
use crate::naming::Calling;
use crate::plan::effects::RESTART_DELAY;
use crate::plan::{effects, hits, schedule};
use crate::plane::PlaneError;
use crate::role::Role;
use crate::supervised::Supervised;
use crate::traced::Traced;
use crate::writes::Writes;
use crate::{NAMESPACE, StageError, controllers, deploy, logs, names_of_drivers, names_of_mcm, pulses, setup};

/// The name of the process that only checks the health of machines.
const HEALTH_CHECKS: &str = "health-checks";
/// The name of the example remediation controller.
const REMEDIATION: &str = "remediation";
/// The name of another mcm in the same cluster.
const NEIGHBOUR: &str = "neighbour";

/// Starts the world of a job.
///
/// # Errors
/// The first part that does not start.
pub(super) async fn start(
    world: World,
    job: &Job,
    audit: &Audit,
    writes: Option<&Writes>,
) -> Result<SimStage, StageError> {
    let mut starting = Starting::new(world, job, audit, writes)?;
    let planes = starting.control_planes().await?;
    let fakecloud = starting.fakecloud();
    let cloud = CloudClient::new(fakecloud.control_server()).with_driver(fakecloud.driver_server());
    let gate = starting.gate("kubelets").count_only();
    let kubelets = Part::kubelets(&gate, &planes.target, &fakecloud, &mut starting.parts);
    let group = starting.gate("mcm");
    let health_checks = starting.gate(HEALTH_CHECKS);
    let remediation = starting.gate(REMEDIATION);
    hits::add_rules(&job.plan.disturbances, &starting.server.faults())?;
    effects::arm(&job.plan.disturbances, &starting.timeouts, |process| match process {
        Process::Mcm | Process::Drivers => group.clone(),
        Process::Controllers => planes.builtin.gate.clone(),
        Process::Fakecloud => kubelets.gate.clone(),
        Process::HealthChecks => health_checks.clone(),
        Process::Remediation => remediation.clone(),
    });
    let registries = starting.registries();
    let mcm = starting.replicas(group, &planes, &fakecloud, &registries);
    let drivers = starting.drivers(&registries);
    if let Some(namespace) = &job.plan.scenario.world.neighbour {
        starting.neighbour(namespace, &fakecloud).await?;
    }
    let health_checks = starting.health_checks(health_checks, &planes, &fakecloud);
    let remediation = starting.remediation(remediation, &fakecloud);
    let stability = starting.watch_stability();
    let schedule = schedule::Log::default();
    starting.follow_schedule(&cloud, &schedule);
    Ok(SimStage {
        clusters: planes.clusters,
        cloud,
        mcm,
        builtin: planes.builtin,
        kubelets,
        health_checks,
        remediation,
        drivers,
        schedule,
        api_faults: starting.server.faults(),
        audit: audit.clone(),
        disturbed: is_disturbing(&job.plan.disturbances),
        mcm_pulses: starting.mcm_pulses,
        stability,
        clock: starting.clock,
        timeouts: starting.timeouts,
        trace: starting.trace,
        parts: starting.parts,
    })
}

/// A world whose parts are being started.
struct Starting<'a> {
    job: &'a Job,
    audit: &'a Audit,
    writes: Option<&'a Writes>,
    clock: Clock,
    seed: Seed,
    trace: Trace,
    timeouts: Timeouts,
    kubelet_pulses: Option<Pulses>,
    mcm_pulses: Option<Pulses>,
    /// The API server of the control cluster.
    server: Server,
    /// The administrator's client of `server`.
    client: kube::Client,
    parts: JoinSet<String>,
}

/// The running API servers, and their controllers.
struct ControlPlanes {
    /// The API server of the target cluster.
    target: Server,
    clusters: Clusters,
    /// The controllers of the target cluster.
    builtin: Part,
}

impl<'a> Starting<'a> {
    fn new(world: World, job: &'a Job, audit: &'a Audit, writes: Option<&'a Writes>) -> Result<Self, StageError> {
        let World { clock, seed, trace } = world;
        logs::count_from_now(&clock);
        let timeouts = Timeouts::production();
        if pulses::may_become_stable(job) && !pulses::any_disturbs(&job.plan.scenario.steps) {
            clock.mark_connections_stable();
        }
        if job.hash_order {
            iterate_in_hash_order(&trace);
        }
        let server = new_server("apiserver", job, audit, &clock, &seed, &trace)?;
        let gate = gate("drydock", &server, &trace).count_only();
        Ok(Self {
            kubelet_pulses: pulses::of_kubelets(job, clock.now(), &timeouts),
            mcm_pulses: pulses::of_mcm(job, clock.now(), &timeouts),
            client: client_of_server(&gate, &server, Identity::admin()),
            job,
            audit,
            writes,
            clock,
            seed,
            trace,
            timeouts,
            server,
            parts: JoinSet::new(),
        })
    }

    fn gate(&self, name: &str) -> Gate {
        gate(name, &self.server, &self.trace)
    }

    /// Starts the control cluster and, if the job has one, the separate target cluster.
    async fn control_planes(&mut self) -> Result<ControlPlanes, StageError> {
        let planes = self.plain_control_planes().await?;
        setup::install_world(&planes.clusters, NAMESPACE, &self.job.plan.scenario).await?;
        Ok(planes)
    }

    /// The clusters without the objects of the scenario's world.
    async fn plain_control_planes(&mut self) -> Result<ControlPlanes, StageError> {
        let mut settings = controllers::settings(&self.timeouts, "");
        settings.node_lifecycle.pulses.clone_from(&self.kubelet_pulses);
        if self.job.target.is_none() {
            Role::Both.install(&self.client, NAMESPACE).await?;
            setup::install_fixtures(&self.client, NAMESPACE).await?;
            let target = self.server.clone();
            let builtin = self.controllers("controllers", &target, self.seed.clone(), settings);
            controllers::wait_for_default_account(&self.client, NAMESPACE).await?;
            let clusters = Clusters::one(self.client.clone());
            return Ok(ControlPlanes {
                target,
                clusters,
                builtin,
            });
        }
        Role::Control.install(&self.client, NAMESPACE).await?;
        setup::install_fixtures(&self.client, NAMESPACE).await?;
        let (control, own) = (self.server.clone(), controllers::settings(&self.timeouts, ""));
        self.controllers("control controllers", &control, self.seed.child("control"), own);
        controllers::wait_for_default_account(&self.client, NAMESPACE).await?;
        let target = new_server(
            "target apiserver",
            self.job,
            self.audit,
            &self.clock,
            &self.seed,
            &self.trace,
        )?;
        let gate = self.gate("drydock of the target").count_only();
        let client = client_of_server(&gate, &target, Identity::admin());
        Role::Target.install(&client, NAMESPACE).await?;
        let builtin = self.controllers("controllers", &target, self.seed.clone(), settings);
        controllers::wait_for_default_account(&client, NAMESPACE).await?;
        Ok(ControlPlanes {
            target,
            clusters: Clusters::new(self.client.clone(), Some(client)),
            builtin,
        })
    }

    fn controllers(&mut self, name: &str, server: &Server, seed: Seed, settings: ::controllers::Settings) -> Part {
        let gate = self.gate(name);
        Part::controllers(&gate, server, &self.clock, &seed, settings, &mut self.parts)
    }

    fn fakecloud(&self) -> Fakecloud {
        let fakecloud = Fakecloud::new(
            cloud_config(&self.job.plan.scenario.world.cloud, &self.timeouts),
            self.clock.clone(),
            self.seed.child("fakecloud"),
        );
        match &self.kubelet_pulses {
            Some(pulses) => fakecloud.with_pulses(pulses.clone()),
            None => fakecloud,
        }
    }

    fn options(&self) -> mcm::Options {
        let mut options = setup::mcm_options(&self.timeouts, NAMESPACE);
        options.preservation.dialect = dialect(self.job.plan.scenario.world.preservation);
        options.preservation.fencing = setup::mcm_fencing(self.job.plan.scenario.world.fencing);
        setup::add_health_checks(&mut options, self.job.plan.scenario.world.health_checks);
        options
    }

    /// Where drivers register with each replica of mcm; empty if mcm connects to the driver.
    fn registries(&self) -> Vec<Endpoint> {
        let world = &self.job.plan.scenario.world;
        let replicas = if world.drivers > 0 { world.replicas } else { 0 };
        (0..replicas).map(|_| Endpoint::default()).collect()
    }

    /// Starts the driver processes.
    fn drivers(&mut self, registries: &[Endpoint]) -> Vec<Handle> {
        let names = names_of_drivers(self.job.plan.scenario.world.drivers);
        let processes = names.into_iter().map(|name| {
            let gate = self.gate(&name);
            let registries = registries.to_vec();
            let process = sim::process(&name.clone(), gate, move || {
                stay_registered(registries.clone(), name.clone())
            });
            let handle = process.handle();
            self.parts.spawn(async move { match process.run().await {} });
            handle
        });
        processes.collect()
    }

    /// Prepares the processes of all replicas of mcm, and starts them.
    fn replicas(
        &mut self,
        group: Gate,
        planes: &ControlPlanes,
        fakecloud: &Fakecloud,
        registries: &[Endpoint],
    ) -> Supervised {
        let mut mcm = Supervised::new(group.clone());
        let creations = Creations::default();
        let names = names_of_mcm(self.job.plan.scenario.world.replicas);
        for (index, name) in names.into_iter().enumerate() {
            let registry = registries.get(index).cloned();
            let replica = Incarnations {
                gate: group.sibling(&name),
                account: MCM_ACCOUNT,
                clock: self.clock.clone(),
                seed: self.seed.child(&name),
                options: self.options(),
                no_target: self.job.plan.scenario.world.no_target,
                creations: creations.clone(),
                pulses: self.mcm_pulses.clone(),
                writes: self.writes.cloned(),
            };
            let replica_gate = replica.gate.clone();
            if let Some(pulses) = self.mcm_pulses.clone() {
                let clock = self.clock.clone();
                replica_gate.on_pause(move || pulses.end_all(clock.now()));
            }
            let (fakecloud, server, target) = (fakecloud.clone(), self.server.clone(), planes.target.clone());
            let has_target = self.job.target.is_some();
            let process = sim::process(&name, replica.gate.clone(), move || {
                let driver_server = Calling::new(fakecloud.driver_server(), replica.identity());
                let driver_server = replica.gate.cloud().layer(driver_server);
                let control = replica.client(&server);
                let clusters = Clusters::new(control, has_target.then(|| replica.client(&target)));
                let driver: Arc<dyn Driver> = Arc::new(GrpcDriver::new(driver_server));
                let opened = registry
                    .as_ref()
                    .map(|registry| registry.open(driver.clone(), replica.sessions()));
                let (driver, opened) = match opened {
                    Some((registry, opened)) => (registry, Some(opened)),
                    None => (driver, None),
                };
                let incarnation = replica.next(&clusters, driver);
                async move {
                    let _open_until_the_end = opened;
                    incarnation.await
                }
            })
            .restart_delay(RESTART_DELAY)
            .restart_after(restarts_after(self.job));
            mcm.add(&name, process.handle(), replica_gate);
            self.parts
                .spawn(async move { format!("{name} ended: {}", process.run().await) });
        }
        mcm
    }

    /// Starts another mcm for machines in another namespace of the same cluster.
    async fn neighbour(&mut self, namespace: &str, fakecloud: &Fakecloud) -> Result<(), StageError> {
        setup::install_namespace(&self.client, namespace).await?;
        deploy::apply(&self.client, &deploy::rbac(namespace)?).await?;
        let neighbour = Incarnations {
            gate: self.gate(NEIGHBOUR).count_only(),
            account: MCM_ACCOUNT,
            clock: self.clock.clone(),
            seed: self.seed.child(NEIGHBOUR),
            options: mcm::Options {
                namespace: namespace.to_owned(),
                ..self.options()
            },
            no_target: false,
            creations: Creations::default(),
            pulses: None,
            writes: None,
        };
        let (fakecloud, server) = (fakecloud.clone(), self.server.clone());
        let process = sim::process(NEIGHBOUR, neighbour.gate.clone(), move || {
            let clusters = Clusters::one(neighbour.client(&server));
            neighbour.next(&clusters, Arc::new(GrpcDriver::new(fakecloud.driver_server())))
        });
        self.parts
            .spawn(async move { format!("{NEIGHBOUR} ended: {}", process.run().await) });
        Ok(())
    }

    /// Starts the process that only checks the health of machines, with its own account, if the world has it.
    fn health_checks(&mut self, gate: Gate, planes: &ControlPlanes, fakecloud: &Fakecloud) -> OptionalPart {
        if self.job.plan.scenario.world.health_checks != HealthChecks::Separate {
            return OptionalPart { gate, handle: None };
        }
        let checks = Incarnations {
            gate: gate.clone(),
            account: HEALTH_CHECK_ACCOUNT,
            clock: self.clock.clone(),
            seed: self.seed.child(HEALTH_CHECKS),
            options: mcm::Options {
                controllers: vec![mcm::Controller::MachineHealthCheck],
                ..self.options()
            },
            no_target: false,
            creations: Creations::default(),
            pulses: None,
            writes: None,
        };
        let (fakecloud, server, target) = (fakecloud.clone(), self.server.clone(), planes.target.clone());
        let has_target = self.job.target.is_some();
        let process = sim::process(HEALTH_CHECKS, gate.clone(), move || {
            let control = checks.client(&server);
            let clusters = Clusters::new(control, has_target.then(|| checks.client(&target)));
            let incarnation = checks.next(&clusters, Arc::new(GrpcDriver::new(fakecloud.driver_server())));
            async move { format!("{HEALTH_CHECKS} ended: {}", incarnation.await) }
        })
        .restart_after(restarts_after(self.job));
        OptionalPart::of(Part::spawn(process, &gate, &mut self.parts))
    }

    /// Starts the example remediation controller, if the world has it.
    fn remediation(&mut self, gate: Gate, fakecloud: &Fakecloud) -> OptionalPart {
        if !self.job.plan.scenario.world.remediation {
            return OptionalPart { gate, handle: None };
        }
        let account = Identity::service_account(NAMESPACE, REMEDIATION_ACCOUNT);
        let (at, server, clock, fakecloud) = (gate.clone(), self.server.clone(), self.clock.clone(), fakecloud.clone());
        let process = sim::process(REMEDIATION, gate.clone(), move || {
            let client = client_of_server(&at, &server, account.clone());
            let vms = ControlledVms::new(at.cloud().layer(fakecloud.control_server()));
            let clock = clock.clone();
            async move {
                let token = CancellationToken::new();
                fakecloud::remediation::run(client, NAMESPACE, vms, clock, PERIOD, token).await;
                "the remediation controller ended".to_owned()
            }
        });
        OptionalPart::of(Part::spawn(process, &gate, &mut self.parts))
    }

    fn watch_stability(&mut self) -> StabilityWatch {
        let stability = StabilityWatch {
            clock: self.clock.clone(),
            faults: self.server.faults(),
            pulses: [self.kubelet_pulses.clone(), self.mcm_pulses.clone()],
            undisturbed: Arc::new(AtomicBool::new(false)),
        };
        if pulses::may_become_stable(self.job) {
            self.parts.spawn(stability.clone().watch());
        }
        stability
    }

    /// Carries out the scheduled disturbances of the plan.
    fn follow_schedule(&mut self, cloud: &CloudClient, log: &schedule::Log) {
        let handles = schedule::Handles {
            clock: self.clock.clone(),
            cloud: cloud.clone(),
            timeouts: self.timeouts.clone(),
        };
        let disturbances = self.job.plan.disturbances.clone();
        let (trace, log) = (self.trace.clone(), log.clone());
        self.parts.spawn(async move {
            schedule::run(&disturbances, &handles, &log, |target, what| trace.fault(target, what)).await
        });
    }
}

fn new_server(
    name: &str,
    job: &Job,
    audit: &Audit,
    clock: &Clock,
    seed: &Seed,
    trace: &Trace,
) -> Result<Server, PlaneError> {
    let observer = Traced {
        audit: audit.clone(),
        trace: trace.clone(),
    };
    let options = apiserver::Options {
        api_services: false,
        observer: Some(Arc::new(observer)),
        lasting_watches: !job.every_renewal,
        // Who wrote which fields costs a fifth of a run's time, and only server-side apply reads it.
        field_managers: FieldManagers::AfterApply,
        ..controllers::server_options(clock.clone(), seed.child(name), audit)
    };
    Ok(Server::new(options)?)
}

fn gate(name: &str, server: &Server, trace: &Trace) -> Gate {
    let server = server.clone();
    Gate::with_revision(name, trace.clone(), move || Some(server.revision()))
}

/// A client of a server through a gate.
fn client_of_server(gate: &Gate, server: &Server, identity: Identity) -> kube::Client {
    kube::Client::new(gate.api().layer(server.service(identity)), NAMESPACE)
}

/// Whether the supervisor restarts a process with a Lease when it ends: always if a disturbance may take the Lease,
/// otherwise never.
fn restarts_after(job: &Job) -> fn(&String) -> bool {
    let disturbs = |step: &Step| matches!(step, Step::ApiFault(_) | Step::Pause(_));
    if !job.plan.disturbances.is_empty() || job.plan.scenario.steps.iter().any(disturbs) {
        |_| true
    } else {
        |_| false
    }
}

fn dialect(dialect: PreservationDialect) -> mcm::PreservationDialect {
    match dialect {
        PreservationDialect::V2 => mcm::PreservationDialect::V2,
        PreservationDialect::Upstream => mcm::PreservationDialect::Upstream,
        PreservationDialect::Off => mcm::PreservationDialect::Off,
    }
}

/// A deliberate defect for tests of determinism: the trace depends on hash keys of a thread that the simulation does
/// not control, and so not on the seed.
fn iterate_in_hash_order(trace: &Trace) {
    let hasher = std::thread::spawn(RandomState::new).join().unwrap_or_default();
    let mut names = HashSet::with_hasher(hasher);
    names.extend((0..100).map(|number| format!("machine-{number}")));
    for name in &names {
        trace.record("hash-order", name.as_str());
    }
}
