//! mcm behind gates, which count its effects. It can be killed at any effect, paused and restarted.

use std::time::Duration;

use clock::Clock;
use scenario::step::{Crash, CrashNext, ProcessAction};
use sim::{DisturbanceKind, Gate, Handle};

use super::{LeaderError, StageError, holder_among, leader};
use crate::plan::effects;

/// The interval of a rolling restart's checks whether a process is up again.
const RESTART_PROBE: Duration = Duration::from_millis(100);

/// Processes of one kind, which share one effect counter.
#[derive(Debug)]
pub(super) struct Supervised {
    /// The common gate of the processes.
    pub(super) group: Gate,
    members: Vec<Member>,
}

/// One process.
#[derive(Debug)]
pub(super) struct Member {
    /// The name of the process, which is the prefix of its identity in the Lease.
    pub(super) name: String,
    /// Starts and stops the process.
    pub(super) handle: Handle,
    /// The gate of the process.
    pub(super) gate: Gate,
}

impl Supervised {
    /// An empty group.
    pub(super) fn new(group: Gate) -> Self {
        let members = Vec::new();
        Self { group, members }
    }

    /// Adds a process.
    pub(super) fn add(&mut self, name: &str, handle: Handle, gate: Gate) {
        let name = name.to_owned();
        self.members.push(Member { name, handle, gate });
    }

    /// The process with the identity `holder`.
    pub(super) fn holder(&self, holder: &str) -> Result<&Member, LeaderError> {
        let names = self.members.iter().map(|member| member.name.as_str());
        let index = holder_among(holder, names);
        index
            .and_then(|index| self.members.get(index))
            .ok_or_else(|| LeaderError::NoReplica {
                holder: holder.to_owned(),
            })
    }

    /// Performs an action of a step. `client` and `namespace` are for reading the Lease of the leader.
    pub(super) async fn perform(
        &self,
        action: ProcessAction,
        client: &kube::Client,
        namespace: &str,
        clock: &Clock,
    ) -> Result<(), LeaderError> {
        if action == ProcessAction::KillLeader {
            let holder = leader(client, namespace, clock).await?;
            self.holder(&holder)?.handle.kill();
            return Ok(());
        }
        perform(action, self.members.iter().map(|member| &member.handle), clock).await;
        Ok(())
    }

    /// Pauses the leader.
    pub(super) async fn pause_leader(
        &self,
        time: Duration,
        client: &kube::Client,
        namespace: &str,
        clock: &Clock,
    ) -> Result<(), LeaderError> {
        let holder = leader(client, namespace, clock).await?;
        self.holder(&holder)?.gate.pause_for(time);
        Ok(())
    }
}

/// Stops and starts processes. Ignores `KillLeader`, which needs a Lease.
pub(super) async fn perform<'a>(action: ProcessAction, handles: impl Iterator<Item = &'a Handle>, clock: &Clock) {
    match action {
        ProcessAction::Kill => {
            for handle in handles {
                handle.kill();
                // The next step may check whether the process runs.
                while handle.is_running() {
                    tokio::task::yield_now().await;
                }
            }
        }
        ProcessAction::Start => handles.filter(|handle| !handle.is_running()).for_each(Handle::restart),
        ProcessAction::Restart => handles.for_each(Handle::restart),
        ProcessAction::RollingRestart => {
            for handle in handles {
                let before = handle.starts();
                handle.restart();
                while handle.starts() == before {
                    clock.sleep(RESTART_PROBE).await;
                }
            }
        }
        ProcessAction::KillLeader => {}
    }
}

/// Arms a crash in the middle of a scenario.
pub(super) fn crash_at(gate: &Gate, crash: &Crash) -> Result<(), StageError> {
    let Crash { process, effect, .. } = *crash;
    if effect <= gate.effects() {
        return Err(StageError::EffectPassed {
            process,
            effects: gate.effects(),
            effect,
        });
    }
    gate.crash_at(effects::crash_point(crash));
    Ok(())
}

/// Arms a crash at the next effect.
pub(super) fn crash_at_next(gate: &Gate, crash: &CrashNext) -> Result<Crash, StageError> {
    let effect = gate.crash_at_next(effects::side_of(crash.at));
    Ok(Crash {
        process: crash.process,
        at: crash.at,
        effect: effect.ok_or(StageError::CrashArmed(crash.process))?,
        may_miss: crash.may_miss,
    })
}

/// Whether an armed crash has happened.
pub(super) fn has_crashed_at(gate: &Gate, crash: &Crash) -> bool {
    gate.has_hit(crash.effect, DisturbanceKind::Crash)
}
