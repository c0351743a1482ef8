//! Performs the requests of steps on the API server and the cloud, through the stage's clients.

use std::time::Duration;

use clock::Clock;
use futures::channel::mpsc::UnboundedSender;
use judge::object::label;
use judge::world::WorldState;
use kube::api::{Api, DeleteParams, DynamicObject};
use mcm_api::keys;
use scenario::kinds::Kinds;
use scenario::step::{ActAs, Answer, CloudRequest, Deletion, Request, Subject};
use scenario::{Step, Timeouts};
use stage::cloud::{CloudClient, CloudError};
use stage::clusters::Clusters;
use stage::kind_api::KindApi;
use stage::{apply, deploy, merge};

use super::action_error::{ActionError, cannot};
use super::autoscaler::Actor;
use super::node_drain::NodeDrain;
use super::{flap, strip};

/// The clients and settings that an action needs.
#[derive(Clone)]
pub(super) struct Handles {
    pub(super) clusters: Clusters,
    /// The kinds of the scenario.
    pub(super) kinds: Kinds,
    pub(super) cloud: CloudClient,
    pub(super) timeouts: Timeouts,
    /// The namespace of objects that specify none.
    pub(super) namespace: String,
    pub(super) clock: Clock,
    /// Receives notes of long-running actions.
    pub(super) notes: UnboundedSender<String>,
}

/// The id of the VM, or the name of the Node, that `step` acts on; empty for steps without a subject.
///
/// # Errors
/// When the machine has no VM or Node yet.
pub(super) fn subject(step: &Step, world: &WorldState) -> Result<String, ActionError> {
    match step.targets().subject {
        Some(Subject::VmOf(machine)) => vm_of(world, &machine),
        Some(Subject::NodeOf(machine)) => node_of(world, &machine),
        None => Ok(String::new()),
    }
}

/// Whether a request changed anything. Most do, or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It changed nothing.
    Nothing,
    /// It changed something.
    Something,
}

impl Effect {
    fn of(count: u64) -> Self {
        match count {
            0 => Self::Nothing,
            _ => Self::Something,
        }
    }
}

/// Performs the request of `step` on its [`subject`].
///
/// # Errors
/// Why it cannot be performed.
pub(super) async fn perform(handles: Handles, step: &Step, subject: &str) -> Result<Effect, ActionError> {
    let Handles {
        clusters,
        kinds,
        timeouts,
        namespace,
        clock,
        notes,
        ..
    } = &handles;
    match step.request() {
        Request::Apply(fixture) => apply(clusters, kinds, namespace, &fixture.object(namespace, timeouts)).await?,
        Request::Delete { object, .. } if object.answer == Answer::Forbidden => is_forbidden(&handles, object).await?,
        Request::Delete { object, force } => {
            let parameters = match force {
                true => DeleteParams::default().grace_period(0),
                false => DeleteParams::default(),
            };
            delete(&handles, object, &parameters).await?;
        }
        Request::Merge(change) => merge(clusters, kinds, namespace, &change).await?,
        Request::As(step) => act_as(&handles, step, subject).await?,
        Request::Drain { node, within } => {
            let drain = NodeDrain {
                client: clusters.target().clone(),
                clock: clock.clone(),
                timeouts: timeouts.clone(),
                notes: notes.clone(),
            };
            drain.run(node, within).await?;
        }
        Request::Flap(flap) => {
            let written = flap::run(clusters.target(), clock, timeouts, subject, flap).await?;
            let _ = notes.unbounded_send(format!(
                "condition {} of node {subject} was written {written} times",
                flap.condition
            ));
            return Ok(Effect::of(written));
        }
        Request::Strip(strip) => {
            let stripped = Box::pin(strip::run(clusters.control(), clock, timeouts, namespace, strip)).await?;
            return Ok(Effect::of(stripped));
        }
        Request::Autoscaler(autoscaler) => {
            let actor = Actor {
                clusters: clusters.clone(),
                clock: clock.clone(),
                namespace: namespace.clone(),
                notes: notes.clone(),
            };
            return Ok(Effect::of(Box::pin(actor.run(autoscaler, timeouts)).await?));
        }
        Request::Cloud(request) => change_cloud(&handles, request, subject).await?,
        // The engine performs these itself.
        Request::Process(_)
        | Request::Crash(_)
        | Request::CrashNext(_)
        | Request::AddApiFault(_)
        | Request::LiftApiFault(_)
        | Request::Pause(_)
        | Request::Keep(_)
        | Request::QuietEnd(_)
        | Request::Wait(_)
        | Request::Resolve(_)
        | Request::Expect(_) => {}
    }
    Ok(Effect::Something)
}

