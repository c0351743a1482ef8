//! The stage `sim`: the whole world in this process, on one thread, in virtual time, from one seed.
//!
//! Every part reaches the API server through a gate of its own, so that the trace has all requests,
//! watch deliveries and cloud calls; mcm's gate can also crash it.

use std::collections::{BTreeMap, HashSet};
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::sim::{Gate, Handle, Trace};
use apiserver::Identity;
use apiserver::faults::Faults;
use clock::{Clock, Pulses, Seed};
use defects::{Defect, Planted};
use futures::stream::{BoxStream, StreamExt};
use jiff::Timestamp;
use judge::ScenarioOutcome;
use judge::evaluate::short;
use mcm_api::GoDuration;
use mcm_driver::Driver;
use mcm_driver::client::GrpcDriver;
use scenario::job::Job;
use scenario::observation::Request;
use scenario::plan::{Limits, is_disturbing};
use scenario::result::{Effect, EffectKind, TraceSummary};
use scenario::step::{Crash, Process, ProcessAction};
use scenario::{Cloud, DuplicateCreates, PreservationDialect, Step, Timeouts};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::{Layer, ServiceBuilder};

use super::audit::Audit;
use super::cloud::CloudClient;
use super::clusters::Clusters;
use super::naming::{Calling, agents_named, name_agent};
use super::role::Role;
use super::supervised::{self, Supervised, crash_at, tell_of_process};
use super::traced::Traced;
use super::writes::Writes;
use super::{NAMESPACE, Stage, controllers, logs, names_of_mcm, pulses, setup};
use crate::Performer;
use crate::deploy::{self, FAKECLOUD_ACCOUNT, MCM_ACCOUNT};
use crate::plan::effects::{self, RESTART_DELAY};
use crate::plan::{hits, schedule};
use crate::result::StageResult;

/// Another mcm that serves the same cluster.
const NEIGHBOUR: &str = "neighbour";
/// How often a world that was disturbed is asked whether it is calm.
const CALM_PERIOD: Duration = Duration::from_mins(5);

/// Runs a job from its seed.
pub fn run(job: &Job, performer: &impl Performer) -> StageResult {
    ::sim::run(job.plan.seed, |world| async move {
        let trace = world.trace.clone();
        let audit = Audit::new(NAMESPACE);
        let writes = job.writes.then(Writes::default);
        let stage = match plant(job.plan.mutant.as_deref()) {
            Ok(planted) => SimStage::start(world, job, &audit, writes.as_ref())
                .await
                .map(|stage| (stage, planted)),
            Err(reason) => Err(reason),
        };
        let (outcome, effects, hits) = match stage {
            Ok((mut stage, _planted)) => {
                let outcome = Box::pin(perform_within_limits(&mut stage, job, performer, &trace)).await;
                let outcome = outcome.map(|mut outcome| {
                    tell_of_process(&mut outcome.narrative, &trace);
                    stage.schedule.tell(&mut outcome.narrative);
                    outcome
                });
                let faults = outcome
                    .as_ref()
                    .map(|outcome| outcome.world.faults.clone())
                    .unwrap_or_default();
                let hits = hits::count(
                    &job.plan.disturbances,
                    &faults,
                    Some(&stage.api_faults),
                    &stage.schedule,
                    |process| Some(stage.gate_of(process)),
                );
                (
                    outcome,
                    stage.mcm.group.effect_list().into_iter().map(effect).collect(),
                    hits,
                )
            }
            Err(reason) => (Err(reason), Vec::new(), Vec::new()),
        };
        let summary = TraceSummary {
            hash: trace.hash(),
            entries: trace.len(),
        };
        let passed = outcome.as_ref().is_ok_and(|outcome| outcome.failure.is_none());
        let logs = if passed { BTreeMap::new() } else { logs_of(&trace) };
        StageResult {
            trace: Some(summary),
            effects,
            writes: writes.as_ref().map(Writes::all).unwrap_or_default(),
            hits,
            requests: audit.accesses(),
            refused: audit.refused(),
            ..StageResult::new(outcome, logs)
        }
    })
}

