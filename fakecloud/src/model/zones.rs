//! Failures of zones: their API, their hosts, both, or a brown-out of the API; and their recovery.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::cloud::Code;
use mcm_api::duration::GoDuration;
use serde::{Deserialize, Serialize};

use super::faults::{Effect, Hit};
use super::{Caller, Cloud, CommandError, Record, RecordKind, VmState, later};
use crate::Delay;
use crate::glob;

/// The failure of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ZoneFailure {
    /// Calls for VMs of the zone return Unavailable; the VMs run.
    Api,
    /// The VMs stop, and none boots; calls are answered.
    Compute,
    /// API and compute.
    Both,
    /// Some calls for VMs of the zone return Unavailable, the others are slow; the VMs run.
    BrownOut,
}

impl ZoneFailure {
    /// The name of the failure in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Compute => "compute",
            Self::Both => "both",
            Self::BrownOut => "brownOut",
        }
    }

    fn stops_vms(self) -> bool {
        matches!(self, Self::Compute | Self::Both)
    }
}

impl fmt::Display for ZoneFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A failure of some zones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZoneOutage {
    /// A glob on zones.
    pub zone: String,
    /// What fails.
    pub failure: ZoneFailure,
    /// Percentage of failing calls, for a brown-out.
    pub error_percent: u32,
    /// Delay of the other calls, for a brown-out.
    pub latency: Delay,
    /// Start time.
    pub since: Timestamp,
    /// End time, if it is scheduled.
    pub until: Option<Timestamp>,
    /// Number of calls that it has hit.
    pub hits: u64,
    /// Number of calls that it has examined, for a brown-out.
    pub(super) seen: u64,
}

impl ZoneOutage {
    /// A failure that begins now and lasts until the zone is restored; in a brown-out half of the calls fail, and the
    /// others take one to ten seconds.
    pub fn new(zone: impl Into<String>, failure: ZoneFailure, now: Timestamp) -> Self {
        Self {
            zone: zone.into(),
            failure,
            error_percent: 50,
            latency: Delay::Uniform(Duration::from_secs(1), Duration::from_secs(10)),
            since: now,
            until: None,
            hits: 0,
            seen: 0,
        }
    }

    fn is_about(&self, zone: &str) -> bool {
        glob::matches(&self.zone, zone)
    }
}

impl Cloud {
    /// The active failures, by the globs on their zones.
    pub fn zone_outages(&self) -> impl Iterator<Item = &ZoneOutage> {
        self.outages.values()
    }

    /// Makes the zones that `outage.zone` matches fail; this replaces an earlier failure with the same glob.
    ///
    /// # Errors
    /// A value is invalid, or no known zone matches.
    pub fn fail_zone(
        &mut self,
        outage: ZoneOutage,
        lasts: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        let unusable = |reason: String| Err(CommandError::Unusable(reason));
        if outage.zone.is_empty() {
            return unusable("zone: is empty: give a zone, or a glob such as *".to_owned());
        }
        let zones = self.settings.all_zones();
        if !zones.is_empty() && !zones.iter().any(|zone| outage.is_about(zone)) {
            return unusable(format!(
                "zone: {:?} matches none of this cloud's zones: {}",
                outage.zone,
                zones.join(", ")
            ));
        }
        if !(1..=100).contains(&outage.error_percent) {
            return unusable(format!(
                "error_percent: is {}, and must be from 1 to 100",
                outage.error_percent
            ));
        }
        if lasts.is_some_and(|lasts| lasts.is_zero()) {
            return unusable("lasts: must be longer than zero; leave it out for a failure without end".to_owned());
        }
        self.advance(now);
        self.return_zone(&outage.zone, now);
        let text = match lasts {
            Some(lasts) => format!("{}: {} for {}", outage.zone, outage.failure, GoDuration(lasts)),
            None => format!("{}: {}", outage.zone, outage.failure),
        };
        self.note("FailZone", &text, now);
        let outage = ZoneOutage {
            since: now,
            until: lasts.map(|lasts| later(now, lasts)),
            ..outage
        };
        let stops = outage.failure.stops_vms();
        self.outages.insert(outage.zone.clone(), outage);
        if stops {
            self.stop_zones(now);
        }
        Ok(())
    }

    /// Ends the failure with a glob. VMs that it stopped boot again after a boot delay.
    ///
    /// # Errors
    /// The failure does not exist.
    pub fn restore_zone(&mut self, zone: &str, now: Timestamp) -> Result<(), CommandError> {
        self.advance(now);
        if !self.outages.contains_key(zone) {
            return Err(CommandError::NoOutage(zone.to_owned()));
        }
        self.note("MendZone", zone, now);
        self.return_zone(zone, now);
        self.advance(now);
        Ok(())
    }

