//! Faults of kubelets in the configuration.

use fakecloud_api::DurationText;
use jiff::SignedDuration;
use mcm_api::duration::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Down, Flapping, KubeletFault, KubeletFaultError, PlannedKubeletFault};

/// A scheduled fault of some kubelets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletFaultRule {
    /// A glob on the machine's `NAME` or `NAMESPACE/NAME`. Absent: all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// A glob on the zone. Absent: all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// Time from the VM's first boot to the fault.
    #[serde(default)]
    #[schemars(with = "DurationText")]
    pub after: GoDuration,
    /// Duration. Absent: until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub lasts: Option<GoDuration>,
    /// The kind of fault.
    pub mode: KubeletMode,
    /// For `slow` and `slowRecovery`: the duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub delay: Option<GoDuration>,
    /// For `clockAhead` and `clockBehind`: the offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub by: Option<GoDuration>,
    /// For `flapping`: the length of one cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub period: Option<GoDuration>,
    /// For `flapping`: the share of the period in which the kubelet is up. Absent: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_percent: Option<u32>,
    /// For `flapping`: the fault while the kubelet is down. Absent: `partitioned`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Down>,
}

/// The faults by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KubeletMode {
    /// [`KubeletFault::Stopped`].
    Stopped,
    /// [`KubeletFault::Partitioned`].
    Partitioned,
    /// [`KubeletFault::Frozen`].
    Frozen,
    /// [`KubeletFault::Flapping`].
    Flapping,
    /// [`KubeletFault::Slow`].
    Slow,
    /// [`KubeletFault::SlowRecovery`].
    SlowRecovery,
    /// [`KubeletFault::ClockSkew`] into the future.
    ClockAhead,
    /// [`KubeletFault::ClockSkew`] into the past.
    ClockBehind,
    /// [`KubeletFault::Zombie`].
    Zombie,
    /// [`KubeletFault::TakeOver`].
    TakeOver,
}

/// Why a scheduled fault is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeletFaultRuleError {
    /// A field of another mode is given.
    #[error("{0} does not belong to this mode; remove it")]
    Foreign(&'static str),
    /// A field that the mode needs is missing.
    #[error("{0} is missing, for example {0}: 30s")]
    Missing(&'static str),
    /// Fields of the mode `flapping` are given.
    #[error("upPercent and down belong to the mode flapping; remove them")]
    NotFlapping,
    /// The fault ends when it begins.
    #[error("lasts must be longer than zero; leave it out for a fault without end")]
    Lasts,
    /// A value is invalid.
    #[error(transparent)]
    Fault(#[from] KubeletFaultError),
}

impl KubeletFaultRule {
    /// The fault of the rule.
    ///
    /// # Errors
    /// The field that is missing, does not belong to the mode or is invalid.
    pub fn fault(&self) -> Result<KubeletFault, KubeletFaultRuleError> {
        let mode = self.mode;
        let fields = [
            (
                "delay",
                self.delay.is_some(),
                matches!(mode, KubeletMode::Slow | KubeletMode::SlowRecovery),
            ),
            (
                "by",
                self.by.is_some(),
                matches!(mode, KubeletMode::ClockAhead | KubeletMode::ClockBehind),
            ),
            ("period", self.period.is_some(), mode == KubeletMode::Flapping),
        ];
        for (field, given, belongs) in fields {
            match (given, belongs) {
                (true, false) => return Err(KubeletFaultRuleError::Foreign(field)),
                (false, true) => return Err(KubeletFaultRuleError::Missing(field)),
                (true, true) | (false, false) => {}
            }
        }
        if mode != KubeletMode::Flapping && (self.up_percent.is_some() || self.down.is_some()) {
            return Err(KubeletFaultRuleError::NotFlapping);
        }
        if self.lasts.is_some_and(|lasts| lasts.0.is_zero()) {
            return Err(KubeletFaultRuleError::Lasts);
        }
        let span = |span: Option<GoDuration>| span.unwrap_or_default().0;
        let offset = SignedDuration::try_from(span(self.by)).unwrap_or(SignedDuration::MAX);
        let fault = match mode {
            KubeletMode::Stopped => KubeletFault::Stopped,
            KubeletMode::Partitioned => KubeletFault::Partitioned,
            KubeletMode::Frozen => KubeletFault::Frozen,
            KubeletMode::Flapping => KubeletFault::Flapping(Flapping {
                period: span(self.period),
                up_percent: self.up_percent.unwrap_or(50),
                down: self.down.unwrap_or_default(),
            }),
            KubeletMode::Slow => KubeletFault::Slow(span(self.delay)),
            KubeletMode::SlowRecovery => KubeletFault::SlowRecovery(span(self.delay)),
            KubeletMode::ClockAhead => KubeletFault::ClockSkew(offset),
            KubeletMode::ClockBehind => KubeletFault::ClockSkew(-offset),
            KubeletMode::Zombie => KubeletFault::Zombie,
            KubeletMode::TakeOver => KubeletFault::TakeOver,
        };
        fault.check()?;
        Ok(fault)
    }

    /// `None` for an invalid rule.
    pub(super) fn translate(&self) -> Option<PlannedKubeletFault> {
        Some(PlannedKubeletFault {
            machine: self.machine.clone(),
            zone: self.zone.clone(),
            after: self.after.0,
            lasts: self.lasts.map(|lasts| lasts.0),
            fault: self.fault().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("{mode: slow}", "delay is missing")]
    #[case("{mode: slow, delay: 0s}", "delay must be longer than zero")]
    #[case("{mode: frozen, delay: 3s}", "delay does not belong")]
    #[case("{mode: flapping, period: 1m, upPercent: 100}", "upPercent is 100")]
    #[case("{mode: flapping, period: 10ms}", "period must be at least 1s")]
    #[case("{mode: zombie, down: frozen}", "belong to the mode flapping")]
    #[case("{mode: clockAhead}", "by is missing")]
    #[case("{mode: stopped, lasts: 0s}", "lasts must be longer")]
    fn an_invalid_rule_is_rejected_with_its_fix(#[case] rule: &str, #[case] expected: &str) {
        let rule: KubeletFaultRule = serde_saphyr::from_str(rule).unwrap();
        let error = rule.fault().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_rule_gives_the_fault_of_its_mode() {
        let rule: KubeletFaultRule =
            serde_saphyr::from_str("{machine: a-*, mode: clockBehind, by: 2m, after: 1h, lasts: 10m}").unwrap();
        assert_eq!(
            rule.fault(),
            Ok(KubeletFault::ClockSkew(SignedDuration::from_secs(-120)))
        );
        let planned = rule.translate().unwrap();
        assert!(planned.matches("default/a-1", "z") && !planned.matches("default/b-1", "z"));
    }
}
