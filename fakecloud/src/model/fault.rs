//! Rules by which calls fail, are slow, or do half of what they should: what stands in one, and whether it makes sense.

use std::fmt;

use mcm_api::cloud::Code;
use mcm_api::duration::GoDuration;
use serde::{Deserialize, Serialize};

use super::fault_error::FaultRuleError;
use super::rates::check_rate;
use crate::delay::Delay;

/// A call that rules and rate limits can be about.
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
    /// `UpdateMachine`, and `UpdateVm` of the control contract: tags and flags of a VM that runs.
    Update,
    /// Attaching a volume.
    Attach,
    /// Detaching a volume.
    Detach,
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
            Self::Attach => "AttachVolume",
            Self::Detach => "DetachVolume",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Of the calls that match, let `skip` pass, then strike at most `times`, each with `probability`.
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
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// A glob on the machine class's name. Empty: any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// A glob on the zone of the class. Empty: any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// A glob on who calls, where that is known. Empty: anybody.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caller: String,
    /// How many matching calls pass first.
    #[serde(default)]
    pub skip: u64,
    /// How many are struck at most. Absent: without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// How likely a matching call is struck, more than 0 and at most 1. Absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// When the rule is in force. Absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// So many matching calls pass; only those beyond are struck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Throttle>,
    /// What is answered; `OK` changes the answer in no way.
    #[serde(default = "ok", with = "code_name")]
    pub code: Code,
    /// The code and the text of a common trouble, instead of `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Trouble>,
    /// What the error says; empty: a text is given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// By how much the reply, not the effect, is delayed.
    #[serde(default)]
    pub latency: Delay,
    /// The call does its work, and its reply is the error all the same.
    #[serde(default)]
    pub effect_before_error: bool,
    /// The call does its work, and its reply never arrives: the caller sees its connection end.
    #[serde(default)]
    pub lost_reply: bool,
    /// Of creations and deletions: by how much the effect comes later. That of a creation comes whether or not the
    /// caller still waits for its reply; the reply to a deletion comes at once.
    #[serde(default)]
    pub effect_delay: GoDuration,
    /// Of creations: the VM never boots. Of deletions: the VM is stopping and never ends. Until it is stepped.
    #[serde(default)]
    pub stuck: bool,
    /// The call does nothing, and its reply says that all is well: a deleted VM lives, a living one is not found.
    #[serde(default)]
    pub lie: bool,
    /// Of creations and GetMachineStatus: the answer does not name the node.
    #[serde(default)]
    pub nameless: bool,
    /// The call does a part of its work, and its reply is the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
    /// Of GetMachineStatus and ListMachines: the answer shows the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<Stale>,
}

/// When a rule is in force, counted from the beginning of the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Window {
    /// Inclusive.
    pub from: GoDuration,
    /// Exclusive; absent: without end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<GoDuration>,
}

/// How many calls pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Throttle {
    /// So many in a second in the long run; more than 0.
    pub per_second: f64,
    /// So many at once after a rest; at least 1.
    #[serde(default = "one")]
    pub burst: u32,
}

fn one() -> u32 {
    1
}

/// A common trouble with its code and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trouble {
    /// The account's quota is used up.
    Quota,
    /// The zone has no room for the machine type.
    Capacity,
    /// Too many calls.
    Throttled,
    /// The credentials have expired.
    CredentialsExpired,
    /// The credentials are not known.
    CredentialsWrong,
    /// The credentials do not allow it.
    Denied,
    /// The API is down.
    Outage,
}

impl Trouble {
    /// What is answered.
    pub fn code(self) -> Code {
        match self {
            Self::Quota | Self::Capacity => Code::ResourceExhausted,
            Self::Throttled | Self::Outage => Code::Unavailable,
            Self::CredentialsExpired | Self::CredentialsWrong => Code::Unauthenticated,
            Self::Denied => Code::PermissionDenied,
        }
    }

    /// What the error says.
    pub fn text(self) -> &'static str {
        match self {
            Self::Quota => "the quota is used up",
            Self::Capacity => "there is no capacity for this machine type in this zone",
            Self::Throttled => "too many calls; make fewer, or come again later",
            Self::CredentialsExpired => "the credentials have expired",
            Self::CredentialsWrong => "the credentials are not known",
            Self::Denied => "the credentials do not allow this",
            Self::Outage => "the API is down",
        }
    }
}

/// How far a call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Partial {
    /// A creation makes the network interfaces only; an initialization switches the first one only.
    Nics,
    /// A creation makes network interfaces and disks, and no VM.
    Disks,
    /// A deletion ends the VM and leaves its disks and network interfaces.
    Vm,
    /// An update sets the tags and not the flags.
    Tags,
}

impl Partial {
    fn belongs_to(self, operation: Option<Operation>) -> bool {
        match self {
            Self::Nics => matches!(operation, Some(Operation::Create | Operation::Initialize)),
            Self::Disks => operation == Some(Operation::Create),
            Self::Vm => operation == Some(Operation::Delete),
            Self::Tags => operation == Some(Operation::Update),
        }
    }
}

