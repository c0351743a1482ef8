//! Stages: the worlds that scenarios run on (`sim`, `embedded`, `envtest`, `kubeconfig`, `kind`).
//!
//! A stage brings up control planes, the simulated cloud and mcm, hands the running world to a [`Performer`], and takes
//! everything down again. It does not know what a scenario means or how a run is judged.

mod apply;
pub mod audit;
pub mod child;
pub mod cloud;
mod cloud_config;
mod cloud_process;
pub mod clusters;
mod controller;
pub mod controllers;
pub mod deploy;
mod gated;
pub mod kind;
pub mod kind_api;
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
pub mod result;
pub mod role;
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
use futures::stream::BoxStream;
use jiff::Timestamp;
use judge::ScenarioOutcome;
use judge::evaluate::short;
use k8s_openapi::api::coordination::v1::Lease;
use scenario::observation::Request;
use scenario::step::{Crash, Process, ProcessAction};
use scenario::{Scenario, Step, Timeouts};

pub use self::apply::{ApplyError, apply, merge};
pub use self::objects::ObjectError;
pub use self::result::StageResult;
use crate::child::ChildError;
use crate::cloud::CloudError;
use crate::deploy::{DeployError, MCM_ACCOUNT};
use crate::kind::KindError;
use crate::plan::hits::InvalidRule;
use crate::plane::existing::SessionError;
use crate::plane::{FileError, KubeconfigError, PlaneError};
use crate::ports::PortError;
use crate::setup::SetupError;

/// The namespace of a scenario's objects on a stage whose cluster nobody shares.
pub const NAMESPACE: &str = "drydock";

