//! Texts of lists and maps in formats. The library writes the entries of maps in random order.

use std::fmt::Write as _;

use super::{Key, Value};

/// Replaces the lists and maps that a format writes with `%s` by their texts, in which the keys are sorted. `None` for
/// a value without a text.
pub(super) fn with_texts(format: &str, arguments: &[Value]) -> Option<Vec<Value>> {
    let mut verbs = verbs(format).into_iter().map(|(verb, _)| verb);
    let texts = arguments.iter().map(|argument| match (verbs.next(), argument) {
        (Some('s'), Value::List(_) | Value::Map(_) | Value::Opaque(_)) => {
            let mut text = String::new();
            write(argument, &mut text)?;
            Some(text.into())
        }
        _ => Some(argument.clone()),
    });
    texts.collect()
}

/// The precisions in a format.
pub(super) fn precisions(format: &str) -> impl Iterator<Item = u64> {
    verbs(format).into_iter().filter_map(|(_, precision)| precision)
}

/// The verbs of a format with their precisions, in the order of their arguments. The last one is `'\0'` if the format ends
/// after a precision.
fn verbs(format: &str) -> Vec<(char, Option<u64>)> {
    let mut verbs = Vec::new();
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            continue;
        }
        match characters.next() {
            Some('%') | None => {}
            Some('.') => {
                let mut precision = 0_u64;
                while let Some(digit) = characters
                    .next_if(char::is_ascii_digit)
                    .and_then(|digit| digit.to_digit(10))
                {
                    precision = precision.saturating_mul(10).saturating_add(digit.into());
                }
                verbs.push((characters.next().unwrap_or_default(), Some(precision)));
            }
            Some(verb) => verbs.push((verb, None)),
        }
    }
    verbs
}

fn write(value: &Value, text: &mut String) -> Option<()> {
    match value {
        Value::List(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                write(item, text)?;
            }
            text.push(']');
        }
        Value::Map(map) => {
            let mut entries: Vec<(&Key, &Value)> = map.map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                write(&Value::from(key), text)?;
                text.push(':');
                write(value, text)?;
            }
            text.push('}');
        }
        Value::Opaque(_) => return None,
        Value::String(inner) => {
            text.push('"');
            text.push_str(inner);
            text.push('"');
        }
        Value::Int(number) => write!(text, "{number}").ok()?,
        Value::UInt(number) => write!(text, "{number}").ok()?,
        Value::Float(number) if number.fract() == 0.0 => write!(text, "{number:.1}").ok()?,
        Value::Float(number) => write!(text, "{number}").ok()?,
        Value::Bool(value) => write!(text, "{value}").ok()?,
        Value::Null => text.push_str("null"),
        // As the library writes it outside lists and maps.
        other => write!(text, "{other:?}").ok()?,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a", &[])]
    #[case("%s %d", &[('s', None), ('d', None)])]
    #[case("100%% %s%%%x", &[('s', None), ('x', None)])]
    #[case("%.2f%s%.s", &[('f', Some(2)), ('s', None), ('s', Some(0))])]
    #[case("100%%.2000", &[])]
    #[case("%", &[])]
    #[case("%.", &[('\0', Some(0))])]
    #[case("%.99999999999999999999", &[('\0', Some(u64::MAX))])]
    fn verbs_are_found(#[case] format: &str, #[case] found: &[(char, Option<u64>)]) {
        assert_eq!(verbs(format), found);
    }
}
