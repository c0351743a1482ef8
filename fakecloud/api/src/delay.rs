//! Random delays: constant, uniform or normal, written as one short text.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clock::Stream;
use mcm_api::duration::{DurationError, GoDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A distribution of delays.
///
/// Its text is a Go duration (`30s`), a range in which every value is equally likely (`10s-60s`),
/// or a mean with a standard deviation (`30s~5s`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Always the same.
    Constant(Duration),
    /// Equally likely from the first to the second.
    Uniform(Duration, Duration),
    /// Normal distribution with mean and standard deviation; never negative, and limited to six deviations.
    Normal(Duration, Duration),
}

impl Delay {
    /// Draws one delay from `stream`.
    pub fn draw(self, stream: &mut Stream) -> Duration {
        match self {
            Self::Constant(delay) => delay,
            Self::Uniform(minimum, maximum) => minimum + maximum.saturating_sub(minimum).mul_f64(stream.unit()),
            Self::Normal(mean, deviation) => {
                // The sum of twelve uniform draws is close to normal, and exact on every platform.
                let sum: f64 = (0..12).map(|_| stream.unit()).sum();
                let seconds = mean.as_secs_f64() + (sum - 6.0) * deviation.as_secs_f64();
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
            }
        }
    }
}

impl JsonSchema for Delay {
    fn schema_name() -> Cow<'static, str> {
        "Delay".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration such as 30s, a range such as 10s-60s, or a mean and a deviation such as 30s~5s.",
            "type": "string",
        })
    }
}

impl Default for Delay {
    fn default() -> Self {
        Self::Constant(Duration::ZERO)
    }
}

/// A text that is not a delay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DelayError {
    /// It contains no duration where one is needed.
    #[error("{text:?} is not a delay: {source}; a delay is 30s, 10s-60s (range) or 30s~5s (mean and deviation)")]
    Duration {
        /// The text.
        text: String,
        /// What is wrong with the duration.
        source: DurationError,
    },
    /// The range begins with its longer end.
    #[error("{0:?} is not a delay: the range must begin with its shorter end")]
    Range(String),
}

impl FromStr for Delay {
    type Err = DelayError;

    fn from_str(text: &str) -> Result<Self, DelayError> {
        let part = |part: &str| {
            let duration = part.trim().parse::<GoDuration>();
            duration
                .map(|duration| duration.0)
                .map_err(|source| DelayError::Duration {
                    text: text.to_owned(),
                    source,
                })
        };
        if let Some((mean, deviation)) = text.split_once('~') {
            return Ok(Self::Normal(part(mean)?, part(deviation)?));
        }
        if let Some((minimum, maximum)) = text.split_once('-') {
            let (minimum, maximum) = (part(minimum)?, part(maximum)?);
            if minimum > maximum {
                return Err(DelayError::Range(text.to_owned()));
            }
            return Ok(Self::Uniform(minimum, maximum));
        }
        Ok(Self::Constant(part(text)?))
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Constant(delay) => GoDuration(delay).fmt(f),
            Self::Uniform(minimum, maximum) => write!(f, "{}-{}", GoDuration(minimum), GoDuration(maximum)),
            Self::Normal(mean, deviation) => write!(f, "{}~{}", GoDuration(mean), GoDuration(deviation)),
        }
    }
}

impl Serialize for Delay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use clock::Seed;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::constant("30s", "30s", 30.0, 30.0)]
    #[case::uniform("10s-1m", "10s-1m0s", 10.0, 60.0)]
    #[case::normal("30s~5s", "30s~5s", 0.0, 60.0)]
    #[case::never_negative("1s~5s", "1s~5s", 0.0, 31.0)]
    fn a_delay_is_parsed_printed_and_drawn_within_its_bounds(
        #[case] text: &str,
        #[case] printed: &str,
        #[case] minimum: f64,
        #[case] maximum: f64,
    ) {
        let delay: Delay = text.parse().unwrap();
        assert_eq!(delay.to_string(), printed);
        let mut stream = Seed::new(3).stream("delay");
        for _ in 0..1000 {
            let drawn = delay.draw(&mut stream).as_secs_f64();
            assert!((minimum..=maximum).contains(&drawn), "{drawn}");
        }
    }

    #[rstest]
    #[case("soon")]
    #[case("10")]
    #[case("60s-10s")]
    #[case("30s~")]
    fn an_invalid_delay_is_rejected(#[case] text: &str) {
        let error = text.parse::<Delay>().unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }

    #[test]
    fn a_normal_delay_has_its_mean() {
        let mut stream = Seed::new(3).stream("delay");
        let delay: Delay = "30s~5s".parse().unwrap();
        let sum: f64 = (0..2000).map(|_| delay.draw(&mut stream).as_secs_f64()).sum();
        assert!((29.0..31.0).contains(&(sum / 2000.0)));
    }
}
