//! Amounts of resources as whole numbers: reads the text form of quantities (`100m`, `1Gi`, `5e3`).

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANO: i128 = 1_000_000_000;

/// The value in thousandths, rounded up; 0 for text that is no quantity, which the server refuses.
pub(crate) fn milli(quantity: &Quantity) -> i64 {
    round_up(nanos(&quantity.0).unwrap_or_default(), NANO / 1000)
}

/// The value rounded up to a whole number; 0 for text that is no quantity.
pub(crate) fn whole(quantity: &Quantity) -> i64 {
    round_up(nanos(&quantity.0).unwrap_or_default(), NANO)
}

fn round_up(dividend: i128, divisor: i128) -> i64 {
    let quotient = dividend / divisor;
    let rounded = if dividend % divisor == 0 {
        quotient
    } else {
        quotient + dividend.signum()
    };
    i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
}

/// The value in billionths; what is smaller is cut off, what is too large is capped.
fn nanos(text: &str) -> Option<i128> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (multiplier, exponent) = suffix_of(suffix)?;
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if integer.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut mantissa: i128 = 0;
    for digit in integer.chars().chain(fraction.chars()) {
        mantissa = mantissa
            .saturating_mul(10)
            .saturating_add(i128::from(digit.to_digit(10)?));
    }
    let shift = exponent + 9 - i32::try_from(fraction.len()).ok()?;
    let mut value = mantissa.saturating_mul(multiplier);
    for _ in 0..shift.clamp(0, 40) {
        value = value.saturating_mul(10);
    }
    for _ in 0..(-shift).clamp(0, 40) {
        value /= 10;
    }
    Some(if negative { -value } else { value })
}

/// The binary multiplier and the decimal exponent of a suffix.
fn suffix_of(suffix: &str) -> Option<(i128, i32)> {
    let binary = |power: u32| Some((1_i128 << (10 * power), 0));
    let decimal = |exponent| Some((1, exponent));
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
            let exponent: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            decimal(exponent)
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2", 2000, 2)]
    #[case("100m", 100, 1)]
    #[case("0.5", 500, 1)]
    #[case("1Gi", 1_073_741_824_000, 1_073_741_824)]
    #[case("1.5Ki", 1_536_000, 1536)]
    #[case("5e3", 5_000_000, 5000)]
    #[case("1k", 1_000_000, 1000)]
    #[case("1n", 1, 1)]
    #[case("-1500m", -1500, -2)]
    #[case("99999999999999999999E", i64::MAX, i64::MAX)]
    #[case("", 0, 0)]
    #[case("x", 0, 0)]
    fn quantities_are_read_and_rounded_up(#[case] text: &str, #[case] thousandths: i64, #[case] units: i64) {
        let quantity = Quantity(text.to_owned());
        assert_eq!((milli(&quantity), whole(&quantity)), (thousandths, units));
    }
}
