//! How a fake cloud is set: zones, machine types, delays, switches, fault rules.
//!
//! What lives here: the configuration's shape, its defaults and its checks. What must not: state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use mcm_api::duration::GoDuration;
use quantity::Quantity;
use serde::{Deserialize, Serialize};

use crate::csi::CsiSettings;
use crate::delay::Delay;
use crate::glob;
use crate::model::{FaultRule, KubeletFaultRule, PartLimits, RateLimit, VmLimit};

/// The whole configuration. Every field has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Config {
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
    pub termination_delay: GoDuration,
    /// What a second creation for the same machine does.
    pub duplicate_creates: DuplicateCreates,
    /// Whether a new VM is uninitialised until `InitializeMachine`.
    pub require_initialize: bool,
    /// How long the reply to every driver call takes.
    pub call_latency: GoDuration,
    /// The simulated kubelets.
    pub kubelet: KubeletSettings,
    /// The storage.
    pub csi: CsiSettings,
    /// The cloud controller manager's part.
    pub cloud_controller: CloudControllerSettings,
    /// Rules by which driver calls fail.
    pub faults: Vec<FaultRule>,
}

/// What a VM of one type offers to its Node; quantities in Kubernetes' syntax.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineType {
    /// For example `4` or `500m`.
    pub cpu: String,
    /// For example `16Gi`.
    pub memory: String,
    /// Capacity of `nvidia.com/gpu`; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// How many pods the Node takes.
    #[serde(default = "default_pods")]
    pub pods: u32,
    /// `amd64` or `arm64`.
    #[serde(default = "default_architecture")]
    pub architecture: String,
    /// What an hour costs, in whatever currency; a decimal number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
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

fn default_pods() -> u32 {
    110
}

fn default_architecture() -> String {
    "amd64".to_owned()
}

/// A boot delay for some types and zones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// The simulated kubelets' periods and delays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KubeletSettings {
    /// From the VM's boot to the kubelet's first call.
    pub start_delay: GoDuration,
    /// How often the Lease is renewed.
    pub lease_period: GoDuration,
    /// `spec.leaseDurationSeconds` of the Lease; rounded up to whole seconds.
    pub lease_duration: GoDuration,
    /// How often the Node's status is written when nothing changes.
    pub status_period: GoDuration,
    /// The shortest time between two status writes that mend a change made by others.
    pub status_sync: GoDuration,
    /// How long a kubelet waits after it was refused, before it tries to join again.
    pub join_retry: GoDuration,
    /// From a pod's binding to Running.
    pub pod_start_delay: GoDuration,
    /// How long a pod takes to end; never longer than its grace period.
    pub pod_stop_delay: GoDuration,
    /// How many API calls are under way at once, over all kubelets.
    pub concurrency: usize,
    /// Whether Nodes register without provider id, addresses and topology, and with the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized`, for the cloud controller to complete them.
    pub external_cloud_provider: bool,
    /// What is wrong with kubelets, by machine and time.
    pub faults: Vec<KubeletFaultRule>,
}

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

impl Default for Config {
    fn default() -> Self {
        let sizes = [("small", "2", "8Gi"), ("medium", "4", "16Gi"), ("large", "8", "32Gi")];
        let machine_types = sizes.into_iter().map(|(name, cpu, memory)| {
            let machine_type = MachineType {
                cpu: cpu.to_owned(),
                memory: memory.to_owned(),
                gpu: None,
                pods: default_pods(),
                architecture: default_architecture(),
                price: None,
            };
            (name.to_owned(), machine_type)
        });
        Self {
            region: "local".to_owned(),
            zones: Vec::new(),
            regions: BTreeMap::new(),
            images: Vec::new(),
            required_tags: Vec::new(),
            limits: PartLimits::default(),
            quotas: Vec::new(),
            capacity: Vec::new(),
            rate_limits: Vec::new(),
            api_tokens: Vec::new(),
            machine_types: machine_types.collect(),
            boot_delay: Delay::Constant(Duration::from_secs(2)),
            boot_delays: Vec::new(),
            termination_delay: GoDuration::default(),
            duplicate_creates: DuplicateCreates::One,
            require_initialize: false,
            call_latency: GoDuration::default(),
            kubelet: KubeletSettings::default(),
            csi: CsiSettings::default(),
            cloud_controller: CloudControllerSettings::default(),
            faults: Vec::new(),
        }
    }
}

