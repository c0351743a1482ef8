//! Flags of the safety controllers, and their validation.

use clap::Args;
use mcm_api::GoDuration;

use super::seconds;

/// The collection of orphan VMs, and the checks of the API servers.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Safety")]
pub struct SafetyOptions {
    /// Period of the search for orphan VMs (duration)
    #[arg(long = "machine-safety-orphan-vms-period", value_name = "DURATION", default_value_t = SafetyOptions::default().orphan_vms_period)]
    pub orphan_vms_period: GoDuration,

    /// If more VMs than this are orphans at once, none of them is deleted
    #[arg(long = "machine-safety-max-orphan-vms", value_name = "N", default_value_t = SafetyOptions::default().max_orphan_vms)]
    pub max_orphan_vms: usize,

    /// How long an API server may be unavailable before mcm freezes: it creates and deletes no VM (duration)
    #[arg(long = "machine-safety-apiserver-statuscheck-timeout", value_name = "DURATION", default_value_t = SafetyOptions::default().apiserver_check_timeout)]
    pub apiserver_check_timeout: GoDuration,

    /// Period of the check of the API servers (duration)
    #[arg(long = "machine-safety-apiserver-statuscheck-period", value_name = "DURATION", default_value_t = SafetyOptions::default().apiserver_check_period)]
    pub apiserver_check_period: GoDuration,
}

impl Default for SafetyOptions {
    fn default() -> Self {
        Self {
            orphan_vms_period: seconds(30 * 60),
            max_orphan_vms: 30,
            apiserver_check_timeout: seconds(30),
            apiserver_check_period: seconds(60),
        }
    }
}

impl SafetyOptions {
    pub(super) fn violations(&self, check: &mut impl FnMut(bool, String)) {
        check(
            !self.orphan_vms_period.0.is_zero(),
            "--machine-safety-orphan-vms-period=0s would list the VMs without a pause: choose 1s or more".to_owned(),
        );
        check(
            !self.apiserver_check_timeout.0.is_zero(),
            "--machine-safety-apiserver-statuscheck-timeout=0s would freeze at the first request that fails: choose 1s or more"
                .to_owned(),
        );
        check(
            self.apiserver_check_period >= self.apiserver_check_timeout,
            format!(
                "--machine-safety-apiserver-statuscheck-timeout={} should not be longer than \
                 --machine-safety-apiserver-statuscheck-period={}",
                self.apiserver_check_timeout, self.apiserver_check_period
            ),
        );
    }
}
