//! What a controller provides to drivers that fetch classes and Secrets themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use k8s_openapi::ByteString;
use mcm_api::MachineClass;

/// The controller's classes and Secrets.
pub trait Source: Debug + Send + Sync {
    /// A class.
    fn class(&self, namespace: &str, name: &str) -> Option<MachineClass>;

    /// The data of a Secret, and its resourceVersion.
    fn secret(&self, namespace: &str, name: &str) -> Option<(BTreeMap<String, ByteString>, String)>;

    /// The providers of all classes that reference a Secret.
    fn kinds_of_secret(&self, namespace: &str, name: &str) -> BTreeSet<String>;
}
