//! How a step acts on the API server and on the cloud, through the stage's clients.

use std::time::Duration;

use clock::Clock;
use futures::channel::mpsc::UnboundedSender;
use kube::api::DeleteParams;
use mcm_api::keys;
use serde_json::json;

use super::autoscaler::Actor;
use super::evictor::Evictor;
use super::{flap, strip};
use judge::object::{annotation, label, text};
use judge::world::WorldState;
use scenario::step::{ActAs, Annotate, Answer, Deletion, ProcessAction};
use scenario::{Step, Timeouts, kinds};
use stage::cloud::CloudClient;
use stage::clusters::Clusters;
use stage::kind_api::KindApi;
use stage::{apply, deploy, merge};

/// What an action needs.
#[derive(Clone)]
pub(super) struct Handles {
    pub(super) clusters: Clusters,
    pub(super) cloud: CloudClient,
    pub(super) timeouts: Timeouts,
    /// Where objects live that name no namespace.
    pub(super) namespace: String,
    pub(super) clock: Clock,
    /// Where a step that takes its time tells what it does.
    pub(super) told: UnboundedSender<String>,
}

/// The VM or Node of the machine that `step` is about, where it needs one; empty for other steps.
///
/// # Errors
/// A sentence: the machine has none yet.
pub(super) fn subject(step: &Step, world: &WorldState) -> Result<String, String> {
    match step {
        Step::Flap(flap) => node_of(world, &flap.machine),
        Step::Vm(step) => vm_of(world, &step.machine),
        Step::Kubelet(step) => vm_of(world, &step.machine),
        Step::As(step) => subject(&step.step, world),
        _ => Ok(String::new()),
    }
}

/// Performs `step` on its [`subject`]; a sentence when it cannot be.
pub(super) async fn perform(handles: Handles, step: &Step, subject: &str) -> Result<(), String> {
    let Handles {
        clusters,
        cloud,
        timeouts,
        namespace,
        clock,
        told,
    } = &handles;
    match step {
        Step::Apply(fixture) => apply(clusters, namespace, &fixture.object(namespace, timeouts)).await,
        Step::Delete(object) if object.answer == Answer::Forbidden => is_forbidden(&handles, object).await,
        Step::Delete(object) => delete(clusters, namespace, object, &DeleteParams::default()).await,
        Step::ForceDelete(object) => {
            let at_once = DeleteParams::default().grace_period(0);
            delete(clusters, namespace, object, &at_once).await
        }
        Step::Evict(step) => {
            let evictor = Evictor {
                client: clusters.target().clone(),
                clock: clock.clone(),
                timeouts: timeouts.clone(),
                told: told.clone(),
            };
            evictor.run(step).await
        }
        Step::Annotate(Annotate {
            kind,
            name,
            annotations,
        }) => {
            merge(
                clusters,
                namespace,
                kind,
                name,
                &json!({ "metadata": { "annotations": annotations } }),
                false,
            )
            .await
        }
        Step::Patch(patch) => {
            let namespace = patch.namespace.as_ref().unwrap_or(namespace);
            merge(
                clusters,
                namespace,
                &patch.kind,
                &patch.name,
                &patch.merge,
                patch.status,
            )
            .await
        }
        Step::As(step) => act_as(&handles, step, subject).await,
        Step::Inject(fault) => cloud.inject(fault, timeouts).await,
        Step::Lift(rule) => cloud.lift(rule).await,
        Step::SlowCreation(slow) => cloud.slow_creation(slow, timeouts).await,
        Step::Flap(flap) => {
            let written = flap::run(clusters.target(), clock, timeouts, subject, flap).await?;
            let _ = told.unbounded_send(format!(
                "condition {} of node {subject} was written {written} times",
                flap.condition
            ));
            Ok(())
        }
        Step::Strip(strip) => Box::pin(strip::run(clusters.control(), clock, timeouts, namespace, strip)).await,
        Step::Autoscaler(autoscaler) => {
            let actor = Actor {
                clusters: clusters.clone(),
                clock: clock.clone(),
                namespace: namespace.clone(),
                told: told.clone(),
            };
            Box::pin(actor.run(autoscaler, timeouts)).await
        }
        Step::FailZone(fail) => cloud.fail_zone(fail).await,
        Step::MendZone(zone) => cloud.mend_zone(zone).await,
        Step::MakeVm(step) => cloud.make_vm(namespace, &step.machine, step.tagged).await,
        Step::Vm(step) => cloud.vm_action(subject, step.action).await,
        Step::Kubelet(step) => cloud.kubelet_action(subject, step.action).await,
        // The engine's own.
        Step::Process(_)
        | Step::Crash(_)
        | Step::ApiFault(_)
        | Step::LiftApiFault(_)
        | Step::Pause(_)
        | Step::Keep(_)
        | Step::QuietEnd(_)
        | Step::Wait(_)
        | Step::Someone(_)
        | Step::Expect(_) => Ok(()),
    }
}

