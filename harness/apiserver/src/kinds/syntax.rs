//! Checks the syntax of names, labels, keys and amounts, with upstream's messages.

use crate::status::FieldError;
use crate::syntax::{is_dns_subdomain, is_label_value, is_qualified_name};

const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
    must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
    or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
    end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIGURATION_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
    '93%', regex used for validation is '[0-9]+%')";

fn check(errors: &mut Vec<FieldError>, path: &str, text: &str, good: bool, detail: &str) {
    if !good {
        errors.push(FieldError::invalid(path, text, detail));
    }
}

/// A name such as that of a container.
pub(super) fn dns_label(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    if text.len() > 63 {
        errors.push(FieldError::invalid(path, text, "must be no more than 63 bytes"));
    } else {
        check(
            errors,
            path,
            text,
            !text.contains('.') && is_dns_subdomain(text),
            DNS_LABEL,
        );
    }
}

/// A name such as that of an object.
pub(super) fn dns_subdomain(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    check(errors, path, text, is_dns_subdomain(text), DNS_SUBDOMAIN);
}

/// A key such as that of a label or taint.
pub(super) fn qualified_name(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    check(errors, path, text, is_qualified_name(text), QUALIFIED_NAME);
}

/// A value such as that of a label or taint.
pub(super) fn label_value(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    check(errors, path, text, is_label_value(text), LABEL_VALUE);
}

/// A key in the data of a Secret or ConfigMap.
pub(super) fn configuration_key(errors: &mut Vec<FieldError>, path: &str, key: &str) {
    if key.len() > 253 {
        errors.push(FieldError::invalid(path, key, "must be no more than 253 bytes"));
    }
    let good = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    check(errors, path, key, good, CONFIGURATION_KEY);
    if key == "." || key.starts_with("..") {
        let detail = if key.len() <= 2 {
            format!("must not be '{key}'")
        } else {
            "must not start with '..'".to_owned()
        };
        errors.push(FieldError::invalid(path, key, detail));
    }
}

/// A number of at least 0, or a percentage from 0 to 100.
pub(super) fn amount_or_percent(errors: &mut Vec<FieldError>, path: &str, value: &serde_json::Value) {
    match value {
        serde_json::Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            errors.push(FieldError::invalid(
                path,
                value.clone(),
                "must be greater than or equal to 0",
            ));
        }
        serde_json::Value::String(text) => match text.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok()) {
            None => errors.push(FieldError::invalid(path, text.as_str(), PERCENT)),
            Some(percent) if percent > 100 => {
                errors.push(FieldError::invalid(
                    path,
                    text.as_str(),
                    "must not be greater than 100%",
                ));
            }
            Some(_) => {}
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("tls.crt", 0)]
    #[case("..data", 1)]
    #[case("..", 1)]
    #[case("a/b", 1)]
    #[case("", 1)]
    fn keys_of_data_are_checked(#[case] key: &str, #[case] expected: usize) {
        let mut errors = Vec::new();
        configuration_key(&mut errors, "data", key);
        assert_eq!(errors.len(), expected, "{errors:?}");
    }

    #[rstest]
    #[case("25%".into(), 0)]
    #[case(3.into(), 0)]
    #[case((-1).into(), 1)]
    #[case("101%".into(), 1)]
    #[case("many".into(), 1)]
    fn amounts_are_numbers_or_percentages(#[case] value: serde_json::Value, #[case] expected: usize) {
        let mut errors = Vec::new();
        amount_or_percent(&mut errors, "spec", &value);
        assert_eq!(errors.len(), expected, "{errors:?}");
    }
}
