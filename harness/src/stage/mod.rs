//! Stages: where a scenario runs.
//!
//! What lives here: what a stage must be able to do, and the stages that exist. What must not: what
//! a scenario means.

pub mod child;
pub mod cloud;
pub mod embedded;
pub mod logs;
pub mod plane;
pub mod setup;
pub mod sim;

use std::future::Future;

use clock::Clock;
use serde::{Deserialize, Serialize};

use crate::scenario::Timeouts;
use crate::scenario::step::{Crash, Process, ProcessAction};
use cloud::CloudClient;

/// The namespace of machines, classes and their Secrets.
pub const NAMESPACE: &str = "default";

/// The stages that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// Everything in this process, in virtual time, replayed from a seed.
    Sim,
    /// The API server in this process; mcm and fakecloud are processes of their own; wall clock.
    Embedded,
}

impl StageKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Sim, Self::Embedded];
}

impl std::fmt::Display for StageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sim => "sim",
            Self::Embedded => "embedded",
        })
    }
}

/// A world that is up: the four CRDs, the class `class-a` with its Secret, the cloud and mcm.
pub trait Stage {
    /// The time that observations are stamped with.
    fn clock(&self) -> &Clock;

    /// What named durations are worth.
    fn timeouts(&self) -> &Timeouts;

    /// A client of the API server, as the harness itself.
    fn client(&self) -> kube::Client;

    /// A client of the fake cloud's controls.
    fn cloud(&self) -> CloudClient;

    /// Ends or starts a process.
    fn process(&mut self, process: Process, action: ProcessAction) -> impl Future<Output = Result<(), String>>;

    /// Arms a crash at an effect.
    ///
    /// # Errors
    /// When this stage cannot count effects.
    fn crash(&mut self, crash: &Crash) -> Result<(), String>;

    /// Records what the scenario does to the world against its will, and whom an injected fault struck:
    /// `target` is what is struck. Only a stage with a trace has somewhere to record it.
    fn fault(&self, target: &str, what: &str);

    /// Returns, with a sentence, when a part of the world ends that nobody ended.
    fn trouble(&mut self) -> impl Future<Output = String>;
}
