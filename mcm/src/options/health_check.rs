//! Flags of the health checks.

use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};
use mcm_api::GoDuration;

/// How MachineHealthChecks are evaluated, with the controller `machinehealthcheck`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "MachineHealthChecks, with the controller machinehealthcheck")]
pub struct HealthCheckOptions {
    /// Stop remediation at maxUnhealthy itself, not only above it
    #[arg(
        long = "max-unhealthy-exclusive", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = HealthCheckOptions::default().exclusive_limit,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    pub exclusive_limit: bool,

    /// Shortest time between two passes of one check (duration)
    #[arg(long = "machine-health-check-interval", value_name = "DURATION", default_value_t = HealthCheckOptions::default().interval)]
    pub interval: GoDuration,

    /// How long after an outage of an API server no timeout of a check begins (duration)
    #[arg(long = "machine-health-check-outage-grace", value_name = "DURATION", default_value_t = HealthCheckOptions::default().outage_grace)]
    pub outage_grace: GoDuration,
}

impl Default for HealthCheckOptions {
    fn default() -> Self {
        Self {
            exclusive_limit: false,
            interval: GoDuration(Duration::from_secs(15)),
            outage_grace: GoDuration(Duration::from_mins(1)),
        }
    }
}