/// How far back an answer shows the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Stale {
    /// As it was so long ago.
    By(GoDuration),
    /// As it was at the matching call so many calls before; where there was none, when the rule was added.
    Calls(u32),
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
            class: String::new(),
            zone: String::new(),
            caller: String::new(),
            skip: 0,
            times: None,
            probability: None,
            window: None,
            throttle: None,
            code,
            error: None,
            message: String::new(),
            latency: Delay::default(),
            effect_before_error: false,
            lost_reply: false,
            effect_delay: GoDuration::default(),
            stuck: false,
            lie: false,
            nameless: false,
            partial: None,
            stale: None,
        }
    }

    /// The code that a struck call answers; OK: what it answers by itself.
    pub fn answered(&self) -> Code {
        match self.error {
            Some(error) => error.code(),
            None if self.lost_reply && self.code == Code::Ok => Code::Unavailable,
            None => self.code,
        }
    }

    /// Checks what the shape alone does not.
    ///
    /// # Errors
    /// With what is wrong and how to mend it.
    pub fn check(&self) -> Result<(), FaultRuleError> {
        self.check_match()?;
        let delayed = !self.effect_delay.0.is_zero();
        let effects = [
            ("effectBeforeError", self.effect_before_error),
            ("lostReply", self.lost_reply),
            ("effectDelay", delayed),
            ("stuck", self.stuck),
            ("lie", self.lie),
            ("nameless", self.nameless),
            ("partial", self.partial.is_some()),
            ("stale", self.stale.is_some()),
        ];
        let given: Vec<&'static str> = effects
            .iter()
            .filter(|(_, given)| *given)
            .map(|(name, _)| *name)
            .collect();
        if given.len() > 1 {
            return Err(FaultRuleError::Exclusive(given));
        }
        let effect = given.first().copied().unwrap_or_default();
        let code = self.answered();
        if self.error.is_some() && self.code != Code::Ok {
            return Err(FaultRuleError::ErrorAndCode);
        }
        let needs_code = self.effect_before_error || self.partial.is_some() || self.throttle.is_some();
        if needs_code && code == Code::Ok {
            return Err(FaultRuleError::NoError);
        }
        let no_code = delayed || self.stuck || self.lie || self.nameless || self.stale.is_some();
        if no_code && code != Code::Ok {
            return Err(FaultRuleError::NeedsSuccess(effect));
        }
        let changes = matches!(self.operation, Some(Operation::Create | Operation::Delete));
        if (delayed || self.stuck) && !changes {
            return Err(FaultRuleError::NeedsChange(effect));
        }
        if self.partial.is_some_and(|partial| !partial.belongs_to(self.operation)) {
            return Err(FaultRuleError::Partial);
        }
        let names = matches!(self.operation, Some(Operation::Create | Operation::GetStatus));
        if self.nameless && !names {
            return Err(FaultRuleError::Nameless);
        }
        let reads = matches!(self.operation, Some(Operation::GetStatus | Operation::List));
        if self.stale.is_some() && !reads {
            return Err(FaultRuleError::Stale);
        }
        if matches!(self.stale, Some(Stale::Calls(0))) || matches!(self.stale, Some(Stale::By(by)) if by.0.is_zero()) {
            return Err(FaultRuleError::StaleByNothing);
        }
        if code == Code::Ok && self.latency == Delay::default() && given.is_empty() {
            return Err(FaultRuleError::ChangesNothing);
        }
        Ok(())
    }

    fn check_match(&self) -> Result<(), FaultRuleError> {
        if self.times == Some(0) {
            return Err(FaultRuleError::NeverFires);
        }
        if let Some(probability) = self.probability
            && !(probability > 0.0 && probability <= 1.0)
        {
            return Err(FaultRuleError::Probability(probability));
        }
        if let Some(Window {
            from,
            until: Some(until),
        }) = self.window
            && until <= from
        {
            return Err(FaultRuleError::Window);
        }
        if let Some(throttle) = self.throttle {
            check_rate(throttle.per_second, throttle.burst)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("{}", "the rule changes nothing")]
    #[case("{code: Internal, times: 0}", "times is 0")]
    #[case("{code: Internal, probability: 1.5}", "probability is 1.5")]
    #[case("{code: Internal, window: {from: 2m, until: 1m}}", "window.until must be later")]
    #[case("{code: Internal, throttle: {perSecond: 0}}", "throttle.perSecond is 0")]
    #[case("{throttle: {perSecond: 1}}", "answers no error")]
    #[case(
        "{operation: create, code: Internal, lie: true}",
        "lie goes with a call that succeeds"
    )]
    #[case("{operation: create, stuck: true, lie: true}", "stuck and lie exclude each other")]
    #[case("{operation: list, stuck: true}", "stuck is for creations and deletions")]
    #[case(
        "{operation: delete, code: Internal, partial: nics}",
        "partial does not go with this operation"
    )]
    #[case("{operation: create, partial: nics}", "answers no error")]
    #[case("{operation: create, stale: {by: 1m}}", "stale is for calls that look")]
    #[case("{operation: list, stale: {calls: 0}}", "stale by nothing")]
    #[case("{code: Internal, error: quota}", "error and code are both given")]
    #[case("{effectBeforeError: true}", "answers no error")]
    fn a_rule_that_makes_no_sense_says_what_to_mend(#[case] rule: &str, #[case] said: &str) {
        let rule: FaultRule = serde_saphyr::from_str(rule).unwrap();
        let error = rule.check().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }

    #[rstest]
    #[case(
        "{operation: create, error: capacity, probability: 0.5, zone: local-1}",
        Code::ResourceExhausted
    )]
    #[case("{lostReply: true}", Code::Unavailable)]
    #[case("{operation: delete, stuck: true}", Code::Ok)]
    #[case("{latency: 1s-3s}", Code::Ok)]
    fn a_rule_that_makes_sense_survives_yaml(#[case] text: &str, #[case] answered: Code) {
        let rule: FaultRule = serde_saphyr::from_str(text).unwrap();
        rule.check().unwrap();
        assert_eq!(rule.answered(), answered);
        let written = serde_saphyr::to_string(&rule).unwrap();
        assert_eq!(serde_saphyr::from_str::<FaultRule>(&written).unwrap(), rule);
    }
}
