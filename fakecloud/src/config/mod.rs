//! The configuration of a fake cloud: zones, machine types, delays, switches, fault rules.
//!
//! This module holds the file format, defaults, checks, and the translation into plain settings of model, kubelets,
//! storage and cloud controller, which do not depend on it. It holds no state.

mod audit;
mod check;
mod cloud_controller;
mod csi;
mod kubelet;
mod kubelet_fault;
mod limits;
mod machine_type;
mod translate;

use std::collections::BTreeMap;
use std::time::Duration;

use fakecloud_api::{Deprecations, DurationText};
use mcm_api::duration::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use audit::AuditSettings;
pub use cloud_controller::CloudControllerSettings;
pub use csi::CsiSettings;
pub use kubelet::KubeletSettings;
pub use kubelet_fault::KubeletFaultRule;
pub use limits::{PartLimits, RateLimit};
pub use machine_type::{BootDelay, MachineType};
pub(crate) use translate::Settings;

use crate::Delay;
use crate::model::{DuplicateCreates, FaultRule, Token, VmLimit};

/// The whole configuration. Every field has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Config {
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
    #[schemars(with = "DurationText")]
    pub termination_delay: GoDuration,
    /// Result of a second creation for the same machine.
    pub duplicate_creates: DuplicateCreates,
    /// Whether a new VM is uninitialized until `InitializeMachine`.
    pub require_initialize: bool,
    /// Delay of the reply to every driver call.
    #[schemars(with = "DurationText")]
    pub call_latency: GoDuration,
    /// Simulated kubelets.
    pub kubelet: KubeletSettings,
    /// The cloud's storage.
    pub csi: CsiSettings,
    /// The cloud controller.
    pub cloud_controller: CloudControllerSettings,
    /// The files of the audit log in the ledger's folder.
    pub audit: AuditSettings,
    /// Fault rules of driver calls.
    #[schemars(with = "Vec<FaultRule<Delay, DurationText>>")]
    pub faults: Vec<FaultRule>,
}

impl Default for Config {
    fn default() -> Self {
        let sizes = [("small", "2", "8Gi"), ("medium", "4", "16Gi"), ("large", "8", "32Gi")];
        let machine_types = sizes.map(|(name, cpu, memory)| (name.to_owned(), MachineType::new(cpu, memory)));
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
            machine_types: machine_types.into(),
            boot_delay: Delay::Constant(Duration::from_secs(2)),
            boot_delays: Vec::new(),
            termination_delay: GoDuration::default(),
            duplicate_creates: DuplicateCreates::One,
            require_initialize: false,
            call_latency: GoDuration::default(),
            kubelet: KubeletSettings::default(),
            csi: CsiSettings::default(),
            cloud_controller: CloudControllerSettings::default(),
            audit: AuditSettings::default(),
            faults: Vec::new(),
        }
    }
}

/// Why a configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is not a valid configuration in YAML. The cause names line and field.
    #[error("{file}: {cause}")]
    Syntax {
        /// The source of the text.
        file: String,
        /// The error and its position.
        cause: String,
    },
    /// A value is invalid.
    #[error("{field}: {reason}")]
    Value {
        /// Path of the field.
        field: String,
        /// The error and the fix.
        reason: String,
    },
}

impl Config {
    /// Reads a YAML text; `file` is named in errors.
    ///
    /// # Errors
    /// Line and field of the error, if the text is not a configuration.
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, ConfigError> {
        let config = serde_saphyr::from_str::<Self>(text).map_err(|error| ConfigError::Syntax {
            file: file.to_owned(),
            cause: one_line(&error.to_string(), text),
        })?;
        config.check()?;
        Ok(config)
    }
}

/// Reads fault rules from a YAML text: one, or a list of them. `file` is named in errors.
///
/// # Errors
/// Line and field of a syntax error, or the rule that is invalid.
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
        rule.check().map_err(|error| ConfigError::Value {
            field: if rule.name.is_empty() {
                format!("{file}: rule {}", index + 1)
            } else {
                format!("{file}: rule {}", rule.name)
            },
            reason: error.to_string(),
        })?;
    }
    Ok(rules)
}

