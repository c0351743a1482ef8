//! Resource quantities as whole numbers for the scheduler.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The value in thousandths, rounded up; 0 for an invalid quantity, which the API server rejects.
pub(crate) fn milli(quantity: &Quantity) -> i64 {
    capped(quantity, quantity::Quantity::milli)
}

/// The value rounded up to a whole number; 0 for an invalid quantity.
pub(crate) fn whole(quantity: &Quantity) -> i64 {
    capped(quantity, quantity::Quantity::value)
}

fn capped(quantity: &Quantity, amount: fn(&quantity::Quantity) -> i128) -> i64 {
    let Ok(read) = quantity.0.parse::<quantity::Quantity>() else {
        return 0;
    };
    let amount = amount(&read);
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
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
