//! Durations that refer to timeouts by name: `healthTimeout + slack`, `2 * nodeGrace`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clock::LostTime;
use jiff::{SignedDuration, Timestamp};
use mcm_api::GoDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::closest::suggestion;

/// How long the attach-detach controller waits for an unhealthy node to unmount a volume: a Kubernetes constant, the
/// same on all stages.
const FORCED_DETACH: Duration = Duration::from_mins(6);

/// A duration whose value depends on the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Named {
    /// How long a node may be unhealthy before its machine is Failed.
    HealthTimeout,
    /// How long a machine may take to become Running.
    CreationTimeout,
    /// How long a drain may take before pods are removed by force.
    DrainTimeout,
    /// From the last heartbeat of a kubelet to the node's Ready=Unknown.
    NodeGrace,
    /// From the creation of a VM until it is up.
    BootDelay,
    /// The retry period after a transient error.
    ShortRetry,
    /// The retry period after a failed creation.
    MediumRetry,
    /// The retry period after an exhausted quota or capacity.
    LongRetry,
    /// From the last renewal of the leader's Lease until another process may take over.
    LeaseDuration,
    /// The toleration of pods for unreachable nodes.
    PodToleration,
    /// How long a volume that no pod needs stays attached to an unreachable node.
    ForcedDetach,
    /// Between two runs of the orphan collection.
    OrphanPeriod,
    /// How long an API server may be unreachable before the controller freezes.
    ApiTimeout,
    /// How long a machine stays preserved.
    PreserveTimeout,
    /// Tolerance for processing time and for times with whole seconds.
    Slack,
}

impl Named {
    /// All names.
    pub const ALL: [Self; 15] = [
        Self::HealthTimeout,
        Self::CreationTimeout,
        Self::DrainTimeout,
        Self::NodeGrace,
        Self::BootDelay,
        Self::ShortRetry,
        Self::MediumRetry,
        Self::LongRetry,
        Self::LeaseDuration,
        Self::PodToleration,
        Self::ForcedDetach,
        Self::OrphanPeriod,
        Self::ApiTimeout,
        Self::PreserveTimeout,
        Self::Slack,
    ];

    /// The name in an expression.
    pub fn name(self) -> &'static str {
        match self {
            Self::HealthTimeout => "healthTimeout",
            Self::CreationTimeout => "creationTimeout",
            Self::DrainTimeout => "drainTimeout",
            Self::NodeGrace => "nodeGrace",
            Self::BootDelay => "bootDelay",
            Self::ShortRetry => "shortRetry",
            Self::MediumRetry => "mediumRetry",
            Self::LongRetry => "longRetry",
            Self::LeaseDuration => "leaseDuration",
            Self::PodToleration => "podToleration",
            Self::ForcedDetach => "forcedDetach",
            Self::OrphanPeriod => "orphanPeriod",
            Self::ApiTimeout => "apiTimeout",
            Self::PreserveTimeout => "preserveTimeout",
            Self::Slack => "slack",
        }
    }
}

/// Values of the named durations on one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// See [`Named::HealthTimeout`].
    pub health: Duration,
    /// See [`Named::CreationTimeout`].
    pub creation: Duration,
    /// See [`Named::DrainTimeout`].
    pub drain: Duration,
    /// See [`Named::NodeGrace`].
    pub node_grace: Duration,
    /// How often a kubelet renews its Lease; well below the grace period.
    pub lease_period: Duration,
    /// See [`Named::BootDelay`].
    pub boot: Duration,
    /// See [`Named::ShortRetry`].
    pub short_retry: Duration,
    /// See [`Named::MediumRetry`].
    pub medium_retry: Duration,
    /// See [`Named::LongRetry`].
    pub long_retry: Duration,
    /// See [`Named::LeaseDuration`].
    pub lease_duration: Duration,
    /// See [`Named::PodToleration`].
    pub pod_toleration: Duration,
    /// See [`Named::OrphanPeriod`].
    pub orphan_period: Duration,
    /// See [`Named::ApiTimeout`].
    pub api_timeout: Duration,
    /// See [`Named::PreserveTimeout`].
    pub preserve: Duration,
    /// See [`Named::Slack`].
    pub slack: Duration,
    /// How long it may take until the effects of a moment are done and observed, besides the resolution of a second:
    /// zero in virtual time, where requests take no time.
    pub reaction: Duration,
    /// How long observations of objects of two kinds may disagree, because each kind has its own watch. Zero in virtual
    /// time.
    pub skew: Duration,
    /// Time that the busy host took from the process, by which deadlines are extended; none in virtual time.
    pub lost: LostTime,
}