/// Performs a step as another user. One that must be refused fails where it is not.
async fn act_as(handles: &Handles, step: &ActAs, subject: &str) -> Result<(), String> {
    let user = deploy::account_in(&step.user, &handles.namespace);
    let acting = Handles {
        clusters: handles.clusters.as_user(&user)?,
        ..handles.clone()
    };
    let refused = match Box::pin(perform(acting, &step.step, subject)).await {
        Ok(()) if step.refused => return Err(format!("{} may do what must be refused", step.user)),
        Err(reason) if step.refused => reason,
        done => return done,
    };
    let known = ["Forbidden", "forbidden", "Unauthorized"]
        .iter()
        .any(|word| refused.contains(word));
    if known {
        let _ = handles
            .told
            .unbounded_send(format!("{} is refused: {refused}", step.user));
        return Ok(());
    }
    Err(format!("{} is not refused, but fails: {refused}", step.user))
}

/// Whom a step strikes and with what, in full: two faults that differ in anything differ here. `None`:
/// the step is what users do.
pub(super) fn fault(step: &Step) -> Option<(String, String)> {
    let target = match step {
        Step::Inject(fault) => fault.call.rpc().to_owned(),
        Step::Lift(_) => "cloud".to_owned(),
        Step::Vm(step) => format!("VM of {}", step.machine),
        Step::MakeVm(step) => format!("VM named {}", step.machine),
        Step::Kubelet(step) => format!("kubelet of {}", step.machine),
        Step::Process(step) => step.name.to_string(),
        Step::Crash(step) => step.process.to_string(),
        Step::Pause(step) => step.process.to_string(),
        Step::ApiFault(_) | Step::LiftApiFault(_) => "api".to_owned(),
        Step::SlowCreation(slow) => format!("creation of {}", slow.machine),
        Step::Flap(flap) => format!("node of {}", flap.machine),
        Step::Strip(strip) => format!("label {} of machines", strip.label),
        Step::FailZone(step) => format!("zone {}", step.zone),
        Step::MendZone(zone) => format!("zone {zone}"),
        Step::Keep(_) | Step::QuietEnd(_) => return None,
        Step::Apply(_)
        | Step::Delete(_)
        | Step::ForceDelete(_)
        | Step::Evict(_)
        | Step::Annotate(_)
        | Step::Patch(_)
        | Step::Autoscaler(_)
        | Step::As(_)
        | Step::Wait(_)
        | Step::Someone(_)
        | Step::Expect(_) => return None,
    };
    let what = serde_json::to_string(step).unwrap_or_else(|_| words(step));
    Some((target, what))
}

