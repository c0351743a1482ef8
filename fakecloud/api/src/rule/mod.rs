//! Rules by which calls fail, are slow, or have a part of their effect only.

mod check;
mod error;
mod old;
mod read;
#[cfg(test)]
mod tests;
mod values;

use mcm_api::cloud::Code;
use mcm_api::duration::GoDuration;
use schemars::JsonSchema;
use serde::Serialize;

pub use self::error::FaultRuleError;
pub(crate) use self::old::{call_values, renamed};
pub use self::read::RuleReader;
pub use self::values::{At, CommonError, Partial, Stale, Throttle, Window};
use crate::schema::CodeText;
use crate::{CloudCall, Delay};

/// A fault rule: which calls it hits, and what happens to them.
///
/// `L` is the type of latencies and `D` that of other durations: in scenarios they are expressions of named timeouts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct FaultRule<L = Delay, D = GoDuration> {
    /// Unique. `fakecloud` names a rule without a name; scenarios need one.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(default)]
    pub name: String,
    /// Which calls. Absent: every call.
    #[serde(rename = "match", skip_serializing_if = "Match::is_everything")]
    #[schemars(default)]
    pub matches: Match<D>,
    /// What happens to them.
    pub action: Action<L, D>,
}

/// Selects the calls of a rule. All conditions must hold; an absent one always holds.
///
/// Of the matching calls, the first `skip` pass; then the rule hits each one with `probability`, at most `times`
/// times.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Match<D = GoDuration> {
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CloudCall>,
    /// A glob on the machine's `NAME` or `NAMESPACE/NAME`. Absent: any call, including those without a machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// A glob on the machine class's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// A glob on the zone of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// A glob on the name that the client gives. Absent: any call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Number of matching calls that pass first.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub skip: u64,
    /// The maximum number of hits. Absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The probability of a hit, more than 0 and at most 1. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// When the rule is active. Absent: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window<D>>,
    /// The rate of matching calls that pass; only calls beyond it are hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Throttle>,
}

/// What happens to a call that is hit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Action<L = Delay, D = GoDuration> {
    /// The code of the reply. Absent: that of the call itself.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "read::code_name")]
    #[schemars(with = "Option<CodeText>")]
    pub code: Option<Code>,
    /// The code and the text of a common error, instead of `code`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CommonError>,
    /// The message of the error. Absent: a default text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Delay of the reply; the effect is not delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<L>,
    /// Whether the call fails before or after its effect commits.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub at: At,
    /// The effect commits, and the reply never arrives: the client's connection ends.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub lost_reply: bool,
    /// For creations, deletions and attachments of volumes: delay of the effect. A creation takes effect whether or not
    /// the client still waits for its reply; a deletion and an attachment reply at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect_delay: Option<D>,
    /// For creations: the VM stays pending. For deletions: the VM stays stopping. A step command ends both.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub stuck: bool,
    /// A part of the effect commits, and the reply is the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
    /// For GetMachineStatus and ListMachines: the reply shows an earlier state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<Stale<D>>,
    /// The call has no effect, and its reply reports success: a deleted VM still exists, an existing one is not found.
    /// Byzantine.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub lie: bool,
    /// For creations and GetMachineStatus: the reply does not name the node. Byzantine.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub nameless: bool,
}

impl<D> Default for Match<D> {
    fn default() -> Self {
        Self {
            call: None,
            machine: None,
            class: None,
            zone: None,
            client: None,
            skip: 0,
            times: None,
            probability: None,
            window: None,
            throttle: None,
        }
    }
}

impl<D> Match<D> {
    fn is_everything(&self) -> bool {
        let Self {
            call,
            machine,
            class,
            zone,
            client,
            skip,
            times,
            probability,
            window,
            throttle,
        } = self;
        call.is_none()
            && [machine, class, zone, client].into_iter().all(Option::is_none)
            && *skip == 0
            && times.is_none()
            && probability.is_none()
            && window.is_none()
            && throttle.is_none()
    }
}

impl<L, D> Default for Action<L, D> {
    fn default() -> Self {
        Self {
            code: None,
            error: None,
            message: None,
            latency: None,
            at: At::BeforeCommit,
            lost_reply: false,
            effect_delay: None,
            stuck: false,
            partial: None,
            stale: None,
            lie: false,
            nameless: false,
        }
    }
}

