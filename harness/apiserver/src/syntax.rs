//! The syntax of names, label keys and label values, as in `k8s.io/apimachinery/pkg/util/validation`.

use std::cmp::Ordering;

/// A label key, annotation key or finalizer: `name` or `prefix.example.com/name`.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name_part(name),
        None => is_name_part(text),
    }
}

/// Whether the text is valid after the slash of a qualified name.
fn is_name_part(text: &str) -> bool {
    !text.is_empty() && is_label_value(text)
}

/// A label value: empty, or at most 63 characters of `[A-Za-z0-9_.-]` with alphanumeric ends.
pub fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
}

/// An RFC 1123 subdomain in lower case, at most 253 characters.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_text)
}

fn is_dns_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !bytes.is_empty()
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
}

/// The rule that an invalid label key, annotation key or finalizer violates.
pub(crate) fn qualified_name_rule(key: &str) -> &'static str {
    if key.matches('/').count() > 1 {
        KEY
    } else {
        QUALIFIED_NAME
    }
}

const KEY: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
    'example.com/MyName')";
const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
    end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
/// The rule that an invalid label value violates.
pub(crate) const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Stable before beta before alpha, higher numbers first, then all others by name.
pub(crate) fn compare_versions(one: &str, other: &str) -> Ordering {
    match (rank(one), rank(other)) {
        (Some(one), Some(other)) => other.cmp(&one),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.cmp(other),
    }
}

/// Stability, major number and minor number of `v1` or `v2beta3`; `None` for other text.
fn rank(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = if let Some(minor) = rest.strip_prefix("beta") {
        (1, minor)
    } else {
        (0, rest.strip_prefix("alpha")?)
    };
    Some((stability, major, minor.parse().ok()?))
}

/// A text whose other bytes than plain ones are percent-encoded.
pub(crate) fn percent_encoded(text: &str, is_plain: impl Fn(u8) -> bool) -> String {
    let encode = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
