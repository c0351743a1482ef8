//! Limits of the cloud: tags and parts of one VM, VMs of a type in a zone, calls per second.

use jiff::Timestamp;
use mcm_api::cloud::{Code, DriverError};
use serde::{Deserialize, Serialize};

use super::command_error::CommandError;
use super::settings::VmLimit;
use super::{Cloud, CloudCall, ProviderSpec, Vm, VmState};
use crate::glob;

/// Kind of a limit of VMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitKind {
    /// Quota of the account: every existing VM counts.
    Quota,
    /// Capacity of the cloud's hosts: stopped VMs do not count, and starting one needs capacity again.
    Capacity,
}

impl LimitKind {
    fn counts(self, vm: &Vm) -> bool {
        match self {
            Self::Quota => vm.state.is_live(),
            Self::Capacity => matches!(vm.state, VmState::Pending | VmState::Running),
        }
    }
}

/// A token bucket; a call takes one token.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    /// Number of used tokens, and the time of that number.
    used: Option<(f64, Timestamp)>,
}

impl Bucket {
    /// Takes a token if one is available.
    pub(super) fn take(&mut self, per_second: f64, burst: u32, now: Timestamp) -> bool {
        let used_tokens = match self.used {
            None => 0.0,
            Some((used_tokens, at)) => {
                (used_tokens - now.duration_since(at).as_secs_f64().max(0.0) * per_second).max(0.0)
            }
        };
        // Tolerates rounding: a token that is almost available is available.
        let free = f64::from(burst) - used_tokens >= 1.0 - 1e-9;
        self.used = Some((if free { used_tokens + 1.0 } else { used_tokens }, now));
        free
    }
}

impl Cloud {
    /// Checks that globs on machine types and zones can match.
    fn check_globs(&self, machine_type: &str, zone: &str) -> Result<(), CommandError> {
        let types: Vec<String> = self.settings.machine_types.keys().cloned().collect();
        let zones = self.settings.all_zones();
        let checked = [
            ("machine_type", machine_type, "machine types", &types),
            ("zone", zone, "zones", &zones),
        ];
        for (field, pattern, what, known) in checked {
            // Without configured zones any zone exists.
            if !known.is_empty() && !known.iter().any(|known| glob::matches(pattern, known)) {
                return Err(CommandError::Unusable(format!(
                    "{field}: {pattern:?} matches none of this cloud's {what}: {}",
                    known.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// The active limits of one kind, each with the number of VMs that count against it.
    pub fn limits(&self, kind: LimitKind) -> Vec<(VmLimit, u32)> {
        let limits = match kind {
            LimitKind::Quota => &self.settings.quotas,
            LimitKind::Capacity => &self.settings.capacity,
        };
        limits
            .iter()
            .map(|limit| (limit.clone(), self.used(kind, limit)))
            .collect()
    }

    fn used(&self, kind: LimitKind, limit: &VmLimit) -> u32 {
        let live = self.live.values().flatten().filter_map(|ordinal| self.vms.get(ordinal));
        let counted = live.filter(|vm| kind.counts(vm) && limit.is_about(&vm.machine_type, &vm.zone));
        u32::try_from(counted.count()).unwrap_or(u32::MAX)
    }

    /// Sets a limit of VMs, or removes it with `None`.
    ///
    /// # Errors
    /// If a glob matches no machine type or no zone of this cloud, or if the limit to remove does not exist.
    pub fn set_limit(
        &mut self,
        kind: LimitKind,
        machine_type: &str,
        zone: &str,
        vms: Option<u32>,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        self.check_globs(machine_type, zone)?;
        self.advance(now);
        let limits = match kind {
            LimitKind::Quota => &mut self.settings.quotas,
            LimitKind::Capacity => &mut self.settings.capacity,
        };
        let place = limits
            .iter()
            .position(|limit| limit.machine_type == machine_type && limit.zone == zone);
        match (place, vms) {
            (Some(place), Some(vms)) => limits[place].vms = vms,
            (Some(place), None) => drop(limits.remove(place)),
            (None, Some(vms)) => limits.push(VmLimit {
                machine_type: machine_type.to_owned(),
                zone: zone.to_owned(),
                vms,
            }),
            (None, None) => {
                let known = limits
                    .iter()
                    .map(|limit| format!("{} in {}", limit.machine_type, limit.zone));
                let known: Vec<String> = known.collect();
                return Err(CommandError::Unusable(format!(
                    "there is no limit of {machine_type} in {zone}; there are: {}",
                    if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join(", ")
                    }
                )));
            }
        }
        let operation = match kind {
            LimitKind::Quota => {
                self.overrides.quotas = Some(self.settings.quotas.clone());
                "SetQuota"
            }
            LimitKind::Capacity => {
                self.overrides.capacity = Some(self.settings.capacity.clone());
                "SetCapacity"
            }
        };
        let amount = vms.map_or_else(|| "no limit".to_owned(), |vms| format!("{vms} VMs"));
        self.note(operation, &format!("{machine_type} in {zone}: {amount}"), now);
        Ok(())
    }

    /// Whether one more VM fits the limits.
    pub(super) fn check_room(&self, machine_type: &str, zone: &str, kinds: &[LimitKind]) -> Result<(), DriverError> {
        for kind in kinds {
            let limits = match kind {
                LimitKind::Quota => &self.settings.quotas,
                LimitKind::Capacity => &self.settings.capacity,
            };
            let applicable = limits.iter().filter(|limit| limit.is_about(machine_type, zone));
            if let Some(reached) = applicable
                .into_iter()
                .find(|limit| self.used(*kind, limit) >= limit.vms)
            {
                let message = match kind {
                    LimitKind::Quota => format!(
                        "the quota of {} VMs for machine type {} in zone {} is used up; raise it or delete VMs",
                        reached.vms, reached.machine_type, reached.zone
                    ),
                    LimitKind::Capacity => format!(
                        "there is no capacity for machine type {machine_type} in zone {zone}: all capacity for {} VMs \
                         of {} in {} is used; try another type or zone, or retry later",
                        reached.vms, reached.machine_type, reached.zone
                    ),
                };
                return Err(DriverError::new(Code::ResourceExhausted, message));
            }
        }
        Ok(())
    }

    /// Whether one more VM of a provider spec fits the limits.
    pub(super) fn check_room_for(&self, spec: &ProviderSpec) -> Result<(), DriverError> {
        let kinds = [LimitKind::Quota, LimitKind::Capacity];
        self.check_room(&spec.machine_type, &spec.zone, &kinds)
    }

    /// The first configured rate that a call breaks, by its place.
    pub(super) fn over_rate(&mut self, call: CloudCall, now: Timestamp) -> Option<usize> {
        self.buckets
            .resize_with(self.settings.rate_limits.len(), Bucket::default);
        let limits = self.settings.rate_limits.iter().zip(&mut self.buckets).enumerate();
        limits
            .filter(|(_, (limit, _))| limit.call.is_none_or(|wanted| wanted == call))
            .find_map(|(place, (limit, bucket))| (!bucket.take(limit.per_second, limit.burst, now)).then_some(place))
    }
}
