//! Secret data, which debug output does not contain.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;

/// The data of the Secrets that a class refers to, merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Secret {
    /// `secretRef`'s data, then `credentialsSecretRef`'s over it.
    pub data: SecretData,
    /// `namespace/name` of each Secret that is referred to and does not exist.
    pub missing: Vec<String>,
}

/// Secret data whose debug output has only the keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretData(pub BTreeMap<String, ByteString>);

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
