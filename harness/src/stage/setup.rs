//! What every world gets before its first step, and how its parts are set on a stage.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use mcm_api::GoDuration;

use super::NAMESPACE;
use crate::engine;
use crate::scenario::{Timeouts, fixtures};

/// How long a definition may take to be served.
const ESTABLISHED: Duration = Duration::from_secs(30);

/// Creates the CRDs of the machine API and waits until they are served.
///
/// # Errors
/// A sentence that names the definition.
pub async fn install_definitions(client: &kube::Client) -> Result<(), String> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definitions = mcm_api::crd::all();
    for definition in &definitions {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        match api.create(&PostParams::default(), definition).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(format!("cannot create the CRD {name}: {error}")),
        }
        let established = await_condition(api.clone(), name, conditions::is_crd_established());
        match tokio::time::timeout(ESTABLISHED, established).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(format!("the CRD {name} is not served: {error}")),
            Err(_) => return Err(format!("the CRD {name} is not served after {ESTABLISHED:?}")),
        }
    }
    Ok(())
}

/// Creates the class of the fixture machines and its Secret.
///
/// # Errors
/// A sentence that names the object.
pub async fn install_fixtures(client: &kube::Client) -> Result<(), String> {
    for object in [fixtures::secret(), fixtures::class()] {
        engine::apply(client, &object).await?;
    }
    Ok(())
}

/// The flags of mcm on a stage, less those that say where things are.
pub fn mcm_options(timeouts: &Timeouts) -> mcm::Options {
    let mut options = mcm::Options {
        namespace: NAMESPACE.to_owned(),
        ..mcm::Options::default()
    };
    options.machine.creation_timeout = GoDuration(timeouts.creation);
    options.machine.health_timeout = GoDuration(timeouts.health);
    options.machine.drain_timeout = GoDuration(timeouts.drain);
    options.retry.short = GoDuration(timeouts.short_retry);
    options.retry.medium = GoDuration(timeouts.medium_retry);
    options.retry.long = GoDuration(timeouts.long_retry);
    options.retry.resource_exhausted = GoDuration(timeouts.long_retry);
    options
}

/// The same as a command line of the program, with leases that a wall clock can wait for
/// and without the port of its metrics.
pub fn mcm_arguments(timeouts: &Timeouts, kubeconfig: &Path, driver: &str) -> Vec<OsString> {
    let options = mcm_options(timeouts);
    let mut arguments: Vec<OsString> = [
        format!("--driver=grpc://{driver}"),
        format!("--namespace={}", options.namespace),
        "--address=127.0.0.1".to_owned(),
        format!("--machine-creation-timeout={}", options.machine.creation_timeout),
        format!("--machine-health-timeout={}", options.machine.health_timeout),
        format!("--machine-drain-timeout={}", options.machine.drain_timeout),
        format!("--short-retry={}", options.retry.short),
        format!("--medium-retry={}", options.retry.medium),
        format!("--long-retry={}", options.retry.long),
        format!("--resource-exhausted-retry={}", options.retry.resource_exhausted),
        "--leader-elect-lease-duration=4s".to_owned(),
        "--leader-elect-renew-deadline=3s".to_owned(),
        "--leader-elect-retry-period=500ms".to_owned(),
    ]
    .into_iter()
    .map(OsString::from)
    .collect();
    for flag in ["--control-kubeconfig=", "--target-kubeconfig="] {
        let mut argument = OsString::from(flag);
        argument.push(kubeconfig);
        arguments.push(argument);
    }
    arguments
}

/// How node lifecycle is set on a stage.
pub fn node_lifecycle(timeouts: &Timeouts) -> controllers::node_lifecycle::Settings {
    let monitor_period = (timeouts.node_grace / 10).min(Duration::from_secs(5));
    controllers::node_lifecycle::Settings {
        monitor_period,
        grace: timeouts.node_grace,
        startup_grace: timeouts.node_grace + Duration::from_secs(10),
    }
}