impl Timeouts {
    /// Production values, for virtual time.
    pub fn production() -> Self {
        Self {
            health: Duration::from_mins(10),
            creation: Duration::from_mins(20),
            drain: Duration::from_hours(2),
            node_grace: Duration::from_secs(50),
            lease_period: Duration::from_secs(10),
            boot: Duration::from_mins(2),
            short_retry: Duration::from_secs(5),
            medium_retry: Duration::from_mins(3),
            long_retry: Duration::from_mins(10),
            lease_duration: Duration::from_secs(15),
            pod_toleration: Duration::from_mins(5),
            orphan_period: Duration::from_mins(30),
            api_timeout: Duration::from_secs(30),
            preserve: Duration::from_hours(72),
            slack: Duration::from_mins(1),
            reaction: Duration::ZERO,
            skew: Duration::ZERO,
            lost: LostTime::none(),
        }
    }

    /// Short values, for a wall clock.
    pub fn short() -> Self {
        Self {
            health: Duration::from_secs(6),
            creation: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            node_grace: Duration::from_secs(3),
            lease_period: Duration::from_millis(500),
            boot: Duration::from_millis(300),
            short_retry: Duration::from_millis(300),
            medium_retry: Duration::from_millis(500),
            long_retry: Duration::from_secs(1),
            lease_duration: Duration::from_secs(10),
            pod_toleration: Duration::from_secs(5),
            orphan_period: Duration::from_secs(12),
            api_timeout: Duration::from_secs(5),
            preserve: Duration::from_secs(30),
            slack: Duration::from_secs(5),
            reaction: Duration::from_secs(5),
            skew: Duration::from_millis(500),
            lost: LostTime::none(),
        }
    }

    /// Short values for a real etcd, which answers more slowly.
    pub fn on_etcd() -> Self {
        Self {
            slack: Duration::from_secs(10),
            reaction: Duration::from_secs(10),
            skew: Duration::from_secs(1),
            ..Self::short()
        }
    }

    /// Short values for a real controller manager that takes `node_grace` to detect a dead kubelet.
    pub fn on_cluster(node_grace: Duration) -> Self {
        Self {
            health: Duration::from_secs(8),
            node_grace,
            lease_period: Duration::from_secs(1),
            lease_duration: Duration::from_secs(15),
            // Longer than the time in which another machine fails and is deleted.
            preserve: Duration::from_secs(45) + node_grace,
            slack: Duration::from_secs(15),
            reaction: Duration::from_secs(15),
            skew: Duration::from_secs(2),
            ..Self::short()
        }
    }

    /// The deadline of something that began at `since` and may take `limit`, extended by the time that the busy host
    /// took from this process since then.
    pub fn deadline(&self, since: Timestamp, limit: Duration) -> Timestamp {
        let limit = limit.saturating_add(self.lost.since(since));
        let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
        since.saturating_add(limit).unwrap_or(Timestamp::MAX)
    }

    /// The value of a named duration.
    pub fn get(&self, name: Named) -> Duration {
        match name {
            Named::HealthTimeout => self.health,
            Named::CreationTimeout => self.creation,
            Named::DrainTimeout => self.drain,
            Named::NodeGrace => self.node_grace,
            Named::BootDelay => self.boot,
            Named::ShortRetry => self.short_retry,
            Named::MediumRetry => self.medium_retry,
            Named::LongRetry => self.long_retry,
            Named::LeaseDuration => self.lease_duration,
            Named::PodToleration => self.pod_toleration,
            Named::ForcedDetach => FORCED_DETACH,
            Named::OrphanPeriod => self.orphan_period,
            Named::ApiTimeout => self.api_timeout,
            Named::PreserveTimeout => self.preserve,
            Named::Slack => self.slack,
        }
    }
}

