//! The stage `sim`: a whole world in this process, on one thread, in virtual time, from one seed.
//!
//! Every part reaches the API server through its own gate, so that the trace has all requests, watch deliveries and
//! cloud calls. Gates can also crash and pause processes.

mod defective;
mod parts;
mod registration;
mod stability;
mod start;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::sim::{Gate, Handle, Trace};
use apiserver::faults::Faults;
use clock::{Clock, Pulses};
use defects::{Defect, Planted};
use jiff::Timestamp;
use judge::ScenarioOutcome;
use scenario::job::Job;
use scenario::plan::Limits;
use scenario::result::TraceSummary;
use scenario::step::{Crash, CrashNext, Process, ProcessAction};
use scenario::{Step, Timeouts};
use tokio::task::JoinSet;

use self::parts::{OptionalPart, Part};
use self::stability::StabilityWatch;
use crate::audit::Audit;
use crate::cloud::CloudClient;
use crate::clusters::Clusters;
use crate::deploy::MCM_ACCOUNT;
use crate::naming::agents_named;
use crate::plan::effects::of_gate;
use crate::plan::hits;
use crate::plan::schedule::{self, api_windows};
use crate::result::StageResult;
use crate::supervised::{self, Supervised, crash_at, crash_at_next, has_crashed_at};
use crate::writes::Writes;
use crate::{MutantError, NAMESPACE, Performer, Stage, StageError, logs, pulses};

/// Runs a job from its seed.
pub fn run(job: &Job, performer: &impl Performer) -> StageResult {
    ::sim::run(job.plan.seed, |world| async move {
        let trace = world.trace.clone();
        let audit = Audit::new(NAMESPACE);
        let writes = job.writes.then(Writes::default);
        let stage = match plant(job.plan.mutant.as_deref()) {
            Ok(planted) => start::start(world, job, &audit, writes.as_ref())
                .await
                .map(|stage| (stage, planted)),
            Err(error) => Err(error.into()),
        };
        let (outcome, effects, hits, scheduled) = match stage {
            Ok((mut stage, _planted)) => {
                let outcome = Box::pin(perform_within_limits(&mut stage, job, performer, &trace)).await;
                let hits = hits::count(
                    &job.plan.disturbances,
                    outcome.as_ref().ok(),
                    Some(&stage.api_faults),
                    &stage.schedule,
                    |process| Some(stage.gate_of(process)),
                );
                let effects = of_gate(&stage.gate_of(job.effects.unwrap_or(Process::Mcm)));
                let mut scheduled = stage.schedule.all();
                scheduled.extend(api_windows(&job.plan.disturbances, stage.api_faults.start()));
                (outcome, effects, hits, scheduled)
            }
            Err(error) => (Err(error), Vec::new(), Vec::new(), Vec::new()),
        };
        let summary = TraceSummary {
            hash: trace.hash(),
            entries: trace.len(),
        };
        let passed = outcome.as_ref().is_ok_and(ScenarioOutcome::is_clean);
        let logs = if passed { BTreeMap::new() } else { logs_of(&trace) };
        let (entries, processes) = match !passed || job.narrate || job.record.is_some() {
            true => (trace.entries(), trace.process_entries()),
            false => (Vec::new(), Vec::new()),
        };
        StageResult {
            entries,
            processes,
            scheduled,
            trace: Some(summary),
            effects,
            writes: writes.as_ref().map(Writes::all).unwrap_or_default(),
            hits,
            requests: audit.accesses(),
            refused: audit.refused(),
            ..StageResult::new(outcome, logs)
        }
    })
}

/// Performs the job's scenario within the limits of virtual time and events.
async fn perform_within_limits(
    stage: &mut SimStage,
    job: &Job,
    performer: &impl Performer,
    trace: &Trace,
) -> Result<ScenarioOutcome, StageError> {
    let Limits {
        virtual_time, events, ..
    } = job.plan.limits;
    let clock = stage.clock.clone();
    tokio::select! {
        biased;
        outcome = performer.perform(stage, &job.plan.scenario) => Ok(outcome),
        () = trace.outgrown(events) => Err(StageError::TooManyEvents { limit: events }),
        () = clock.sleep(virtual_time.0) => Err(StageError::TooLong { limit: virtual_time.0 }),
    }
}

/// The trace of all parts, including crashes, and the log.
fn logs_of(trace: &Trace) -> BTreeMap<String, Vec<u8>> {
    let lines: String = trace.entries().iter().map(|entry| format!("{entry}\n")).collect();
    BTreeMap::from([
        ("trace.txt".to_owned(), lines.into_bytes()),
        ("log.txt".to_owned(), logs::kept()),
    ])
}

struct SimStage {
    clock: Clock,
    timeouts: Timeouts,
    clusters: Clusters,
    cloud: CloudClient,
    trace: Trace,
    mcm: Supervised,
    builtin: Part,
    kubelets: Part,
    health_checks: OptionalPart,
    remediation: OptionalPart,
    drivers: Vec<Handle>,
    schedule: schedule::Log,
    api_faults: Faults,
    audit: Audit,
    disturbed: bool,
    /// The pulses of mcm.
    mcm_pulses: Option<Pulses>,
    stability: StabilityWatch,
    parts: JoinSet<String>,
}

