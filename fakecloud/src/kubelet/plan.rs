//! The plan of a pod on a simulated kubelet: from its spec, and from annotations that describe the behaviour of its
//! containers.
//!
//! All keys begin with `fakecloud.drydock.dev/`. A key for containers applies to all containers except init containers;
//! with the suffix `.NAME` it applies to one container.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};
use mcm_api::duration::GoDuration;

use super::quantity::millis;

const PREFIX: &str = "fakecloud.drydock.dev/";
/// Time from the pod's binding to the start of its first container.
const START_AFTER: &str = "start-after";
/// How long containers take to terminate.
const TERMINATES_AFTER: &str = "terminates-after";
/// `true`: containers never terminate, even when they are killed.
const NEVER_TERMINATES: &str = "never-terminates";
/// Duration of a container's run. Absent: until the pod terminates; for an init container: zero.
const RUN_FOR: &str = "run-for";
/// Exit code of a run, 0 to 255.
const EXIT_CODE: &str = "exit-code";
/// Reason for the end of a run, for example OOMKilled.
const EXIT_REASON: &str = "exit-reason";
/// The startup probe succeeds this time after the start.
const STARTED_AFTER: &str = "started-after";
/// The readiness probe succeeds this time after the start.
const READY_AFTER: &str = "ready-after";
/// The readiness probe fails in these windows after the start: `30s-1m,5m-6m`.
const NOT_READY_BETWEEN: &str = "not-ready-between";
/// The liveness probe fails this time after each start, and the container is killed.
const LIVENESS_FAILS_AFTER: &str = "liveness-fails-after";
/// `true`: the image cannot be pulled.
const IMAGE_PULL_FAILS: &str = "image-pull-fails";

const ABOUT_PODS: [&str; 3] = [START_AFTER, TERMINATES_AFTER, NEVER_TERMINATES];
const ABOUT_CONTAINERS: [&str; 8] = [
    RUN_FOR,
    EXIT_CODE,
    EXIT_REASON,
    STARTED_AFTER,
    READY_AFTER,
    NOT_READY_BETWEEN,
    LIVENESS_FAILS_AFTER,
    IMAGE_PULL_FAILS,
];

/// An invalid annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {PREFIX}{key}: {reason}")]
pub(super) struct PlanError {
    key: String,
    reason: String,
}

/// Restart policy of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

/// Role of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to completion before the containers after it.
    Init,
    /// Starts in the order of the init containers and runs until the pod ends.
    Sidecar,
    /// Runs with the other containers, after the init containers.
    App,
}

/// The plan of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodPlan {
    pub(super) restart: RestartPolicy,
    /// Init containers and sidecars in their order, then the others.
    pub(super) containers: Vec<ContainerPlan>,
    pub(super) start_after: Option<Duration>,
    pub(super) terminates_after: Option<Duration>,
    pub(super) never_terminates: bool,
    /// Maximum time that it may be active.
    pub(super) active_for: Option<Duration>,
    /// The PersistentVolumeClaims that it mounts.
    pub(super) claims: Vec<String>,
    /// Its requests, in thousandths of a CPU and of a byte.
    pub(super) cpu: u128,
    pub(super) memory: u128,
    pub(super) host_network: bool,
}

/// The plan of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerPlan {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) role: Role,
    pub(super) run_for: Option<Duration>,
    pub(super) exit_code: i32,
    pub(super) exit_reason: Option<String>,
    pub(super) started_after: Duration,
    pub(super) ready_after: Duration,
    pub(super) not_ready: Vec<(Duration, Duration)>,
    pub(super) liveness_fails_after: Option<Duration>,
    pub(super) image_pull_fails: bool,
}

impl PodPlan {
    /// Builds the plan of a pod.
    pub(super) fn of(
        name: &str,
        spec: &PodSpec,
        annotations: Option<&BTreeMap<String, String>>,
    ) -> Result<Self, PlanError> {
        let notes = Notes::of(spec, annotations)?;
        let initial = spec.init_containers.iter().flatten().map(|container| {
            let role = match container.restart_policy.as_deref() {
                Some("Always") => Role::Sidecar,
                _ => Role::Init,
            };
            (container, role)
        });
        let others = spec.containers.iter().map(|container| (container, Role::App));
        let containers: Result<Vec<_>, _> = initial
            .chain(others)
            .map(|(container, role)| notes.container(container, role))
            .collect();
        Ok(Self {
            restart: match spec.restart_policy.as_deref() {
                Some("Never") => RestartPolicy::Never,
                Some("OnFailure") => RestartPolicy::OnFailure,
                _ => RestartPolicy::Always,
            },
            containers: containers?,
            start_after: notes.duration(START_AFTER, None)?,
            terminates_after: notes.duration(TERMINATES_AFTER, None)?,
            never_terminates: notes.flag(NEVER_TERMINATES, None)?,
            active_for: spec
                .active_deadline_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map(Duration::from_secs),
            claims: spec
                .volumes
                .iter()
                .flatten()
                .filter_map(|volume| claim(name, volume))
                .collect(),
            cpu: requested(spec, "cpu"),
            memory: requested(spec, "memory"),
            host_network: spec.host_network.unwrap_or_default(),
        })
    }
}