/// A sum of named and literal durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationExpression(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    negative: bool,
    times: u32,
    atom: Atom,
    divided_by: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Atom {
    Named(Named),
    Literal(GoDuration),
}

/// Why a text is not a duration expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// A word is neither a number, a name nor a literal.
    #[error("{word:?} in {text:?} is neither a duration such as 90s nor a name; {}", hint(word))]
    Word {
        /// The whole expression.
        text: String,
        /// The word.
        word: String,
    },
    /// A factor or divisor is not a whole number above zero.
    #[error("{word:?} in {text:?} is not a whole number above zero: write for example 2 * healthTimeout or slack / 2")]
    Number {
        /// The whole expression.
        text: String,
        /// The word.
        word: String,
    },
}

fn hint(word: &str) -> String {
    let number: String = word.chars().take_while(char::is_ascii_digit).collect();
    let unit = word[number.len()..].trim().chars().next();
    match (number.as_str(), unit) {
        ("", None) => "it begins or ends with a sign, and a duration cannot be negative".to_owned(),
        ("", Some(_)) => suggestion(word, Named::ALL.map(Named::name)),
        (number, Some('m')) => format!("did you mean {number}m?"),
        (number, Some('h')) => format!("did you mean {number}h?"),
        (number, _) => format!("did you mean {number}s?"),
    }
}

impl DurationExpression {
    /// A literal duration.
    pub fn literal(duration: Duration) -> Self {
        Self(vec![Term {
            negative: false,
            times: 1,
            atom: Atom::Literal(GoDuration(duration)),
            divided_by: 1,
        }])
    }

    /// Whether it refers to a timeout by name, so that its value depends on the stage.
    pub fn has_names(&self) -> bool {
        self.0.iter().any(|term| matches!(term.atom, Atom::Named(_)))
    }

    /// The value on a stage; zero if it would be negative.
    pub fn value(&self, timeouts: &Timeouts) -> Duration {
        let mut plus = Duration::ZERO;
        let mut minus = Duration::ZERO;
        for term in &self.0 {
            let base = match &term.atom {
                Atom::Named(name) => timeouts.get(*name),
                Atom::Literal(duration) => duration.0,
            };
            let sum = if term.negative { &mut minus } else { &mut plus };
            *sum = sum.saturating_add(base.saturating_mul(term.times) / term.divided_by);
        }
        plus.saturating_sub(minus)
    }
}

impl From<Named> for DurationExpression {
    fn from(name: Named) -> Self {
        Self(vec![Term {
            negative: false,
            times: 1,
            atom: Atom::Named(name),
            divided_by: 1,
        }])
    }
}

impl From<Duration> for DurationExpression {
    fn from(duration: Duration) -> Self {
        Self::literal(duration)
    }
}

impl std::ops::Add for DurationExpression {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl std::ops::Sub for DurationExpression {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        self.0.extend(other.0.into_iter().map(|term| Term {
            negative: !term.negative,
            ..term
        }));
        self
    }
}

impl std::ops::Div<u32> for DurationExpression {
    type Output = Self;

    /// Divides every term; a `divisor` of 0 counts as 1.
    fn div(self, divisor: u32) -> Self {
        let divide = |term: Term| Term {
            divided_by: term.divided_by.saturating_mul(divisor.max(1)),
            ..term
        };
        Self(self.0.into_iter().map(divide).collect())
    }
}

impl std::ops::Mul<DurationExpression> for u32 {
    type Output = DurationExpression;

    /// Multiplies every term.
    fn mul(self, expression: DurationExpression) -> DurationExpression {
        let multiply = |term: Term| Term {
            times: term.times.saturating_mul(self),
            ..term
        };
        DurationExpression(expression.0.into_iter().map(multiply).collect())
    }
}

