//! Stages: where a scenario runs.
//!
//! What lives here: what a stage must be able to do, and the stages that exist. What must not: what
//! a scenario means.

pub mod audit;
pub mod child;
pub mod cloud;
mod cloud_process;
pub mod clusters;
mod controller;
pub mod controllers;
mod gated;
pub mod kind;
pub mod logs;
mod naming;
mod objects;
pub mod pair;
pub mod plane;
pub mod ports;
pub mod processes;
mod proxy;
mod pulses;
mod replicas;
pub mod role;
pub mod setup;
pub mod sim;
mod supervised;
pub(crate) use supervised::RESTART_DELAY;
mod tokens;
mod traced;
pub mod writes;

use std::future::Future;
use std::time::Duration;

use apiserver::faults::Faults;
use clock::Clock;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use serde::{Deserialize, Serialize};

use crate::deploy::MCM_ACCOUNT;
use crate::engine::observe::Request;
use crate::scenario::step::{Crash, Process, ProcessAction};
use crate::scenario::{Step, Timeouts};
use cloud::CloudClient;
use clusters::Clusters;

/// The namespace of a scenario's objects on a stage whose cluster nobody shares.
pub const NAMESPACE: &str = "drydock";

/// The stages that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// Everything in this process, in virtual time, replayed from a seed.
    Sim,
    /// The API server in this process; mcm and fakecloud are processes of their own; wall clock.
    Embedded,
    /// As `embedded`, with a real etcd and kube-apiserver as child processes.
    Envtest,
    /// As `embedded`, with a cluster that is there, in a namespace of its own.
    Kubeconfig,
    /// A cluster of kind's; mcm and fakecloud are pods in it.
    Kind,
}

impl StageKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sim, Self::Embedded, Self::Envtest, Self::Kubeconfig, Self::Kind];

    /// Why nothing can strike that process at an effect on this stage; `None`: it can.
    pub fn why_no_gate(self, process: Process) -> Option<&'static str> {
        match (self, process) {
            (Self::Sim, _) | (Self::Embedded | Self::Envtest | Self::Kubeconfig, Process::Mcm) => None,
            (Self::Kind, Process::Mcm) => Some("the effects of a pod are not counted; use --stage embedded or sim"),
            (_, Process::Controllers) => Some("the controllers are a process of their own on stage sim only"),
            (_, Process::Fakecloud) => Some("fakecloud's effects are counted on stage sim only"),
        }
    }

    /// Why a world whose machines are on this stage cannot have its nodes on `target`; `None`: it can.
    pub fn why_no_target(self, target: Self) -> Option<String> {
        let fits = (self == Self::Sim) == (target == Self::Sim);
        let words = "virtual time and the wall clock do not mix; sim goes with sim, the others with each other";
        (!fits)
            .then(|| format!("nodes of a control cluster on stage {self} cannot join one on stage {target}: {words}"))
    }

    /// Whether all runs use one cluster, so that they come one after another.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Kubeconfig | Self::Kind)
    }

    /// Of this stage, and the one where nodes join if that is another, the first whose cluster all runs use.
    pub fn shared_of(self, target: Option<Self>) -> Option<Self> {
        std::iter::once(self).chain(target).find(|stage| stage.is_shared())
    }
}

impl std::fmt::Display for StageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sim => "sim",
            Self::Embedded => "embedded",
            Self::Envtest => "envtest",
            Self::Kubeconfig => "kubeconfig",
            Self::Kind => "kind",
        })
    }
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
    /// A sentence: what could not be done, or why nobody is the leader that is to be killed.
    fn process(&mut self, process: Process, action: ProcessAction) -> impl Future<Output = Result<(), String>>;

    /// Arms a crash at an effect.
    ///
    /// # Errors
    /// When this stage cannot count effects.
    fn crash(&mut self, crash: &Crash) -> Result<(), String>;

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
    fn agent_of_mcm(&self, holder: Option<&str>) -> Result<String, String> {
        match holder {
            None => Ok(format!("*:{MCM_ACCOUNT}")),
            Some(holder) => Err(format!(
                "the requests of {holder} look like those of any mcm on this stage: use `by: mcm`"
            )),
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
    fn pause(&mut self, process: Process, _: Duration) -> impl Future<Output = Result<(), String>> {
        std::future::ready(Err(format!(
            "{process} stands still where its requests pass a gate: on stages sim, embedded, envtest and kubeconfig"
        )))
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

/// The Lease by which one of several mcm leads.
pub const LEASE: &str = "machine-controller-manager";
/// How long a step waits for somebody to lead.
const LEADER_LIMIT: Duration = Duration::from_mins(1);
/// How often it looks meanwhile.
const LEADER_PROBE: Duration = Duration::from_millis(100);

/// Who holds the Lease of mcm in `namespace`: its identity, which begins with the host name of its process. Waits until
/// somebody does.
///
/// # Errors
/// When the Lease cannot be read, or nobody holds it after a minute of the stage's clock.
pub async fn leader(client: &kube::Client, namespace: &str, clock: &Clock) -> Result<String, String> {
    let leases: kube::Api<Lease> = kube::Api::namespaced(client.clone(), namespace);
    let looking = async {
        loop {
            let lease = leases.get_opt(LEASE).await;
            let lease = lease.map_err(|error| format!("cannot read the Lease {namespace}/{LEASE}: {error}"))?;
            let holder = lease.and_then(|lease| lease.spec?.holder_identity);
            match holder.filter(|holder| !holder.is_empty()) {
                Some(holder) => return Ok(holder),
                None => clock.sleep(LEADER_PROBE).await,
            }
        }
    };
    tokio::time::timeout(LEADER_LIMIT, looking)
        .await
        .unwrap_or_else(|_| Err(format!("nobody leads: the Lease {namespace}/{LEASE} has no holder")))
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
    fn what_runs_in_virtual_time_has_its_nodes_there() {
        for (stage, target) in StageKind::ALL
            .into_iter()
            .flat_map(|one| StageKind::ALL.map(|other| (one, other)))
        {
            let virtual_ones = [stage, target]
                .into_iter()
                .filter(|stage| *stage == StageKind::Sim)
                .count();
            assert_eq!(
                stage.why_no_target(target).is_none(),
                virtual_ones != 1,
                "{stage} {target}"
            );
        }
    }

    #[test]
    fn one_mcm_has_the_plain_name() {
        assert_eq!(names_of_mcm(1), ["mcm"]);
        assert_eq!(names_of_mcm(2), ["mcm-0", "mcm-1"]);
    }
}