impl<L, D> FaultRule<L, D> {
    /// A rule for every call, without an effect yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            matches: Match::default(),
            action: Action::default(),
        }
    }

    /// A rule for one call, without an effect yet.
    pub fn of(name: impl Into<String>, call: CloudCall) -> Self {
        let mut rule = Self::new(name);
        rule.matches.call = Some(call);
        rule
    }

    /// Limits the rule to machines that match the glob.
    #[must_use]
    pub fn machine(mut self, machine: &str) -> Self {
        self.matches.machine = Some(machine.to_owned());
        self
    }

    /// Limits the rule to machines of the classes that match the glob.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.matches.class = Some(class.to_owned());
        self
    }

    /// Lets the first matching calls pass.
    #[must_use]
    pub fn skip(mut self, skip: u64) -> Self {
        self.matches.skip = skip;
        self
    }

    /// Limits the number of hits.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.matches.times = Some(times);
        self
    }

    /// Sets the code of the reply.
    #[must_use]
    pub fn code(mut self, code: Code) -> Self {
        self.action.code = Some(code);
        self
    }

    /// Sets the message of the error.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        self.action.message = Some(message.to_owned());
        self
    }

    /// Delays the reply.
    #[must_use]
    pub fn latency(mut self, latency: impl Into<L>) -> Self {
        self.action.latency = Some(latency.into());
        self
    }

    /// Lets the call fail after its effect commits.
    #[must_use]
    pub fn after_commit(mut self) -> Self {
        self.action.at = At::AfterCommit;
        self
    }

    /// See [`Action::lie`].
    #[must_use]
    pub fn lie(mut self) -> Self {
        self.action.lie = true;
        self
    }

    /// See [`Action::nameless`].
    #[must_use]
    pub fn nameless(mut self) -> Self {
        self.action.nameless = true;
        self
    }

    /// See [`Action::partial`].
    #[must_use]
    pub fn partial(mut self, partial: Partial) -> Self {
        self.action.partial = Some(partial);
        self
    }

    /// See [`Action::stale`].
    #[must_use]
    pub fn stale(mut self, by: impl Into<D>) -> Self {
        self.action.stale = Some(Stale::By(by.into()));
        self
    }

    /// See [`Action::effect_delay`].
    #[must_use]
    pub fn effect_delay(mut self, by: impl Into<D>) -> Self {
        self.action.effect_delay = Some(by.into());
        self
    }

    /// Whether the rule violates the contract of a cloud.
    pub fn is_byzantine(&self) -> bool {
        self.action.lie || self.action.nameless
    }

    /// The call's name in the driver's contract, for messages.
    pub fn call_name(&self) -> &'static str {
        self.matches.call.map_or("any call", CloudCall::rpc)
    }

    /// The code of a hit; OK: that of the call itself.
    pub fn answered(&self) -> Code {
        match (self.action.error, self.action.code) {
            (Some(error), _) => error.code(),
            (None, Some(code)) => code,
            (None, None) if self.action.lost_reply => Code::Unavailable,
            (None, None) => Code::Ok,
        }
    }

    /// The same rule with other types of latencies and durations.
    pub fn map<K, E>(self, latency: impl FnOnce(L) -> K, duration: impl Fn(D) -> E) -> FaultRule<K, E> {
        let Match {
            call,
            machine,
            class,
            zone,
            client,
            skip,
            times,
            probability,
            window,
            throttle,
        } = self.matches;
        let action = self.action;
        FaultRule {
            name: self.name,
            matches: Match {
                call,
                machine,
                class,
                zone,
                client,
                skip,
                times,
                probability,
                window: window.map(|window| Window {
                    from: window.from.map(&duration),
                    until: window.until.map(&duration),
                }),
                throttle,
            },
            action: Action {
                code: action.code,
                error: action.error,
                message: action.message,
                latency: action.latency.map(latency),
                at: action.at,
                lost_reply: action.lost_reply,
                effect_delay: action.effect_delay.map(&duration),
                stuck: action.stuck,
                partial: action.partial,
                stale: action.stale.map(|stale| match stale {
                    Stale::By(by) => Stale::By(duration(by)),
                    Stale::Calls(calls) => Stale::Calls(calls),
                }),
                lie: action.lie,
                nameless: action.nameless,
            },
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
