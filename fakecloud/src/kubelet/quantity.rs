//! Quantities of CPU and memory, as far as admission needs them.

use quantity::Quantity;

/// A quantity in thousandths of its unit, saturating; `None`: invalid.
pub(super) fn millis(text: &str) -> Option<u128> {
    u128::try_from(text.trim().parse::<Quantity>().ok()?.milli()).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2", Some(2000))]
    #[case("500m", Some(500))]
    #[case("0.1", Some(100))]
    #[case("1Ki", Some(1_024_000))]
    #[case("1e3", Some(1_000_000))]
    #[case("2E", Some(2_000_000_000_000_000_000_000))]
    #[case("1n", Some(1))]
    #[case("many", None)]
    #[case("-1", None)]
    #[case("", None)]
    fn a_quantity_is_parsed_as_in_kubernetes(#[case] text: &str, #[case] expected: Option<u128>) {
        assert_eq!(millis(text), expected);
    }
}
