//! The process that only checks the health of machines, with its own account, on a wall-clock stage.

use scenario::{HealthChecks, McmSettings, Timeouts};

use super::child::{Program, beside};
use super::deploy::HEALTH_CHECK_ACCOUNT;
use super::plane::Planes;
use super::replicas::{Recipe, Replicas};
use super::setup::{self, Kubeconfigs};
use super::{Clock, StageError};

/// The name of the process and of its log.
const NAME: &str = "health-checks";

/// Starts the process, if the world has it.
///
/// # Errors
/// When it does not start.
pub(super) async fn start(settings: McmSettings, planes: &Planes, timeouts: &Timeouts) -> Result<Replicas, StageError> {
    let folder = planes.control.folder();
    let recipe = match settings.health_checks {
        HealthChecks::Separate => Some(recipe(settings, planes, timeouts).await?),
        HealthChecks::Off | HealthChecks::On | HealthChecks::Exclusive => None,
    };
    let mut process = Replicas::new(recipe, vec![NAME.to_owned()], folder, Clock::wall())?;
    process.start().await?;
    Ok(process)
}

async fn recipe(settings: McmSettings, planes: &Planes, timeouts: &Timeouts) -> Result<Recipe, StageError> {
    let plane = &planes.control;
    let control = plane.kubeconfig_of(HEALTH_CHECK_ACCOUNT).await?;
    let kubeconfigs = Kubeconfigs {
        target: control.clone(),
        control,
    };
    let flags = setup::health_check_settings(timeouts, plane.namespace(), settings);
    let arguments = setup::arguments(plane.namespace(), flags, &kubeconfigs);
    let program = beside("mcm")?.into_os_string();
    Ok(Recipe {
        program: Program {
            name: NAME.to_owned(),
            command: std::iter::once(program).chain(arguments).collect(),
            environment: Vec::new(),
            log: plane.folder().join(format!("{NAME}.log")),
        },
        ours: true,
        registration: false,
    })
}