/// The object that a step changes or deletes, as a person would: its kind and name.
pub(super) fn touches(step: &Step) -> Option<(String, String)> {
    let named = |kind: &str, name: &str| Some((kind.to_owned(), name.to_owned()));
    match step {
        Step::Apply(fixture) => {
            let object = fixture.object("", &Timeouts::production());
            named(text(&object, "/kind"), text(&object, "/metadata/name"))
        }
        Step::Delete(object) | Step::ForceDelete(object) => named(&object.kind, &object.name),
        Step::Annotate(step) => named(&step.kind, &step.name),
        Step::Patch(step) => named(&step.kind, &step.name),
        Step::Evict(step) => named("Node", &step.machine),
        Step::As(step) if !step.refused => touches(&step.step),
        Step::Vm(step) => named("VM", &step.machine),
        _ => None,
    }
}

/// The node that a step cordons or opens, and whether it cordons it.
pub(super) fn cordons(step: &Step) -> Option<(&str, bool)> {
    match step {
        Step::Evict(step) => Some((&step.machine, true)),
        Step::Patch(patch) if patch.kind == "Node" => {
            let closed = patch.merge.pointer("/spec/unschedulable")?;
            Some((&patch.name, *closed == true))
        }
        Step::As(step) => cordons(&step.step).filter(|_| !step.refused),
        _ => None,
    }
}

/// The Machine that a step asks to preserve, and the value that it writes; `None` in its place: it takes the request back.
pub(super) fn asks<'a>(step: &'a Step, world: &WorldState) -> Option<(&'a str, Option<&'a str>)> {
    match step {
        Step::Annotate(step) if step.kind == "Machine" => {
            let value = match step.annotations.get(keys::PRESERVE_ANNOTATION) {
                Some(value) => value.as_deref(),
                None => Some(asks_in_the_first_word(step, world)?),
            };
            Some((&step.name, value))
        }
        Step::As(step) => asks(&step.step, world).filter(|_| !step.refused),
        _ => None,
    }
}

/// The value that comes to stand for the word of the proposal's first version, which counts where today's is missing.
fn asks_in_the_first_word(step: &Annotate, world: &WorldState) -> Option<&'static str> {
    let machine = world.object("Machine", &step.name)?;
    let value = step
        .annotations
        .get(keys::PRESERVE_WHEN_FAILED_ANNOTATION)?
        .as_deref()?;
    match (annotation(machine, keys::PRESERVE_ANNOTATION), value) {
        (None, "true") => Some("when-failed"),
        (None, "false") => Some("false"),
        _ => None,
    }
}

/// The Machine whose expiry a step removes.
pub(super) fn ends(step: &Step) -> Option<&str> {
    match step {
        Step::Patch(patch) if patch.kind == "Machine" && patch.status => {
            let expiry = patch.merge.pointer("/status/currentStatus/preserveExpiryTime")?;
            expiry.is_null().then_some(patch.name.as_str())
        }
        Step::As(step) => ends(&step.step).filter(|_| !step.refused),
        _ => None,
    }
}

