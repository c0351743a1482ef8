//! Creates the common objects of every world before its first step, and sets the options of mcm on a stage.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clock::Clock;
use judge::object::text;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{Api, DeleteParams, PostParams};
use mcm_api::{GoDuration, Machine};
use runtime::error::brief;
use scenario::kinds::Kinds;
use scenario::{HealthChecks, McmSettings, PreserveFencing, Scenario, Timeouts, fixtures};
use serde_json::Value;

use super::clusters::Clusters;
use crate::apply::{ApplyError, ESTABLISHED, served};
use crate::deploy::{self, DeployError};
use crate::kind_api::KindApi;

/// The interval of discovery requests.
const DISCOVERY_PROBE: Duration = Duration::from_millis(50);

/// Errors of preparing a cluster for machines or nodes.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The API server rejects a CRD.
    #[error("cannot create the CRD {name}: {}", brief(source))]
    Definition {
        /// The definition.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// An object cannot be written, or a CRD is not served.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The API server rejects the deletion of an object of the world.
    #[error("cannot remove {object}: {}", brief(source))]
    Remove {
        /// The object.
        object: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The objects of `deploy/` cannot be written.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// Discovery cannot be read.
    #[error("{}", brief(.0))]
    Discovery(kube::Error),
    /// Discovery does not list the machine API in time.
    #[error("discovery does not list {group} after {ESTABLISHED:?}")]
    NotDiscovered {
        /// The group of the machine API.
        group: String,
    },
    /// The API server rejects the namespace.
    #[error("cannot create the namespace {name}: {}", brief(source))]
    Namespace {
        /// The namespace.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The watch for the default service account of a namespace fails.
    #[error("cannot watch for the default service account of namespace {namespace}: {source}")]
    WatchAccount {
        /// The namespace.
        namespace: String,
        /// The cause.
        source: Box<kube::runtime::wait::Error>,
    },
    /// A namespace does not get its default service account in time.
    #[error("namespace {namespace} has no default service account after {limit:?}: check that the controllers run")]
    NoAccount {
        /// The namespace.
        namespace: String,
        /// How long it may take.
        limit: Duration,
    },
}

/// Creates the CRDs of the machine API and waits until they are served.
///
/// # Errors
/// The first definition that is not created or not served.
pub async fn install_definitions(client: &kube::Client) -> Result<(), SetupError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    // A world with health checks adds their definition.
    let definitions = mcm_api::crd::machines();
    for definition in &definitions {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        match api.create(&PostParams::default(), definition).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(source) => {
                return Err(SetupError::Definition {
                    name: name.to_owned(),
                    source: Box::new(source),
                });
            }
        }
        served(client, name).await?;
    }
    Ok(())
}

/// Waits until discovery lists the machine API, which happens shortly after its CRDs are served.
///
/// # Errors
/// When discovery does not list it after half a minute.
pub async fn discovered(client: &kube::Client) -> Result<(), SetupError> {
    let (clock, machines) = (Clock::wall(), Machine::group(&()));
    let discovered = async {
        loop {
            let groups = client.list_api_groups().await.map_err(SetupError::Discovery)?;
            if groups.groups.iter().any(|group| group.name == machines) {
                return Ok(());
            }
            clock.sleep(DISCOVERY_PROBE).await;
        }
    };
    tokio::time::timeout(ESTABLISHED, discovered).await.unwrap_or_else(|_| {
        Err(SetupError::NotDiscovered {
            group: machines.to_string(),
        })
    })
}

/// Creates the namespace of a scenario's objects unless it exists.
///
/// # Errors
/// [`SetupError::Namespace`].
pub async fn install_namespace(client: &kube::Client, name: &str) -> Result<(), SetupError> {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    match Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(source) => Err(SetupError::Namespace {
            name: name.to_owned(),
            source: Box::new(source),
        }),
    }
}

/// Creates the class of the fixture machines and its Secret.
///
/// # Errors
/// [`SetupError::Apply`].
pub async fn install_fixtures(client: &kube::Client, namespace: &str) -> Result<(), SetupError> {
    let clusters = Clusters::one(client.clone());
    for object in [fixtures::secret(namespace), fixtures::class(namespace)] {
        crate::apply(&clusters, &Kinds::default(), namespace, &object).await?;
    }
    Ok(())
}

