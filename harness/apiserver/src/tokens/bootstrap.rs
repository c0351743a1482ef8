//! Bootstrap tokens, which nodes use to join.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use crate::identity::Identity;
use crate::inner::Inner;
use crate::store::Key;

const BOOTSTRAP_TYPE: &str = "bootstrap.kubernetes.io/token";

impl Inner {
    /// The identity of the token `<id>.<secret>`, from the Secret `bootstrap-token-<id>` in `kube-system`.
    pub(crate) fn bootstrap_identity(&self, token: &str) -> Option<Identity> {
        let (id, secret) = token.split_once('.')?;
        let key = Key::new("kube-system", &format!("bootstrap-token-{id}"));
        let object = self.registry.store().get("secrets", &key)?.value().ok()?;
        let now = self.registry.clock().now();
        bootstrap_groups(&object, id, secret, now).map(|groups| Identity {
            groups,
            ..Identity::user(format!("system:bootstrap:{id}"))
        })
    }
}

/// The groups in the Secret of a bootstrap token, if the token is valid.
fn bootstrap_groups(object: &Value, id: &str, secret: &str, now: Timestamp) -> Option<Vec<String>> {
    let data = |name: &str| {
        let text = object.get("data")?.get(name)?.as_str()?;
        String::from_utf8(STANDARD.decode(text).ok()?).ok()
    };
    let is_token = object.get("type").and_then(Value::as_str) == Some(BOOTSTRAP_TYPE);
    let matches = data("token-id")? == id && data("token-secret")? == secret;
    let usable = data("usage-bootstrap-authentication").as_deref() == Some("true");
    let expired = match data("expiration") {
        Some(text) => text.parse::<Timestamp>().is_ok_and(|expiration| expiration <= now),
        None => false,
    };
    if !is_token || !matches || !usable || expired || object.pointer("/metadata/deletionTimestamp").is_some() {
        return None;
    }
    let mut groups = vec!["system:bootstrappers".to_owned()];
    let extra = data("auth-extra-groups").unwrap_or_default();
    groups.extend(
        extra
            .split(',')
            .filter(|group| group.starts_with("system:bootstrappers:"))
            .map(str::to_owned),
    );
    Some(groups)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn secret(changes: &[(&str, &str)]) -> Value {
        let mut data = json!({
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "expiration": "2026-01-01T01:00:00Z", "auth-extra-groups": "system:bootstrappers:worker,other",
        });
        for (name, value) in changes {
            data[*name] = json!(value);
        }
        for value in data.as_object_mut().unwrap().values_mut() {
            *value = STANDARD.encode(value.as_str().unwrap()).into();
        }
        json!({ "type": BOOTSTRAP_TYPE, "data": data })
    }

    fn groups(object: &Value, secret: &str) -> Option<Vec<String>> {
        bootstrap_groups(object, "abcdef", secret, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_valid_bootstrap_token_has_the_bootstrapper_groups() {
        let groups = groups(&secret(&[]), "0123456789abcdef").unwrap();
        assert_eq!(groups, ["system:bootstrappers", "system:bootstrappers:worker"]);
    }

    #[rstest]
    #[case::wrong_secret(&[], "fedcba9876543210")]
    #[case::expired(&[("expiration", "2025-12-31T23:59:59Z")], "0123456789abcdef")]
    #[case::not_for_authentication(&[("usage-bootstrap-authentication", "false")], "0123456789abcdef")]
    fn an_invalid_bootstrap_token_has_no_groups(#[case] changes: &[(&str, &str)], #[case] text: &str) {
        assert_eq!(groups(&secret(changes), text), None);
    }
}
