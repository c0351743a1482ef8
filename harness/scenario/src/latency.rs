//! Latency of cloud calls.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use fakecloud_api::Delay;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::duration::DurationError;
use crate::{DurationExpression, Timeouts};

/// A duration, or a distribution in the syntax of `fakecloud`: `10s-60s` (range) or `30s~5s` (mean and deviation).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Always the same.
    Fixed(DurationExpression),
    /// Drawn for each call.
    Drawn(Delay),
}

impl Latency {
    /// The value on a stage.
    pub fn value(&self, timeouts: &Timeouts) -> Delay {
        match self {
            Self::Fixed(latency) => Delay::Constant(latency.value(timeouts)),
            Self::Drawn(delay) => *delay,
        }
    }

    /// The duration, if it is always the same.
    pub fn fixed_mut(&mut self) -> Option<&mut DurationExpression> {
        match self {
            Self::Fixed(latency) => Some(latency),
            Self::Drawn(_) => None,
        }
    }
}

impl<T: Into<DurationExpression>> From<T> for Latency {
    fn from(latency: T) -> Self {
        Self::Fixed(latency.into())
    }
}

impl FromStr for Latency {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        // Two literals with a dash are a range. The difference of two literals could be written as one literal.
        match text.parse() {
            Ok(delay @ (Delay::Uniform(..) | Delay::Normal(..))) => Ok(Self::Drawn(delay)),
            _ => text.parse().map(Self::Fixed),
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(latency) => latency.fmt(f),
            Self::Drawn(delay) => delay.fmt(f),
        }
    }
}

impl JsonSchema for Latency {
    fn schema_name() -> Cow<'static, str> {
        "Latency".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration with names such as apiTimeout / 2, a range such as 10s-60s, or a mean and a \
                            deviation such as 30s~5s.",
            "type": "string",
        })
    }
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
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
    #[case::a_duration("3s", "3s")]
    #[case::a_name("bootDelay + 1m", "2m0s + 1m")]
    #[case::a_difference_of_names("healthTimeout - 1m", "9m")]
    #[case::a_range("10s-60s", "10s-1m0s")]
    #[case::a_distribution("30s~5s", "30s~5s")]
    #[case::a_difference_of_literals("60s-10s", "50s")]
    fn a_latency_is_an_expression_or_a_distribution(#[case] text: &str, #[case] value: &str) {
        let latency: Latency = text.parse().unwrap();
        assert_eq!(latency.to_string().parse::<Latency>().unwrap(), latency);
        let expected: Latency = value.parse().unwrap();
        let timeouts = Timeouts::production();
        assert_eq!(latency.value(&timeouts), expected.value(&timeouts));
        let drawn = matches!(latency, Latency::Drawn(_));
        assert_eq!(drawn, ["10s-60s", "30s~5s"].contains(&text));
    }
}
