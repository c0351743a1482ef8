//! Rules by which driver calls fail or are slow.

use std::fmt;
use std::time::Duration;

use mcm_api::cloud::Code;
use mcm_api::duration::GoDuration;
use serde::{Deserialize, Serialize};

use crate::glob;

/// A call of the driver contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// `CreateMachine`.
    Create,
    /// `InitializeMachine`.
    Initialize,
    /// `DeleteMachine`.
    Delete,
    /// `GetMachineStatus`.
    GetStatus,
    /// `ListMachines`.
    List,
    /// `GetVolumeIDs`.
    Volumes,
    /// `UpdateMachine`.
    Update,
}

impl Operation {
    /// The call's name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CreateMachine",
            Self::Initialize => "InitializeMachine",
            Self::Delete => "DeleteMachine",
            Self::GetStatus => "GetMachineStatus",
            Self::List => "ListMachines",
            Self::Volumes => "GetVolumeIDs",
            Self::Update => "UpdateMachine",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Of the calls that match, let `skip` pass, then change at most `times`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultRule {
    /// Unique; one is given to a rule without.
    #[serde(default)]
    pub id: String,
    /// Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// A glob on the machine's `NAME` or `NAMESPACE/NAME`. Empty: any call, also those about no
    /// machine.
    #[serde(default)]
    pub machine: String,
    /// How many matching calls pass first.
    #[serde(default)]
    pub skip: u64,
    /// How many are changed at most. Absent: without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// What is answered; `OK` only delays the call.
    #[serde(default = "ok", with = "code_name")]
    pub code: Code,
    /// What the error says; empty: a text is given.
    #[serde(default)]
    pub message: String,
    /// By how much the reply, not the effect, is delayed.
    #[serde(default)]
    pub latency: GoDuration,
    /// The call does its work, and its reply is the error all the same.
    #[serde(default)]
    pub effect_before_error: bool,
    /// Of creations: by how much the effect, and the reply with it, comes later. It comes whether or not the caller
    /// still waits.
    #[serde(default)]
    pub effect_delay: GoDuration,
}

fn ok() -> Code {
    Code::Ok
}

/// Machine codes by the names that stand in `lastOperation.errorCode`.
mod code_name {
    use mcm_api::cloud::Code;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(code.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Code, D::Error> {
        let name = String::deserialize(deserializer)?;
        Code::from_name(&name).ok_or_else(|| {
            let names: Vec<_> = Code::ALL.into_iter().map(Code::name).collect();
            serde::de::Error::custom(format!(
                "{name:?} is no machine code; the codes are {}",
                names.join(", ")
            ))
        })
    }
}

impl FaultRule {
    /// A rule that answers every such call with `code`.
    pub fn new(id: impl Into<String>, operation: Option<Operation>, code: Code) -> Self {
        Self {
            id: id.into(),
            operation,
            machine: String::new(),
            skip: 0,
            times: None,
            code,
            message: String::new(),
            latency: GoDuration::default(),
            effect_before_error: false,
            effect_delay: GoDuration::default(),
        }
    }

    /// Checks what the shape alone does not.
    ///
    /// # Errors
    /// With what is wrong and how to mend it.
    pub fn check(&self) -> Result<(), String> {
        let delayed = !self.effect_delay.0.is_zero();
        if delayed && (self.operation != Some(Operation::Create) || self.code != Code::Ok) {
            return Err(
                "effectDelay is for creations that succeed: set operation to create and leave the code out".to_owned(),
            );
        }
        if self.code == Code::Ok && self.latency.0.is_zero() && !delayed {
            return Err("the rule changes nothing: give it a code other than OK, or a latency".to_owned());
        }
        if self.times == Some(0) {
            return Err("times is 0, so the rule never fires: leave it out, or make it at least 1".to_owned());
        }
        Ok(())
    }

    fn matches(&self, operation: Operation, machine: Option<&str>) -> bool {
        self.operation.is_none_or(|wanted| wanted == operation)
            && (self.machine.is_empty() || machine.is_some_and(|machine| glob::matches_machine(&self.machine, machine)))
    }
}

/// A rule with its counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The rule.
    pub rule: FaultRule,
    /// Matching calls so far.
    pub seen: u64,
    /// Of these, calls that the rule changed.
    pub hits: u64,
}

/// What a rule that fired does to a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fired {
    pub(super) id: String,
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) latency: Duration,
    pub(super) effect_before_error: bool,
    pub(super) effect_delay: Duration,
}

/// Why a rule was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// The rule makes no sense.
    #[error("the fault rule is not usable: {0}")]
    Unusable(String),
    /// There is such a rule already.
    #[error("there is a fault rule {0:?} already: remove it first, or leave the id out")]
    Exists(String),
    /// There is no such rule.
    #[error("there is no fault rule {0:?}")]
    Unknown(String),
}

/// All rules in the order in which they are asked.
#[derive(Debug, Default)]
pub struct Faults {
    faults: Vec<Fault>,
    added: u64,
}

