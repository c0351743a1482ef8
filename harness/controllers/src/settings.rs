//! The enabled controllers and their periods. The defaults are those of kube-controller-manager.

use std::collections::BTreeSet;

use crate::{Name, Panics, node_lifecycle, pod_gc};

/// The enabled controllers and their settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The enabled controllers.
    pub enabled: BTreeSet<Name>,
    /// The PEM bundle that the root certificate publisher publishes.
    pub root_certificate: String,
    /// The limits of the pod garbage collector.
    pub pod_gc: pod_gc::Settings,
    /// The periods of the node lifecycle controller.
    pub node_lifecycle: node_lifecycle::Settings,
    /// Receives the number of panics of each controller.
    pub panics: Panics,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: Name::ALL.iter().copied().collect(),
            root_certificate: String::new(),
            pod_gc: pod_gc::Settings::default(),
            node_lifecycle: node_lifecycle::Settings::default(),
            panics: Panics::default(),
        }
    }
}

impl Settings {
    /// Settings with only these controllers.
    pub fn only(names: impl IntoIterator<Item = Name>) -> Self {
        Self {
            enabled: names.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The same settings without these controllers.
    #[must_use]
    pub fn without(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        for name in names {
            self.enabled.remove(&name);
        }
        self
    }

    /// Whether a controller is enabled.
    pub fn runs(&self, name: Name) -> bool {
        self.enabled.contains(&name)
    }
}