/// Creates the objects of a scenario's world, definitions first. Controllers must start after it: most of them end if a
/// kind that they watch is not served.
///
/// # Errors
/// [`SetupError::Apply`].
pub async fn install_world(clusters: &Clusters, namespace: &str, scenario: &Scenario) -> Result<(), SetupError> {
    let kinds = scenario.kinds();
    if scenario.world.health_checks != HealthChecks::Off {
        for object in deploy::health_checks(namespace)? {
            crate::apply(clusters, &kinds, namespace, &object).await?;
        }
    }
    if scenario.world.remediation {
        for object in deploy::remediation(namespace)? {
            crate::apply(clusters, &kinds, namespace, &object).await?;
        }
    }
    for object in scenario.world.objects() {
        crate::apply(clusters, &kinds, namespace, object).await?;
    }
    Ok(())
}

/// Removes the objects of a scenario's world that are outside of namespaces, in reverse order. Ignores absent ones.
///
/// # Errors
/// The first object that the API server does not remove.
pub async fn remove_world(clusters: &Clusters, namespace: &str, scenario: &Scenario) -> Result<(), SetupError> {
    let kinds = scenario.kinds();
    let objects: Vec<&Value> = scenario.world.objects().collect();
    for object in objects.into_iter().rev() {
        let kind = kinds.of_object(object).map_err(ApplyError::from)?;
        if kind.namespaced {
            continue;
        }
        let mut placed = object.clone();
        deploy::place(&mut placed, namespace);
        let name = text(&placed, "/metadata/name");
        let api = kind.api(clusters.of(kind), namespace);
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(source) => {
                return Err(SetupError::Remove {
                    object: format!("{} {name}", kind.kind),
                    source: Box::new(source),
                });
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// How many passes of a health check fit into the health timeout, with their default values.
const HEALTH_TIMEOUT_IN_INTERVALS: u32 = 40;

/// The options of mcm on a stage, without addresses and paths.
pub fn mcm_options(timeouts: &Timeouts, namespace: &str) -> mcm::Options {
    let mut options = mcm::Options {
        namespace: namespace.to_owned(),
        ..mcm::Options::default()
    };
    options.machine.creation_timeout = GoDuration(timeouts.creation);
    options.machine.health_timeout = GoDuration(timeouts.health);
    options.machine.drain_timeout = GoDuration(timeouts.drain);
    options.preservation.timeout = GoDuration(timeouts.preserve);
    options.retry.short = GoDuration(timeouts.short_retry);
    options.retry.medium = GoDuration(timeouts.medium_retry);
    options.retry.long = GoDuration(timeouts.long_retry);
    options.retry.eviction = GoDuration(timeouts.short_retry * 4);
    options.retry.resource_exhausted = GoDuration(timeouts.long_retry);
    options.health_check.interval = GoDuration(timeouts.health / HEALTH_TIMEOUT_IN_INTERVALS);
    options.health_check.outage_grace = GoDuration(timeouts.slack);
    options.safety.orphan_vms_period = GoDuration(timeouts.orphan_period);
    options.safety.apiserver_check_timeout = GoDuration(timeouts.api_timeout);
    options.safety.apiserver_check_period = GoDuration(timeouts.api_timeout * 2);
    // Both have the same default period.
    options.overshoot.overshooting_period = options.safety.apiserver_check_period;
    let lease = timeouts.lease_duration;
    options.leader_election.lease_duration = GoDuration(lease);
    options.leader_election.renew_deadline = GoDuration(lease * 2 / 3);
    options.leader_election.retry_period = GoDuration(lease * 2 / 15);
    options
}

/// The flags of mcm for its periods, and those that a world sets.
pub fn mcm_settings(timeouts: &Timeouts, namespace: &str, settings: McmSettings) -> Vec<String> {
    let mut options = mcm_options(timeouts, namespace);
    add_health_checks(&mut options, settings.health_checks);
    let election = &options.leader_election;
    let mut flags = vec![
        format!("--machine-creation-timeout={}", options.machine.creation_timeout),
        format!("--machine-health-timeout={}", options.machine.health_timeout),
        format!("--machine-drain-timeout={}", options.machine.drain_timeout),
        format!("--machine-preserve-timeout={}", options.preservation.timeout),
        format!("--preserve-fencing={}", mcm_fencing(settings.fencing)),
        format!(
            "--machine-safety-orphan-vms-period={}",
            options.safety.orphan_vms_period
        ),
        format!(
            "--machine-safety-apiserver-statuscheck-timeout={}",
            options.safety.apiserver_check_timeout
        ),
        format!(
            "--machine-safety-apiserver-statuscheck-period={}",
            options.safety.apiserver_check_period
        ),
        format!(
            "--machine-safety-overshooting-period={}",
            options.overshoot.overshooting_period
        ),
        format!("--short-retry={}", options.retry.short),
        format!("--medium-retry={}", options.retry.medium),
        format!("--long-retry={}", options.retry.long),
        format!("--eviction-retry={}", options.retry.eviction),
        format!("--resource-exhausted-retry={}", options.retry.resource_exhausted),
        format!("--leader-elect-lease-duration={}", election.lease_duration),
        format!("--leader-elect-renew-deadline={}", election.renew_deadline),
        format!("--leader-elect-retry-period={}", election.retry_period),
    ];
    if ![HealthChecks::Off, HealthChecks::Separate].contains(&settings.health_checks) {
        flags.extend(health_check_flags(&options));
    }
    flags
}

/// The flags of a process that only checks the health of machines.
pub fn health_check_settings(timeouts: &Timeouts, namespace: &str, settings: McmSettings) -> Vec<String> {
    let options = mcm::Options {
        controllers: vec![mcm::Controller::MachineHealthCheck],
        ..mcm_options(timeouts, namespace)
    };
    let mut flags = mcm_settings(timeouts, namespace, settings);
    flags.extend(health_check_flags(&options));
    flags
}

fn health_check_flags(options: &mcm::Options) -> [String; 4] {
    let controllers: Vec<String> = options.controllers.iter().map(ToString::to_string).collect();
    let checks = &options.health_check;
    [
        format!("--controllers={}", controllers.join(",")),
        format!("--machine-health-check-interval={}", checks.interval),
        format!("--machine-health-check-outage-grace={}", checks.outage_grace),
        format!("--max-unhealthy-exclusive={}", checks.exclusive_limit),
    ]
}

/// Sets the options of mcm for health checks that it evaluates.
pub fn add_health_checks(options: &mut mcm::Options, health_checks: HealthChecks) {
    match health_checks {
        HealthChecks::Off | HealthChecks::Separate => {}
        HealthChecks::On | HealthChecks::Exclusive => {
            options.controllers.push(mcm::Controller::MachineHealthCheck);
            options.health_check.exclusive_limit = health_checks == HealthChecks::Exclusive;
        }
    }
}

/// The fencing of mcm.
pub fn mcm_fencing(fencing: PreserveFencing) -> mcm::PreserveFencing {
    match fencing {
        PreserveFencing::None => mcm::PreserveFencing::None,
        PreserveFencing::StopVm => mcm::PreserveFencing::StopVm,
    }
}

/// The value of `--target-kubeconfig` if mcm has no target cluster.
pub const NO_TARGET: &str = "none";

/// The kubeconfigs of mcm's clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubeconfigs {
    /// The kubeconfig of the control cluster.
    pub control: PathBuf,
    /// The kubeconfig of the target cluster; [`NO_TARGET`] without one.
    pub target: PathBuf,
}

/// All flags of mcm except those about its driver and the port of its metrics.
pub fn mcm_arguments(
    timeouts: &Timeouts,
    namespace: &str,
    settings: McmSettings,
    kubeconfigs: &Kubeconfigs,
) -> Vec<OsString> {
    arguments(namespace, mcm_settings(timeouts, namespace, settings), kubeconfigs)
}

/// The arguments of an mcm with these flags.
pub fn arguments(namespace: &str, flags: Vec<String>, kubeconfigs: &Kubeconfigs) -> Vec<OsString> {
    let places = [format!("--namespace={namespace}"), "--address=127.0.0.1".to_owned()];
    let mut arguments: Vec<OsString> = places.into_iter().chain(flags).map(OsString::from).collect();
    let Kubeconfigs { control, target } = kubeconfigs;
    for (flag, kubeconfig) in [("--control-kubeconfig=", control), ("--target-kubeconfig=", target)] {
        let mut argument = OsString::from(flag);
        argument.push(kubeconfig);
        arguments.push(argument);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use scenario::workload;

    #[test]
    fn fixtures_use_the_csi_driver_and_node_label_of_fakecloud() {
        assert_eq!(workload::STORAGE, fakecloud::CSI_DRIVER);
        assert_eq!(workload::SIMULATED, fakecloud::SIMULATED);
    }
}
