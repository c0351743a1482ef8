//! Runs the controllers from flags and an environment.

use std::sync::Arc;

use clock::{Clock, Pulses, Seed};
use kube::{Client, Config};
use mcm_core::machine::{Retry, Settings};
use mcm_core::safety::{api_health, orphans};
use mcm_driver::Driver;
use parking_lot::Mutex;
use runtime::election::{self, Candidacy, Elector, LeadershipLost, Tenure};
use tokio_util::sync::CancellationToken;

use crate::cluster::{CONTROLLER_AGENT, ELECTION_AGENT, EventRecorder, Layers, RateLimit, client, layered};
use crate::execute::{ActionExecutor, Resources};
use crate::memory::{CreatedVms, LastTimes, MachineNames, PendingStatuses, UpdateSupport};
use crate::metrics::Activity;
use crate::reconcile::{Controllers, OvershootGuard, ReportedDamage, WorkerSlots, health_check_settings};
use crate::safety::{self, Safety};
use crate::view::{ClusterState, EnabledControllers};
use crate::{Controller, Error, Metrics, Options};

/// The Lease that all processes compete for.
const LEASE: &str = "machine-controller-manager";
/// The Lease of processes that only check the health of machines: they run beside the others.
const HEALTH_CHECK_LEASE: &str = "machine-health-check";

/// The dependencies of a controller besides its flags.
#[derive(Clone)]
pub struct Environment {
    /// The control cluster, with machines, classes and Secrets.
    pub control: Client,
    /// The target cluster, which nodes join; `None`: there is none. It may be the control cluster.
    pub target: Option<Client>,
    /// The driver of the cloud.
    pub driver: Arc<dyn Driver>,
    /// The clock.
    pub clock: Clock,
    /// The source of random tokens and names.
    pub seed: Seed,
    /// The name under which this process is a candidate for leadership; unique to it.
    pub identity: String,
    /// Metrics registry.
    pub metrics: Metrics,
    /// Heartbeats that replace renewals of the Lease in a simulated world; `None`: the leader always renews.
    pub pulses: Option<Pulses>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("identity", &self.identity)
            .field("driver", &self.driver)
            .field("target", &self.target.is_some())
            .finish_non_exhaustive()
    }
}

/// Runs leader election and the controllers until `cancel`. Dropping the future stops everything at
/// once, like a crash: it spawns no tasks.
///
/// # Errors
/// If the flags contradict each other, or if leadership is lost.
pub async fn run(options: Options, environment: Environment, cancel: CancellationToken) -> Result<(), Error> {
    options.validate()?;
    let Some(candidate) = Candidate::new(&options, &environment) else {
        return ended(work(&options, &environment, Tenure::unlimited(), cancel).await);
    };
    let elector = candidate.elector(&environment.control);
    let work = |tenure| work(&options, &environment, tenure, cancel.clone());
    ended(elector.lead(cancel.clone(), work).await)
}

/// The result of a process whose work ended. The work may end for a reason other than `cancel`, in order, so that the
/// Lease is released.
fn ended(result: Result<Option<Error>, Error>) -> Result<(), Error> {
    match result? {
        None => Ok(()),
        Some(reason) => Err(reason),
    }
}

/// The same, with leader election on a thread of its own, so that long decisions do not delay renewals. `config` is that
/// of the control cluster.
///
/// # Errors
/// If the flags contradict each other, if `config` is not usable, or if leadership is lost.
pub async fn run_with_election_thread(
    options: Options,
    environment: Environment,
    config: Config,
    cancel: CancellationToken,
) -> Result<(), Error> {
    options.validate()?;
    let Some(candidate) = Candidate::new(&options, &environment) else {
        return ended(work(&options, &environment, Tenure::unlimited(), cancel).await);
    };
    let elector = move || {
        let client = client(config).map_err(|error| LeadershipLost(error.to_string()))?;
        Ok::<_, Error>(candidate.elector(&client))
    };
    let work = |tenure| work(&options, &environment, tenure, cancel.clone());
    ended(election::lead_on_own_thread(elector, cancel.clone(), work).await)
}