fn effect(effect: ::sim::Effect) -> Effect {
    Effect {
        number: effect.number,
        incarnation: effect.incarnation,
        kind: match effect.kind {
            ::sim::EffectKind::ApiWrite => EffectKind::ApiWrite,
            ::sim::EffectKind::CloudCall => EffectKind::CloudCall,
        },
        description: effect.description,
    }
}

fn dialect(dialect: PreservationDialect) -> mcm::PreservationDialect {
    match dialect {
        PreservationDialect::V2 => mcm::PreservationDialect::V2,
        PreservationDialect::Upstream => mcm::PreservationDialect::Upstream,
        PreservationDialect::Off => mcm::PreservationDialect::Off,
    }
}

/// Performs the job's scenario unless it runs away.
async fn perform_within_limits(
    stage: &mut SimStage,
    job: &Job,
    performer: &impl Performer,
    trace: &Trace,
) -> Result<ScenarioOutcome, String> {
    let Limits {
        virtual_time, events, ..
    } = job.plan.limits;
    let clock = stage.clock.clone();
    tokio::select! {
        biased;
        outcome = performer.perform(stage, &job.plan.scenario) => Ok(outcome),
        () = trace.outgrown(events) => Err(format!(
            "it runs away: more than {events} events (limits.events) and no end"
        )),
        () = clock.sleep(virtual_time.0) => Err(format!(
            "it runs away: {} of virtual time (limits.virtualTime) and no end",
            short(virtual_time.0)
        )),
    }
}

/// What every part did, crashes included, and what it logged.
fn logs_of(trace: &Trace) -> BTreeMap<String, Vec<u8>> {
    let lines: String = trace.entries().iter().map(|entry| format!("{entry}\n")).collect();
    BTreeMap::from([
        ("trace.txt".to_owned(), lines.into_bytes()),
        ("log.txt".to_owned(), logs::kept()),
    ])
}

struct SimStage {
    clock: Clock,
    timeouts: Timeouts,
    clusters: Clusters,
    cloud: CloudClient,
    trace: Trace,
    mcm: Supervised,
    builtin: Part,
    kubelets: Part,
    schedule: schedule::Log,
    api_faults: Faults,
    audit: Audit,
    disturbed: bool,
    /// Of mcm.
    beats: Option<Pulses>,
    calm: CalmWatch,
    parts: JoinSet<String>,
}

/// When nothing disturbs the world any more, and what is spared from then on.
#[derive(Clone)]
struct CalmWatch {
    clock: Clock,
    faults: Faults,
    pulses: [Option<Pulses>; 2],
    /// Whether no step that is left disturbs anything.
    undisturbed: Arc<AtomicBool>,
}

impl CalmWatch {
    /// Looks until it is calm; never ends.
    async fn watch(self) -> String {
        while !self.clock.is_calm() && !self.has_come() {
            self.clock.sleep(CALM_PERIOD).await;
        }
        self.clock.calm_down();
        self.pulses.iter().flatten().for_each(Pulses::quieten);
        std::future::pending().await
    }

    fn has_come(&self) -> bool {
        self.undisturbed.load(Ordering::Relaxed) && self.faults.are_over(self.clock.now())
    }
}

