//! Kills containers on request of a test or a user.

use jiff::Timestamp;

use super::facts::PodKey;
use super::fleet::{Fleet, Timer};

/// Why a container was not killed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PodError {
    #[error("there is no pod {0}/{1} on a simulated Node")]
    NoPod(String, String),
    #[error("pod {pod} has no container {container:?}; it has {known}")]
    NoContainer {
        pod: String,
        container: String,
        known: String,
    },
    #[error("pod {0} has several containers, name one: {1}")]
    Several(String, String),
    #[error("container {1:?} of pod {0} does not run now")]
    NotRunning(String, String),
}

impl Fleet {
    /// Kills a container of a pod, or lets it run out of memory.
    pub(crate) fn kill_container(
        &mut self,
        key: &PodKey,
        container: &str,
        reason: &'static str,
        now: Timestamp,
    ) -> Result<String, PodError> {
        let missing = || PodError::NoPod(key.0.clone(), key.1.clone());
        let number = self.pods.by_key.get(key).copied().ok_or_else(missing)?;
        let pod = self.pods.tracked.get_mut(&number).ok_or_else(missing)?;
        let name = format!("{}/{}", key.0, key.1);
        let containers = pod.facts.plan.as_ref().map_or(&[][..], |plan| &plan.containers[..]);
        let all = containers.iter().map(|container| container.name.as_str());
        let known = all.collect::<Vec<_>>().join(", ");
        let index = match (container, containers) {
            ("", [_]) => 0,
            ("", _) => return Err(PodError::Several(name, known)),
            _ => containers
                .iter()
                .position(|one| one.name == container)
                .ok_or_else(|| PodError::NoContainer {
                    pod: name.clone(),
                    container: container.to_owned(),
                    known,
                })?,
        };
        let found = containers.get(index).map(|one| one.name.clone()).unwrap_or_default();
        if !pod.run.as_mut().is_some_and(|(_, run)| run.kill(index, reason, now)) {
            return Err(PodError::NotRunning(name, found));
        }
        self.timers.set_earlier(Timer::Pod(number), now);
        Ok(found)
    }
}
