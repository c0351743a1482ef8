//! Carries out scheduled disturbances, those of the cloud, of VMs and of kubelets, and counts their hits.

use std::sync::Arc;
use std::time::Duration;

use apiserver::faults::Pattern;
use clock::Clock;
use jiff::{SignedDuration, Timestamp};
use judge::narrative::Narrative;
use parking_lot::{Mutex, MutexGuard};
use scenario::Timeouts;
use scenario::cloud::{Vm, VmState};
use scenario::plan::Disturbance;

use crate::cloud::{CloudClient, CloudError};

/// The parts of a stage that the schedule needs.
#[derive(Clone, Debug)]
pub struct Handles {
    /// The clock of the schedule.
    pub clock: Clock,
    /// The disturbed cloud.
    pub cloud: CloudClient,
    /// Values of the named durations.
    pub timeouts: Timeouts,
}

/// The disturbances so far with their times, for the narrative and the summary. Clones share the log.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<(Timestamp, usize, String)>>>);

impl Log {
    fn add(&self, at: Timestamp, disturbance: usize, what: String) {
        self.lock().push((at, disturbance, what));
    }

    /// The number of hits of a disturbance, by its index in the plan.
    pub fn hits(&self, disturbance: usize) -> u64 {
        self.lock()
            .iter()
            .filter(|(_, number, _)| *number == disturbance)
            .count() as u64
    }

    /// Adds all entries to a narrative.
    pub fn add_to(&self, narrative: &mut Narrative) {
        for (at, _, what) in self.lock().iter() {
            narrative.insert(*at, what.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Timestamp, usize, String)>> {
        self.0.lock()
    }
}

/// Errors of a disturbance.
#[derive(Debug, thiserror::Error)]
enum ScheduleError {
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error("machine {machine} has no VM")]
    NoVm { machine: String },
}

/// An entry of the schedule: the begin or end of a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    after: Duration,
    disturbance: usize,
    ends: bool,
}

/// Carries out all disturbances in order of time, and then never returns; `fault` records each one.
pub async fn run<T>(disturbances: &[Disturbance], handles: &Handles, log: &Log, fault: impl Fn(&str, &str)) -> T {
    let started = handles.clock.now();
    for moment in moments(disturbances, &handles.timeouts) {
        let after = SignedDuration::try_from(moment.after).unwrap_or(SignedDuration::MAX);
        let at = started.saturating_add(after).unwrap_or(Timestamp::MAX);
        handles.clock.sleep_until(at).await;
        let disturbance = &disturbances[moment.disturbance];
        let result = if moment.ends {
            lift(disturbance, handles).await
        } else {
            begin(disturbance, handles).await
        };
        match result {
            Ok(text) => {
                fault("plan", &text);
                // The rules of the cloud count their hits themselves.
                if !matches!(disturbance, Disturbance::Cloud(_)) {
                    log.add(handles.clock.now(), moment.disturbance, text);
                }
            }
            Err(error) => fault("plan", &format!("{disturbance} has no effect: {error}")),
        }
    }
    std::future::pending().await
}

fn moments(disturbances: &[Disturbance], timeouts: &Timeouts) -> Vec<Moment> {
    let mut moments = Vec::new();
    for (disturbance, what) in disturbances.iter().enumerate() {
        let mut push = |after, ends| {
            moments.push(Moment {
                after,
                disturbance,
                ends,
            });
        };
        match what {
            Disturbance::Api(_) | Disturbance::Crash(_) | Disturbance::Pause(_) | Disturbance::Lag(_) => {}
            Disturbance::Cloud(cloud) => {
                let window = cloud.matches.window.as_ref();
                let from = window.and_then(|window| window.from.as_ref());
                push(from.map_or(Duration::ZERO, |from| from.value(timeouts)), false);
                if let Some(until) = window.and_then(|window| window.until.as_ref()) {
                    push(until.value(timeouts), true);
                }
            }
            Disturbance::Vm(fault) => push(fault.at.value(timeouts), false),
            Disturbance::Kubelet(fault) => push(fault.at.value(timeouts), false),
        }
    }
    moments.sort_unstable();
    moments
}

async fn begin(disturbance: &Disturbance, handles: &Handles) -> Result<String, ScheduleError> {
    match disturbance {
        Disturbance::Cloud(fault) => {
            // The window is relative to the scenario's start. The schedule implements it by adding and removing the
            // rule.
            let mut fault = fault.clone();
            fault.matches.window = None;
            handles.cloud.inject(&fault, &handles.timeouts).await?;
        }
        Disturbance::Vm(fault) => {
            let vm = vm_of(handles, &fault.machine).await?;
            handles.cloud.vm_action(&vm.id, fault.action).await?;
        }
        Disturbance::Kubelet(fault) => {
            let vm = vm_of(handles, &fault.machine).await?;
            handles.cloud.kubelet_action(&vm.id, fault.action).await?;
        }
        Disturbance::Api(_) | Disturbance::Crash(_) | Disturbance::Pause(_) | Disturbance::Lag(_) => {}
    }
    Ok(disturbance.to_string())
}

async fn lift(disturbance: &Disturbance, handles: &Handles) -> Result<String, ScheduleError> {
    if let Disturbance::Cloud(fault) = disturbance {
        handles.cloud.lift(&fault.name).await?;
        return Ok(format!("cloud fault {} is over", fault.name));
    }
    Ok(disturbance.to_string())
}

/// A VM that is not terminated, of a machine whose name matches the pattern `machine` (`*` and `?`).
async fn vm_of(handles: &Handles, machine: &str) -> Result<Vm, ScheduleError> {
    let vms = handles.cloud.vms().await?;
    vms.into_iter()
        .filter(|vm| Pattern::new(machine).matches(&vm.machine) && vm.state != VmState::Terminated)
        .max_by_key(|vm| vm.id.clone())
        .ok_or_else(|| ScheduleError::NoVm {
            machine: machine.to_owned(),
        })
}