/// The claim behind a volume of a pod.
fn claim(pod: &str, volume: &Volume) -> Option<String> {
    let claim = volume
        .persistent_volume_claim
        .as_ref()
        .map(|claim| claim.claim_name.clone());
    claim.or_else(|| volume.ephemeral.as_ref().map(|_| format!("{pod}-{}", volume.name)))
}

/// The request of a pod: the sum of its containers and sidecars, or its largest init container.
fn requested(spec: &PodSpec, resource: &str) -> u128 {
    let of = |container: &Container| {
        let requests = container
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.as_ref());
        requests
            .and_then(|requests| millis(&requests.get(resource)?.0))
            .unwrap_or_default()
    };
    let mut sidecars = 0;
    let mut initial = 0;
    for container in spec.init_containers.iter().flatten() {
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars += of(container);
            initial = initial.max(sidecars);
        } else {
            initial = initial.max(sidecars + of(container));
        }
    }
    initial.max(sidecars + spec.containers.iter().map(of).sum::<u128>())
}

/// Annotations of a pod that describe its behaviour.
struct Notes<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Notes<'a> {
    /// Reads the annotations with the prefix. An unknown key or container is an error, because a typo would silently
    /// change the test.
    fn of(spec: &'a PodSpec, annotations: Option<&'a BTreeMap<String, String>>) -> Result<Self, PlanError> {
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let names: Vec<&str> = containers.map(|container| container.name.as_str()).collect();
        let mut notes = BTreeMap::new();
        for (key, value) in annotations.into_iter().flatten() {
            let Some(key) = key.strip_prefix(PREFIX) else { continue };
            let (base, container) = match key.split_once('.') {
                Some((base, container)) => (base, Some(container)),
                None => (key, None),
            };
            let wrong = |reason: String| PlanError {
                key: key.to_owned(),
                reason,
            };
            if !ABOUT_CONTAINERS.contains(&base) && (container.is_some() || !ABOUT_PODS.contains(&base)) {
                let known = [&ABOUT_PODS[..], &ABOUT_CONTAINERS[..]].concat().join(", ");
                return Err(wrong(format!("the key does not exist; the keys are {known}")));
            }
            if let Some(container) = container.filter(|container| !names.contains(container)) {
                return Err(wrong(format!(
                    "the pod has no container {container:?}; it has {}",
                    names.join(", ")
                )));
            }
            notes.insert(key, value.as_str());
        }
        Ok(Self(notes))
    }

    fn container(&self, container: &Container, role: Role) -> Result<ContainerPlan, PlanError> {
        // General keys do not apply to init containers.
        let at = Some((container.name.as_str(), role == Role::App));
        let run_for = self.duration(RUN_FOR, at)?;
        let code = self.read(EXIT_CODE, at, |text| {
            text.parse::<u8>()
                .map_err(|_| "must be a number from 0 to 255".to_owned())
        })?;
        let reason = self.read(EXIT_REASON, at, |text| Ok(text.to_owned()))?;
        let ends = code.is_some() || reason.is_some() || role == Role::Init;
        let killed = if reason.as_deref() == Some("OOMKilled") { 137 } else { 0 };
        Ok(ContainerPlan {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            role,
            run_for: run_for.or(ends.then_some(Duration::ZERO)),
            exit_code: code.map_or(killed, i32::from),
            exit_reason: reason,
            started_after: self.duration(STARTED_AFTER, at)?.unwrap_or_default(),
            ready_after: self.duration(READY_AFTER, at)?.unwrap_or_default(),
            not_ready: self.read(NOT_READY_BETWEEN, at, windows)?.unwrap_or_default(),
            liveness_fails_after: self.duration(LIVENESS_FAILS_AFTER, at)?,
            image_pull_fails: self.flag(IMAGE_PULL_FAILS, at)?,
        })
    }

    /// Reads a key; for a container, its own key before the general one, if that applies.
    fn read<T>(
        &self,
        key: &str,
        container: Option<(&str, bool)>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, PlanError> {
        let own = container.map(|(name, _)| format!("{key}.{name}"));
        let general = container.is_none_or(|(_, general)| general).then_some(key);
        for key in own.as_deref().into_iter().chain(general) {
            if let Some(text) = self.0.get(key) {
                return read(text).map(Some).map_err(|reason| PlanError {
                    key: key.to_owned(),
                    reason: format!("{text:?}: {reason}"),
                });
            }
        }
        Ok(None)
    }

    fn duration(&self, key: &str, container: Option<(&str, bool)>) -> Result<Option<Duration>, PlanError> {
        self.read(key, container, span)
    }

    fn flag(&self, key: &str, container: Option<(&str, bool)>) -> Result<bool, PlanError> {
        let flag = self.read(key, container, |text| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("must be true or false".to_owned()),
        })?;
        Ok(flag.unwrap_or_default())
    }
}

fn span(text: &str) -> Result<Duration, String> {
    text.trim()
        .parse::<GoDuration>()
        .map(|duration| duration.0)
        .map_err(|_| "must be a Go duration, for example 30s".to_owned())
}

fn windows(text: &str) -> Result<Vec<(Duration, Duration)>, String> {
    text.split(',')
        .map(|window| {
            let (from, to) = window.split_once('-').ok_or("must be written as 30s-1m,5m-6m")?;
            let (from, to) = (span(from)?, span(to)?);
            if from < to {
                Ok((from, to))
            } else {
                Err(format!("{} ends before it begins", window.trim()))
            }
        })
        .collect()
}
