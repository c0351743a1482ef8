//! Carries out scheduled disturbances, those of the cloud, of VMs and of kubelets, and counts their hits.

use std::sync::Arc;
use std::time::Duration;

use apiserver::faults::Pattern;
use clock::Clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use scenario::Timeouts;
use scenario::cloud::{Vm, VmState};
use scenario::plan::Disturbance;
use scenario::step::VmStep;

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
pub struct Log(Arc<Mutex<Vec<Scheduled>>>);

/// A scheduled disturbance that began or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// When it began or ended.
    pub at: Timestamp,
    /// Its index in the plan.
    pub disturbance: usize,
    /// Its description.
    pub text: String,
    /// The part of its time.
    pub part: Part,
}

/// The begin or the end of a scheduled disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An action, which has its effect at once.
    Moment,
    /// A rule was added. It counts its hits itself.
    Begins,
    /// A rule was removed.
    Ends,
}

/// The times in which the rules of a plan for the API server, which started at `start`, can have an effect.
pub fn api_windows(disturbances: &[Disturbance], start: Timestamp) -> Vec<Scheduled> {
    let after = |passed: Duration| start.checked_add(SignedDuration::try_from(passed).ok()?).ok();
    let windows = disturbances.iter().enumerate().filter_map(|(index, disturbance)| {
        let Disturbance::Api(rule) = disturbance else {
            return None;
        };
        let part = |at: Option<Timestamp>, part: Part, text: String| {
            Some(Scheduled {
                at: at?,
                disturbance: index,
                text,
                part,
            })
        };
        let window = rule.matches.window.unwrap_or_default();
        let begin = part(after(window.from), Part::Begins, disturbance.to_string());
        let end = window.until.and_then(after);
        let end = part(end, Part::Ends, format!("API fault {} is over", rule.name));
        Some([begin, end].into_iter().flatten())
    });
    windows.flatten().collect()
}

impl Log {
    fn add(&self, scheduled: Scheduled) {
        self.lock().push(scheduled);
    }

    /// Everything so far, in the order of time.
    pub fn all(&self) -> Vec<Scheduled> {
        self.lock().clone()
    }

    /// The number of hits of a disturbance, by its index in the plan.
    pub fn hits(&self, disturbance: usize) -> u64 {
        let log = self.lock();
        let hits = log
            .iter()
            .filter(|entry| entry.disturbance == disturbance && entry.part == Part::Moment);
        hits.count() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Scheduled>> {
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
                let part = match disturbance {
                    Disturbance::Cloud(_) if moment.ends => Part::Ends,
                    Disturbance::Cloud(_) => Part::Begins,
                    _ => Part::Moment,
                };
                log.add(Scheduled {
                    at: handles.clock.now(),
                    disturbance: moment.disturbance,
                    text,
                    part,
                });
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
            // The server, the gates and the engine time these.
            Disturbance::Api(_)
            | Disturbance::Crash(_)
            | Disturbance::Pause(_)
            | Disturbance::Lag(_)
            | Disturbance::Step(_) => {}
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
            let step = VmStep::new(&fault.machine, fault.action);
            handles.cloud.vm_action(&vm.id, &step, &handles.timeouts).await?;
        }
        Disturbance::Kubelet(fault) => {
            let vm = vm_of(handles, &fault.machine).await?;
            handles.cloud.kubelet_action(&vm.id, fault.action).await?;
        }
        Disturbance::Api(_)
        | Disturbance::Crash(_)
        | Disturbance::Pause(_)
        | Disturbance::Lag(_)
        | Disturbance::Step(_) => {}
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
