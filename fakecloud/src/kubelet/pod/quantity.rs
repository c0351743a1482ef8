//! Quantities of CPU and memory, as far as admission needs them.

/// A quantity in thousandths of its unit; `None` when it is none. More than fits is the most.
pub(in crate::kubelet) fn millis(text: &str) -> Option<u128> {
    let text = text.trim();
    let split = text
        .char_indices()
        .find(|(index, c)| c.is_ascii_alphabetic() && !is_exponent(text, *index))
        .map_or(text.len(), |(index, _)| index);
    let (number, suffix) = text.split_at(split);
    let factor: f64 = match suffix {
        "n" => 1e-6,
        "u" => 1e-3,
        "m" => 1.0,
        "" => 1e3,
        "k" => 1e6,
        "M" => 1e9,
        "G" => 1e12,
        "T" => 1e15,
        "P" => 1e18,
        "E" => 1e21,
        "Ki" => 1024.0 * 1e3,
        "Mi" => 1024.0_f64.powi(2) * 1e3,
        "Gi" => 1024.0_f64.powi(3) * 1e3,
        "Ti" => 1024.0_f64.powi(4) * 1e3,
        "Pi" => 1024.0_f64.powi(5) * 1e3,
        "Ei" => 1024.0_f64.powi(6) * 1e3,
        _ => return None,
    };
    let number: f64 = number
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    Some((number * factor).ceil() as u128)
}

/// Whether the letter there is the `e` or `E` of a decimal exponent, as in `1e3`.
fn is_exponent(text: &str, index: usize) -> bool {
    let mut rest = text[index..].chars();
    matches!(rest.next(), Some('e' | 'E')) && rest.next().is_some_and(|c| c.is_ascii_digit() || c == '-' || c == '+')
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
    fn a_quantity_is_read_as_kubernetes_reads_it(#[case] text: &str, #[case] expected: Option<u128>) {
        assert_eq!(millis(text), expected);
    }
}
