//! mcm behind gates: its effects are counted, and it can be killed at any of them, stand still, and be started again.

use std::time::Duration;

use clock::Clock;
use judge::narrative::Narrative;
use scenario::step::{Crash, ProcessAction};
use sim::{Gate, Handle, Trace};

use super::{LeaderError, StageError, holder_among, leader};
use crate::plan::effects;

/// How the trace tells of what strikes a process at an effect.
const BLOWS: [&str; 4] = [": crash ", ": pause ", ": goes on", ": watches lag "];
/// How often a rolling restart looks whether a process is up again.
const RESTART_PROBE: Duration = Duration::from_millis(100);

/// Processes of one kind, which share one count of effects.
#[derive(Debug)]
pub(super) struct Supervised {
    /// The gate of all of them together.
    pub(super) group: Gate,
    members: Vec<Member>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Member {
    /// What it is called; its identity as a candidate begins with it.
    pub(super) name: String,
    /// What starts and ends it.
    pub(super) handle: Handle,
    /// Its own gate.
    pub(super) gate: Gate,
}

impl Supervised {
    /// None yet.
    pub(super) fn new(group: Gate) -> Self {
        let members = Vec::new();
        Self { group, members }
    }

    /// One more.
    pub(super) fn add(&mut self, name: &str, handle: Handle, gate: Gate) {
        let name = name.to_owned();
        self.members.push(Member { name, handle, gate });
    }

    /// The process that holds the Lease under that name.
    pub(super) fn holder(&self, holder: &str) -> Result<&Member, LeaderError> {
        let names = self.members.iter().map(|member| member.name.as_str());
        let index = holder_among(holder, names);
        index
            .and_then(|index| self.members.get(index))
            .ok_or_else(|| LeaderError::NoReplica {
                holder: holder.to_owned(),
            })
    }

    /// Performs a step; `client` and `namespace` tell who leads.
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

    /// Lets the one that leads stand still.
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

/// Ends and starts processes. `KillLeader` means nothing to those that have no leader.
pub(super) async fn perform<'a>(action: ProcessAction, handles: impl Iterator<Item = &'a Handle>, clock: &Clock) {
    match action {
        ProcessAction::Kill => {
            for handle in handles {
                handle.kill();
                // Down before the next step asks whether it is.
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

/// Adds to the narrative when mcm started, and when a process crashed and was killed: it does not see its own end.
pub(super) fn tell_of_process(narrative: &mut Narrative, trace: &Trace) {
    for entry in trace.process_entries() {
        let of_mcm = entry.source == "mcm" || entry.source.starts_with("mcm-");
        let of_builtin = ["controllers", "kubelets"].contains(&&*entry.source) && !entry.text.ends_with("(1)");
        let processes = ["mcm", "controllers", "kubelets"];
        let struck = entry.source == "fault" && processes.iter().any(|process| entry.text.starts_with(process));
        if let Some(process) = entry.text.strip_prefix("process ").filter(|_| of_mcm || of_builtin) {
            narrative.insert(entry.at, format!("{} {process}", entry.source));
        } else if struck && BLOWS.iter().any(|blow| entry.text.contains(blow)) {
            narrative.insert(entry.at, entry.text);
        }
    }
}
