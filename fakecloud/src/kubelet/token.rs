//! Bootstrap tokens: finding one in user data, and checking it against its Secret.
//!
//! Rules: a token is `[a-z0-9]{6}.[a-z0-9]{16}`; its Secret is `bootstrap-token-ID` in kube-system
//! and has `token-secret`, perhaps `expiration` (RFC 3339) and `usage-bootstrap-authentication`
//! (<https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/>).

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::ByteString;

/// The placeholder that machine controllers replace in user data by a token.
const PLACEHOLDER: &str = "<<BOOTSTRAP_TOKEN>>";

/// A bootstrap token. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    id: String,
    secret: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<token>")
    }
}

/// Credentials in user data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    /// No token: the kubelet has other credentials.
    None,
    /// A token.
    Token(Token),
    /// The placeholder of a token, which was not replaced.
    Placeholder,
}

/// Why a token is rejected. The texts never contain the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the user data still contains the placeholder of the bootstrap token: it was not templated")]
    Placeholder,
    #[error("its bootstrap token is unknown: there is no such Secret in kube-system")]
    Unknown,
    #[error("its bootstrap token is wrong: the token-secret differs")]
    Wrong,
    #[error("its bootstrap token has expired")]
    Expired,
    #[error("its bootstrap token has an expiration that is not an RFC 3339 time")]
    BadExpiration,
    #[error("its bootstrap token is not for authentication: usage-bootstrap-authentication is not true")]
    Usage,
}

impl Token {
    /// The name of the token's Secret.
    pub(super) fn secret_name(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }

    /// Checks the token against the data of its Secret.
    pub(super) fn check(&self, data: Option<&BTreeMap<String, ByteString>>, now: Timestamp) -> Result<(), Refusal> {
        let data = data.ok_or(Refusal::Unknown)?;
        let text = |key: &str| data.get(key).map(|value| String::from_utf8_lossy(&value.0));
        if text("token-secret").as_deref() != Some(self.secret.as_str()) {
            return Err(Refusal::Wrong);
        }
        if text("usage-bootstrap-authentication").is_some_and(|usage| usage != "true") {
            return Err(Refusal::Usage);
        }
        if let Some(expiration) = text("expiration") {
            let expiration: Timestamp = expiration.parse().map_err(|_| Refusal::BadExpiration)?;
            if expiration <= now {
                return Err(Refusal::Expired);
            }
        }
        Ok(())
    }
}

/// Finds the first bootstrap token in user data.
pub(super) fn find(user_data: &str) -> Credentials {
    let bytes = user_data.as_bytes();
    let ours = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    for (dot, _) in user_data.match_indices('.') {
        let before = bytes[..dot].iter().rev().take_while(|&&byte| ours(byte)).count();
        let after = bytes[dot + 1..].iter().take_while(|&&byte| ours(byte)).count();
        if before == 6 && after == 16 {
            let id = user_data[dot - 6..dot].to_owned();
            let secret = user_data[dot + 1..dot + 17].to_owned();
            return Credentials::Token(Token { id, secret });
        }
    }
    if user_data.contains(PLACEHOLDER) {
        Credentials::Placeholder
    } else {
        Credentials::None
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use rstest::rstest;

    use super::*;

    const TOKEN: &str = "abc123.0123456789abcdef";

    fn token() -> Token {
        match find(&format!("#!/bin/sh\njoin --token={TOKEN}\n")) {
            Credentials::Token(token) => token,
            other => panic!("{other:?}"),
        }
    }

    #[rstest]
    #[case::empty("", Credentials::None)]
    #[case::too_short("abc12.0123456789abcdef", Credentials::None)]
    #[case::too_long("xabc123.0123456789abcdef", Credentials::None)]
    #[case::upper_case("ABC123.0123456789ABCDEF", Credentials::None)]
    #[case::not_templated("token: <<BOOTSTRAP_TOKEN>>", Credentials::Placeholder)]
    fn invalid_tokens_are_ignored(#[case] user_data: &str, #[case] expected: Credentials) {
        assert_eq!(find(user_data), expected);
    }

    #[test]
    fn a_token_is_found_among_other_text_and_never_shown() {
        assert_eq!(token().secret_name(), "bootstrap-token-abc123");
        assert!(!format!("{:?}", token()).contains("abc123"));
    }

    #[rstest]
    #[case::good(&[("token-secret", "0123456789abcdef")], Ok(()))]
    #[case::good_for_an_hour(&[("token-secret", "0123456789abcdef"), ("expiration", "1970-01-01T01:00:00Z")], Ok(()))]
    #[case::wrong(&[("token-secret", "0123456789abcdee")], Err(Refusal::Wrong))]
    #[case::empty(&[], Err(Refusal::Wrong))]
    #[case::expired(
        &[("token-secret", "0123456789abcdef"), ("expiration", "1970-01-01T00:00:10Z")],
        Err(Refusal::Expired)
    )]
    #[case::bad_time(&[("token-secret", "0123456789abcdef"), ("expiration", "soon")], Err(Refusal::BadExpiration))]
    #[case::usage(
        &[("token-secret", "0123456789abcdef"), ("usage-bootstrap-authentication", "false")],
        Err(Refusal::Usage)
    )]
    fn a_token_is_checked_against_its_secret(#[case] data: &[(&str, &str)], #[case] expected: Result<(), Refusal>) {
        let data = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect();
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(10);
        assert_eq!(token().check(Some(&data), now), expected);
    }

    #[test]
    fn a_token_without_a_secret_is_unknown() {
        assert_eq!(token().check(None, Timestamp::UNIX_EPOCH), Err(Refusal::Unknown));
    }
}
