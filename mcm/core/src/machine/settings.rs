//! Operator settings for all machines. A machine's spec overrides the timeouts.

use std::time::Duration;

use mcm_api::GoDuration;
use mcm_api::Machine;
use mcm_api::keys;

use crate::preservation::Dialect;

/// The controller's settings; the defaults are those of upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A machine that has not joined after this time is Failed.
    pub creation_timeout: Duration,
    /// A machine that is Unknown for this time is Failed.
    pub health_timeout: Duration,
    /// A drain that takes longer is aborted, and the deletion continues.
    pub drain_timeout: Duration,
    /// How often an eviction may be refused before the pod is deleted; `None`: for as long as the drain may take.
    pub max_evict_retries: Option<u32>,
    /// How long the volumes of an evicted pod may take to leave the node, after the pod's grace period.
    pub detach_timeout: Duration,
    /// How long the next pod with volumes waits until the volumes of the previous one are attached to another node.
    pub reattach_timeout: Duration,
    /// An update in place that takes longer has failed.
    pub in_place_update_timeout: Duration,
    /// Types of Node conditions that must be False, comma-separated.
    pub node_conditions: String,
    /// `auth-extra-groups` of bootstrap tokens.
    pub bootstrap_token_extra_groups: String,
    /// How long a preserved machine is kept.
    pub preserve_timeout: Duration,
    /// The dialect of preservation.
    pub preservation: Dialect,
    /// What is done with the VM of a preserved machine whose node does not answer.
    pub fencing: Fencing,
    /// How long to wait before trying again.
    pub retry: Retry,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            creation_timeout: Duration::from_mins(20),
            health_timeout: Duration::from_mins(10),
            drain_timeout: Duration::from_hours(2),
            max_evict_retries: None,
            detach_timeout: Duration::from_mins(2),
            reattach_timeout: Duration::from_secs(90),
            in_place_update_timeout: Duration::from_mins(20),
            node_conditions: "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable".to_owned(),
            bootstrap_token_extra_groups: String::new(),
            preserve_timeout: Duration::from_hours(72),
            preservation: Dialect::V2,
            fencing: Fencing::default(),
            retry: Retry::default(),
        }
    }
}

/// What is done with the VM of a preserved failed machine whose node does not answer, while pods that must not run twice
/// are on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// It runs on, and the pods stay in the API.
    #[default]
    None,
    /// The driver stops it.
    StopVm,
}

/// How long to wait before trying again, by what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// After a conflict with a concurrent write.
    pub conflict: Duration,
    /// After a transient failure.
    pub short: Duration,
    /// After a failure that usually lasts minutes.
    pub medium: Duration,
    /// After a failure that may need a user's action; also the period of regular passes.
    pub long: Duration,
    /// After a lack of capacity or quota in the cloud.
    pub resource_exhausted: Duration,
    /// After a refused eviction.
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

    /// How often an eviction of the machine's pods may be refused before the pod is deleted; limited by the drain
    /// timeout.
    pub fn max_evict_retries_of(&self, machine: &Machine) -> u32 {
        let own = machine.spec.configuration.max_evict_retries;
        let own = own.map(|retries| u32::try_from(retries).unwrap_or(0));
        let period = self.retry.eviction.as_millis().max(1);
        let possible = self.drain_timeout_of(machine).as_millis().div_ceil(period);
        let possible = u32::try_from(possible).unwrap_or(u32::MAX);
        own.or(self.max_evict_retries)
            .map_or(possible, |wanted| wanted.min(possible))
    }

    /// How long the machine's update in place may take.
    pub fn in_place_update_timeout_of(&self, machine: &Machine) -> Duration {
        machine
            .spec
            .configuration
            .in_place_update_timeout
            .map_or(self.in_place_update_timeout, |duration| duration.0)
    }

    /// How long the machine stays preserved.
    pub fn preserve_timeout_of(&self, machine: &Machine) -> Duration {
        machine
            .spec
            .configuration
            .machine_preserve_timeout
            .map_or(self.preserve_timeout, |duration| duration.0)
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
