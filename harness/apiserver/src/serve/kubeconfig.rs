//! Kubeconfig files.

use std::io::{self, Write as _};
use std::path::Path;

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

/// Writes a file that only its owner can read (mode 0600 on Unix, whatever the umask is); replaces an existing file or
/// link.
///
/// # Errors
/// The error of the operating system.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}
