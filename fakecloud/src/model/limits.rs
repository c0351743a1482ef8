//! What the cloud gives at most: tags and parts of one VM, VMs of a type in a zone, calls in a second.

use jiff::Timestamp;
use mcm_api::cloud::{Code, DriverError};
use serde::{Deserialize, Serialize};

use super::settings::VmLimit;
use super::{Cloud, CloudCall, ProviderSpec, Vm, VmState};

/// Which of the two limits of VMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitKind {
    /// What the account may have: every VM that exists counts.
    Quota,
    /// What the cloud's hosts have room for: stopped VMs do not count, and starting one needs room again.
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

/// Tokens that come back in the course of time; a call takes one.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    /// How many are gone, and when that was so.
    used: Option<(f64, Timestamp)>,
}

impl Bucket {
    /// Takes a token, if there is one.
    pub(super) fn take(&mut self, per_second: f64, burst: u32, now: Timestamp) -> bool {
        let gone = match self.used {
            None => 0.0,
            Some((gone, at)) => (gone - now.duration_since(at).as_secs_f64().max(0.0) * per_second).max(0.0),
        };
        // A token that is back but for rounding is back.
        let free = f64::from(burst) - gone >= 1.0 - 1e-9;
        self.used = Some((if free { gone + 1.0 } else { gone }, now));
        free
    }
}

impl Cloud {
    /// The limits of one kind that are in force, each with the VMs that count against it.
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

    /// Sets a limit of VMs, or lifts it: `vms` is none.
    pub fn set_limit(&mut self, kind: LimitKind, machine_type: &str, zone: &str, vms: Option<u32>, now: Timestamp) {
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
            (None, None) => {}
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
    }

    /// Whether one more VM fits.
    pub(super) fn check_room(&self, machine_type: &str, zone: &str, kinds: &[LimitKind]) -> Result<(), DriverError> {
        for kind in kinds {
            let limits = match kind {
                LimitKind::Quota => &self.settings.quotas,
                LimitKind::Capacity => &self.settings.capacity,
            };
            let about = limits.iter().filter(|limit| limit.is_about(machine_type, zone));
            if let Some(reached) = about.into_iter().find(|limit| self.used(*kind, limit) >= limit.vms) {
                let message = match kind {
                    LimitKind::Quota => format!(
                        "the quota of {} VMs for machine type {} in zone {} is used up; raise it or delete VMs",
                        reached.vms, reached.machine_type, reached.zone
                    ),
                    LimitKind::Capacity => format!(
                        "there is no capacity for machine type {machine_type} in zone {zone}: room for {} VMs of {} in {} is taken; try another type or zone, or later",
                        reached.vms, reached.machine_type, reached.zone
                    ),
                };
                return Err(DriverError::new(Code::ResourceExhausted, message));
            }
        }
        Ok(())
    }

    /// Whether one more VM of a provider spec fits.
    pub(super) fn check_room_for(&self, spec: &ProviderSpec) -> Result<(), DriverError> {
        let kinds = [LimitKind::Quota, LimitKind::Capacity];
        self.check_room(&spec.machine_type, &spec.zone, &kinds)
    }

    /// The first configured rate that a call breaks, by its place.
    pub(super) fn over_rate(&mut self, operation: CloudCall, now: Timestamp) -> Option<usize> {
        self.buckets
            .resize_with(self.settings.rate_limits.len(), Bucket::default);
        let limits = self.settings.rate_limits.iter().zip(&mut self.buckets).enumerate();
        limits
            .filter(|(_, (limit, _))| limit.call.is_none_or(|wanted| wanted == operation))
            .find_map(|(place, (limit, bucket))| (!bucket.take(limit.per_second, limit.burst, now)).then_some(place))
    }
}
