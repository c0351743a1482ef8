//! Flags of the overshoot guard.

use std::time::Duration;

use clap::Args;
use mcm_api::GoDuration;

/// When a MachineSet with too many machines is frozen.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Overshoot guard against too many machines")]
pub struct OvershootOptions {
    /// Machines beyond replicas and surge at which a MachineSet is frozen
    #[arg(long = "safety-up", value_name = "COUNT", default_value_t = OvershootOptions::default().up)]
    pub up: u32,

    /// Machines below that number at which it is unfrozen
    #[arg(long = "safety-down", value_name = "COUNT", default_value_t = OvershootOptions::default().down)]
    pub down: u32,

    /// Period of the overshoot check (duration)
    #[arg(long = "machine-safety-overshooting-period", value_name = "DURATION", default_value_t = OvershootOptions::default().overshooting_period)]
    pub overshooting_period: GoDuration,
}

impl Default for OvershootOptions {
    fn default() -> Self {
        Self {
            up: 2,
            down: 1,
            overshooting_period: GoDuration(Duration::from_mins(1)),
        }
    }
}
