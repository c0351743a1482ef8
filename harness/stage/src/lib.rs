//! Stages: the worlds that scenarios run on (`sim`, `embedded`, `envtest`, `kubeconfig`, `kind`).
//!
//! A stage starts control planes, the simulated cloud and mcm, passes the running world to a [`Performer`], and stops
//! everything afterwards. It does not interpret scenarios or judge runs.

mod apply;
pub mod audit;
pub mod child;
pub mod cloud;
mod cloud_config;
mod cloud_process;
pub mod clusters;
mod controller;
pub mod controller_metrics;
mod controller_program;
pub mod controllers;
pub mod deploy;
mod gated;
mod health_check_process;
pub mod kind;
pub mod kind_api;
mod kubelet_calls;
pub mod leftovers;
pub mod logs;
mod naming;
mod objects;
pub mod pair;
pub mod plan;
pub mod plane;
pub mod ports;
pub mod processes;
mod proxy;
mod pulses;
mod replicas;
pub mod restarts;
pub mod result;
pub mod role;
pub mod run_folder;
mod session_run;
pub mod setup;
pub mod sim;
mod supervised;
mod tokens;
mod traced;
pub mod writes;

use std::future::Future;
use std::time::Duration;

use apiserver::faults::Faults;
use clock::Clock;
use cloud::CloudClient;
use clusters::Clusters;
use defects::Defect;
use jiff::Timestamp;
use judge::ScenarioOutcome;
use judge::evaluate::short;
use k8s_openapi::api::coordination::v1::Lease;
use runtime::error::brief;
use scenario::step::{Crash, CrashNext, Process, ProcessAction};
use scenario::{Scenario, Step, Timeouts};

pub use self::apply::{ApplyError, apply, merge};
pub use self::objects::ObjectError;
pub use self::result::StageResult;
use crate::audit::Audit;
use crate::child::ChildError;
use crate::cloud::CloudError;
use crate::deploy::{DeployError, MCM_ACCOUNT};
use crate::kind::KindError;
use crate::plan::hits::InvalidRule;
use crate::plane::existing::SessionError;
use crate::plane::{FileError, KubeconfigError, PlaneError};
use crate::ports::PortError;
use crate::setup::SetupError;

/// The namespace of a scenario's objects on a stage with a dedicated cluster.
pub const NAMESPACE: &str = "drydock";

/// Errors of starting a world, performing a step and removing the world.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// A program does not start.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A program does not listen on its port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A call to fakecloud fails.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// A control plane does not start, or provides no credentials.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// A kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// An existing cluster cannot be used or cleaned up.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A kind cluster cannot be used or cleaned up.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// The common objects of every world cannot be written.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The objects of `deploy/` cannot be written.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// A fault rule for the API server is invalid.
    #[error(transparent)]
    Rule(#[from] InvalidRule),
    /// The leader of mcm is unknown.
    #[error(transparent)]
    Leader(#[from] LeaderError),
    /// The defect is unknown, or this build has no defects.
    #[error(transparent)]
    Mutant(#[from] MutantError),
    /// The address of the driver cannot be parsed.
    #[error("{address:?} is not an address of a driver: {source}")]
    DriverAddress {
        /// The address.
        address: String,
        /// The cause.
        source: tonic::transport::Error,
    },
    /// This stage cannot stop and start the process.
    #[error(
        "{0} are not a separate process on this stage: only mcm, fakecloud and registering drivers can be stopped and started"
    )]
    NoProcess(Process),
    /// The process has no leader election.
    #[error("{0} has no leader: kill it")]
    NoLeader(Process),
    /// A step requests a crash at an effect, but this run does not count effects.
    #[error("the effects of {0} are not counted in this run")]
    NotCounted(Process),
    /// Effects of mcm cannot be counted, because drivers register with it.
    #[error("the effects of mcm are not counted on this stage while drivers register with it: use --stage sim")]
    DriversNotCounted,
    /// Drivers cannot register with another controller.
    #[error("the drivers of this scenario register with mcm: run it without --controller")]
    ForeignRegistry,
    /// A step requests a crash at an effect of a pod.
    #[error("the effects of a pod are not counted: kill it with the step `process`")]
    PodNotCounted,
    /// A step requests a crash at an effect that has already happened.
    #[error("{process} already had {effects} effects: effect {effect} is in the past")]
    EffectPassed {
        /// The process.
        process: Process,
        /// The number of effects so far.
        effects: u64,
        /// The effect.
        effect: u64,
    },
    /// A step requests a crash at the next effect, at which one is armed.
    #[error("a crash of {0} at its next effect is already armed")]
    CrashArmed(Process),
    /// A step requests a pause, but the requests of the process pass no gate.
    #[error("{0} cannot be paused in this run")]
    NoPause(Process),
    /// A step requests a pause on a stage without gates.
    #[error("{0} can be paused only where its requests pass a gate: on stages sim, embedded, envtest and kubeconfig")]
    NoGate(Process),
    /// The stage cannot distinguish the requests of replicas.
    #[error("this stage cannot distinguish the requests of {holder} from those of other replicas: use `by: mcm`")]
    NoAgent {
        /// The replica, by its identity in the Lease.
        holder: String,
    },
    /// The simulation exceeds its limit of events.
    #[error("it runs away: more than {limit} events (limits.events)")]
    TooManyEvents {
        /// The limit.
        limit: u64,
    },
    /// The simulation exceeds its limit of virtual time.
    #[error("it runs away: more than {} of virtual time (limits.virtualTime)", short(*limit))]
    TooLong {
        /// The limit.
        limit: Duration,
    },
    /// The run failed, and so did the cleanup after it.
    #[error("{run}; then {left}")]
    Untidy {
        /// Why the run failed.
        #[source]
        run: Box<StageError>,
        /// Why the cleanup failed.
        left: Box<StageError>,
    },
}