    /// Next scheduled end of a failure.
    pub(super) fn next_return(&self) -> Option<Timestamp> {
        self.outages.values().filter_map(|outage| outage.until).min()
    }

    /// Ends failures whose end time has come.
    pub(super) fn end_outages(&mut self, at: Timestamp) {
        let over = |outage: &&ZoneOutage| outage.until.is_some_and(|until| until <= at);
        let zones: Vec<String> = self
            .outages
            .values()
            .filter(over)
            .map(|outage| outage.zone.clone())
            .collect();
        for zone in zones {
            let record = Record::new(RecordKind::Part, Caller::Cloud, "ZoneReturned", at);
            self.log.append(record.saying(zone.clone()));
            self.return_zone(&zone, at);
        }
    }

    /// Whether hosts of the zone are down.
    pub(super) fn is_down(&self, zone: &str) -> bool {
        self.outages
            .values()
            .any(|outage| outage.failure.stops_vms() && outage.is_about(zone))
    }

    /// The effect of the zone's failure on a call.
    pub(super) fn zone_hit(&mut self, zone: &str) -> Option<Hit> {
        if zone.is_empty() {
            return None;
        }
        for outage in self.outages.values_mut().filter(|outage| outage.is_about(zone)) {
            let id = format!("zone/{}", outage.zone);
            let refused = |outage: &mut ZoneOutage, text: &str| {
                outage.hits += 1;
                Some(Hit {
                    id: id.clone(),
                    code: Code::Unavailable,
                    message: format!("the API of zone {zone} {text}"),
                    latency: Duration::ZERO,
                    effect: Effect::Plain,
                })
            };
            match outage.failure {
                ZoneFailure::Api | ZoneFailure::Both => return refused(outage, "is down"),
                ZoneFailure::Compute => {}
                ZoneFailure::BrownOut => {
                    outage.seen += 1;
                    let mut stream = self.seed.stream(&format!("zone/{}/{}", outage.zone, outage.seen));
                    if stream.below(100) < u64::from(outage.error_percent) {
                        return refused(outage, "is unreliable: retry the call");
                    }
                    outage.hits += 1;
                    return Some(Hit {
                        id,
                        code: Code::Ok,
                        message: String::new(),
                        latency: outage.latency.draw(&mut stream),
                        effect: Effect::Plain,
                    });
                }
            }
        }
        None
    }

    /// Stops the VMs of zones whose hosts are down; pending ones wait.
    fn stop_zones(&mut self, now: Timestamp) {
        let affected = |vm: &&super::Vm| {
            matches!(vm.state, VmState::Pending | VmState::Running | VmState::Stopped) && self.is_down(&vm.zone)
        };
        let ordinals: Vec<u64> = self.vms.values().filter(affected).map(|vm| vm.ordinal).collect();
        for ordinal in ordinals {
            match self.vms.get(&ordinal).map(|vm| (vm.state, vm.returns)) {
                Some((VmState::Running, _)) => {
                    self.transition(ordinal, VmState::Stopped, "its zone failed", Caller::Cloud, now);
                    if let Some(vm) = self.vms.get_mut(&ordinal) {
                        vm.returns = true;
                    }
                }
                Some((VmState::Pending, _) | (VmState::Stopped, true)) => self.unschedule(ordinal),
                _ => {}
            }
        }
    }

    fn return_zone(&mut self, zone: &str, now: Timestamp) {
        let Some(outage) = self.outages.remove(zone) else {
            return;
        };
        if !outage.failure.stops_vms() {
            return;
        }
        let affected = |vm: &&super::Vm| {
            outage.is_about(&vm.zone) && (vm.state == VmState::Pending || vm.state == VmState::Stopped && vm.returns)
        };
        let ordinals: Vec<u64> = self.vms.values().filter(affected).map(|vm| vm.ordinal).collect();
        for ordinal in ordinals {
            let Some(vm) = self.vms.get_mut(&ordinal) else { continue };
            if vm.state == VmState::Stopped {
                let mut stream = self.seed.stream(&format!("return/{}/{}", vm.id, vm.boots));
                let delay = self
                    .settings
                    .boot_delay_of(&vm.machine_type, &vm.zone)
                    .draw(&mut stream);
                vm.deadline = Some(later(now, delay));
            }
            self.schedule(ordinal, now);
        }
    }
}
