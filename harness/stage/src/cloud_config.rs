//! The configuration of fakecloud on a stage.

use mcm_api::GoDuration;
use scenario::{Cloud, DuplicateCreates, Timeouts};

use crate::cloud::CloudError;
use crate::controllers;

/// The [`cloud_config`] as YAML.
pub(crate) fn cloud_config_file(world: &Cloud, timeouts: &Timeouts) -> Result<String, CloudError> {
    Ok(serde_saphyr::to_string(&cloud_config(world, timeouts))?)
}

/// The configuration of fakecloud for a scenario's cloud.
pub(crate) fn cloud_config(world: &Cloud, timeouts: &Timeouts) -> fakecloud::Config {
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
