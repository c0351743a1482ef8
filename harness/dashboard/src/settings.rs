//! What a dashboard knows of its world from the start.

use scenario::{Cloud, StageKind};

/// What the page says about the world.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its stage.
    pub stage: StageKind,
    /// Its seed.
    pub seed: u64,
    /// The version of the program.
    pub version: String,
    /// The command that started it.
    pub command: String,
    /// The behavior of its cloud, with the durations that it has.
    pub cloud: Cloud,
    /// How the names begin of faults that it cannot have.
    pub without: Vec<&'static str>,
}

impl Settings {
    /// Those of a world with the default cloud, in which all faults are possible.
    pub fn new(stage: StageKind, seed: u64, version: &str, command: &str) -> Self {
        Self {
            stage,
            seed,
            version: version.to_owned(),
            command: command.to_owned(),
            cloud: Cloud::default(),
            without: Vec::new(),
        }
    }
}