impl SimStage {
    /// The gate of a process. The gate of mcm is common to all replicas.
    fn gate_of(&self, process: Process) -> Gate {
        match process {
            // A driver's calls pass the gate of the replica that requested them.
            Process::Mcm | Process::Drivers => self.mcm.group.clone(),
            Process::Controllers => self.builtin.gate.clone(),
            Process::Fakecloud => self.kubelets.gate.clone(),
            Process::HealthChecks => self.health_checks.gate.clone(),
            Process::Remediation => self.remediation.gate.clone(),
        }
    }

    /// The supervisors of a process without replicas.
    fn handles(&self, process: Process) -> Result<&[Handle], StageError> {
        let handles = match process {
            Process::Mcm => return Err(StageError::NoProcess(process)),
            Process::Controllers => std::slice::from_ref(&self.builtin.handle),
            Process::Fakecloud => std::slice::from_ref(&self.kubelets.handle),
            Process::Drivers => &self.drivers,
            Process::HealthChecks => self.health_checks.handle.as_slice(),
            Process::Remediation => self.remediation.handle.as_slice(),
        };
        Ok(handles)
    }
}

impl Stage for SimStage {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    fn namespace(&self) -> &str {
        NAMESPACE
    }

    fn client(&self) -> kube::Client {
        self.clusters.control().clone()
    }

    fn clusters(&self) -> Clusters {
        self.clusters.clone()
    }

    fn cloud(&self) -> CloudClient {
        self.cloud.clone()
    }

    async fn process(&mut self, process: Process, action: ProcessAction) -> Result<(), StageError> {
        if process == Process::Mcm {
            let (client, clock) = (self.clusters.control(), &self.clock);
            return Ok(self.mcm.perform(action, client, NAMESPACE, clock).await?);
        }
        if action == ProcessAction::KillLeader {
            return Err(StageError::NoLeader(process));
        }
        supervised::perform(action, self.handles(process)?.iter(), &self.clock).await;
        Ok(())
    }

    fn trace(&self) -> Option<&Trace> {
        Some(&self.trace)
    }

    fn crash(&mut self, crash: &Crash) -> Result<(), StageError> {
        crash_at(&self.gate_of(crash.process), crash)
    }

    fn crash_next(&mut self, crash: &CrashNext) -> Result<Crash, StageError> {
        crash_at_next(&self.gate_of(crash.process), crash)
    }

    fn has_crash_hit(&self, crash: &Crash) -> bool {
        has_crashed_at(&self.gate_of(crash.process), crash)
    }

    fn fault(&self, target: &str, what: &str) {
        self.trace.fault(target, what);
    }

    fn ahead(&mut self, steps: &[Step]) {
        let undisturbed = !pulses::any_disturbs(steps);
        self.stability.undisturbed.store(undisturbed, Ordering::Relaxed);
    }

    fn api_faults(&self) -> Option<Faults> {
        Some(self.api_faults.clone())
    }

    fn agent_of_mcm(&self, holder: Option<&str>) -> Result<String, StageError> {
        match holder {
            None => Ok(format!("*:{MCM_ACCOUNT}")),
            Some(holder) => Ok(agents_named(&self.mcm.holder(holder)?.name)),
        }
    }

    fn audits(&self) -> Vec<Audit> {
        vec![self.audit.clone()]
    }

    async fn pause(&mut self, process: Process, time: Duration) -> Result<(), StageError> {
        if process != Process::Mcm {
            self.gate_of(process).pause_for(time);
            return Ok(());
        }
        let (client, clock) = (self.clusters.control(), &self.clock);
        Ok(self.mcm.pause_leader(time, client, NAMESPACE, clock).await?)
    }

    fn is_disturbed(&self) -> bool {
        self.disturbed
    }

    fn unheard_renewal(&self, holder: &str) -> Option<Timestamp> {
        self.mcm_pulses.as_ref()?.last(holder, self.clock.now())
    }

    fn has_crashed(&self, holder: &str) -> bool {
        let incarnation: Option<u64> = holder.rsplit('_').next().and_then(|number| number.parse().ok());
        let member = self.mcm.holder(holder).ok();
        member
            .zip(incarnation)
            .is_some_and(|(member, incarnation)| member.handle.has_crashed(incarnation))
    }

    async fn failure(&mut self) -> String {
        match self.parts.join_next().await {
            Some(Ok(reason)) => reason,
            Some(Err(error)) => format!("a task of the world failed: {error}"),
            None => std::future::pending().await,
        }
    }
}

/// Plants the defect of that name in this thread until the returned guard is dropped.
fn plant(name: Option<&str>) -> Result<Planted, MutantError> {
    let find = |name: &str| {
        let found = Defect::of(name);
        let name = name.to_owned();
        if !defects::CAN_BE_PLANTED {
            return Err(MutantError::NotBuilt { name });
        }
        found.ok_or(MutantError::Unknown { name })
    };
    Ok(defects::plant(name.map(find).transpose()?))
}