impl SimStage {
    async fn start(world: ::sim::World, job: &Job, audit: &Audit, writes: Option<&Writes>) -> Result<Self, String> {
        let ::sim::World { clock, seed, trace } = world;
        let timeouts = Timeouts::production();
        if pulses::may_calm_down(job) && !pulses::any_disturbs(&job.plan.scenario.steps) {
            clock.calm_down();
        }
        if job.hash_order {
            iterate_in_hash_order(&trace);
        }
        let observer = Traced {
            audit: audit.clone(),
            trace: trace.clone(),
        };
        let new_server = |name: &str| {
            let options = apiserver::Options {
                observer: Some(Arc::new(observer.clone())),
                lasting_watches: !job.every_renewal,
                ..controllers::server_options(clock.clone(), seed.child(name), audit)
            };
            apiserver::Server::new(options).map_err(|error| error.to_string())
        };
        let server = new_server("apiserver")?;
        let gate = |name: &str| {
            let server = server.clone();
            Gate::with_revision(name, trace.clone(), move || Some(server.revision()))
        };
        let client = client_of_server(&gate("drydock").forgetful(), &server, Identity::admin());
        let mut parts = JoinSet::new();
        let pulses = pulses::of_kubelets(job, clock.now(), &timeouts);
        let beats = pulses::of_mcm(job, clock.now(), &timeouts);
        let mut settings = controllers::settings(&timeouts, "");
        settings.node_lifecycle.pulses.clone_from(&pulses);
        let (target, clusters, builtin);
        if job.target.is_some() {
            Role::Control.install(&client, NAMESPACE).await?;
            setup::install_fixtures(&client, NAMESPACE).await?;
            let own = gate("control controllers");
            Part::controllers(
                &own,
                &server,
                &clock,
                &seed.child("control"),
                controllers::settings(&timeouts, ""),
                &mut parts,
            );
            controllers::furnished(&client, NAMESPACE).await?;
            target = new_server("target apiserver")?;
            let target_client =
                client_of_server(&gate("drydock of the target").forgetful(), &target, Identity::admin());
            Role::Target.install(&target_client, NAMESPACE).await?;
            builtin = Part::controllers(&gate("controllers"), &target, &clock, &seed, settings, &mut parts);
            controllers::furnished(&target_client, NAMESPACE).await?;
            clusters = Clusters::new(client.clone(), Some(target_client));
        } else {
            Role::Both.install(&client, NAMESPACE).await?;
            setup::install_fixtures(&client, NAMESPACE).await?;
            target = server.clone();
            builtin = Part::controllers(&gate("controllers"), &server, &clock, &seed, settings, &mut parts);
            controllers::furnished(&client, NAMESPACE).await?;
            clusters = Clusters::one(client.clone());
        }

        let fakecloud = fakecloud::Fakecloud::new(
            cloud_config(&job.plan.scenario.world.cloud, &timeouts),
            clock.clone(),
            seed.child("fakecloud"),
        );
        let fakecloud = match &pulses {
            Some(pulses) => fakecloud.with_pulses(pulses.clone()),
            None => fakecloud,
        };
        let cloud = CloudClient::new(fakecloud.control_server()).with_driver(fakecloud.driver_server());
        let kubelets = Part::kubelets(&gate("kubelets").forgetful(), &target, &fakecloud, &mut parts);

        let group = gate("mcm");
        hits::add_rules(&job.plan.disturbances, &server.faults())?;
        effects::arm(&job.plan.disturbances, &timeouts, |process| match process {
            Process::Mcm => group.clone(),
            Process::Controllers => builtin.gate.clone(),
            Process::Fakecloud => kubelets.gate.clone(),
        });
        let mut options = setup::mcm_options(&timeouts, NAMESPACE);
        options.preservation.dialect = dialect(job.plan.scenario.world.preservation);
        let mut mcm = Supervised::new(group.clone());
        for name in names_of_mcm(job.plan.scenario.world.replicas) {
            let replica = Incarnations {
                gate: group.beside(&name),
                clock: clock.clone(),
                seed: seed.child(&name),
                options: options.clone(),
                no_target: job.plan.scenario.world.no_target,
                pulses: beats.clone(),
                writes: writes.cloned(),
            };
            let replica_gate = replica.gate.clone();
            if let Some(beats) = beats.clone() {
                let clock = clock.clone();
                replica_gate.when_it_stands_still(move || beats.end_all(clock.now()));
            }
            let (fakecloud, server, target) = (fakecloud.clone(), server.clone(), target.clone());
            let two = job.target.is_some();
            let process = ::sim::process(&name, replica.gate.clone(), move || {
                let driver_server = Calling::new(fakecloud.driver_server(), replica.identity());
                let driver_server = replica.gate.cloud().layer(driver_server);
                let control = replica.client(&server);
                let clusters = Clusters::new(control, two.then(|| replica.client(&target)));
                replica.next(&clusters, Arc::new(GrpcDriver::new(driver_server)))
            })
            .restart_delay(RESTART_DELAY)
            .restart_after(if may_lose_leadership(job) { |_| true } else { |_| false });
            mcm.add(&name, process.handle(), replica_gate);
            parts.spawn(async move { format!("{name} ended: {}", process.run().await) });
        }
        if let Some(namespace) = &job.plan.scenario.world.neighbour {
            setup::install_namespace(&client, namespace).await?;
            deploy::apply(&client, &deploy::rbac(namespace)?).await?;
            let neighbour = Incarnations {
                gate: gate(NEIGHBOUR).forgetful(),
                clock: clock.clone(),
                seed: seed.child(NEIGHBOUR),
                options: mcm::Options {
                    namespace: namespace.clone(),
                    ..options.clone()
                },
                no_target: false,
                pulses: None,
                writes: None,
            };
            let (fakecloud, server) = (fakecloud.clone(), server.clone());
            let process = ::sim::process(NEIGHBOUR, neighbour.gate.clone(), move || {
                let clusters = Clusters::one(neighbour.client(&server));
                neighbour.next(&clusters, Arc::new(GrpcDriver::new(fakecloud.driver_server())))
            });
            parts.spawn(async move { format!("{NEIGHBOUR} ended: {}", process.run().await) });
        }
        let calm = CalmWatch {
            clock: clock.clone(),
            faults: server.faults(),
            pulses: [pulses, beats.clone()],
            undisturbed: Arc::new(AtomicBool::new(false)),
        };
        if pulses::may_calm_down(job) {
            parts.spawn(calm.clone().watch());
        }
        let schedule = schedule::Log::default();
        parts.spawn(follow_schedule(job, &clock, &cloud, &timeouts, &trace, &schedule));
        Ok(Self {
            clock,
            timeouts,
            clusters,
            cloud,
            trace,
            mcm,
            builtin,
            kubelets,
            schedule,
            api_faults: server.faults(),
            audit: audit.clone(),
            disturbed: is_disturbing(&job.plan.disturbances),
            beats,
            calm,
            parts,
        })
    }

