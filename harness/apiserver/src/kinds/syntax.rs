//! Checks the syntax of names, labels, keys and amounts, with upstream's messages.

use std::net::IpAddr;

use serde_json::Value;

use super::fields::{items, members, text};
use crate::status::FieldError;
use crate::syntax::{is_dns_subdomain, is_label_value, is_qualified_name, qualified_name_rule};

const DNS_1035_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
    an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

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

/// Checks a DNS subdomain if there is one.
pub(super) fn optional_dns_subdomain(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    if !text.is_empty() {
        dns_subdomain(errors, path, text);
    }
}

/// A name such as that of an object.
pub(super) fn dns_subdomain(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    check(errors, path, text, is_dns_subdomain(text), DNS_SUBDOMAIN);
}

/// The rule that a name such as that of an object violates.
pub(super) fn subdomain_rule(text: &str) -> Option<&'static str> {
    (!is_dns_subdomain(text)).then_some(DNS_SUBDOMAIN)
}

/// A key such as that of a label or taint.
pub(super) fn qualified_name(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) if !name.contains('/') => (Some(prefix), name),
        None => (None, text),
        Some(_) => {
            errors.push(FieldError::invalid(path, text, qualified_name_rule(text)));
            return;
        }
    };
    match prefix {
        Some("") => errors.push(FieldError::invalid(path, text, "prefix part must be non-empty")),
        Some(prefix) if !is_dns_subdomain(prefix) => {
            errors.push(FieldError::invalid(path, text, format!("prefix part {DNS_SUBDOMAIN}")));
        }
        _ => {}
    }
    if name.is_empty() {
        errors.push(FieldError::invalid(path, text, "name part must be non-empty"));
    } else if name.len() > 63 {
        errors.push(FieldError::invalid(
            path,
            text,
            "name part must be no more than 63 bytes",
        ));
    }
    let short: String = name.chars().take(63).collect();
    let good = !short.is_empty() && is_label_value(&short);
    check(errors, path, text, good, QUALIFIED_NAME);
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

/// A name such as that of an API version.
pub(super) fn dns_1035_label(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    if text.len() > 63 {
        errors.push(FieldError::invalid(path, text, "must be no more than 63 bytes"));
    }
    let good = !text.contains('.') && is_dns_subdomain(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
    check(errors, path, text, good, DNS_1035_LABEL);
}

/// A name with at least three parts, such as that of a webhook.
pub(super) fn fully_qualified_name(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    if text.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !is_dns_subdomain(text) {
        errors.push(FieldError::invalid(path, text, DNS_SUBDOMAIN));
    } else if text.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, text, why));
    }
}

/// The address of a webhook: HTTPS, without user, query and fragment.
pub(super) fn webhook_url(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let host_port = host.rsplit_once(']').map_or(host, |(_, port)| port);
    if let Some((_, port)) = host_port.split_once(':')
        && !port.bytes().all(|digit| digit.is_ascii_digit())
    {
        let why = format!("url must be a valid URL: parse {text:?}: invalid port \":{port}\" after host{FORM}");
        errors.push(FieldError::required(path, why));
        return;
    }
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(FieldError::invalid(path, scheme, why));
    }
    if host.is_empty() {
        errors.push(FieldError::invalid(path, "", format!("host must be specified{FORM}")));
    }
    for (part, words) in [
        (user, "user information is"),
        (fragment, "fragments are"),
        (query, "query parameters are"),
    ] {
        if !part.is_empty() {
            errors.push(FieldError::invalid(
                path,
                part,
                format!("{words} not permitted in the URL"),
            ));
        }
    }
}

