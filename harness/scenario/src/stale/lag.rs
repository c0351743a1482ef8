//! Durations that refer to the lag of a run (`lag + 5s`), and lists of lags (`1s..5m`).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use mcm_api::GoDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration: a number of lags and a constant, such as `2 * lag + 5s`, `lag` or `30s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    lags: u32,
    constant: Duration,
}

impl Lag {
    /// The duration in a run with that lag.
    pub fn with(self, lag: Duration) -> Duration {
        lag.saturating_mul(self.lags).saturating_add(self.constant)
    }
}

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration: write for example 30s, lag, lag + 5s or 2 * lag + 5s")]
pub struct LagError(String);

impl FromStr for Lag {
    type Err = LagError;

    fn from_str(text: &str) -> Result<Self, LagError> {
        let invalid = || LagError(text.to_owned());
        let mut sum = Self::default();
        for term in text.split('+').map(str::trim) {
            let (factor, word) = match term.split_once('*') {
                Some((factor, word)) => (factor.trim().parse().map_err(|_| invalid())?, word.trim()),
                None => (1, term),
            };
            if word == "lag" {
                sum.lags = sum.lags.saturating_add(factor);
            } else {
                let GoDuration(constant) = word.parse().map_err(|_| invalid())?;
                sum.constant = sum.constant.saturating_add(constant.saturating_mul(factor));
            }
        }
        Ok(sum)
    }
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lags {
            0 => return write!(f, "{}", GoDuration(self.constant)),
            1 => f.write_str("lag")?,
            lags => write!(f, "{lags} * lag")?,
        }
        match self.constant {
            Duration::ZERO => Ok(()),
            constant => write!(f, " + {}", GoDuration(constant)),
        }
    }
}

impl Serialize for Lag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Lag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Lag {
    fn schema_name() -> Cow<'static, str> {
        "Lag".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration such as `30s`, or one that refers to the lag of the run: `lag`, `lag + 5s`, `2 * lag`.",
            "type": "string",
        })
    }
}

/// The lags that a range contains, beside its ends.
const STEPS: [Duration; 11] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_mins(1),
    Duration::from_mins(2),
    Duration::from_mins(5),
    Duration::from_mins(10),
    Duration::from_mins(30),
    Duration::from_hours(1),
];

/// The lags of the runs, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagList(pub Vec<Duration>);

/// Why a text is no list of lags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LagListError {
    /// A part is not a duration.
    #[error("{0:?} is not a lag: write a duration (30s), several (0s,10s,1m) or a range (1s..5m)")]
    Syntax(String),
    /// The first end of a range is not below the second one.
    #[error("the range {0:?} is empty: write the shorter lag first")]
    Empty(String),
}

impl FromStr for LagList {
    type Err = LagListError;

    fn from_str(text: &str) -> Result<Self, LagListError> {
        let parse = |part: &str| {
            let parsed: Result<GoDuration, _> = part.trim().parse();
            parsed
                .map(|GoDuration(lag)| lag)
                .map_err(|_| LagListError::Syntax(part.to_owned()))
        };
        let mut lags = Vec::new();
        for part in text.split(',') {
            let Some((from, to)) = part.split_once("..") else {
                lags.push(parse(part)?);
                continue;
            };
            let (from, to) = (parse(from)?, parse(to)?);
            if from >= to {
                return Err(LagListError::Empty(part.to_owned()));
            }
            lags.extend([from, to]);
            lags.extend(STEPS.into_iter().filter(|step| (from..to).contains(step)));
        }
        lags.sort_unstable();
        lags.dedup();
        Ok(Self(lags))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("30s", 30, "30s")]
    #[case("lag", 10, "lag")]
    #[case("lag+5s", 15, "lag + 5s")]
    #[case("2 * lag + 1m", 80, "2 * lag + 1m0s")]
    #[case("0s", 0, "0s")]
    fn a_duration_refers_to_the_lag(#[case] text: &str, #[case] seconds: u64, #[case] shown: &str) {
        let parsed: Lag = text.parse().unwrap();
        assert_eq!(parsed.with(Duration::from_secs(10)), Duration::from_secs(seconds));
        assert_eq!(parsed.to_string(), shown);
        assert_eq!(shown.parse::<Lag>().unwrap(), parsed);
    }

    #[rstest]
    #[case("")]
    #[case("lags")]
    #[case("lag * 2")]
    #[case("5")]
    fn an_invalid_duration_shows_the_notation(#[case] text: &str) {
        let error = text.parse::<Lag>().unwrap_err().to_string();
        assert!(error.contains("2 * lag + 5s"), "{error}");
    }

    #[rstest]
    #[case("10s", &[10])]
    #[case("1m,0s,10s,10s", &[0, 10, 60])]
    #[case("1s..5m", &[1, 2, 5, 10, 30, 60, 120, 300])]
    #[case("3s..20s", &[3, 5, 10, 20])]
    #[case("0s,1s..2s", &[0, 1, 2])]
    fn lags_are_single_ones_and_ranges(#[case] text: &str, #[case] expected: &[u64]) {
        let seconds: Vec<u64> = text
            .parse::<LagList>()
            .unwrap()
            .0
            .iter()
            .map(Duration::as_secs)
            .collect();
        assert_eq!(seconds, expected);
    }

    #[rstest]
    #[case("5m..1s", "is empty")]
    #[case("1..2", "is not a lag")]
    #[case("", "is not a lag")]
    fn invalid_lags_are_refused(#[case] text: &str, #[case] expected: &str) {
        let error = text.parse::<LagList>().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