    /// The gate of a process; that of mcm is all replicas'.
    fn gate_of(&self, process: Process) -> Gate {
        match process {
            Process::Mcm => self.mcm.group.clone(),
            Process::Controllers => self.builtin.gate.clone(),
            Process::Fakecloud => self.kubelets.gate.clone(),
        }
    }
}

/// A client of a server through a gate.
fn client_of_server(gate: &Gate, server: &apiserver::Server, identity: Identity) -> kube::Client {
    kube::Client::new(gate.api().layer(server.service(identity)), NAMESPACE)
}

/// Carries out what the plan has for certain times.
fn follow_schedule(
    job: &Job,
    clock: &Clock,
    cloud: &CloudClient,
    timeouts: &Timeouts,
    trace: &Trace,
    log: &schedule::Log,
) -> impl Future<Output = String> + use<> {
    let handles = schedule::Handles {
        clock: clock.clone(),
        cloud: cloud.clone(),
        timeouts: timeouts.clone(),
    };
    let (disturbances, trace, log) = (job.plan.disturbances.clone(), trace.clone(), log.clone());
    async move { schedule::run(&disturbances, &handles, &log, |target, what| trace.fault(target, what)).await }
}

/// Whether mcm may lose its Lease by what disturbs it. It then ends, and whatever supervises it starts it again.
fn may_lose_leadership(job: &Job) -> bool {
    let cuts = |step: &Step| matches!(step, Step::ApiFault(_) | Step::Pause(_));
    !job.plan.disturbances.is_empty() || job.plan.scenario.steps.iter().any(cuts)
}