/// The step in words.
pub(super) fn words(step: &Step) -> String {
    match step {
        Step::Apply(fixture) => {
            let object = fixture.object("", &Timeouts::production());
            format!("apply {} {}", text(&object, "/kind"), text(&object, "/metadata/name"))
        }
        Step::Delete(object) => {
            let whether = match object.answer {
                Answer::Deleted => "",
                Answer::DeletedIfThere => " if it is there",
                Answer::NotFound => ", which is not there",
                Answer::Forbidden => ", in vain",
            };
            format!("delete {} {}{whether}", object.kind, object.name)
        }
        Step::ForceDelete(object) => format!("delete {} {} at once", object.kind, object.name),
        Step::Evict(step) => format!("evict the pods on {}, within {}", step.machine, step.within),
        Step::Annotate(step) => format!("annotate {} {}", step.kind, step.name),
        Step::Patch(step) => format!("patch {} {}", step.kind, step.name),
        Step::As(step) if step.refused => format!("{} as {}, in vain", words(&step.step), step.user),
        Step::As(step) => format!("{} as {}", words(&step.step), step.user),
        Step::Inject(fault) => format!("inject fault {} into {}", fault.name, fault.call.rpc()),
        Step::Lift(rule) => format!("lift fault {rule}"),
        Step::Vm(step) => format!("{} the VM of {}", verb(step.action), step.machine),
        Step::MakeVm(step) => format!(
            "make a VM named {} by hand, {} our tags",
            step.machine,
            if step.tagged { "with" } else { "without" }
        ),
        Step::Kubelet(step) => format!("{} the kubelet of {}", verb(step.action), step.machine),
        Step::FailZone(step) => format!("let zone {} fail ({})", step.zone, verb(step.failure)),
        Step::MendZone(zone) => format!("mend zone {zone}"),
        Step::Process(step) => match step.action {
            ProcessAction::KillLeader => format!("kill the {} that leads", step.name),
            ProcessAction::RollingRestart => format!("restart every {}, one after another", step.name),
            action => format!("{} {}", verb(action), step.name),
        },
        Step::Crash(step) => format!("crash {} {} effect {}", step.process, step.at, step.effect),
        Step::ApiFault(fault) => format!("add API fault {}", fault.rule),
        Step::LiftApiFault(rule) => format!("lift API fault {rule}"),
        Step::Pause(pause) => format!("pause the {} that leads for {}", pause.process, pause.time),
        Step::SlowCreation(slow) => format!("let the next creation of {} take {}", slow.machine, slow.by),
        Step::Flap(flap) => format!(
            "flap {} on the node of {} every {} for {}",
            flap.condition, flap.machine, flap.every, flap.lasts
        ),
        Step::Strip(strip) => format!(
            "take the label {} from each new machine, for {}",
            strip.label, strip.lasts
        ),
        Step::Autoscaler(step) => format!(
            "let cluster-autoscaler remove nodes of {} that are empty for {}, for {}",
            step.deployment, step.idle, step.lasts
        ),
        Step::Keep(keep) => format!("keep {} machines", keep.replicas),
        Step::QuietEnd(quiet) => format!("quiet end, after {}", quiet.settles),
        Step::Wait(time) => format!("wait {time}"),
        Step::Someone(someone) => someone.to_string(),
        Step::Expect(expectation) => format!("expect {expectation}"),
    }
}

/// The action as a scenario file has it.
fn verb(action: impl std::fmt::Debug) -> String {
    format!("{action:?}").to_lowercase()
}

async fn delete(clusters: &Clusters, namespace: &str, object: &Deletion, how: &DeleteParams) -> Result<(), String> {
    let Deletion { kind, name, answer } = object;
    let kind_of = kinds::find(kind)?;
    let api = kind_of.api(clusters.of(kind_of), namespace);
    let deleted = api.delete(name, how).await;
    match deleted {
        Err(kube::Error::Api(status)) if *answer != Answer::Deleted && status.is_not_found() => Ok(()),
        Err(error) => Err(format!("cannot delete {kind} {name}: {error}")),
        Ok(_) if *answer == Answer::NotFound => Err(format!("{kind} {name} is deleted, which must not be there")),
        Ok(_) => Ok(()),
    }
}

/// How often it is asked whether an object may be deleted.
const FORBIDDEN_PROBE: Duration = Duration::from_millis(200);

/// Waits until a deletion would be refused.
async fn is_forbidden(handles: &Handles, object: &Deletion) -> Result<(), String> {
    let Deletion { kind, name, .. } = object;
    let kind_of = kinds::find(kind)?;
    let api = kind_of.api(handles.clusters.of(kind_of), &handles.namespace);
    let dry = DeleteParams::default().dry_run();
    let refused = async {
        loop {
            match api.delete(name, &dry).await {
                Err(kube::Error::Api(status)) if status.code == 403 || status.message.contains("forbidden") => {
                    break Ok(());
                }
                Err(error) => break Err(format!("cannot ask whether {kind} {name} may be deleted: {error}")),
                Ok(_) => handles.clock.sleep(FORBIDDEN_PROBE).await,
            }
        }
    };
    let refused = tokio::time::timeout(handles.timeouts.slack, refused).await;
    refused.unwrap_or_else(|_| Err(format!("{kind} {name} may be deleted, which must be refused")))
}

