//! Machine types and boot delays in the configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Delay;
use crate::model;

/// What a VM of one type offers to its Node; quantities in Kubernetes' syntax.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineType {
    /// For example `4` or `500m`.
    pub cpu: String,
    /// For example `16Gi`.
    pub memory: String,
    /// Capacity of `nvidia.com/gpu`. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Maximum number of pods of the Node.
    #[serde(default = "default_pods")]
    pub pods: u32,
    /// `amd64` or `arm64`.
    #[serde(default = "default_architecture")]
    pub architecture: String,
    /// Price of an hour in any currency; a decimal number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
}

fn default_pods() -> u32 {
    110
}

fn default_architecture() -> String {
    "amd64".to_owned()
}

impl MachineType {
    pub(super) fn new(cpu: &str, memory: &str) -> Self {
        Self {
            cpu: cpu.to_owned(),
            memory: memory.to_owned(),
            gpu: None,
            pods: default_pods(),
            architecture: default_architecture(),
            price: None,
        }
    }

    pub(super) fn translate(&self) -> model::MachineType {
        model::MachineType {
            cpu: self.cpu.clone(),
            memory: self.memory.clone(),
            gpu: self.gpu.clone(),
            pods: self.pods,
            architecture: self.architecture.clone(),
            price: self.price.clone(),
        }
    }
}

/// A boot delay for some types and zones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BootDelay {
    /// A glob on the machine type.
    #[serde(default = "anything")]
    pub machine_type: String,
    /// A glob on the zone.
    #[serde(default = "anything")]
    pub zone: String,
    /// The delay.
    pub delay: Delay,
}

fn anything() -> String {
    "*".to_owned()
}

impl BootDelay {
    pub(super) fn translate(&self) -> model::BootDelay {
        model::BootDelay {
            machine_type: self.machine_type.clone(),
            zone: self.zone.clone(),
            delay: self.delay,
        }
    }
}