/// A running world: the four CRDs, the class `class-a` with its Secret, the cloud and mcm.
pub trait Stage {
    /// The clock of observations.
    fn clock(&self) -> &Clock;

    /// The values of named durations.
    fn timeouts(&self) -> &Timeouts;

    /// The namespace of the scenario's objects and of mcm's Lease.
    fn namespace(&self) -> &str;

    /// The harness's client of the control cluster.
    fn client(&self) -> kube::Client;

    /// The harness's clients of the control cluster and the target cluster, which may be the same.
    fn clusters(&self) -> Clusters {
        Clusters::one(self.client())
    }

    /// A client of the fake cloud's control API.
    fn cloud(&self) -> CloudClient;

    /// Stops or starts a process. Returns after a started process is up.
    ///
    /// # Errors
    /// When the process does not start, or the leader to kill is unknown.
    fn process(&mut self, process: Process, action: ProcessAction) -> impl Future<Output = Result<(), StageError>>;

    /// Arms a crash at an effect.
    ///
    /// # Errors
    /// When this stage cannot count effects.
    fn crash(&mut self, crash: &Crash) -> Result<(), StageError>;

    /// Arms a crash at the next effect, and returns which one that is.
    ///
    /// # Errors
    /// When this stage cannot count effects.
    fn crash_next(&mut self, crash: &CrashNext) -> Result<Crash, StageError>;

    /// Whether an armed crash has killed its process.
    fn has_crash_hit(&self, _crash: &Crash) -> bool {
        true
    }

    /// Records a disturbance by the scenario or a hit of an injected fault in the trace; `target` is what it affects.
    /// Stages without a trace ignore it.
    fn fault(&self, target: &str, what: &str);

    /// The trace of a simulated world.
    fn trace(&self) -> Option<&::sim::Trace> {
        None
    }

    /// Announces the remaining steps, including the one that starts now.
    fn ahead(&mut self, _steps: &[Step]) {}

    /// The fault rules of the API server; `None` unless it is the embedded server.
    fn api_faults(&self) -> Option<Faults> {
        None
    }

    /// A pattern that matches the client name of one mcm at the API server: of the replica with the identity
    /// `holder`, or of all replicas if `None`.
    ///
    /// # Errors
    /// When this stage cannot distinguish replicas.
    fn agent_of_mcm(&self, holder: Option<&str>) -> Result<String, StageError> {
        match holder {
            None => Ok(format!("*:{MCM_ACCOUNT}")),
            Some(holder) => Err(StageError::NoAgent {
                holder: holder.to_owned(),
            }),
        }
    }

    /// The records of the controller's requests; empty unless the servers are embedded ones.
    fn audits(&self) -> Vec<Audit> {
        Vec::new()
    }

    /// Pauses the leader among the processes of that name for a while.
    ///
    /// # Errors
    /// When this stage cannot pause processes.
    fn pause(&mut self, process: Process, _: Duration) -> impl Future<Output = Result<(), StageError>> {
        std::future::ready(Err(StageError::NoGate(process)))
    }

    /// Whether the plan of the run, apart from the scenario, may disturb the controller at any time.
    fn is_disturbed(&self) -> bool {
        false
    }

    /// When the holder of mcm's Lease last renewed it through a pulse, without a request.
    fn unheard_renewal(&self, _holder: &str) -> Option<Timestamp> {
        None
    }

    /// Whether a crash at an effect ended the mcm with the identity `holder`. Stages that do not record crashes return
    /// `false`.
    fn has_crashed(&self, _holder: &str) -> bool {
        false
    }

    /// Returns the reason when a part of the world ends unexpectedly.
    fn failure(&mut self) -> impl Future<Output = String>;
}

/// Performs a scenario on a running stage.
pub trait Performer: Sync {
    /// Performs `scenario` on `stage` and judges it.
    fn perform<S: Stage>(&self, stage: &mut S, scenario: &Scenario) -> impl Future<Output = ScenarioOutcome>;
}

