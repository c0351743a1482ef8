//! How the cloud controller manager's part is set.

use std::time::Duration;

use mcm_api::duration::GoDuration;
use serde::{Deserialize, Serialize};

use crate::cloud_controller::Settings;

/// What a cloud controller manager does for the Nodes of this cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CloudControllerSettings {
    /// Whether it runs.
    pub enabled: bool,
    /// How long after a VM's end, or its stop, its Node is looked at.
    pub monitor_period: GoDuration,
    /// Whether the Node of a VM that is gone stays while its Ready condition is True, as upstream
    /// has it.
    pub wait_for_not_ready: bool,
}

impl Default for CloudControllerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            monitor_period: GoDuration(Duration::from_secs(5)),
            wait_for_not_ready: true,
        }
    }
}

impl CloudControllerSettings {
    pub(super) fn translate(&self) -> Settings {
        Settings {
            monitor_period: self.monitor_period.0,
            wait_for_not_ready: self.wait_for_not_ready,
        }
    }
}
