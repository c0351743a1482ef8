//! Quantities such as `100m`, `1Gi`, `5e3`: parses and compares them, and formats them canonically as upstream does
//! (`k8s.io/apimachinery/pkg/api/resource`). Server, controllers and kubelets all use this parser. The crate does not
//! know what a quantity measures.

mod saturating;

pub use saturating::{Saturating, total};

use std::fmt;
use std::str::FromStr;

const NANO: i128 = 1_000_000_000;
/// Upstream caps values at the largest 64-bit integer.
const MAX: i128 = i64::MAX as i128 * NANO;

/// Upstream's message for text that is not a quantity.
pub const REFUSAL: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The suffix family of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `Ki`, `Mi`
    Binary,
    /// `m`, `k`, `M`
    Decimal,
    /// `e3`
    Exponent,
}

/// A fixed-point number with a unit prefix, exact to a billionth.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{REFUSAL}")]
pub struct InvalidQuantity;

impl Quantity {
    /// The value in thousandths, rounded up: `1500` of `1.5`.
    pub fn milli(&self) -> i128 {
        ceil(self.nanos, NANO / 1000)
    }

    /// The value rounded up to a whole number.
    pub fn value(&self) -> i128 {
        ceil(self.nanos, NANO)
    }

    /// Compares values regardless of suffix.
    pub fn compare(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }

    /// The sum, with the suffixes of the first unless that is zero.
    pub fn plus(&self, other: &Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self {
            nanos: self.nanos.saturating_add(other.nanos).min(MAX),
            format,
        }
    }

    /// The difference, with the suffixes of the first.
    pub fn minus(&self, other: &Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(other.nanos),
            ..*self
        }
    }

    /// A whole number in decimal notation.
    pub fn whole(number: i64) -> Self {
        Self {
            nanos: i128::from(number).saturating_mul(NANO).min(MAX),
            format: Format::Decimal,
        }
    }

    /// Rounds up to thousandths, as upstream does for resource amounts.
    pub fn rounded_to_milli(self) -> Self {
        Self {
            nanos: self.milli() * (NANO / 1000),
            ..self
        }
    }
}

/// Division that rounds away from zero, as upstream does.
fn ceil(dividend: i128, divisor: i128) -> i128 {
    let quotient = dividend / divisor;
    if dividend % divisor == 0 {
        quotient
    } else {
        quotient + dividend.signum()
    }
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(InvalidQuantity);
        }
        let (format, multiplier, exponent) = suffix_of(suffix).ok_or(InvalidQuantity)?;
        let nanos = scale(whole, fraction, multiplier, exponent);
        Ok(Self {
            nanos: if negative { -nanos } else { nanos },
            format,
        })
    }
}

/// Format, binary multiplier and decimal exponent of a suffix.
fn suffix_of(suffix: &str) -> Option<(Format, i128, i32)> {
    let binary = |power: u32| Some((Format::Binary, 1_i128 << (10 * power), 0));
    let decimal = |exponent| Some((Format::Decimal, 1, exponent));
    match suffix {
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        other => {
            let digits = other.strip_prefix(['e', 'E'])?;
            let exponent: i32 = digits.parse().ok()?;
            Some((Format::Exponent, 1, exponent))
        }
    }
}