/// The Lease of mcm's leader election.
pub const LEASE: &str = "machine-controller-manager";
/// How long a step waits for a leader.
const LEADER_LIMIT: Duration = Duration::from_mins(1);
/// The interval of reads of the Lease meanwhile.
const LEADER_PROBE: Duration = Duration::from_millis(100);

/// Errors of finding the leader of mcm.
#[derive(Debug, thiserror::Error)]
pub enum LeaderError {
    /// The Lease cannot be read.
    #[error("cannot read the Lease {namespace}/{LEASE}: {}", brief(source))]
    Read {
        /// The namespace of the Lease.
        namespace: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// No mcm becomes the leader in time.
    #[error("no mcm leads: the Lease {namespace}/{LEASE} has no holder")]
    NoHolder {
        /// The namespace of the Lease.
        namespace: String,
    },
    /// The holder is not one of the running processes.
    #[error("the Lease {namespace}/{LEASE} is held by {holder:?}, which is not one of the running processes")]
    NoProcess {
        /// The namespace of the Lease.
        namespace: String,
        /// The holder.
        holder: String,
    },
    /// The holder is not one of the pods of mcm.
    #[error("the Lease {namespace}/{LEASE} is held by {holder:?}, which is not one of the pods")]
    NoPod {
        /// The namespace of the Lease.
        namespace: String,
        /// The holder.
        holder: String,
    },
    /// The holder is not one of the replicas behind gates.
    #[error("the Lease is held by {holder:?}, which is not one of the replicas of this run")]
    NoReplica {
        /// The holder.
        holder: String,
    },
}

/// Errors of planting a defect.
#[derive(Debug, thiserror::Error)]
pub enum MutantError {
    /// This build has no defects.
    #[error("this build has no mutants, so mutant {name:?} is not available")]
    NotBuilt {
        /// The requested defect.
        name: String,
    },
    /// No defect has that name.
    #[error("there is no mutant {name:?}; there are {}", known_mutants())]
    Unknown {
        /// The name.
        name: String,
    },
}

fn known_mutants() -> String {
    let known: Vec<&str> = Defect::ALL.iter().map(|defect| defect.id()).collect();
    known.join(", ")
}

/// Waits until the Lease of mcm in `namespace` has a holder. Returns the holder's identity, which begins with the host
/// name of its process.
///
/// # Errors
/// When the Lease cannot be read, or has no holder after a minute of the stage's clock.
pub async fn leader(client: &kube::Client, namespace: &str, clock: &Clock) -> Result<String, LeaderError> {
    let leases: kube::Api<Lease> = kube::Api::namespaced(client.clone(), namespace);
    let holder = async {
        loop {
            let lease = leases.get_opt(LEASE).await;
            let lease = lease.map_err(|source| LeaderError::Read {
                namespace: namespace.to_owned(),
                source: Box::new(source),
            })?;
            let holder = lease.and_then(|lease| lease.spec?.holder_identity);
            match holder.filter(|holder| !holder.is_empty()) {
                Some(holder) => return Ok(holder),
                None => clock.sleep(LEADER_PROBE).await,
            }
        }
    };
    tokio::time::timeout(LEADER_LIMIT, holder).await.unwrap_or_else(|_| {
        Err(LeaderError::NoHolder {
            namespace: namespace.to_owned(),
        })
    })
}

/// The index of the process in `names` that the identity of a Lease's holder belongs to. The identity is the process's
/// name and a suffix.
pub fn holder_among<'a>(holder: &str, names: impl IntoIterator<Item = &'a str>) -> Option<usize> {
    let of = |name: &str| {
        let rest = holder.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['_', '.']))
    };
    names.into_iter().position(of)
}

/// The names of driver processes: `driver-0` and so on.
fn names_of_drivers(drivers: u32) -> Vec<String> {
    (0..drivers).map(|number| format!("driver-{number}")).collect()
}

/// The provider-specific kinds of classes that drivers convert.
const CLASS_KINDS: &str = "AWSMachineClass";

/// The names of the replicas of mcm: `mcm` for one, else `mcm-0`, `mcm-1` and so on.
pub fn names_of_mcm(replicas: u32) -> Vec<String> {
    match replicas {
        0 | 1 => vec!["mcm".to_owned()],
        replicas => (0..replicas).map(|number| format!("mcm-{number}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_found_by_its_host_name() {
        let names = ["mcm-1", "mcm-10"];
        assert_eq!(holder_among("mcm-10_7f3a", names), Some(1));
        assert_eq!(holder_among("mcm-1_7f3a", names), Some(0));
        assert_eq!(holder_among("mcm-100_7f3a", names), None);
        assert_eq!(holder_among("mcm-2_7f3a", names), None);
    }

    #[test]
    fn a_single_mcm_has_no_number_in_its_name() {
        assert_eq!(names_of_mcm(1), ["mcm"]);
        assert_eq!(names_of_mcm(2), ["mcm-0", "mcm-1"]);
    }
}
