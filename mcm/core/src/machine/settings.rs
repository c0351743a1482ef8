//! What an operator sets for all machines. A machine's own spec overrides the timeouts.

use std::time::Duration;

use mcm_api::GoDuration;
use mcm_api::Machine;
use mcm_api::keys;

/// The controller's settings; the default is upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A machine that has not joined after this time is Failed.
    pub creation_timeout: Duration,
    /// A machine that is Unknown for this time is Failed.
    pub health_timeout: Duration,
    /// A drain that takes longer is given up, and the deletion goes on.
    pub drain_timeout: Duration,
    /// Types of Node conditions that must be False, comma-separated.
    pub node_conditions: String,
    /// `auth-extra-groups` of bootstrap tokens.
    pub bootstrap_token_extra_groups: String,
    /// How long to wait before trying again.
    pub retry: Retry,
    /// A defect that is planted on purpose.
    #[cfg(feature = "mutants")]
    pub mutant: Option<super::Mutant>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            creation_timeout: Duration::from_mins(20),
            health_timeout: Duration::from_mins(10),
            drain_timeout: Duration::from_hours(2),
            node_conditions: "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable".to_owned(),
            bootstrap_token_extra_groups: String::new(),
            retry: Retry::default(),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

/// How long to wait before trying again, by what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Somebody else wrote the object.
    pub conflict: Duration,
    /// It may work soon.
    pub short: Duration,
    /// It takes a while.
    pub medium: Duration,
    /// A person may have to act; also the period at which nothing is expected.
    pub long: Duration,
    /// The cloud has no capacity or quota.
    pub resource_exhausted: Duration,
    /// An eviction was refused.
    pub eviction: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            conflict: Duration::from_millis(200),
            short: Duration::from_secs(5),
            medium: Duration::from_mins(3),
            long: Duration::from_mins(10),
            resource_exhausted: Duration::from_mins(10),
            eviction: Duration::from_secs(20),
        }
    }
}

impl Retry {
    /// The period after a write that failed.
    pub fn after_failed_write(&self, conflict: bool) -> Duration {
        if conflict { self.conflict } else { self.short }
    }
}

impl Settings {
    /// How long the machine may take to join: its annotation, else its spec, else the setting.
    pub fn creation_timeout_of(&self, machine: &Machine) -> Duration {
        let annotations = machine.metadata.annotations.as_ref();
        let annotated = annotations
            .and_then(|all| all.get(keys::EFFECTIVE_CREATION_TIMEOUT_ANNOTATION))
            .and_then(|text| text.parse::<GoDuration>().ok());
        annotated
            .or(machine.spec.configuration.creation_timeout)
            .map_or(self.creation_timeout, |duration| duration.0)
    }

    /// How long the machine may be Unknown.
    pub fn health_timeout_of(&self, machine: &Machine) -> Duration {
        machine
            .spec
            .configuration
            .health_timeout
            .map_or(self.health_timeout, |duration| duration.0)
    }

    /// How long the machine's drain may take.
    pub fn drain_timeout_of(&self, machine: &Machine) -> Duration {
        machine
            .spec
            .configuration
            .drain_timeout
            .map_or(self.drain_timeout, |duration| duration.0)
    }

    /// Types of Node conditions that must be False for the machine to be healthy.
    pub fn node_conditions_of<'a>(&'a self, machine: &'a Machine) -> impl Iterator<Item = &'a str> {
        machine
            .spec
            .configuration
            .node_conditions
            .as_deref()
            .unwrap_or(&self.node_conditions)
            .split(',')
    }
}