/// Why a world does not come up, does not do what a step asks for, or is not removed.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// A program does not start.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A program does not listen.
    #[error(transparent)]
    Port(#[from] PortError),
    /// fakecloud does not do what is asked for.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// A control plane does not start, or gives no account.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// A kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// A file is not written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A cluster that exists cannot be used, or is not left as it was.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A kind cluster cannot be used, or is not left as it was.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// Objects that every world has are not written.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Objects of `deploy/` are not written.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// A rule for the API server is wrong.
    #[error(transparent)]
    Rule(#[from] InvalidRule),
    /// The leader of mcm is not known.
    #[error(transparent)]
    Leader(#[from] LeaderError),
    /// The defect to plant is unknown, or none can be planted.
    #[error(transparent)]
    Mutant(#[from] MutantError),
    /// The address of the driver cannot be parsed.
    #[error("{address:?} is no address of a driver: {source}")]
    DriverAddress {
        /// The address.
        address: String,
        /// What is wrong with it.
        source: tonic::transport::Error,
    },
    /// The process does not end and start on this stage.
    #[error("{0} are no process of their own on this stage: only mcm and fakecloud end and start")]
    NoProcess(Process),
    /// The process has no replicas of which one leads.
    #[error("{0} has no leader: kill it")]
    NoLeader(Process),
    /// A crash at an effect is asked for where effects are not counted.
    #[error("the effects of {0} are not counted in this run")]
    NotCounted(Process),
    /// A crash at an effect is asked for on a cluster.
    #[error("the effects of a pod are not counted: kill it with the step `process`")]
    PodNotCounted,
    /// A crash is asked for at an effect that the process has had.
    #[error("{process} have {effects} effects behind them: effect {effect} is past")]
    EffectPassed {
        /// The process.
        process: Process,
        /// How many effects it has had.
        effects: u64,
        /// The effect.
        effect: u64,
    },
    /// A pause is asked for where the requests of the process pass no gate.
    #[error("{0} cannot stand still in this run")]
    NoPause(Process),
    /// A pause is asked for on a stage that has no gates.
    #[error("{0} stands still where its requests pass a gate: on stages sim, embedded, envtest and kubeconfig")]
    NoGate(Process),
    /// The stage does not tell the requests of one replica from those of another.
    #[error("the requests of {holder} look like those of any mcm on this stage: use `by: mcm`")]
    NoAgent {
        /// The replica, as it holds the Lease.
        holder: String,
    },
    /// The simulation has more events than its limit.
    #[error("it runs away: more than {limit} events (limits.events) and no end")]
    TooManyEvents {
        /// The limit.
        limit: u64,
    },
    /// The simulation takes more virtual time than its limit.
    #[error("it runs away: {} of virtual time (limits.virtualTime) and no end", short(*limit))]
    TooLong {
        /// The limit.
        limit: Duration,
    },
    /// What a run made is left, after the run itself failed.
    #[error("{run}; then {left}")]
    Untidy {
        /// Why the run failed.
        #[source]
        run: Box<StageError>,
        /// What is left.
        left: Box<StageError>,
    },
}

/// A world that is up: the four CRDs, the class `class-a` with its Secret, the cloud and mcm.
pub trait Stage {
    /// The time that observations are stamped with.
    fn clock(&self) -> &Clock;

    /// What named durations are worth.
    fn timeouts(&self) -> &Timeouts;

    /// Where the scenario's namespaced objects live, and mcm's Lease.
    fn namespace(&self) -> &str;

    /// A client of the API server that holds machines, as the harness itself.
    fn client(&self) -> kube::Client;

    /// Clients of that one and of the one that nodes join, which may be the same.
    fn clusters(&self) -> Clusters {
        Clusters::one(self.client())
    }

    /// A client of the fake cloud's controls.
    fn cloud(&self) -> CloudClient;

    /// Ends or starts a process. Done when what was to start is up.
    ///
    /// # Errors
    /// When the process does not start, or the leader that is to be killed is not known.
    fn process(&mut self, process: Process, action: ProcessAction) -> impl Future<Output = Result<(), StageError>>;

    /// Arms a crash at an effect.
    ///
    /// # Errors
    /// When this stage cannot count effects.
    fn crash(&mut self, crash: &Crash) -> Result<(), StageError>;

    /// Records what the scenario does to the world against its will, and whom an injected fault struck:
    /// `target` is what is struck. Only a stage with a trace has somewhere to record it.
    fn fault(&self, target: &str, what: &str);

    /// Tells which steps are left, the one that begins among them.
    fn ahead(&mut self, _steps: &[Step]) {}

    /// The fault rules of the API server, where it is ours.
    fn api_faults(&self) -> Option<Faults> {
        None
    }

    /// A pattern of the client that one mcm is to the API server: that which holds the Lease as `holder`; `None`: all.
    ///
    /// # Errors
    /// When this stage cannot tell one from another.
    fn agent_of_mcm(&self, holder: Option<&str>) -> Result<String, StageError> {
        match holder {
            None => Ok(format!("*:{MCM_ACCOUNT}")),
            Some(holder) => Err(StageError::NoAgent {
                holder: holder.to_owned(),
            }),
        }
    }

    /// What the controller asks of the API server about one object, from now on; once. `None`: the server is not ours.
    fn requests(&mut self) -> Option<BoxStream<'static, Request>> {
        None
    }

    /// Lets the process of that name that leads stand still for a while.
    ///
    /// # Errors
    /// When this stage cannot.
    fn pause(&mut self, process: Process, _: Duration) -> impl Future<Output = Result<(), StageError>> {
        std::future::ready(Err(StageError::NoGate(process)))
    }

    /// Whether the plan of the run, beside the scenario, may disturb the controller at any time.
    fn is_disturbed(&self) -> bool {
        false
    }

    /// When whoever holds mcm's Lease renewed it last without a request, which happens only where nobody would miss one.
    fn unheard_renewal(&self, _holder: &str) -> Option<Timestamp> {
        None
    }

    /// Whether a crash at an effect ended the mcm that held the Lease as `holder`. Only a stage that knows says so.
    fn has_crashed(&self, _holder: &str) -> bool {
        false
    }

    /// Returns, with a sentence, when a part of the world ends that nobody ended.
    fn trouble(&mut self) -> impl Future<Output = String>;
}

/// Performs a scenario on a stage that is up.
pub trait Performer: Sync {
    /// Performs `scenario` on `stage` and judges it.
    fn perform<S: Stage>(&self, stage: &mut S, scenario: &Scenario) -> impl Future<Output = ScenarioOutcome>;
}

/// The Lease by which one of several mcm leads.
pub const LEASE: &str = "machine-controller-manager";
/// How long a step waits for somebody to lead.
const LEADER_LIMIT: Duration = Duration::from_mins(1);
/// How often it looks meanwhile.
const LEADER_PROBE: Duration = Duration::from_millis(100);

/// Why the leader of mcm is not known.
#[derive(Debug, thiserror::Error)]
pub enum LeaderError {
    /// The Lease cannot be read.
    #[error("cannot read the Lease {namespace}/{LEASE}: {source}")]
    Read {
        /// The namespace of the Lease.
        namespace: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// No mcm leads in time.
    #[error("no mcm leads: the Lease {namespace}/{LEASE} has no holder")]
    NoHolder {
        /// The namespace of the Lease.
        namespace: String,
    },
    /// The holder is not among the processes that run.
    #[error("the Lease {namespace}/{LEASE} is held by {holder:?}, which is none of the processes that run")]
    NoProcess {
        /// The namespace of the Lease.
        namespace: String,
        /// The holder.
        holder: String,
    },
    /// The holder is not among the pods of mcm.
    #[error("the Lease {namespace}/{LEASE} is held by {holder:?}, which is none of the pods")]
    NoPod {
        /// The namespace of the Lease.
        namespace: String,
        /// The holder.
        holder: String,
    },
    /// The holder is not among the replicas behind gates.
    #[error("the Lease is held by {holder:?}, which is none of the replicas of this run")]
    NoReplica {
        /// The holder.
        holder: String,
    },
}

/// Why a defect is not planted.
#[derive(Debug, thiserror::Error)]
pub enum MutantError {
    /// The build has no defects.
    #[error("this build has no mutants, so none called {name:?}")]
    NotBuilt {
        /// The defect that is asked for.
        name: String,
    },
    /// There is no defect of that name.
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

/// Who holds the Lease of mcm in `namespace`: its identity, which begins with the host name of its process. Waits until
/// somebody does.
///
/// # Errors
/// When the Lease cannot be read, or has no holder after a minute of the stage's clock.
pub async fn leader(client: &kube::Client, namespace: &str, clock: &Clock) -> Result<String, LeaderError> {
    let leases: kube::Api<Lease> = kube::Api::namespaced(client.clone(), namespace);
    let looking = async {
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
    tokio::time::timeout(LEADER_LIMIT, looking).await.unwrap_or_else(|_| {
        Err(LeaderError::NoHolder {
            namespace: namespace.to_owned(),
        })
    })
}

/// The process of that name among `names` whose identity a Lease's holder has: its name and a suffix.
pub fn holder_among<'a>(holder: &str, names: impl IntoIterator<Item = &'a str>) -> Option<usize> {
    let of = |name: &str| {
        let rest = holder.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['_', '.']))
    };
    names.into_iter().position(of)
}

/// The names of so many mcm: `mcm`, or `mcm-0`, `mcm-1` and so on.
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
    fn a_holder_is_known_by_its_host_name() {
        let names = ["mcm-1", "mcm-10"];
        assert_eq!(holder_among("mcm-10_7f3a", names), Some(1));
        assert_eq!(holder_among("mcm-1_7f3a", names), Some(0));
        assert_eq!(holder_among("mcm-100_7f3a", names), None);
        assert_eq!(holder_among("mcm-2_7f3a", names), None);
    }

    #[test]
    fn one_mcm_has_the_plain_name() {
        assert_eq!(names_of_mcm(1), ["mcm"]);
        assert_eq!(names_of_mcm(2), ["mcm-0", "mcm-1"]);
    }
}