/// The newest VM of a machine that is not terminated.
fn node_of(world: &WorldState, machine: &str) -> Result<String, String> {
    let node = world
        .object("Machine", machine)
        .map(|machine| label(machine, keys::NODE_LABEL));
    node.filter(|node| !node.is_empty())
        .map(str::to_owned)
        .ok_or_else(|| format!("machine {machine} has no node; expect one before this step"))
}

fn vm_of(world: &WorldState, machine: &str) -> Result<String, String> {
    world
        .vms_of(machine)
        .max_by_key(|vm| vm.revision)
        .map(|vm| vm.id.clone())
        .ok_or_else(|| format!("machine {machine} has no VM; expect one before this step"))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use scenario::observation::{Observation, Seen};

    /// A machine `m` whose annotation of today says so.
    fn world(asked: Option<&str>) -> WorldState {
        let annotations = json!({ keys::PRESERVE_ANNOTATION: asked });
        let machine = json!({ "metadata": { "name": "m", "annotations": annotations } });
        let mut world = WorldState::default();
        world.absorb(&Observation {
            at: Timestamp::UNIX_EPOCH,
            what: Seen::Applied(kinds::find("Machine").unwrap(), Box::new(machine)),
        });
        world
    }

    fn annotate(annotations: &[(&str, Option<&str>)]) -> Step {
        let annotations = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)));
        Step::Annotate(Annotate {
            kind: "Machine".to_owned(),
            name: "m".to_owned(),
            annotations: annotations.collect(),
        })
    }

    const TODAY: &str = keys::PRESERVE_ANNOTATION;
    const FIRST: &str = keys::PRESERVE_WHEN_FAILED_ANNOTATION;

    #[rstest]
    #[case::in_todays_word(None, &[(TODAY, Some("now"))], Some(Some("now")))]
    #[case::taken_back(Some("now"), &[(TODAY, None), (FIRST, None)], Some(None))]
    #[case::in_the_first_word(None, &[(FIRST, Some("true"))], Some(Some("when-failed")))]
    #[case::refused_in_the_first_word(None, &[(FIRST, Some("false"))], Some(Some("false")))]
    #[case::in_the_first_word_beside_todays(Some("now"), &[(FIRST, Some("true"))], None)]
    #[case::something_else(None, &[("a", Some("b"))], None)]
    fn what_a_person_asks_of_a_machine_is_known(
        #[case] stands: Option<&str>,
        #[case] written: &[(&str, Option<&str>)],
        #[case] asked: Option<Option<&str>>,
    ) {
        let step = annotate(written);
        let known = asks(&step, &world(stands));
        assert_eq!(known, asked.map(|asked| ("m", asked)));
    }

    #[rstest]
    #[case::removed(json!({ "status": { "currentStatus": { "preserveExpiryTime": null } } }), true, true)]
    #[case::moved(json!({ "status": { "currentStatus": { "preserveExpiryTime": "1970-01-01T00:00:00Z" } } }), true, false)]
    #[case::of_no_status(json!({ "status": { "currentStatus": { "preserveExpiryTime": null } } }), false, false)]
    #[case::something_else(json!({ "status": {} }), true, false)]
    fn who_removes_an_expiry_ends_a_preservation(#[case] merge: Value, #[case] status: bool, #[case] ending: bool) {
        let step = Step::Patch(scenario::step::Patch {
            kind: "Machine".to_owned(),
            name: "m".to_owned(),
            namespace: None,
            merge,
            status,
        });
        assert_eq!(ends(&step), ending.then_some("m"));
    }
}
