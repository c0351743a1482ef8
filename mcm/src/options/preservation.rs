//! Flags of preservation.

use clap::{Args, ValueEnum};
use mcm_api::GoDuration;
use mcm_core::machine::Fencing;
use mcm_core::preservation::Dialect;
use serde::{Deserialize, Serialize};

use super::seconds;

/// How machines are preserved.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Preservation")]
pub struct PreservationOptions {
    /// How long a preserved machine is kept (duration)
    #[arg(long = "machine-preserve-timeout", value_name = "DURATION", default_value_t = PreservationOptions::default().timeout)]
    pub timeout: GoDuration,

    /// Annotation values and phases of preservation
    #[arg(long = "preservation-dialect", value_enum, default_value_t = PreservationOptions::default().dialect)]
    pub dialect: PreservationDialect,

    /// What to do with the VM of a preserved machine whose node does not answer, while pods that must not run twice are on it
    #[arg(long = "preserve-fencing", value_enum, default_value_t = PreservationOptions::default().fencing)]
    pub fencing: PreserveFencing,
}

/// A value of `--preserve-fencing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreserveFencing {
    /// It runs on, and the pods stay in the API.
    #[default]
    None,
    /// The driver stops it, and the pods leave the API.
    StopVm,
}

impl PreserveFencing {
    pub(crate) fn fencing(self) -> Fencing {
        match self {
            Self::None => Fencing::None,
            Self::StopVm => Fencing::StopVm,
        }
    }
}

impl std::fmt::Display for PreserveFencing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::StopVm => "stop-vm",
        })
    }
}

/// A value of `--preservation-dialect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreservationDialect {
    /// Running:Preserved and Failed:Preserved are phases.
    #[default]
    V2,
    /// Annotation values and phases are upstream's.
    Upstream,
    /// No machine is preserved, and existing preservations end.
    Off,
}

impl PreservationDialect {
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::V2 => Dialect::V2,
            Self::Upstream => Dialect::Upstream,
            Self::Off => Dialect::Off,
        }
    }
}

impl std::fmt::Display for PreservationDialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.dialect().fmt(f)
    }
}

impl Default for PreservationOptions {
    fn default() -> Self {
        Self {
            timeout: seconds(72 * 3600),
            dialect: PreservationDialect::V2,
            fencing: PreserveFencing::None,
        }
    }
}
