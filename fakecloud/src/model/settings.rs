//! How a cloud is set, as plain values. Where they come from, and whether they make sense, is the configuration's.
//!
//! What can be set at run time, too, is part of the ledger and outlives the process with it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::kubelet::KubeletFault;
use super::part_limits::PartLimits;
use super::{CloudCall, FaultRule};
use crate::Delay;
use crate::glob;

/// How a cloud is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The region of VMs whose provider spec names none, and of zones that stand below no region.
    pub region: String,
    /// The zones that exist; empty, and `regions` too: any zone that a provider spec names.
    pub zones: Vec<String>,
    /// Regions with their zones.
    pub regions: BTreeMap<String, Vec<String>>,
    /// The images that exist; empty: any image that a provider spec names.
    pub images: Vec<String>,
    /// Tags without which no VM is made.
    pub required_tags: Vec<String>,
    /// What one VM can have at most.
    pub limits: PartLimits,
    /// How many volumes a VM can have at once.
    pub volumes_per_vm: usize,
    /// How many VMs the account may have.
    pub quotas: Vec<VmLimit>,
    /// For how many VMs there is room.
    pub capacity: Vec<VmLimit>,
    /// How often calls may be made.
    pub rate_limits: Vec<RateLimit>,
    /// The credentials that are accepted; empty: any that have not expired.
    pub api_tokens: Vec<Token>,
    /// The machine types that exist.
    pub machine_types: BTreeMap<String, MachineType>,
    /// How long a VM is pending.
    pub boot_delay: Delay,
    /// Other boot delays for some types and zones; the first that matches holds.
    pub boot_delays: Vec<BootDelay>,
    /// How long a deleted VM is stopping.
    pub termination_delay: Duration,
    /// What a second creation for the same machine does.
    pub duplicate_creates: DuplicateCreates,
    /// Whether a new VM is uninitialised until `InitializeMachine`.
    pub require_initialize: bool,
    /// How long the reply to every driver call takes.
    pub call_latency: Duration,
    /// Faults that kubelets get some time after the first boot of their VM.
    pub kubelet_faults: Vec<PlannedKubeletFault>,
    /// Rules by which driver calls fail.
    pub faults: Vec<FaultRule>,
}

impl Settings {
    /// All zones that exist; none: any.
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

    /// The boot delay of VMs of that type in that zone.
    pub fn boot_delay_of(&self, machine_type: &str, zone: &str) -> Delay {
        let matching =
            |other: &&BootDelay| glob::matches(&other.machine_type, machine_type) && glob::matches(&other.zone, zone);
        self.boot_delays
            .iter()
            .find(matching)
            .map_or(self.boot_delay, |other| other.delay)
    }
}

/// What a VM of one type offers to its Node; quantities in Kubernetes' syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineType {
    /// For example `4` or `500m`.
    pub cpu: String,
    /// For example `16Gi`.
    pub memory: String,
    /// Capacity of `nvidia.com/gpu`; none when absent.
    pub gpu: Option<String>,
    /// How many pods the Node takes.
    pub pods: u32,
    /// `amd64` or `arm64`.
    pub architecture: String,
    /// What an hour costs, in whatever currency; a decimal number.
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

/// How many VMs of some types there may be in some zones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmLimit {
    /// A glob on the machine type; absent: all together.
    #[serde(default = "anything")]
    pub machine_type: String,
    /// A glob on the zone; absent: all together.
    #[serde(default = "anything")]
    pub zone: String,
    /// So many.
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

/// How often some calls may be made.
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimit {
    /// Absent: all calls together.
    pub call: Option<CloudCall>,
    /// So many calls in a second in the long run; more than 0.
    pub per_second: f64,
    /// So many at once after a rest; at least 1.
    pub burst: u32,
}

/// A fault that some kubelets get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedKubeletFault {
    /// A glob on the machine's `NAME` or `NAMESPACE/NAME`; empty: all.
    pub machine: String,
    /// A glob on the zone; empty: all.
    pub zone: String,
    /// From the VM's first boot to the fault's beginning.
    pub after: Duration,
    /// How long it lasts; `None`: until it is mended.
    pub lasts: Option<Duration>,
    /// What is wrong.
    pub fault: KubeletFault,
}

impl PlannedKubeletFault {
    /// Whether it is about a machine in that zone.
    pub(crate) fn matches(&self, machine: &str, zone: &str) -> bool {
        (self.machine.is_empty() || glob::matches_machine(&self.machine, machine))
            && (self.zone.is_empty() || glob::matches(&self.zone, zone))
    }
}

/// What a second creation for a machine that has a live VM does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DuplicateCreates {
    /// It answers the VM that is there, as a careful driver does.
    #[default]
    One,
    /// It makes another VM, as a naive driver does.
    Two,
}

/// A credential that the cloud accepts; it is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// Wraps the text of a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether those bytes are it.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        self.0.as_bytes() == bytes
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<credential>")
    }
}
