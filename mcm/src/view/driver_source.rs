//! Provides cached classes and Secrets to drivers that fetch them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use mcm_api::MachineClass;
use mcm_core::class::secrets_of;
use mcm_driver::registration::Source;

use super::cluster_state::ClusterState;
use crate::cache::Key;

impl Source for ClusterState {
    fn class(&self, namespace: &str, name: &str) -> Option<MachineClass> {
        let class = self.classes.get(&Key::new(namespace, name))?;
        Some(MachineClass::clone(&class))
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<(BTreeMap<String, ByteString>, String)> {
        let secret = self.secrets.get(&Key::new(namespace, name))?;
        let version = secret.metadata.resource_version.clone().unwrap_or_default();
        Some((secret.data.clone().unwrap_or_default(), version))
    }

    fn kinds_of_secret(&self, namespace: &str, name: &str) -> BTreeSet<String> {
        let secret = (namespace.to_owned(), name.to_owned());
        let classes = self.classes.all().into_iter();
        classes
            .filter(|class| secrets_of(class).contains(&secret))
            .filter_map(|class| class.provider.clone())
            .collect()
    }
}