/// The old spellings in a configuration or a file of rules; `file` is named in the warnings. Empty if the text
/// is not YAML, which the parser reports.
pub fn deprecations(file: &str, text: &str) -> Deprecations {
    let mut found = Deprecations::default();
    let Ok(document) = serde_saphyr::from_str::<Value>(text) else {
        return found;
    };
    let items = |field: &str| document.get(field).and_then(Value::as_array).into_iter().flatten();
    for limit in items("rateLimits") {
        if limit.get("operation").is_some() {
            found.add(file, "rateLimits.operation", "rateLimits.call");
        }
        for call in [limit.get("operation"), limit.get("call")].into_iter().flatten() {
            found.add_call(file, "rateLimits.call", call);
        }
    }
    for rule in items("faults") {
        found.add_rule(file, "faults", rule);
    }
    match &document {
        Value::Array(rules) => rules.iter().for_each(|rule| found.add_rule(file, "", rule)),
        rule => found.add_rule(file, "", rule),
    }
    found
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_default_configuration_is_valid_and_survives_yaml() {
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
    #[case::no_initialization(
        "kubelet:\n  externalCloudProvider: true\ncloudController:\n  enabled: false\n",
        "kubelet.externalCloudProvider: needs"
    )]
    #[case::no_audit_size("audit: {fileSize: 0}\n", "audit.fileSize: must be")]
    #[case::bad_audit_size("audit: {fileSize: much}\n", "audit.fileSize: must be")]
    #[case::many_audit_files("audit: {files: 1001}\n", "audit.files: must be at most 1000")]
    #[case::bad_zone("zones: [Zone/1]\n", "zones[0]")]
    #[case::zone_of_two_regions("regions: {a: [z-1], b: [z-1]}\n", "regions.b[0]: is in several regions")]
    #[case::bad_price(
        "machineTypes:\n  big: {cpu: '1', memory: 1Gi, price: cheap}\n",
        "machineTypes.big.price"
    )]
    #[case::no_rate("rateLimits: [{perSecond: 0}]\n", "rateLimits[0]: perSecond is 0")]
    #[case::unknown_limit("quotas: [{type: a, vms: 1}]\n", "type")]
    #[case::bad_code("faults:\n- {name: a, action: {code: Broken}}\n", "Broken")]
    #[case::two_spellings("faults:\n- {id: a, name: a}\n", "`name` beside `id`")]
    #[case::two_spellings_of_a_call("rateLimits: [{operation: list, call: listMachines, perSecond: 1}]\n", "line 1")]
    fn an_invalid_field_is_named(#[case] text: &str, #[case] expected: &str) {
        let error = Config::from_yaml("cloud.yaml", text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_file_has_one_rule_or_a_list_of_them() {
        let one = read_rules("a.yaml", "# why\nname: a\naction: {code: Internal}\n").unwrap();
        let list = read_rules(
            "b.yaml",
            "---\n- {name: a, action: {code: Internal}}\n- {name: b, action: {latency: 1s}}\n",
        )
        .unwrap();
        assert_eq!((one.len(), list.len()), (1, 2));
        assert_eq!(one[0], list[0]);
    }

    #[rstest]
    #[case(
        "- {name: a, action: {code: Internal}}\n- {name: b, action: {cod: Internal}}\n",
        "rules.yaml: line 2"
    )]
    #[case(
        "- {name: a, action: {code: Internal}}\n- {name: b}\n",
        "rules.yaml: rule b: the rule has no effect"
    )]
    #[case(
        "{match: {probability: 7}, action: {code: Internal}}",
        "rules.yaml: rule 1: match.probability is 7"
    )]
    fn an_invalid_file_of_rules_is_rejected_with_the_position(#[case] text: &str, #[case] expected: &str) {
        let error = read_rules("rules.yaml", text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn an_old_configuration_equals_the_new_one_with_a_warning_for_each_old_field() {
        let old = "rateLimits: [{operation: list, perSecond: 1}]\n\
                   faults:\n- {id: a, operation: create, code: Internal}\n- {id: b, code: Aborted}\n";
        let new = "rateLimits: [{call: listMachines, perSecond: 1}]\n\
                   faults:\n- {name: a, match: {call: createMachine}, action: {code: Internal}}\n\
                   - {name: b, action: {code: Aborted}}\n";
        assert_eq!(
            Config::from_yaml("old", old).unwrap(),
            Config::from_yaml("new", new).unwrap()
        );
        let lines: Vec<String> = deprecations("old.yaml", old).iter().map(ToString::to_string).collect();
        let expected = [
            "rateLimits.operation is now rateLimits.call",
            "rateLimits.call: list is now rateLimits.call: listMachines",
            "faults.id is now faults.name",
            "faults.operation is now faults.match.call",
            "faults.code is now faults.action.code",
            "faults.match.call: create is now faults.match.call: createMachine",
        ]
        .map(|line| format!("old.yaml: {line}; the old spelling is removed in the next release"));
        assert_eq!(lines, expected);
        assert_eq!(deprecations("new.yaml", new), Deprecations::default());
        let written = serde_saphyr::to_string(&Config::from_yaml("old", old).unwrap()).unwrap();
        assert_eq!(deprecations("written", &written), Deprecations::default(), "{written}");
    }

    #[test]
    fn an_old_file_of_rules_equals_the_new_one_with_warnings() {
        let old = "- {id: a, caller: x, lostReply: true}\n";
        let new = "- {name: a, match: {client: x}, action: {lostReply: true}}\n";
        assert_eq!(read_rules("old", old).unwrap(), read_rules("new", new).unwrap());
        let of = |text| deprecations("rules.yaml", text).iter().count();
        assert_eq!((of(old), of("{id: a, latency: 1s}"), of(new)), (3, 2, 0));
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
    fn the_first_matching_boot_delay_applies() {
        let text = "bootDelay: 2s\nbootDelays:\n- {machineType: gpu-*, delay: 60s}\n- {zone: far, delay: 9s}\n";
        let config = Config::from_yaml("cloud.yaml", text).unwrap().settings().cloud;
        let seconds = |seconds| Delay::Constant(Duration::from_secs(seconds));
        assert_eq!(config.boot_delay_of("gpu-large", "far"), seconds(60));
        assert_eq!(config.boot_delay_of("small", "far"), seconds(9));
        assert_eq!(config.boot_delay_of("small", "near"), seconds(2));
    }

    #[test]
    fn the_configuration_in_the_readme_is_valid() {
        let readme = include_str!("../../README.md");
        let sample = readme
            .split("```yaml\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let config = Config::from_yaml("README.md", sample.unwrap()).unwrap();
        assert_eq!((config.faults.len(), config.kubelet.faults.len()), (2, 2));
    }
}
