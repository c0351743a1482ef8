//! Kubeconfig files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The text of a kubeconfig. `credentials` are the lines of its only user.
pub(super) fn text(server: &str, certificate_authority: &str, user: &str, credentials: &[(&str, &str)]) -> String {
    let authority = STANDARD.encode(certificate_authority);
    let lines: String = credentials
        .iter()
        .map(|(name, value)| format!("\n    {name}: {value}"))
        .collect();
    // JSON strings are valid quoted YAML scalars.
    let user = serde_json::Value::from(user);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: drydock\n  cluster:\n    server: {server}\n    certificate-authority-data: {authority}\n\
         users:\n\
         - name: {user}\n  user:{lines}\n\
         contexts:\n\
         - name: drydock\n  context:\n    cluster: drydock\n    user: {user}\n    namespace: default\n\
         current-context: drydock\n"
    )
}

/// PEM text as a kubeconfig value.
pub(super) fn data(pem: &str) -> String {
    STANDARD.encode(pem)
}