impl Faults {
    /// Adds a rule behind the others.
    ///
    /// # Errors
    /// When it makes no sense, or its id is taken.
    pub fn add(&mut self, mut rule: FaultRule) -> Result<&Fault, FaultError> {
        rule.check().map_err(FaultError::Unusable)?;
        while rule.id.is_empty() {
            self.added += 1;
            let id = format!("fault-{}", self.added);
            if self.faults.iter().all(|fault| fault.rule.id != id) {
                rule.id = id;
            }
        }
        if self.faults.iter().any(|fault| fault.rule.id == rule.id) {
            return Err(FaultError::Exists(rule.id));
        }
        self.faults.push(Fault { rule, seen: 0, hits: 0 });
        Ok(&self.faults[self.faults.len() - 1])
    }

    /// Removes a rule and answers its counters.
    ///
    /// # Errors
    /// When there is no such rule.
    pub fn remove(&mut self, id: &str) -> Result<Fault, FaultError> {
        let index = self.faults.iter().position(|fault| fault.rule.id == id);
        index
            .map(|index| self.faults.remove(index))
            .ok_or_else(|| FaultError::Unknown(id.to_owned()))
    }

    /// All rules with their counters.
    pub fn list(&self) -> &[Fault] {
        &self.faults
    }

    /// What happens to a call. The first rule that fires decides; rules after it do not see it.
    pub(super) fn decide(&mut self, operation: Operation, machine: Option<&str>) -> Option<Fired> {
        for Fault { rule, seen, hits } in &mut self.faults {
            if !rule.matches(operation, machine) {
                continue;
            }
            *seen += 1;
            if *seen <= rule.skip || rule.times.is_some_and(|times| *hits >= times) {
                continue;
            }
            *hits += 1;
            let message = if rule.message.is_empty() {
                format!("{operation} failed by the fault rule {}", rule.id)
            } else {
                rule.message.clone()
            };
            return Some(Fired {
                id: rule.id.clone(),
                code: rule.code,
                message,
                latency: rule.latency.0,
                effect_before_error: rule.effect_before_error,
                effect_delay: rule.effect_delay.0,
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rules: impl IntoIterator<Item = FaultRule>) -> Faults {
        let mut faults = Faults::default();
        for rule in rules {
            faults.add(rule).unwrap();
        }
        faults
    }

    fn fired(faults: &mut Faults, operation: Operation, machine: Option<&str>) -> Option<Code> {
        faults.decide(operation, machine).map(|fired| fired.code)
    }

    #[test]
    fn a_rule_skips_then_fires_so_often_then_rests() {
        let mut faults = rules([FaultRule {
            skip: 1,
            times: Some(2),
            ..FaultRule::new("a", Some(Operation::Create), Code::Internal)
        }]);
        let outcomes: Vec<_> = (0..5)
            .map(|_| fired(&mut faults, Operation::Create, Some("x")))
            .collect();
        assert_eq!(outcomes, [None, Some(Code::Internal), Some(Code::Internal), None, None]);
        assert_eq!((faults.list()[0].seen, faults.list()[0].hits), (5, 2));
    }

    #[test]
    fn rules_fire_one_after_the_other() {
        let once = |id, code| FaultRule {
            times: Some(1),
            ..FaultRule::new(id, Some(Operation::Create), code)
        };
        let mut faults = rules([
            once("a", Code::ResourceExhausted),
            once("b", Code::Unavailable),
            once("c", Code::Internal),
        ]);
        let outcomes: Vec<_> = (0..4)
            .map(|_| fired(&mut faults, Operation::Create, Some("x")))
            .collect();
        let expected = [Code::ResourceExhausted, Code::Unavailable, Code::Internal].map(Some);
        assert_eq!(outcomes[..3], expected);
        assert_eq!(outcomes[3], None);
    }

    #[test]
    fn a_rule_matches_by_operation_and_machine() {
        let mut faults = rules([FaultRule {
            machine: "worker-*".to_owned(),
            ..FaultRule::new("a", Some(Operation::Delete), Code::Aborted)
        }]);
        assert_eq!(fired(&mut faults, Operation::Create, Some("default/worker-1")), None);
        assert_eq!(fired(&mut faults, Operation::Delete, Some("default/other")), None);
        assert_eq!(fired(&mut faults, Operation::List, None), None);
        assert_eq!(
            fired(&mut faults, Operation::Delete, Some("default/worker-1")),
            Some(Code::Aborted)
        );
        let mut faults = rules([FaultRule::new("any", None, Code::Unavailable)]);
        assert_eq!(fired(&mut faults, Operation::List, None), Some(Code::Unavailable));
    }

    #[test]
    fn a_rule_gets_an_id_and_keeps_it_to_itself() {
        let mut faults = Faults::default();
        let rule = FaultRule::new("", None, Code::Internal);
        assert_eq!(faults.add(rule.clone()).unwrap().rule.id, "fault-1");
        assert_eq!(faults.add(rule).unwrap().rule.id, "fault-2");
        let same = FaultRule::new("fault-1", None, Code::Internal);
        assert_eq!(faults.add(same), Err(FaultError::Exists("fault-1".to_owned())));
        faults.remove("fault-1").unwrap();
        assert_eq!(faults.remove("fault-1"), Err(FaultError::Unknown("fault-1".to_owned())));
    }

    #[test]
    fn a_rule_that_changes_nothing_is_refused() {
        let error = Faults::default().add(FaultRule::new("a", None, Code::Ok)).unwrap_err();
        assert!(error.to_string().contains("a latency"), "{error}");
    }
}
