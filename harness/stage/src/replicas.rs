//! Several processes of one command on a wall-clock stage: the replicas of mcm with leader election, and drivers that
//! register with them.

use std::path::Path;
use std::time::Duration;

use clock::Clock;
use futures::stream::{FuturesUnordered, StreamExt};
use scenario::step::ProcessAction;

use super::child::{Ended, Program, Running};
use super::ports::{PortError, free_port, start};
use super::{LeaderError, StageError, holder_among, leader};

/// Settings of each replica.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    /// Command and environment. Each replica has its own name and log.
    pub(super) program: Program,
    /// Whether the program is our mcm, which gets a port for its metrics and is up when it listens on that port.
    pub(super) ours: bool,
    /// Whether each replica gets a port on which drivers register.
    pub(super) registration: bool,
}

/// The replicas. Dropping this kills them.
#[derive(Debug)]
pub(super) struct Replicas {
    clock: Clock,
    ours: bool,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    name: String,
    program: Program,
    /// The address at which drivers register.
    registry: Option<String>,
    running: Option<Running>,
}

impl Replicas {
    /// Prepares a replica of each name, which logs into `folder`, without starting them. Each has its name as its host
    /// name.
    pub(super) fn new(
        recipe: Option<Recipe>,
        names: Vec<String>,
        folder: &Path,
        clock: Clock,
    ) -> Result<Self, PortError> {
        let ours = recipe.as_ref().is_some_and(|recipe| recipe.ours);
        let slot = |recipe: &Recipe, name: String| {
            let mut program = recipe.program.clone();
            program.log = folder.join(format!("{name}.log"));
            program.environment.push(("HOSTNAME".to_owned(), name.clone().into()));
            if recipe.ours {
                program.name.clone_from(&name);
            }
            let mut registry = None;
            if recipe.registration {
                // The same after a restart, so that drivers find the replica again.
                let port = free_port()?;
                program.command.push(format!("--driver-listen=127.0.0.1:{port}").into());
                registry = Some(format!("grpc://127.0.0.1:{port}"));
            }
            Ok(Slot {
                name,
                program,
                registry,
                running: None,
            })
        };
        let slots: Result<_, PortError> = match recipe {
            Some(recipe) => names.into_iter().map(|name| slot(&recipe, name)).collect(),
            None => Ok(Vec::new()),
        };
        let slots = slots?;
        Ok(Self { clock, ours, slots })
    }

    /// The addresses at which drivers register.
    pub(super) fn registries(&self) -> Vec<String> {
        self.slots.iter().filter_map(|slot| slot.registry.clone()).collect()
    }

    /// The names of the log files.
    pub(super) fn logs(&self) -> impl Iterator<Item = String> {
        self.slots.iter().map(|slot| format!("{}.log", slot.name))
    }

    /// Starts the replicas that do not run, and waits until they are up.
    pub(super) async fn start(&mut self) -> Result<(), PortError> {
        for slot in self.slots.iter_mut().filter(|slot| slot.running.is_none()) {
            slot.start(self.ours, &self.clock).await?;
        }
        Ok(())
    }

    /// Performs an action of a step. `client` and `namespace` are for reading the Lease of the leader.
    pub(super) async fn perform(
        &mut self,
        action: ProcessAction,
        client: &kube::Client,
        namespace: &str,
    ) -> Result<(), StageError> {
        match action {
            ProcessAction::Start => self.start().await?,
            ProcessAction::Kill => self.kill().await,
            ProcessAction::Restart => {
                self.kill().await;
                self.start().await?;
            }
            ProcessAction::KillLeader => {
                let running = self.leader(client, namespace).await?.running.take();
                if let Some(running) = running {
                    running.kill().await;
                }
            }
            ProcessAction::RollingRestart => {
                for slot in &mut self.slots {
                    if let Some(running) = slot.running.take() {
                        running.stop().await;
                    }
                    slot.start(self.ours, &self.clock).await?;
                }
            }
        }
        Ok(())
    }

    /// Pauses the leader for that time.
    pub(super) async fn pause_leader(
        &mut self,
        time: Duration,
        client: &kube::Client,
        namespace: &str,
    ) -> Result<(), StageError> {
        let clock = self.clock.clone();
        if let Some(running) = &self.leader(client, namespace).await?.running {
            running.pause(time, clock);
        }
        Ok(())
    }

    /// The running replica that holds the Lease.
    async fn leader(&mut self, client: &kube::Client, namespace: &str) -> Result<&mut Slot, StageError> {
        let holder = leader(client, namespace, &self.clock).await?;
        let running = |slot: &&mut Slot| slot.running.is_some();
        let names = self.slots.iter().map(|slot| slot.name.as_str());
        let slot = holder_among(&holder, names).and_then(|index| self.slots.get_mut(index));
        slot.filter(running).ok_or_else(|| {
            let namespace = namespace.to_owned();
            LeaderError::NoProcess { namespace, holder }.into()
        })
    }

    /// Kills the replicas.
    async fn kill(&mut self) {
        for running in self.slots.iter_mut().filter_map(|slot| slot.running.take()) {
            running.kill().await;
        }
    }

    /// Stops the replicas gracefully, and kills them after a grace period.
    pub(super) async fn stop(&mut self) {
        let running = self.slots.iter_mut().filter_map(|slot| slot.running.take());
        let mut ends: FuturesUnordered<_> = running.map(Running::stop).collect();
        while ends.next().await.is_some() {}
    }

    /// Removes the replicas that have ended, so that they can be started again.
    pub(super) fn remove_ended(&mut self) {
        for slot in &mut self.slots {
            slot.running.take_if(|running| running.has_ended());
        }
    }

    /// Returns when a replica ends unexpectedly.
    pub(super) async fn ended(&mut self) -> Ended {
        let running = self.slots.iter_mut().filter_map(|slot| slot.running.as_mut());
        let mut ends: FuturesUnordered<_> = running.map(Running::ended).collect();
        match ends.next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }
}

impl Slot {
    /// Starts the replica; our mcm on a free port, for its metrics.
    async fn start(&mut self, ours: bool, clock: &Clock) -> Result<(), PortError> {
        if !ours {
            self.running = Some(self.program.start()?);
            return Ok(());
        }
        let (_, running) = start(&self.program, |port| format!("--port={port}"), clock).await?;
        self.running = Some(running);
        Ok(())
    }
}
