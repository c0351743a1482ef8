//! Finds and replaces secret values in texts of a driver.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;

use crate::Data;

/// Shorter values appear in texts by chance.
const SHORTEST_VALUE: usize = 6;
/// Shorter lines of a value, such as `runcmd:`, may appear in texts by chance.
const SHORTEST_LINE: usize = 12;

/// The key of the first value that occurs in `text`, where the value is unchanged, one of its lines, or in Base64. Values
/// that are part of `public` do not count.
pub fn exposed_key<'a>(text: &str, secret: &'a Data, public: &str) -> Option<&'a str> {
    let exposed = |value: &ByteString| {
        forms(value)
            .iter()
            .any(|form| text.contains(form.as_str()) && !public.contains(form.as_str()))
    };
    let found = secret.iter().find(|(_, value)| exposed(value));
    found.map(|(key, _)| key.as_str())
}

/// `text` in one line, with all secret values replaced by their keys, except values that are part of `public`.
pub fn redact(text: &str, secret: &Data, public: &str) -> String {
    let mut text = text.to_owned();
    for (key, value) in secret {
        for form in forms(value).iter().filter(|form| !public.contains(form.as_str())) {
            text = text.replace(form.as_str(), &format!("<{key}>"));
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The texts by which a value is recognized, the longest first.
fn forms(value: &ByteString) -> Vec<String> {
    let mut forms = Vec::new();
    if let Ok(text) = std::str::from_utf8(&value.0) {
        let text = text.trim();
        forms.extend(
            Some(text)
                .filter(|text| text.len() >= SHORTEST_VALUE)
                .map(str::to_owned),
        );
        let lines = text.lines().map(str::trim);
        forms.extend(lines.filter(|line| line.len() >= SHORTEST_LINE).map(str::to_owned));
    }
    if value.0.len() >= SHORTEST_VALUE {
        forms.push(STANDARD.encode(&value.0));
    }
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rstest::rstest;

    use super::*;

    fn secret() -> Data {
        let value = |text: &str| ByteString(text.as_bytes().to_vec());
        BTreeMap::from([
            ("token".to_owned(), value("s3cr3t-token\n")),
            ("userData".to_owned(), value("#cloud\njoin --token abc.def\n")),
            ("zone".to_owned(), value("a")),
        ])
    }

    #[rstest]
    #[case::a_value("401 for s3cr3t-token", Some("token"))]
    #[case::a_value_in_base64("sent czNjcjN0LXRva2VuCg==", Some("token"))]
    #[case::a_line("ran join --token abc.def", Some("userData"))]
    #[case::a_short_value("in zone a", None)]
    #[case::a_public_value("s3cr3t-token and public", None)]
    #[case::a_key("the key token is wrong", None)]
    fn a_secret_value_is_found_in_a_text(#[case] text: &str, #[case] expected: Option<&str>) {
        let public = if text.ends_with("public") { "s3cr3t-token" } else { "" };
        assert_eq!(exposed_key(text, &secret(), public), expected);
    }

    #[test]
    fn a_redacted_text_exposes_nothing() {
        let text = redact("401 for s3cr3t-token", &secret(), "");
        assert_eq!(text, "401 for <token>");
    }
}
