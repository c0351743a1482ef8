//! Durations as strings: `90s`, `1m30s`, `250ms`. For `#[serde(with = …)]`.

use std::time::Duration;

use jiff::SignedDuration;
use jiff::fmt::friendly::{Spacing, SpanPrinter};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

static PRINTER: SpanPrinter = SpanPrinter::new().spacing(Spacing::None);

/// The duration in the notation of rules.
pub(super) fn text(period: Duration) -> String {
    PRINTER.unsigned_duration_to_string(&period)
}

fn parse(text: &str) -> Result<Duration, String> {
    let unreadable = |why: &str| {
        format!("{text:?} is not a duration ({why}); write a number with a unit, such as 90s, 1m30s or 250ms")
    };
    let signed: SignedDuration = text
        .parse()
        .map_err(|error: jiff::Error| unreadable(&error.to_string()))?;
    Duration::try_from(signed).map_err(|_| unreadable("it is negative"))
}

pub(super) fn serialize<S: Serializer>(period: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*period))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// The same for optional durations.
pub(super) mod optional {
    use super::{Deserialize, Deserializer, Duration, Serializer, parse};

    pub(in crate::faults) fn serialize<S: Serializer>(
        period: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match period {
            Some(period) => super::serialize(period, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(in crate::faults) fn deserialize<'de, De: Deserializer<'de>>(
        deserializer: De,
    ) -> Result<Option<Duration>, De::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parse(&text).map_err(serde::de::Error::custom))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("90s", 90_000, "1m30s")]
    #[case("1m30s", 90_000, "1m30s")]
    #[case("1h 250ms", 3_600_250, "1h250ms")]
    #[case("0s", 0, "0s")]
    fn durations_are_parsed_and_formatted(#[case] written: &str, #[case] millis: u64, #[case] printed: &str) {
        let period = parse(written).unwrap();
        assert_eq!(period, Duration::from_millis(millis));
        assert_eq!(text(period), printed);
        assert_eq!(parse(printed).unwrap(), period);
    }

    #[rstest]
    #[case("90")]
    #[case("")]
    #[case("-5s")]
    #[case("soon")]
    fn the_error_for_an_invalid_duration_shows_the_notation(#[case] text: &str) {
        let error = parse(text).unwrap_err();
        assert!(error.contains("such as 90s, 1m30s or 250ms"), "{error}");
    }
}