/// All that leader election needs besides a client.
struct Candidate {
    namespace: String,
    lease: &'static str,
    settings: election::Settings,
    identity: String,
    clock: Clock,
    metrics: Metrics,
    pulses: Option<Pulses>,
}

impl Candidate {
    /// `None`: leader election is disabled.
    fn new(options: &Options, environment: &Environment) -> Option<Self> {
        let given = &options.leader_election;
        given.enabled.then(|| Self {
            namespace: options.namespace.clone(),
            lease: if options.only_checks_health() {
                HEALTH_CHECK_LEASE
            } else {
                LEASE
            },
            settings: election::Settings {
                lease_duration: given.lease_duration.0,
                renew_deadline: given.renew_deadline.0,
                retry_period: given.retry_period.0,
            },
            identity: environment.identity.clone(),
            clock: environment.clock.clone(),
            metrics: environment.metrics.clone(),
            pulses: environment.pulses.clone(),
        })
    }

    fn elector(self, client: &Client) -> Elector {
        let layers = Layers {
            cluster: "control",
            user_agent: ELECTION_AGENT,
            limit: RateLimit::new(0.0, 0),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
        };
        let (readiness, metrics) = (self.metrics.readiness().clone(), self.metrics);
        Elector::new(
            layered(client, layers),
            &self.namespace,
            self.lease,
            self.identity,
            self.settings,
            self.clock,
        )
        .observed_by(move |candidacy| readiness.set(activity_of(candidacy)))
        .measured_by(move |late| metrics.observe_renewal(late))
        .lingering(defect!(LeadershipCheckedOncePerPass))
        .renewing_by_pulse(self.pulses)
    }
}

/// The activity of a candidate that does not lead.
pub(crate) fn activity_of(candidacy: Candidacy) -> Activity {
    match candidacy {
        Candidacy::Unknown => Activity::Starting,
        Candidacy::Standby => Activity::Standby,
    }
}

/// Works until `cancel`, or until a reason to end before.
async fn work(
    options: &Options,
    environment: &Environment,
    tenure: Tenure,
    cancel: CancellationToken,
) -> Result<Option<Error>, Error> {
    environment.metrics.readiness().set(Activity::Syncing);
    let layers = |cluster, client| {
        let limit = RateLimit::new(options.kube_api_qps, options.kube_api_burst);
        behind_layers(environment, cluster, CONTROLLER_AGENT, limit, client)
    };
    let control = layers("control", &environment.control);
    let target = environment.target.as_ref().map(|target| layers("target", target));
    let runs = |controller| options.controllers.contains(&controller);
    let enabled = EnabledControllers {
        machines: runs(Controller::Machine),
        sets: runs(Controller::Set),
        deployments: runs(Controller::Deployment),
        health_checks: runs(Controller::MachineHealthCheck),
    };
    let state = ClusterState::new(&options.namespace, target.is_some(), enabled, environment.clock.now());
    environment.metrics.show(state.machines.clone());
    environment
        .metrics
        .show_owners(state.sets.clone(), state.deployments.clone());
    environment.metrics.show_damage({
        let state = state.clone();
        move || state.damaged()
    });
    environment.driver.attach(Arc::new(state.clone()));
    let clock = environment.clock.clone();
    let guard = state.guard.clone();
    let executor = ActionExecutor {
        control: control.clone(),
        target: target.clone(),
        driver: Arc::clone(&environment.driver),
        clock: clock.clone(),
        metrics: environment.metrics.clone(),
        recorder: EventRecorder::new(
            clock,
            environment.identity.clone(),
            environment.seed.stream("event names"),
        ),
        tokens: Mutex::new(environment.seed.stream("bootstrap tokens")),
        created_tokens: Mutex::default(),
        tenure: tenure.clone(),
        guard: guard.clone(),
        claiming: tokio::sync::Mutex::default(),
        state,
    };
    let concurrency = usize::try_from(options.concurrent_syncs).unwrap_or(1);
    let controllers = Arc::new(Controllers {
        executor,
        settings: settings(options),
        pending_statuses: PendingStatuses::default(),
        created_vms: CreatedVms::default(),
        copies: LastTimes::default(),
        failed_calls: LastTimes::default(),
        power_questions: LastTimes::default(),
        slots: WorkerSlots::new(concurrency),
        update_support: UpdateSupport::default(),
        reported_damage: ReportedDamage::default(),
        tolerated_outage: options.safety.apiserver_check_timeout.0,
        health_check_settings: health_check_settings(&options.health_check),
        resources: Resources::default(),
        overshoot_guard: OvershootGuard::new(mcm_core::overshoot::Settings {
            up: i64::from(options.overshoot.up),
            down: i64::from(options.overshoot.down),
            period: options.overshoot.overshooting_period.0,
        }),
        machine_names: MachineNames::new(environment.seed.stream("machine names")),
        deployment_settings: mcm_core::deployment::Settings {
            keep_autoscaler_away: options.autoscaler_scaledown_annotation_during_rollout,
            honours_min_ready_seconds: options.honour_min_ready_seconds,
        },
    });
    let safety = Safety {
        controllers: Arc::clone(&controllers),
        settings: safety_settings(options),
    };
    let all_ended = tokio::select! {
        biased;
        all_ended = Box::pin(controllers.run(&control, target.as_ref(), cancel)) => all_ended,
        never = Box::pin(safety.run()) => match never {},
        empty = Box::pin(safety.caches_stay_empty()) => return Ok(Some(empty)),
    };
    if !all_ended || guard.is_collecting() {
        tenure.let_expire();
    }
    Ok(None)
}

