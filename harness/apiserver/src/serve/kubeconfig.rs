//! Kubeconfig files.

use std::io::{self, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The text of a kubeconfig. `credentials` are the lines of its one user.
pub(super) fn text(server: &str, certificate_authority: &str, user: &str, credentials: &[(&str, &str)]) -> String {
    let authority = STANDARD.encode(certificate_authority);
    let lines: String = credentials
        .iter()
        .map(|(name, value)| format!("\n    {name}: {value}"))
        .collect();
    // A quoted YAML scalar is a JSON text.
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

/// PEM text as kubeconfigs carry it.
pub(super) fn data(pem: &str) -> String {
    STANDARD.encode(pem)
}

/// Writes a file that only its owner may read (mode 0600 on Unix), in the place of one that was there.
///
/// # Errors
/// The operating system's.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}