impl Default for KubeletSettings {
    fn default() -> Self {
        let seconds = |seconds| GoDuration(Duration::from_secs(seconds));
        Self {
            start_delay: seconds(1),
            lease_period: seconds(10),
            lease_duration: seconds(40),
            status_period: seconds(300),
            status_sync: seconds(10),
            join_retry: seconds(10),
            pod_start_delay: seconds(1),
            pod_stop_delay: seconds(1),
            concurrency: 64,
            external_cloud_provider: false,
            faults: Vec::new(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is no YAML, or not of the right shape. The cause names line and field.
    #[error("{file}: {cause}")]
    Syntax {
        /// Where the text came from.
        file: String,
        /// What is wrong with it, and where.
        cause: String,
    },
    /// A value makes no sense.
    #[error("{field}: {reason}")]
    Value {
        /// Path of the field.
        field: String,
        /// What is wrong and how to mend it.
        reason: String,
    },
}

impl Config {
    /// Reads a YAML text; `file` is named in errors.
    ///
    /// # Errors
    /// With line and field when the text is not a configuration.
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, ConfigError> {
        let config = serde_saphyr::from_str::<Self>(text).map_err(|error| ConfigError::Syntax {
            file: file.to_owned(),
            cause: one_line(&error.to_string(), text),
        })?;
        config.check()?;
        Ok(config)
    }

    /// Checks what the shape alone does not.
    ///
    /// # Errors
    /// With the first field whose value makes no sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |field: String, reason: &str| {
            Err(ConfigError::Value {
                field,
                reason: reason.to_owned(),
            })
        };
        let kubelet = &self.kubelet;
        let periods = [
            ("leasePeriod", kubelet.lease_period),
            ("statusPeriod", kubelet.status_period),
            ("statusSync", kubelet.status_sync),
            ("joinRetry", kubelet.join_retry),
        ];
        for (name, period) in periods {
            if period.0.is_zero() {
                return wrong(format!("kubelet.{name}"), "must be longer than zero, for example 10s");
            }
        }
        if kubelet.lease_duration <= kubelet.lease_period {
            return wrong(
                "kubelet.leaseDuration".to_owned(),
                "must be longer than kubelet.leasePeriod",
            );
        }
        if kubelet.concurrency == 0 {
            return wrong("kubelet.concurrency".to_owned(), "must be at least 1");
        }
        for (index, rule) in kubelet.faults.iter().enumerate() {
            if let Err(reason) = rule.fault() {
                return wrong(format!("kubelet.faults[{index}]"), &reason);
            }
        }
        if self.cloud_controller.monitor_period.0.is_zero() {
            return wrong(
                "cloudController.monitorPeriod".to_owned(),
                "must be longer than zero, for example 5s",
            );
        }
        if kubelet.external_cloud_provider && !self.cloud_controller.enabled {
            return wrong(
                "kubelet.externalCloudProvider".to_owned(),
                "needs cloudController.enabled: without it no Node is ever initialized",
            );
        }
        for (name, machine_type) in &self.machine_types {
            for (field, quantity) in [("cpu", &machine_type.cpu), ("memory", &machine_type.memory)] {
                if !is_quantity(quantity) {
                    return wrong(
                        format!("machineTypes.{name}.{field}"),
                        "must be a positive quantity, for example 4, 500m or 16Gi",
                    );
                }
            }
        }
        for (name, machine_type) in &self.machine_types {
            let price = machine_type.price.as_deref();
            if price.is_some_and(|price| {
                !price
                    .parse::<f64>()
                    .is_ok_and(|price| price.is_finite() && price >= 0.0)
            }) {
                return wrong(
                    format!("machineTypes.{name}.price"),
                    "must be a number that is not negative, in quotes, for example \"0.096\"",
                );
            }
        }
        let own = self
            .zones
            .iter()
            .enumerate()
            .map(|(index, zone)| (format!("zones[{index}]"), zone));
        let of_regions = self.regions.iter().flat_map(|(region, zones)| {
            zones
                .iter()
                .enumerate()
                .map(move |(index, zone)| (format!("regions.{region}[{index}]"), zone))
        });
        let mut seen = BTreeSet::new();
        for (field, zone) in own.chain(of_regions) {
            if !is_zone(zone) {
                return wrong(field, "must consist of lower-case letters, digits and dashes");
            }
            if !seen.insert(zone) {
                return wrong(field, "stands there twice; a zone has one region");
            }
        }
        for (index, limit) in self.rate_limits.iter().enumerate() {
            if let Err(reason) = limit.check() {
                return wrong(format!("rateLimits[{index}]"), &reason);
            }
        }
        for (index, rule) in self.faults.iter().enumerate() {
            if let Err(reason) = rule.check() {
                return wrong(format!("faults[{index}]"), &reason);
            }
        }
        Ok(())
    }

    /// All zones that exist; none: any.
    pub(crate) fn all_zones(&self) -> Vec<String> {
        self.zones
            .iter()
            .chain(self.regions.values().flatten())
            .cloned()
            .collect()
    }

    /// The region of a zone.
    pub(crate) fn region_of(&self, zone: &str) -> String {
        let region = self
            .regions
            .iter()
            .find(|(_, zones)| zones.iter().any(|known| known == zone));
        region.map_or_else(|| self.region.clone(), |(region, _)| region.clone())
    }

    /// The boot delay of VMs of that type in that zone.
    pub(crate) fn boot_delay_of(&self, machine_type: &str, zone: &str) -> Delay {
        let matching =
            |other: &&BootDelay| glob::matches(&other.machine_type, machine_type) && glob::matches(&other.zone, zone);
        self.boot_delays
            .iter()
            .find(matching)
            .map_or(self.boot_delay, |other| other.delay)
    }
}

/// Reads fault rules from a YAML text: one, or a list of them. `file` is named in errors.
///
/// # Errors
/// With line and field when the text is none, and with the rule when one makes no sense.
pub fn read_rules(file: &str, text: &str) -> Result<Vec<FaultRule>, ConfigError> {
    let begin = text
        .lines()
        .map(str::trim_start)
        .find(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("---") && !line.starts_with('%'));
    let is_list = begin.is_some_and(|line| line.starts_with('-') || line.starts_with('['));
    let rules = if is_list {
        serde_saphyr::from_str::<Vec<FaultRule>>(text)
    } else {
        serde_saphyr::from_str::<FaultRule>(text).map(|rule| vec![rule])
    };
    let rules = rules.map_err(|error| ConfigError::Syntax {
        file: file.to_owned(),
        cause: one_line(&error.to_string(), text),
    })?;
    for (index, rule) in rules.iter().enumerate() {
        rule.check().map_err(|reason| ConfigError::Value {
            field: if rule.id.is_empty() {
                format!("{file}: rule {}", index + 1)
            } else {
                format!("{file}: rule {}", rule.id)
            },
            reason,
        })?;
    }
    Ok(rules)
}

/// The first line of the parser's report, which gives line and column, with the text of that line.
fn one_line(report: &str, text: &str) -> String {
    let report = report.lines().next().unwrap_or_default();
    let report = report.strip_prefix("error: ").unwrap_or(report);
    let number = report
        .strip_prefix("line ")
        .and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    match number.and_then(|number| text.lines().nth(number.checked_sub(1)?)) {
        Some(line) => format!("{report} (the line is {:?})", line.trim()),
        None => report.to_owned(),
    }
}

/// Whether a zone's name can stand in a provider id and in a label.
pub(crate) fn is_zone(zone: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !zone.is_empty() && zone.len() <= 63 && zone.bytes().all(inner) && !zone.starts_with('-') && !zone.ends_with('-')
}

pub(crate) fn is_quantity(text: &str) -> bool {
    text.parse::<Quantity>().is_ok_and(|amount| amount.milli() > 0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_default_configuration_is_sound_and_survives_yaml() {
        let config = Config::default();
        config.check().unwrap();
        let text = serde_saphyr::to_string(&config).unwrap();
        assert_eq!(Config::from_yaml("default", &text).unwrap(), config);
    }

    #[rstest]
    #[case::unknown_field("bootDelays: []\nbotDelay: 3s\n", "botDelay")]
    #[case::bad_duration("kubelet:\n  leasePeriod: 10\n", "leasePeriod")]
    #[case::zero_period("kubelet:\n  leasePeriod: 0s\n", "kubelet.leasePeriod: must be longer than zero")]
    #[case::short_lease(
        "kubelet:\n  leaseDuration: 5s\n",
        "kubelet.leaseDuration: must be longer than kubelet.leasePeriod"
    )]
    #[case::bad_quantity("machineTypes:\n  big:\n    cpu: many\n    memory: 1Gi\n", "machineTypes.big.cpu")]
    #[case::bad_delay("bootDelay: 60s-10s\n", "60s-10s")]
    #[case::bad_kubelet_fault("kubelet:\n  faults: [{mode: slow}]\n", "kubelet.faults[0]: delay is missing")]
    #[case::bad_monitor("cloudController:\n  monitorPeriod: 0s\n", "cloudController.monitorPeriod")]
    #[case::nobody_initializes(
        "kubelet:\n  externalCloudProvider: true\ncloudController:\n  enabled: false\n",
        "kubelet.externalCloudProvider: needs"
    )]
    #[case::bad_zone("zones: [Zone/1]\n", "zones[0]")]
    #[case::zone_of_two_regions("regions: {a: [z-1], b: [z-1]}\n", "regions.b[0]: stands there twice")]
    #[case::bad_price(
        "machineTypes:\n  big: {cpu: '1', memory: 1Gi, price: cheap}\n",
        "machineTypes.big.price"
    )]
    #[case::no_rate("rateLimits: [{perSecond: 0}]\n", "rateLimits[0]: perSecond is 0")]
    #[case::unknown_limit("quotas: [{type: a, vms: 1}]\n", "type")]
    #[case::bad_code("faults:\n- {id: a, operation: create, code: Broken}\n", "Broken")]
    fn what_is_wrong_is_named(#[case] text: &str, #[case] said: &str) {
        let error = Config::from_yaml("cloud.yaml", text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }

    #[test]
    fn a_file_has_one_rule_or_a_list_of_them() {
        let one = read_rules("a.yaml", "# why\nid: a\ncode: Internal\n").unwrap();
        let list = read_rules("b.yaml", "---\n- {id: a, code: Internal}\n- {id: b, latency: 1s}\n").unwrap();
        assert_eq!((one.len(), list.len()), (1, 2));
        assert_eq!(one[0], list[0]);
    }

    #[rstest]
    #[case("- {id: a, code: Internal}\n- {id: b, cod: Internal}\n", "rules.yaml: line 2")]
    #[case(
        "- {id: a, code: Internal}\n- {id: b}\n",
        "rules.yaml: rule b: the rule changes nothing"
    )]
    #[case("{code: Internal, probability: 7}", "rules.yaml: rule 1: probability is 7")]
    fn a_file_of_rules_that_cannot_be_used_says_where(#[case] text: &str, #[case] said: &str) {
        let error = read_rules("rules.yaml", text).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }

    #[test]
    fn a_syntax_error_names_file_and_line() {
        let error = Config::from_yaml("cloud.yaml", "region: a\nzones: 7\n")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cloud.yaml: line 2 column "), "{error}");
        assert!(
            error.ends_with("(the line is \"zones: 7\")") && !error.contains('\n'),
            "{error}"
        );
    }

    #[test]
    fn the_first_boot_delay_that_matches_holds() {
        let text = "bootDelay: 2s\nbootDelays:\n- {machineType: gpu-*, delay: 60s}\n- {zone: far, delay: 9s}\n";
        let config = Config::from_yaml("cloud.yaml", text).unwrap();
        let seconds = |seconds| Delay::Constant(Duration::from_secs(seconds));
        assert_eq!(config.boot_delay_of("gpu-large", "far"), seconds(60));
        assert_eq!(config.boot_delay_of("small", "far"), seconds(9));
        assert_eq!(config.boot_delay_of("small", "near"), seconds(2));
    }

    #[test]
    fn the_configuration_in_the_readme_is_good() {
        let readme = include_str!("../README.md");
        let sample = readme
            .split("```yaml\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let config = Config::from_yaml("README.md", sample.unwrap()).unwrap();
        assert_eq!((config.faults.len(), config.kubelet.faults.len()), (2, 2));
    }
}
