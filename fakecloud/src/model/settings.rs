//! Settings of a cloud as plain values. The configuration reads and validates them.
//!
//! Settings that can be changed at run time are part of the ledger and survive the process with it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kubelet::KubeletFault;
use super::part_limits::PartLimits;
use super::{CloudCall, FaultRule};
use crate::Delay;
use crate::glob;

/// Settings of a cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The region of VMs whose provider spec has none, and of zones without a region.
    pub region: String,
    /// The existing zones; empty, like `regions`: any zone is accepted.
    pub zones: Vec<String>,
    /// Regions with their zones.
    pub regions: BTreeMap<String, Vec<String>>,
    /// The existing images; empty: any image is accepted.
    pub images: Vec<String>,
    /// Tags that every VM must have.
    pub required_tags: Vec<String>,
    /// Limits of one VM.
    pub limits: PartLimits,
    /// Maximum number of volumes of a VM.
    pub volumes_per_vm: usize,
    /// Quotas of VMs.
    pub quotas: Vec<VmLimit>,
    /// Capacities of VMs.
    pub capacity: Vec<VmLimit>,
    /// Rate limits of calls.
    pub rate_limits: Vec<RateLimit>,
    /// The credentials that are accepted; empty: any that have not expired.
    pub api_tokens: Vec<Token>,
    /// The machine types that exist.
    pub machine_types: BTreeMap<String, MachineType>,
    /// Boot delay: how long a VM is pending.
    pub boot_delay: Delay,
    /// Boot delays for some types and zones; the first match applies.
    pub boot_delays: Vec<BootDelay>,
    /// How long a deleted VM is stopping.
    pub termination_delay: Duration,
    /// Result of a second creation for the same machine.
    pub duplicate_creates: DuplicateCreates,
    /// Whether a new VM is uninitialized until `InitializeMachine`.
    pub require_initialize: bool,
    /// Delay of the reply to every driver call.
    pub call_latency: Duration,
    /// Faults that kubelets get some time after the first boot of their VM.
    pub kubelet_faults: Vec<PlannedKubeletFault>,
    /// Fault rules of driver calls.
    pub faults: Vec<FaultRule>,
}

impl Settings {
    /// All existing zones; empty: any.
    pub fn all_zones(&self) -> Vec<String> {
        self.zones
            .iter()
            .chain(self.regions.values().flatten())
            .cloned()
            .collect()
    }

    /// The region of a zone.
    pub fn region_of(&self, zone: &str) -> String {
        let region = self
            .regions
            .iter()
            .find(|(_, zones)| zones.iter().any(|known| known == zone));
        region.map_or_else(|| self.region.clone(), |(region, _)| region.clone())
    }

    /// The boot delay of VMs of a type in a zone.
    pub fn boot_delay_of(&self, machine_type: &str, zone: &str) -> Delay {
        let matching =
            |other: &&BootDelay| glob::matches(&other.machine_type, machine_type) && glob::matches(&other.zone, zone);
        self.boot_delays
            .iter()
            .find(matching)
            .map_or(self.boot_delay, |other| other.delay)
    }
}

/// What a VM of one type offers to its Node; quantities in Kubernetes syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineType {
    /// For example `4` or `500m`.
    pub cpu: String,
    /// For example `16Gi`.
    pub memory: String,
    /// Capacity of `nvidia.com/gpu`; absent: none.
    pub gpu: Option<String>,
    /// Maximum number of pods of the Node.
    pub pods: u32,
    /// `amd64` or `arm64`.
    pub architecture: String,
    /// Price of an hour in any currency; a decimal number.
    pub price: Option<String>,
}

/// A boot delay for some types and zones.
#[derive(Clone, Debug, PartialEq)]
pub struct BootDelay {
    /// A glob on the machine type.
    pub machine_type: String,
    /// A glob on the zone.
    pub zone: String,
    /// The delay.
    pub delay: Delay,
}

/// A limit of VMs of some types in some zones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmLimit {
    /// A glob on the machine type; absent: all types together.
    #[serde(default = "anything")]
    pub machine_type: String,
    /// A glob on the zone; absent: all zones together.
    #[serde(default = "anything")]
    pub zone: String,
    /// Maximum number of VMs.
    pub vms: u32,
}

fn anything() -> String {
    "*".to_owned()
}

impl VmLimit {
    pub(super) fn is_about(&self, machine_type: &str, zone: &str) -> bool {
        glob::matches(&self.machine_type, machine_type) && glob::matches(&self.zone, zone)
    }
}

/// A rate limit of some calls.
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimit {
    /// Absent: all calls together.
    pub call: Option<CloudCall>,
    /// Calls per second on average; more than 0.
    pub per_second: f64,
    /// Burst after a rest; at least 1.
    pub burst: u32,
}

/// A scheduled fault of some kubelets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedKubeletFault {
    /// A glob on the machine's `NAME` or `NAMESPACE/NAME`; empty: all.
    pub machine: String,
    /// A glob on the zone; empty: all.
    pub zone: String,
    /// Time from the VM's first boot to the fault.
    pub after: Duration,
    /// Duration; `None`: until it is removed.
    pub lasts: Option<Duration>,
    /// The fault.
    pub fault: KubeletFault,
}

impl PlannedKubeletFault {
    /// Whether it applies to a machine in a zone.
    pub(crate) fn matches(&self, machine: &str, zone: &str) -> bool {
        (self.machine.is_empty() || glob::matches_machine(&self.machine, machine))
            && (self.zone.is_empty() || glob::matches(&self.zone, zone))
    }
}

/// Result of a second creation for a machine that has a live VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DuplicateCreates {
    /// The existing VM, as a careful driver returns it.
    #[default]
    One,
    /// A second VM, as a naive driver creates it.
    Two,
}

/// A credential that the cloud accepts; it is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// Wraps the text of a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether the bytes equal the credential.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        self.0.as_bytes() == bytes
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<credential>")
    }
}