/// A process of which there is one.
struct Part {
    gate: Gate,
    handle: Handle,
}

impl Part {
    /// The built-in controllers.
    fn controllers(
        gate: &Gate,
        server: &apiserver::Server,
        clock: &Clock,
        seed: &Seed,
        settings: ::controllers::Settings,
        parts: &mut JoinSet<String>,
    ) -> Self {
        let (at, server, clock, seed) = (gate.clone(), server.clone(), clock.clone(), seed.clone());
        let process = ::sim::process("controllers", gate.clone(), move || {
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

    /// What of fakecloud acts by itself: kubelets, storage, cloud controller. The ledger stays when it ends.
    fn kubelets(
        gate: &Gate,
        server: &apiserver::Server,
        fakecloud: &fakecloud::Fakecloud,
        parts: &mut JoinSet<String>,
    ) -> Self {
        let (at, server, fakecloud) = (gate.clone(), server.clone(), fakecloud.clone());
        let process = ::sim::process("kubelets", gate.clone(), move || {
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

    fn spawn<F, Fut>(process: ::sim::Process<F, String>, gate: &Gate, parts: &mut JoinSet<String>) -> Self
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

/// What each incarnation of mcm is made from.
struct Incarnations {
    gate: Gate,
    clock: Clock,
    seed: Seed,
    options: mcm::Options,
    no_target: bool,
    pulses: Option<Pulses>,
    /// Where what it does is recorded; `None`: nobody asks.
    writes: Option<Writes>,
}

impl Incarnations {
    /// A client of a server, as the service account of mcm.
    fn client(&self, server: &apiserver::Server) -> kube::Client {
        let account = Identity::service_account(&self.options.namespace, MCM_ACCOUNT);
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

    /// Under which name the present incarnation is a candidate for leadership.
    fn identity(&self) -> String {
        format!("{}_{}", self.gate.name(), self.gate.incarnation())
    }

    /// The next incarnation: with caches, identity and randomness of its own.
    fn next(&self, clusters: &Clusters, driver: Arc<dyn Driver>) -> impl Future<Output = String> + use<> {
        let identity = self.identity();
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
        let options = self.options.clone();
        async move { format!("{:?}", mcm::run(options, environment, CancellationToken::new()).await) }
    }
}

impl Stage for SimStage {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    fn namespace(&self) -> &str {
        NAMESPACE
    }

    fn client(&self) -> kube::Client {
        self.clusters.control().clone()
    }

    fn clusters(&self) -> Clusters {
        self.clusters.clone()
    }

    fn cloud(&self) -> CloudClient {
        self.cloud.clone()
    }

    async fn process(&mut self, process: Process, action: ProcessAction) -> Result<(), String> {
        match process {
            Process::Mcm => {
                let (client, clock) = (self.clusters.control(), &self.clock);
                self.mcm.perform(action, client, NAMESPACE, clock).await
            }
            Process::Controllers | Process::Fakecloud if action == ProcessAction::KillLeader => {
                Err(format!("{process} has no leader: kill it"))
            }
            Process::Controllers => {
                supervised::perform(action, std::iter::once(&self.builtin.handle), &self.clock).await;
                Ok(())
            }
            Process::Fakecloud => {
                supervised::perform(action, std::iter::once(&self.kubelets.handle), &self.clock).await;
                Ok(())
            }
        }
    }

    fn crash(&mut self, crash: &Crash) -> Result<(), String> {
        crash_at(&self.gate_of(crash.process), crash)
    }

    fn fault(&self, target: &str, what: &str) {
        self.trace.fault(target, what);
    }

    fn ahead(&mut self, steps: &[Step]) {
        let undisturbed = !pulses::any_disturbs(steps);
        self.calm.undisturbed.store(undisturbed, Ordering::Relaxed);
    }

    fn api_faults(&self) -> Option<Faults> {
        Some(self.api_faults.clone())
    }

    fn agent_of_mcm(&self, holder: Option<&str>) -> Result<String, String> {
        match holder {
            None => Ok(format!("*:{MCM_ACCOUNT}")),
            Some(holder) => self.mcm.holder(holder).map(|member| agents_named(&member.name)),
        }
    }

    fn requests(&mut self) -> Option<BoxStream<'static, Request>> {
        Some(self.audit.follow().boxed())
    }

    async fn pause(&mut self, process: Process, time: Duration) -> Result<(), String> {
        if process != Process::Mcm {
            self.gate_of(process).pause_for(time);
            return Ok(());
        }
        let (client, clock) = (self.clusters.control(), &self.clock);
        self.mcm.pause_leader(time, client, NAMESPACE, clock).await
    }

    fn is_disturbed(&self) -> bool {
        self.disturbed
    }

    fn unheard_renewal(&self, holder: &str) -> Option<Timestamp> {
        self.beats.as_ref()?.last(holder, self.clock.now())
    }

    fn has_crashed(&self, holder: &str) -> bool {
        let incarnation: Option<u64> = holder.rsplit('_').next().and_then(|number| number.parse().ok());
        let member = self.mcm.holder(holder).ok();
        member
            .zip(incarnation)
            .is_some_and(|(member, incarnation)| member.handle.has_crashed(incarnation))
    }

    async fn trouble(&mut self) -> String {
        match self.parts.join_next().await {
            Some(Ok(reason)) => reason,
            Some(Err(error)) => format!("a part of the world broke: {error}"),
            None => std::future::pending().await,
        }
    }
}

/// Plants the defect of that name in this thread until the answer is dropped.
fn plant(name: Option<&str>) -> Result<Planted, String> {
    let find = |name| match Defect::of(name) {
        _ if !defects::CAN_BE_PLANTED => Err(format!("this build has no mutants, so none called {name:?}")),
        Some(defect) => Ok(defect),
        None => {
            let known: Vec<&str> = Defect::ALL.iter().map(|defect| defect.id()).collect();
            Err(format!("there is no mutant {name:?}; there are {}", known.join(", ")))
        }
    };
    Ok(defects::plant(name.map(find).transpose()?))
}

/// How fakecloud is set on a stage.
pub(super) fn cloud_config(world: &Cloud, timeouts: &Timeouts) -> fakecloud::Config {
    let boot = world.boot_delay.value(timeouts);
    let mut config = fakecloud::Config {
        boot_delay: fakecloud::Delay::Uniform(boot * 3 / 4, boot),
        duplicate_creates: match world.duplicate_creates {
            DuplicateCreates::One => fakecloud::DuplicateCreates::One,
            DuplicateCreates::Two => fakecloud::DuplicateCreates::Two,
        },
        require_initialize: world.require_initialize,
        ..fakecloud::Config::default()
    };
    config.kubelet.lease_period = GoDuration(timeouts.lease_period);
    config.kubelet.lease_duration = GoDuration(timeouts.node_grace.max(2 * timeouts.lease_period));
    config.cloud_controller.monitor_period = GoDuration(controllers::node_lifecycle(timeouts).monitor_period);
    config.kubelet.start_delay = GoDuration(timeouts.boot / 100);
    config.kubelet.status_sync = GoDuration(timeouts.lease_period);
    config.kubelet.join_retry = GoDuration(timeouts.lease_period);
    config
}

/// A defect planted on purpose: what happens depends on hash keys that the seed does not govern, as
/// those of a thread that somebody started behind the simulation's back.
fn iterate_in_hash_order(trace: &Trace) {
    let foreign = std::thread::spawn(RandomState::new).join().unwrap_or_default();
    let mut names = HashSet::with_hasher(foreign);
    names.extend((0..100).map(|number| format!("machine-{number}")));
    for name in &names {
        trace.record("hash-order", name.as_str());
    }
}
