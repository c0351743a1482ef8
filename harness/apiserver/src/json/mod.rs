//! Bounded JSON: parses bodies, and limits the depth and the size of values, so that everything that is stored can be
//! read back, alone, in a list, in a table and in a watch event. This module knows no resources or requests.

mod yaml;

use serde_json::Value;

pub use yaml::{parse_configuration, parse_yaml, parse_yaml_documents};

/// The maximum nesting of lists and objects. Most clients, and this server, read 127 levels; a list, a table and a
/// watch event together add five.
pub const MAX_DEPTH: usize = 120;

/// The maximum size of an encoded object in bytes: etcd's limit for a request.
pub const MAX_OBJECT: usize = 1_572_864;

/// The reason why a text is not a value.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// This bracket exceeds [`MAX_DEPTH`].
    #[error("invalid character '{0}' exceeded max depth")]
    Depth(char),
    /// The text is not JSON.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
}

/// Parses JSON of at most [`MAX_DEPTH`] levels.
///
/// # Errors
/// See [`Malformed`].
pub fn parse(text: &[u8]) -> Result<Value, Malformed> {
    if let Some(bracket) = first_too_deep(text) {
        return Err(Malformed::Depth(bracket));
    }
    Ok(serde_json::from_slice(text)?)
}

/// Writes whole numbers without a fraction, as upstream does in custom resources: 1.0 becomes 1.
pub fn shorten_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0);
            // Larger numbers have no exact integer.
            if let Some(whole) = whole.and_then(|whole| format!("{whole:.0}").parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_numbers),
        Value::Object(members) => members.values_mut().for_each(shorten_numbers),
        _ => {}
    }
}

/// Whether a value has at most `levels` levels of lists and objects. Recurses at most `levels` times.
pub fn fits(value: &Value, levels: usize) -> bool {
    let mut unlimited = usize::MAX;
    fits_within(value, levels, &mut unlimited)
}

/// As [`fits`], but visits at most `visits` values, and subtracts those that it visits; false with 0 left means that
/// the answer is not known.
pub fn fits_within(value: &Value, levels: usize, visits: &mut usize) -> bool {
    let Some(left) = visits.checked_sub(1) else {
        return false;
    };
    *visits = left;
    let mut inside = match value {
        Value::Array(items) => Inside::Items(items.iter()),
        Value::Object(members) => Inside::Members(members.values()),
        _ => return true,
    };
    let Some(levels) = levels.checked_sub(1) else {
        return false;
    };
    inside.all(|value| fits_within(value, levels, visits))
}

/// A lower bound of the size of an encoded value in bytes. For values whose depth is limited.
pub fn least_size(value: &Value) -> usize {
    let parts = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(least_size).fold(0, usize::saturating_add),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| least_size(value).saturating_add(name.len()).saturating_add(3))
            .fold(0, usize::saturating_add),
        _ => 0,
    };
    parts.saturating_add(1)
}

enum Inside<'a> {
    Items(std::slice::Iter<'a, Value>),
    Members(serde_json::map::Values<'a>),
}

impl<'a> Iterator for Inside<'a> {
    type Item = &'a Value;

    fn next(&mut self) -> Option<&'a Value> {
        match self {
            Self::Items(items) => items.next(),
            Self::Members(members) => members.next(),
        }
    }
}

/// The first opening bracket outside of strings that exceeds [`MAX_DEPTH`].
fn first_too_deep(text: &[u8]) -> Option<char> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in text {
        if quoted {
            quoted = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'{' | b'[' if depth == MAX_DEPTH => return Some(char::from(*byte)),
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn nested(open: &str, close: &str, levels: usize) -> String {
        format!("{}0{}", open.repeat(levels), close.repeat(levels))
    }

    #[rstest]
    #[case::lists("[", "]", '[')]
    #[case::objects(r#"{"a":"#, "}", '{')]
    #[case::brackets_in_strings_do_not_count(r#"{"}]\"}":"#, "}", '{')]
    fn the_depth_of_a_text_is_limited(#[case] open: &str, #[case] close: &str, #[case] bracket: char) {
        let value = parse(nested(open, close, MAX_DEPTH).as_bytes()).unwrap();
        assert!(fits(&value, MAX_DEPTH) && !fits(&value, MAX_DEPTH - 1));
        for levels in [MAX_DEPTH + 1, 200, 1_000_000] {
            let error = parse(nested(open, close, levels).as_bytes()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("invalid character '{bracket}' exceeded max depth")
            );
        }
        // Without its end.
        assert!(parse(open.repeat(1_000_000).as_bytes()).is_err());
    }

    #[test]
    fn a_number_that_is_read_and_written_stays_the_same() {
        for number in [
            "0.1",
            "1.5e-7",
            "5.067355041735604e-308",
            "1.7976931348623157e+308",
            "2.2250738585072014e-308",
        ] {
            assert_eq!(parse(number.as_bytes()).unwrap().to_string(), number);
        }
        let mut random = clock::Seed::new(1).stream("numbers");
        for _ in 0..10_000 {
            let number = random.unit() * 1e10;
            assert_eq!(parse(number.to_string().as_bytes()).unwrap().as_f64(), Some(number));
        }
    }

    #[test]
    fn whole_numbers_have_no_fraction() {
        let mut value: Value = serde_json::from_str(r#"{"a":1.0,"b":[1.5,1e3,-0.0],"c":1e21,"d":7}"#).unwrap();
        shorten_numbers(&mut value);
        assert_eq!(value.to_string(), r#"{"a":1,"b":[1.5,1000,0],"c":1e+21,"d":7}"#);
    }

    #[test]
    fn wide_values_are_not_deep() {
        let wide = vec![json!({}); 1000];
        assert!(fits(&wide.clone().into(), 2));
        assert!(!fits(&wide.into(), 1));
        assert!(fits(&json!("[[["), 0));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            r#"[\[\]{}\\"a]{0,6}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(8, 40, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(r#"[\[{\\"a]{0,3}"#, inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// A value in `wraps` lists is parsed exactly if it fits.
        #[test]
        fn what_fits_is_parsed_and_nothing_else(value in any_value(), wraps in 110_usize..125) {
            let text = format!("{}{value}{}", "[".repeat(wraps), "]".repeat(wraps));
            let parsed = parse(text.as_bytes());
            prop_assert!(least_size(&value) <= value.to_string().len());
            match MAX_DEPTH.checked_sub(wraps) {
                Some(levels) => prop_assert_eq!(parsed.is_ok(), fits(&value, levels)),
                None => prop_assert!(parsed.is_err()),
            }
        }
    }
}