/// The magnitude in billionths, rounded up and capped.
fn scale(whole: &str, fraction: &str, multiplier: i128, exponent: i32) -> i128 {
    // 29 digits hold every value below the cap to a billionth; a value with more whole digits exceeds the cap.
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return 0;
    }
    let shift = i64::from(exponent) + 9 - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let magnitude = i64::try_from(significant.len())
        .unwrap_or(i64::MAX)
        .saturating_add(shift);
    if magnitude > 30 {
        return MAX;
    }
    if magnitude < -30 {
        return 1;
    }
    let (kept, cut) = significant.split_at(significant.len().min(30));
    let lost = cut.bytes().any(|digit| digit != b'0');
    let Ok(number) = kept.parse::<i128>() else { return MAX };
    let shift = shift + i64::try_from(cut.len()).unwrap_or(0);
    let power = |exponent: i64| 10_i128.checked_pow(u32::try_from(exponent).unwrap_or(u32::MAX));
    let scaled = if shift >= 0 {
        power(shift)
            .and_then(|power| number.checked_mul(power))
            .and_then(|number| number.checked_mul(multiplier))
    } else {
        match (power(-shift), number.checked_mul(multiplier)) {
            (Some(power), Some(number)) => Some(ceil(number, power)),
            (None, _) => Some(1),
            (_, None) => None,
        }
    };
    scaled.map_or(MAX, |nanos| nanos.saturating_add(i128::from(lost)).min(MAX))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        // As upstream's `CanonicalizeBytes`: binary format only for values that need no rounding and no fraction.
        let binary = self.nanos.abs() >= 1024 * NANO && self.nanos % NANO == 0;
        match self.format {
            Format::Binary if binary => {
                let (mut number, mut power) = (self.nanos / NANO, 0);
                while number % 1024 == 0 && power < 6 {
                    number /= 1024;
                    power += 1;
                }
                write!(
                    f,
                    "{number}{}",
                    ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(power).unwrap_or(&"")
                )
            }
            format => {
                let (mut number, mut power) = (self.nanos, 0_usize);
                while number % 1000 == 0 && power < 9 {
                    number /= 1000;
                    power += 1;
                }
                let exponent = 3 * i32::try_from(power).unwrap_or(0) - 9;
                match format {
                    Format::Exponent if exponent == 0 => write!(f, "{number}"),
                    Format::Exponent => write!(f, "{number}e{exponent}"),
                    _ => {
                        let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                        write!(f, "{number}{}", suffixes.get(power).unwrap_or(&""))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1Gi", "1G", "2073741824")]
    #[case("512Mi", "512Mi", "1Gi")]
    #[case("0", "1Ki", "1Ki")]
    #[case("600m", "0.4", "1")]
    fn a_sum_has_the_suffixes_of_the_first(#[case] one: &str, #[case] other: &str, #[case] expected: &str) {
        let [one, other]: [Quantity; 2] = [one, other].map(|text| text.parse().unwrap());
        assert_eq!(one.plus(&other).to_string(), expected);
    }

    #[rstest]
    #[case("1024Mi", "1Gi")]
    #[case("0.5", "500m")]
    #[case("0", "0")]
    #[case("-0", "0")]
    #[case("1000", "1k")]
    #[case("1500m", "1500m")]
    #[case("2000m", "2")]
    #[case("100M", "100M")]
    #[case("0.5Gi", "512Mi")]
    #[case("0.5Ki", "512")]
    #[case("1.5Ki", "1536")]
    #[case("1025", "1025")]
    #[case("100e3", "100e3")]
    #[case("1E3", "1e3")]
    #[case("1e0", "1")]
    #[case("1E", "1E")]
    #[case("+5", "5")]
    #[case("-5m", "-5m")]
    #[case(".5", "500m")]
    #[case("5.", "5")]
    #[case("0.1n", "1n")]
    #[case("1Ei", "1Ei")]
    #[case("3922964Ki", "3922964Ki")]
    #[case("99999999999999999999", "9223372036854775807")]
    #[case("0.3Ki", "307200m")]
    #[case("96.735Mi", "101433999360m")]
    #[case("1.0001Ki", "1024102400u")]
    #[case("1.00000001Mi", "1048576010485760n")]
    #[case("-1.5555Ki", "-1592832m")]
    #[case("1024.5Ki", "1049088")]
    fn canonical_form(#[case] text: &str, #[case] canonical: &str) {
        assert_eq!(text.parse::<Quantity>().unwrap().to_string(), canonical);
    }

    #[rstest]
    #[case("")]
    #[case("Gi")]
    #[case("1.2.3")]
    #[case("1 Gi")]
    #[case("1gi")]
    #[case("1e")]
    #[case("--1")]
    #[case("1K")]
    #[case("ten")]
    fn invalid_quantities_are_rejected(#[case] text: &str) {
        assert_eq!(text.parse::<Quantity>().unwrap_err(), InvalidQuantity);
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_canonical_and_keeps_the_value(
            number in "[+-]?([0-9]{1,12})(\\.[0-9]{0,6})?",
            suffix in "(|m|u|n|k|M|G|T|Ki|Mi|Gi|Ti|e2|E-2)",
        ) {
            let quantity: Quantity = format!("{number}{suffix}").parse().unwrap();
            let again: Quantity = quantity.to_string().parse().unwrap();
            prop_assert_eq!(quantity.to_string(), again.to_string());
            prop_assert!(quantity.compare(&again).is_eq());
        }

        #[test]
        fn any_text_is_parsed_or_rejected(text in ".{0,40}") {
            let _ = text.parse::<Quantity>().map(|quantity| quantity.to_string());
        }

        #[test]
        fn any_number_and_exponent_is_parsed(number in "[0-9.]{1,60}", exponent in any::<i32>()) {
            let _ = format!("{number}e{exponent}").parse::<Quantity>().map(|quantity| quantity.to_string());
        }
    }
}
