//! Checks at the start that clusters and driver respond.

use std::time::Duration;

use clock::Clock;
use kube::Client;
use mcm_api::{Code, DriverError};
use mcm_driver::Driver;

use super::clients::preflight;
use crate::error::brief;
use crate::{Controller, Error};

/// How long to wait for a driver at the start. Later the controller waits for the end of an outage.
const DRIVER_DEADLINE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_secs(1);

/// The resources that these controllers watch.
fn required(controllers: &[Controller]) -> Vec<&'static str> {
    let run = |any: &[Controller]| controllers.iter().any(|one| any.contains(one));
    let owners = run(&[Controller::Set, Controller::Deployment]);
    let only_checks_health = controllers.iter().all(|one| *one == Controller::MachineHealthCheck);
    [
        ("machineclasses", !only_checks_health),
        ("machinedeployments", owners),
        ("machinehealthchecks", run(&[Controller::MachineHealthCheck])),
        ("machines", true),
        ("machinesets", owners),
    ]
    .into_iter()
    .filter_map(|(name, is_required)| is_required.then_some(name))
    .collect()
}

/// Checks that both clusters respond, and that the control cluster serves the kinds that the controllers watch.
///
/// # Errors
/// If one does not respond within [`runtime::reach::REACH_LIMIT`] or refuses the request, or does not serve the kinds.
pub async fn check_clusters(
    control: &Client,
    target: Option<&Client>,
    controllers: &[Controller],
    clock: &Clock,
) -> Result<(), Error> {
    let control = &preflight(control);
    reach("control", control, clock).await?;
    if let Some(target) = target {
        reach("target", &preflight(target), clock).await?;
    }
    let group = format!("{}/{}", mcm_api::GROUP, mcm_api::VERSION);
    let served = match control.list_api_group_resources(&group).await {
        Ok(list) => list
            .resources
            .into_iter()
            .map(|resource| resource.name)
            .collect::<Vec<_>>(),
        Err(error) => {
            tracing::debug!(error = brief(&error), "discovery");
            Vec::new()
        }
    };
    let missing: Vec<_> = required(controllers)
        .into_iter()
        .filter(|name| !served.iter().any(|served| served == name))
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Error::NotServed {
            missing: missing.join(" and no "),
        })
    }
}

async fn reach(cluster: &'static str, client: &Client, clock: &Clock) -> Result<(), Error> {
    let version = runtime::reach::reach(client, clock)
        .await
        .map_err(|error| Error::Unreachable { cluster, error })?;
    tracing::info!(cluster, version = version.git_version, "the API server answers");
    Ok(())
}

/// Checks that a driver responds at `address`, with a call without volumes. Any response except an outage is accepted.
///
/// # Errors
/// If no driver responds within twenty seconds.
pub async fn check_driver(driver: &dyn Driver, address: &str, clock: &Clock) -> Result<(), Error> {
    let mut reason = String::from("no answer");
    let attempts = async {
        loop {
            match driver.get_volume_ids(Vec::new()).await {
                Err(DriverError {
                    code: Code::Unavailable | Code::DeadlineExceeded,
                    message,
                    ..
                }) => reason = message,
                _ => return,
            }
            clock.sleep(PAUSE).await;
        }
    };
    let answered = tokio::time::timeout(DRIVER_DEADLINE, attempts).await.is_ok();
    let seconds = DRIVER_DEADLINE.as_secs();
    if answered {
        Ok(())
    } else {
        Err(Error::DriverUnreachable {
            address: address.to_owned(),
            seconds,
            reason,
        })
    }
}

#[cfg(test)]
mod tests;