async fn change_cloud(handles: &Handles, request: CloudRequest<'_>, subject: &str) -> Result<(), CloudError> {
    let Handles {
        cloud,
        timeouts,
        namespace,
        ..
    } = handles;
    match request {
        CloudRequest::Inject(fault) => cloud.inject(fault, timeouts).await,
        CloudRequest::Lift(rule) => cloud.lift(rule).await.map(drop),
        CloudRequest::SlowCreation(slow) => cloud.slow_creation(slow, timeouts).await,
        CloudRequest::FailZone(fail) => cloud.fail_zone(fail, timeouts).await,
        CloudRequest::RestoreZone(zone) => cloud.restore_zone(zone).await,
        CloudRequest::CreateVm(step) => cloud.create_vm(namespace, &step.machine, step.tagged).await,
        CloudRequest::Vm(step) => cloud.vm_action(subject, step, timeouts).await,
        CloudRequest::Kubelet(action) => cloud.kubelet_action(subject, action).await,
    }
}

/// Performs a step as another user. A step that must be refused fails if it is not.
async fn act_as(handles: &Handles, step: &ActAs, subject: &str) -> Result<(), ActionError> {
    let user = deploy::account_in(&step.user, &handles.namespace);
    let acting = Handles {
        clusters: handles.clusters.as_user(&user)?,
        ..handles.clone()
    };
    let refused = match Box::pin(perform(acting, &step.step, subject)).await {
        Ok(_) if step.refused => {
            return Err(ActionError::NotRefused {
                user: step.user.clone(),
            });
        }
        Err(error) if step.refused => error,
        done => return done.map(drop),
    };
    let text = refused.to_string();
    let is_refusal = ["Forbidden", "forbidden", "Unauthorized"]
        .iter()
        .any(|word| text.contains(word));
    if is_refusal {
        let _ = handles
            .notes
            .unbounded_send(format!("{} is refused: {text}", step.user));
        return Ok(());
    }
    Err(ActionError::FailsOtherwise {
        user: step.user.clone(),
        source: Box::new(refused),
    })
}

/// A client for the object of a deletion.
fn api_of(handles: &Handles, object: &Deletion) -> Result<Api<DynamicObject>, ActionError> {
    let kind = handles.kinds.find(object.api_version.as_deref(), &object.kind)?;
    Ok(kind.api(handles.clusters.of(kind), &handles.namespace))
}

async fn delete(handles: &Handles, object: &Deletion, parameters: &DeleteParams) -> Result<(), ActionError> {
    let Deletion { kind, name, answer, .. } = object;
    let api = api_of(handles, object)?;
    let deleted = api.delete(name, parameters).await;
    match deleted {
        Err(kube::Error::Api(status)) if *answer != Answer::Deleted && status.is_not_found() => Ok(()),
        Err(error) => Err(cannot(format!("delete {kind} {name}"))(error)),
        Ok(_) if *answer == Answer::NotFound => Err(ActionError::Deleted {
            kind: kind.clone(),
            name: name.clone(),
        }),
        Ok(_) => Ok(()),
    }
}

/// Period of the dry runs that check whether an object may be deleted.
const FORBIDDEN_PROBE: Duration = Duration::from_millis(200);

/// Waits until a deletion would be refused.
async fn is_forbidden(handles: &Handles, object: &Deletion) -> Result<(), ActionError> {
    let Deletion { kind, name, .. } = object;
    let api = api_of(handles, object)?;
    let dry = DeleteParams::default().dry_run();
    let refused = async {
        loop {
            match api.delete(name, &dry).await {
                Err(kube::Error::Api(status)) if status.code == 403 || status.message.contains("forbidden") => {
                    break Ok(());
                }
                Err(error) => break Err(cannot(format!("check whether {kind} {name} may be deleted"))(error)),
                Ok(_) => handles.clock.sleep(FORBIDDEN_PROBE).await,
            }
        }
    };
    let refused = tokio::time::timeout(handles.timeouts.slack, refused).await;
    refused.unwrap_or_else(|_| {
        Err(ActionError::NotForbidden {
            kind: kind.clone(),
            name: name.clone(),
        })
    })
}

/// The name of a machine's Node.
fn node_of(world: &WorldState, machine: &str) -> Result<String, ActionError> {
    let node = world
        .object("Machine", machine)
        .map(|machine| label(machine, keys::NODE_LABEL));
    node.filter(|node| !node.is_empty())
        .map(str::to_owned)
        .ok_or_else(|| ActionError::NoNode {
            machine: machine.to_owned(),
        })
}

/// The id of the newest VM of a machine that is not terminated.
fn vm_of(world: &WorldState, machine: &str) -> Result<String, ActionError> {
    world
        .vms_of(machine)
        .max_by_key(|vm| vm.revision)
        .map(|vm| vm.id.clone())
        .ok_or_else(|| ActionError::NoVm {
            machine: machine.to_owned(),
        })
}