impl FromStr for DurationExpression {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let mut terms = Vec::new();
        let mut rest = text;
        let mut negative = false;
        loop {
            let end = rest.find(['+', '-']).unwrap_or(rest.len());
            terms.push(term(text, &rest[..end], negative)?);
            match rest[end..].chars().next() {
                Some(sign) => {
                    negative = sign == '-';
                    rest = &rest[end + 1..];
                }
                None => return Ok(Self(terms)),
            }
        }
    }
}

fn term(text: &str, part: &str, negative: bool) -> Result<Term, DurationError> {
    let number = |word: &str| match word.trim().parse::<u32>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(DurationError::Number {
            text: text.to_owned(),
            word: word.trim().to_owned(),
        }),
    };
    let (times, part) = match part.split_once('*') {
        Some((factor, part)) => (number(factor)?, part),
        None => (1, part),
    };
    let (word, divided_by) = match part.split_once('/') {
        Some((word, divisor)) => (word.trim(), number(divisor)?),
        None => (part.trim(), 1),
    };
    let atom = match Named::ALL.into_iter().find(|name| name.name() == word) {
        Some(name) => Atom::Named(name),
        None => Atom::Literal(word.parse().map_err(|_| DurationError::Word {
            text: text.to_owned(),
            word: word.to_owned(),
        })?),
    };
    Ok(Term {
        negative,
        times,
        atom,
        divided_by,
    })
}

impl fmt::Display for DurationExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.0.iter().enumerate() {
            match (index, term.negative) {
                (0, _) => {}
                (_, false) => f.write_str(" + ")?,
                (_, true) => f.write_str(" - ")?,
            }
            if term.times != 1 {
                write!(f, "{} * ", term.times)?;
            }
            match &term.atom {
                Atom::Named(name) => f.write_str(name.name())?,
                Atom::Literal(duration) => write!(f, "{duration}")?,
            }
            if term.divided_by != 1 {
                write!(f, " / {}", term.divided_by)?;
            }
        }
        Ok(())
    }
}

impl JsonSchema for DurationExpression {
    fn schema_name() -> Cow<'static, str> {
        "DurationExpression".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Named::ALL.iter().map(|named| named.name()).collect();
        json_schema!({
            "description": format!(
                "A sum, difference, multiple or fraction of durations such as 90s or 1h30m and names whose values \
                 depend on the stage: {}.",
                names.join(", ")
            ),
            "type": "string",
            "examples": ["healthTimeout + slack", "2 * nodeGrace", "creationTimeout / 2", "90s"],
        })
    }
}

impl Serialize for DurationExpression {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationExpression {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_name("healthTimeout", 600)]
    #[case::a_sum("healthTimeout + slack", 660)]
    #[case::a_multiple("2 * nodeGrace", 100)]
    #[case::a_fraction("creationTimeout / 2", 600)]
    #[case::a_multiple_of_a_fraction("3 * healthTimeout / 4 - 30s", 420)]
    #[case::a_literal("1h30m", 5400)]
    #[case::never_below_zero("slack - healthTimeout", 0)]
    fn an_expression_is_evaluated_with_production_values(#[case] text: &str, #[case] seconds: u64) {
        let expression: DurationExpression = text.parse().unwrap();
        assert_eq!(expression.value(&Timeouts::production()), Duration::from_secs(seconds));
        assert_eq!(
            expression.to_string().parse::<DurationExpression>().unwrap(),
            expression
        );
    }

    #[rstest]
    #[case::an_unknown_name("helthTimeout", "healthTimeout")]
    #[case::nothing("", "duration such as 90s")]
    #[case::a_sign_at_the_end("slack +", "duration such as 90s")]
    #[case::a_divisor_of_zero("slack / 0", "above zero")]
    #[case::a_fractional_factor("1.5 * slack", "above zero")]
    fn the_error_of_an_invalid_expression_suggests_a_valid_one(#[case] text: &str, #[case] expected: &str) {
        let error = text.parse::<DurationExpression>().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
