//! User data: the script that a VM boots with, and the bootstrap token in it.

use k8s_openapi::ByteString;
use mcm_api::keys;

use super::pass::Pass;
use super::{BootstrapToken, SecretData, TokenView, token};

/// The Secrets' data for the driver, or what is missing for it.
pub(super) enum Prepared {
    /// The Secrets' data, with the placeholders of the user data replaced.
    Ready(SecretData),
    /// A token is needed first.
    NeedsToken(BootstrapToken),
    /// The Secrets are not usable; a human-readable text.
    Invalid(String),
}

/// Replaces the placeholders in the user data of a machine.
pub(super) fn prepare(pass: &Pass) -> Prepared {
    let name = pass.name();
    if let Some(missing) = pass.view.secret.missing.first() {
        return Prepared::Invalid(format!(
            "the secret {missing}, which the machine class {} refers to, does not exist: create it, or correct the class",
            pass.machine().spec.class.name
        ));
    }
    let mut data = pass.view.secret.data.clone();
    let Some(user_data) = data.0.get_mut(keys::USER_DATA_KEY) else {
        return Prepared::Invalid(format!(
            "userdata field not found in secret for machine {name:?}: add the key {} to the secret of the machine class {}",
            keys::USER_DATA_KEY,
            pass.machine().spec.class.name
        ));
    };
    if pass.view.target {
        let TokenView::Present(secret) = &pass.view.bootstrap_token else {
            return Prepared::NeedsToken(token::wanted(pass));
        };
        fill(
            user_data,
            keys::BOOTSTRAP_TOKEN_PLACEHOLDER,
            &format!("{}.{secret}", token::owner(pass).id),
        );
    }
    fill(user_data, keys::MACHINE_NAME_PLACEHOLDER, name);
    Prepared::Ready(data)
}

/// Replaces every occurrence of a placeholder: its plain form or, if there is none, its form in an escaped URL query.
/// User data may be binary, so the function compares bytes.
fn fill(user_data: &mut ByteString, placeholder: &str, value: &str) {
    let replaced = replace(&user_data.0, placeholder.as_bytes(), value.as_bytes()).or_else(|| {
        replace(
            &user_data.0,
            query_escaped(placeholder).as_bytes(),
            query_escaped(value).as_bytes(),
        )
    });
    if let Some(replaced) = replaced {
        user_data.0 = replaced;
    }
}

/// `None`: `bytes` does not contain `from`.
fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let mut found = false;
    let mut result = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(from) {
            found = true;
            result.extend_from_slice(to);
            rest = behind;
        } else {
            result.push(*first);
            rest = tail;
        }
    }
    found.then_some(result)
}

/// The text as a value in a URL query, escaped as in Go.
fn query_escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        b' ' => "+".to_owned(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("join <<BOOTSTRAP_TOKEN>> <<BOOTSTRAP_TOKEN>>", "join a.b a.b")]
    #[case::escaped("join%20%3C%3CBOOTSTRAP_TOKEN%3E%3E", "join%20a.b")]
    #[case::both("<<BOOTSTRAP_TOKEN>> %3C%3CBOOTSTRAP_TOKEN%3E%3E", "a.b %3C%3CBOOTSTRAP_TOKEN%3E%3E")]
    #[case::none("hostname", "hostname")]
    #[case::cut_off("<<BOOTSTRAP_TOKEN>", "<<BOOTSTRAP_TOKEN>")]
    fn the_first_form_of_a_placeholder_wins(#[case] user_data: &str, #[case] expected: &str) {
        let mut bytes = ByteString(user_data.as_bytes().to_vec());
        fill(&mut bytes, keys::BOOTSTRAP_TOKEN_PLACEHOLDER, "a.b");
        assert_eq!(String::from_utf8(bytes.0).unwrap(), expected);
    }

    #[test]
    fn placeholders_in_binary_user_data_are_replaced() {
        let mut bytes = ByteString(b"\xff\x00<<MACHINE_NAME>>\xfe".to_vec());
        fill(&mut bytes, keys::MACHINE_NAME_PLACEHOLDER, "m");
        assert_eq!(bytes.0, b"\xff\x00m\xfe");
    }
}
