//! Syntax of zone names and quantities.

use quantity::Quantity;

/// Whether a zone name is valid in a provider ID and a label.
pub fn is_zone(zone: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !zone.is_empty() && zone.len() <= 63 && zone.bytes().all(inner) && !zone.starts_with('-') && !zone.ends_with('-')
}

/// Whether a text is a positive quantity in Kubernetes syntax.
pub(crate) fn is_quantity(text: &str) -> bool {
    text.parse::<Quantity>().is_ok_and(|amount| amount.milli() > 0)
}