/// The keys, operators and values of a label selector.
pub(super) fn label_selector(errors: &mut Vec<FieldError>, selector: &Value, path: &str) {
    for (key, value) in members(selector, "/matchLabels") {
        label_key(errors, &format!("{path}.matchLabels"), key);
        label_value(
            errors,
            &format!("{path}.matchLabels"),
            value.as_str().unwrap_or_default(),
        );
    }
    for (index, requirement) in items(selector, "/matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = items(requirement, "/values");
        let operator = text(requirement, "/operator");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{path}.values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{path}.values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => {
                let why = "not a valid selector operator";
                errors.push(FieldError::invalid(format!("{path}.operator"), operator, why));
            }
        }
        label_key(errors, &format!("{path}.key"), text(requirement, "/key"));
        for (index, value) in values.iter().enumerate() {
            label_value(
                errors,
                &format!("{path}.values[{index}]"),
                value.as_str().unwrap_or_default(),
            );
        }
    }
}

/// A path behind a domain, such as the name of a controller.
pub(super) fn domain_prefixed_path(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    match text.split_once('/') {
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            dns_subdomain(errors, path, domain);
        }
        _ => {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid(path, text, why));
        }
    }
}

/// A range of addresses in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    address: IpAddr,
    length: u32,
}

impl Range {
    /// Parses `10.0.0.0/8`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let (address, length): (IpAddr, u32) = (address.parse().ok()?, length.parse().ok()?);
        let bits = if address.is_ipv4() { 32 } else { 128 };
        (length <= bits).then_some(Self { address, length })
    }

    /// The bits of the network, from the left.
    fn network(&self) -> u128 {
        let bits = match self.address {
            IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
            IpAddr::V6(address) => u128::from(address),
        };
        bits & u128::MAX
            .checked_shl(128_u32.saturating_sub(self.length))
            .unwrap_or_default()
    }

    /// Whether the other range is a part of this one.
    pub(super) fn strictly_contains(&self, other: &Self) -> bool {
        let wide = Self {
            length: self.length,
            ..*other
        };
        self.address.is_ipv4() == other.address.is_ipv4()
            && other.length > self.length
            && wide.network() == self.network()
    }
}

/// An IP address.
pub(super) fn ip_address(errors: &mut Vec<FieldError>, path: &str, text: &str) {
    const RULE: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    check(errors, path, text, text.parse::<IpAddr>().is_ok(), RULE);
}

/// A port number, or the name of a port.
pub(super) fn port_or_name(errors: &mut Vec<FieldError>, path: &str, port: Option<&Value>) {
    match port {
        Some(Value::Number(number)) if !number.as_i64().is_some_and(|number| (1..=65535).contains(&number)) => {
            let why = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(path, number.clone(), why));
        }
        Some(Value::String(name)) => port_name(errors, path, name),
        _ => {}
    }
}

/// The name of a port.
pub(super) fn port_name(errors: &mut Vec<FieldError>, path: &str, name: &str) {
    let mut refuse = |why: &str| errors.push(FieldError::invalid(path, name, why));
    if name.len() > 15 {
        refuse("must be no more than 15 characters");
    }
    let of_letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(of_letters) || name.is_empty() {
        refuse("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        refuse("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        refuse("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        refuse("must not begin or end with a hyphen");
    }
}

/// The key of a label.
pub(super) fn label_key(errors: &mut Vec<FieldError>, path: &str, key: &str) {
    check(errors, path, key, is_qualified_name(key), qualified_name_rule(key));
}

/// A number of at least 0, or a percentage from 0 to 100.
pub(super) fn amount_or_percent(errors: &mut Vec<FieldError>, path: &str, value: &serde_json::Value) {
    amount_or_percent_up_to(100, errors, path, value);
}

/// A number of at least 0, or a percentage.
pub(super) fn amount_or_any_percent(errors: &mut Vec<FieldError>, path: &str, value: &serde_json::Value) {
    amount_or_percent_up_to(u32::MAX, errors, path, value);
}

fn amount_or_percent_up_to(most: u32, errors: &mut Vec<FieldError>, path: &str, value: &serde_json::Value) {
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
            Some(percent) if percent > most => {
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