fn behind_layers(
    environment: &Environment,
    cluster: &'static str,
    user_agent: &'static str,
    limit: RateLimit,
    client: &Client,
) -> Client {
    let clock = environment.clock.clone();
    layered(
        client,
        Layers {
            cluster,
            user_agent,
            limit,
            clock,
            metrics: environment.metrics.clone(),
        },
    )
}

fn safety_settings(options: &Options) -> safety::Settings {
    let given = &options.safety;
    safety::Settings {
        api: api_health::Settings {
            period: given.apiserver_check_period.0,
            timeout: given.apiserver_check_timeout.0,
        },
        orphans: orphans::Settings {
            period: given.orphan_vms_period.0,
            maximum: given.max_orphan_vms,
        },
        // The collection would hide the effect of the first of these defects.
        housekeeping: options.controllers.contains(&Controller::Safety)
            && !defect!(CreationAndDeletionAtOnce | OrphansNeverCollected),
    }
}

fn settings(options: &Options) -> Settings {
    let retry = &options.retry;
    let long = retry.long.0;
    Settings {
        creation_timeout: options.machine.creation_timeout.0,
        health_timeout: options.machine.health_timeout.0,
        drain_timeout: options.machine.drain_timeout.0,
        max_evict_retries: options
            .machine
            .max_evict_retries
            .map(|retries| u32::try_from(retries).unwrap_or(0)),
        detach_timeout: options.machine.pv_detach_timeout.0,
        reattach_timeout: options.machine.pv_reattach_timeout.0,
        in_place_update_timeout: options.machine.in_place_update_timeout.0,
        node_conditions: options.machine.node_conditions.clone(),
        bootstrap_token_extra_groups: options.machine.bootstrap_token_auth_extra_groups.clone(),
        preserve_timeout: options.preservation.timeout.0,
        preservation: options.preservation.dialect.dialect(),
        fencing: options.preservation.fencing.fencing(),
        retry: Retry {
            conflict: retry.conflict.0,
            short: retry.short.0,
            medium: retry.medium.0,
            long,
            resource_exhausted: if retry.resource_exhausted.0.is_zero() {
                long
            } else {
                retry.resource_exhausted.0
            },
            eviction: retry.eviction.0,
        },
    }
}
