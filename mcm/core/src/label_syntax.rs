//! The syntax of the keys and values of labels, annotations and taints.

use mcm_api::{MAX_LABEL_VALUE, is_label_value};

/// The longest prefix of a key.
const LONGEST_PREFIX: usize = 253;

/// Why a key is not valid: an optional DNS subdomain and a slash, then a name.
pub(crate) fn key_problem(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let valid = prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name);
    (!valid).then(|| {
        format!("the key must be a name of at most {MAX_LABEL_VALUE} letters, digits, '-', '_' and '.', after an optional prefix such as example.com/")
    })
}

/// Why the value of a label is not valid.
pub(crate) fn value_problem(value: &str) -> Option<String> {
    (!is_label_value(value)).then(|| {
        format!("the value {value:?} must have at most {MAX_LABEL_VALUE} letters, digits, '-', '_' and '.', and begin and end with a letter or digit")
    })
}

fn is_subdomain(text: &str) -> bool {
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|byte| byte.is_some_and(u8::is_ascii_alphanumeric))
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::name("pool", true)]
    #[case::prefix("node.example.com/pool", true)]
    #[case::longest(&"a".repeat(63), true)]
    #[case::too_long(&"a".repeat(64), false)]
    #[case::empty("", false)]
    #[case::no_name("example.com/", false)]
    #[case::no_prefix("/pool", false)]
    #[case::two_slashes("a/b/c", false)]
    #[case::upper_case_prefix("Example.com/pool", false)]
    #[case::space("a b", false)]
    #[case::dash_at_the_end("a-", false)]
    fn keys_have_the_syntax_of_kubernetes(#[case] key: &str, #[case] valid: bool) {
        assert_eq!(key_problem(key).is_none(), valid, "{key}");
    }
}
