//! The configuration of the cloud controller.

use std::time::Duration;

use fakecloud_api::DurationText;
use mcm_api::duration::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cloud_controller::Settings;

/// The cloud controller manager for the Nodes of this cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CloudControllerSettings {
    /// Whether it runs.
    pub enabled: bool,
    /// Time from a VM's end or stop until its Node is checked.
    #[schemars(with = "DurationText")]
    pub monitor_period: GoDuration,
    /// Whether the Node of a terminated VM stays while its Ready condition is True, as in upstream.
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
