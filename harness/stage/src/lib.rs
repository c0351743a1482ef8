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
use futures::stream::BoxStream;
use jiff::Timestamp;
use judge::ScenarioOutcome;
use k8s_openapi::api::coordination::v1::Lease;
use scenario::observation::Request;
use scenario::step::{Crash, Process, ProcessAction};
use scenario::{Scenario, Step, Timeouts};

pub use self::apply::{apply, merge};
pub use self::result::StageResult;
use crate::deploy::MCM_ACCOUNT;

/// The namespace of a scenario's objects on a stage whose cluster nobody shares.
pub const NAMESPACE: &str = "drydock";

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
    fn one_mcm_has_the_plain_name() {
        assert_eq!(names_of_mcm(1), ["mcm"]);
        assert_eq!(names_of_mcm(2), ["mcm-0", "mcm-1"]);
    }
}
