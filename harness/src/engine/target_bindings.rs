//! Resolves steps with a deferred target: chooses the machine, and returns the step for that machine.

use std::collections::BTreeMap;

use apiserver::faults::Pattern;
use jiff::{SignedDuration, Timestamp};
use judge::object::{annotation, is_deleting, label, owner, text};
use judge::world::WorldState;
use mcm_api::{GoDuration, keys};
use scenario::step::deferred_target::{DeferredTarget, Request, UserAction};
use scenario::step::{Annotate, Answer, Deletion, KubeletStep, Patch, VmStep};
use scenario::{Step, Timeouts};
use serde_json::{Value, json};

const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";

/// The chosen machines by target name.
#[derive(Debug, Default)]
pub(super) struct TargetBindings(BTreeMap<String, String>);

impl TargetBindings {
    /// The step for the chosen machine; `None`: no machine matches, or the action does not apply to it.
    pub(super) fn resolve(
        &mut self,
        target: &DeferredTarget,
        world: &WorldState,
        timeouts: &Timeouts,
        now: Timestamp,
    ) -> Option<Step> {
        let name = self.find(target, world)?;
        let machine = world.object("Machine", &name).filter(|machine| !is_deleting(machine))?;
        let node = Some(label(machine, keys::NODE_LABEL))
            .filter(|node| world.object("Node", node).is_some())
            .map(str::to_owned);
        let has_vm = world.vms_of(&name).next().is_some();
        let step = match &target.user_action {
            UserAction::Preserve(request) => Step::Annotate(Annotate {
                api_version: None,
                kind: if request.node { "Node" } else { "Machine" }.to_owned(),
                name: if request.node { node? } else { name },
                annotations: annotations_of(request),
            }),
            UserAction::Expire(time) => {
                let time = SignedDuration::try_from(time.value(timeouts)).ok()?;
                expire(machine, Some(now.checked_add(time).ok()?))?
            }
            UserAction::ExpireAgo(time) => {
                let time = SignedDuration::try_from(time.value(timeouts)).ok()?;
                expire(machine, Some(now.checked_sub(time).ok()?))?
            }
            UserAction::RemoveExpiry => expire(machine, None)?,
            UserAction::PreserveTimeout(time) => {
                let time = GoDuration(time.value(timeouts)).to_string();
                let change = json!({ "spec": { "machinePreserveTimeout": time } });
                patch("Machine", name, change, false)
            }
            UserAction::ScaleDown => scale_down(&name, machine, world, now)?,
            UserAction::Cordon => patch("Node", node?, json!({ "spec": { "unschedulable": true } }), false),
            UserAction::Uncordon => patch("Node", node?, json!({ "spec": { "unschedulable": false } }), false),
            UserAction::Prefer => Step::Annotate(Annotate {
                api_version: None,
                kind: "Machine".to_owned(),
                name,
                annotations: [(keys::PRIORITY_ANNOTATION.to_owned(), Some("1".to_owned()))].into(),
            }),
            UserAction::Kubelet(action) if has_vm => Step::Kubelet(KubeletStep {
                machine: name,
                action: *action,
            }),
            UserAction::Vm(action) if has_vm => Step::Vm(VmStep::new(&name, *action)),
            UserAction::Kubelet(_) | UserAction::Vm(_) => return None,
            UserAction::Annotate(annotations) => Step::Annotate(Annotate {
                api_version: None,
                kind: "Machine".to_owned(),
                name,
                annotations: annotations.clone(),
            }),
            UserAction::Delete => deletion("Machine", name),
            UserAction::DeleteNode => deletion("Node", node?),
        };
        Some(step)
    }

    fn find(&mut self, target: &DeferredTarget, world: &WorldState) -> Option<String> {
        if let Some(known) = self.0.get(&target.called) {
            return Some(known.clone());
        }
        let pattern = Pattern::new(&target.among);
        let names: Vec<&str> = world
            .of_kind("Machine")
            .filter(|machine| !is_deleting(machine))
            .map(|machine| text(machine, "/metadata/name"))
            .filter(|name| pattern.matches(name) && !self.0.values().any(|taken| taken == name))
            .collect();
        let position = target.nth.checked_rem(names.len() as u64)?;
        let chosen = (*names.get(usize::try_from(position).ok()?)?).to_owned();
        self.0.insert(target.called.clone(), chosen.clone());
        Some(chosen)
    }
}

/// The annotations that a request changes. A request without a value removes both annotations.
fn annotations_of(request: &Request) -> BTreeMap<String, Option<String>> {
    let both = [keys::PRESERVE_ANNOTATION, keys::PRESERVE_WHEN_FAILED_ANNOTATION];
    let written = match (&request.value, request.first_version) {
        (None, _) => &both[..],
        (Some(_), false) => &both[..1],
        (Some(_), true) => &both[1..],
    };
    let all = written.iter().map(|key| ((*key).to_owned(), request.value.clone()));
    all.collect()
}

/// Changes the preservation expiry of a machine that has one; `new_expiry` is `None`: removes it.
fn expire(machine: &Value, new_expiry: Option<Timestamp>) -> Option<Step> {
    machine.pointer(EXPIRY).filter(|expiry| !expiry.is_null())?;
    let new_expiry = new_expiry.map(|time| whole_seconds(time).to_string());
    let change = json!({ "status": { "currentStatus": { "preserveExpiryTime": new_expiry } } });
    let name = text(machine, "/metadata/name").to_owned();
    Some(patch("Machine", name, change, true))
}

/// The time in whole seconds, as objects contain it.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// cluster-autoscaler lists a machine on its deployment and lowers the replicas, in one request; `None`: the machine is
/// already listed or has no deployment.
fn scale_down(name: &str, machine: &Value, world: &WorldState, now: Timestamp) -> Option<Step> {
    let set = world.object("MachineSet", owner(machine, "MachineSet")?)?;
    let deployment = world.object("MachineDeployment", owner(set, "MachineDeployment")?)?;
    let replicas = deployment["spec"]["replicas"].as_u64()?.checked_sub(1)?;
    let list = annotation(deployment, keys::TRIGGER_DELETION_ANNOTATION).unwrap_or_default();
    let entries = list.split(',').filter(|entry| !entry.is_empty());
    if entries.clone().any(|entry| entry.split('~').next() == Some(name)) {
        return None;
    }
    let now = whole_seconds(now).to_string();
    let listed: Vec<String> = entries.map(str::to_owned).chain([format!("{name}~{now}")]).collect();
    let annotations = json!({
        keys::TRIGGER_DELETION_ANNOTATION: listed.join(","),
        keys::LAST_SCALE_ANNOTATION: now,
    });
    let change = json!({ "metadata": { "annotations": annotations }, "spec": { "replicas": replicas } });
    let deployment_name = text(deployment, "/metadata/name").to_owned();
    Some(patch("MachineDeployment", deployment_name, change, false))
}

fn patch(kind: &str, name: String, merge: Value, status: bool) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: kind.to_owned(),
        name,
        namespace: None,
        merge,
        status,
    })
}

fn deletion(kind: &str, name: String) -> Step {
    Step::Delete(Deletion {
        api_version: None,
        kind: kind.to_owned(),
        name,
        answer: Answer::DeletedIfThere,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use scenario::observation::{Observation, Seen};
    use scenario::{DurationExpression, kinds};

    use super::*;

    fn world(names: &[&str]) -> WorldState {
        let mut world = WorldState::default();
        for name in names {
            let object = json!({ "metadata": { "name": name, "namespace": "n", "uid": name } });
            world.absorb(&Observation {
                at: Timestamp::UNIX_EPOCH,
                what: Seen::Applied(kinds::find("Machine").unwrap(), Box::new(object)),
            });
        }
        world
    }

    fn delete(called: &str, nth: u64) -> DeferredTarget {
        DeferredTarget {
            called: called.to_owned(),
            among: "md-*".to_owned(),
            nth,
            user_action: UserAction::Delete,
            may_miss: false,
        }
    }

    fn owned_by(kind: &str, name: &str) -> Value {
        json!([{ "kind": kind, "name": name, "controller": true }])
    }

    /// A preserved machine `md-a` of a deployment with that list, or of a standalone set.
    fn pool(list: Option<&str>) -> WorldState {
        let set_owners = list.map(|_| owned_by("MachineDeployment", "md"));
        let machine = json!({
            "metadata": { "name": "md-a", "namespace": "n", "ownerReferences": owned_by("MachineSet", "ms") },
            "status": { "currentStatus": { "preserveExpiryTime": "1970-01-04T00:00:00Z" } },
        });
        let set = json!({ "metadata": { "name": "ms", "namespace": "n", "ownerReferences": set_owners } });
        let deployment = json!({
            "metadata": { "name": "md", "namespace": "n", "annotations": { keys::TRIGGER_DELETION_ANNOTATION: list } },
            "spec": { "replicas": 3 },
        });
        let mut world = WorldState::default();
        for (kind, object) in [
            ("Machine", machine),
            ("MachineSet", set),
            ("MachineDeployment", deployment),
        ] {
            world.absorb(&Observation {
                at: Timestamp::UNIX_EPOCH,
                what: Seen::Applied(kinds::find(kind).unwrap(), Box::new(object)),
            });
        }
        world
    }

    fn step(user_action: UserAction, world: &WorldState) -> Option<Step> {
        let target = DeferredTarget {
            user_action,
            ..delete("x", 0)
        };
        let hour = Timestamp::from_second(3600).unwrap();
        TargetBindings::default().resolve(&target, world, &Timeouts::production(), hour)
    }

    fn patched(step: Option<Step>) -> Patch {
        match step {
            Some(Step::Patch(patch)) => patch,
            step => panic!("{step:?}"),
        }
    }

    #[rstest]
    #[case::none_is_listed("", "md-a~1970-01-01T01:00:00Z")]
    #[case::another_is_listed("md-b~1970-01-01T00:00:00Z", "md-b~1970-01-01T00:00:00Z,md-a~1970-01-01T01:00:00Z")]
    fn cluster_autoscaler_lists_a_machine_and_lowers_the_replicas(#[case] list: &str, #[case] listed: &str) {
        let patch = patched(step(UserAction::ScaleDown, &pool(Some(list))));
        assert_eq!((patch.kind.as_str(), patch.name.as_str()), ("MachineDeployment", "md"));
        let annotations = &patch.merge["metadata"]["annotations"];
        assert_eq!(annotations[keys::TRIGGER_DELETION_ANNOTATION], listed);
        assert_eq!(annotations[keys::LAST_SCALE_ANNOTATION], "1970-01-01T01:00:00Z");
        assert_eq!(patch.merge["spec"]["replicas"], 2);
    }

    #[test]
    fn cluster_autoscaler_lists_no_machine_twice_and_none_of_a_standalone_set() {
        let listed = pool(Some("md-a~1970-01-01T00:00:00Z"));
        assert_eq!(step(UserAction::ScaleDown, &listed), None);
        assert_eq!(step(UserAction::ScaleDown, &pool(None)), None);
    }

    #[rstest]
    #[case::in_the_future(UserAction::Expire(minutes(5)), json!("1970-01-01T01:05:00Z"))]
    #[case::in_the_past(UserAction::ExpireAgo(minutes(5)), json!("1970-01-01T00:55:00Z"))]
    #[case::removed(UserAction::RemoveExpiry, Value::Null)]
    fn an_operator_edits_the_expiry_of_a_preserved_machine(#[case] user_action: UserAction, #[case] expected: Value) {
        let patch = patched(step(user_action.clone(), &pool(None)));
        assert!(patch.status);
        let expiry = patch.merge.pointer(EXPIRY);
        assert_eq!(expiry, Some(&expected));
        assert_eq!(step(user_action, &world(&["md-a"])), None);
    }

    #[test]
    fn an_operator_sets_the_preserve_timeout_of_a_machine() {
        let patch = patched(step(UserAction::PreserveTimeout(minutes(90)), &world(&["md-a"])));
        assert_eq!(patch.merge, json!({ "spec": { "machinePreserveTimeout": "1h30m0s" } }));
    }

    fn minutes(minutes: u64) -> DurationExpression {
        Duration::from_mins(minutes).into()
    }

    #[rstest]
    #[case::current_annotation(Some("now"), false, &[(keys::PRESERVE_ANNOTATION, Some("now"))])]
    #[case::first_version(Some("true"), true, &[(keys::PRESERVE_WHEN_FAILED_ANNOTATION, Some("true"))])]
    #[case::removed(None, false, &[(keys::PRESERVE_ANNOTATION, None), (keys::PRESERVE_WHEN_FAILED_ANNOTATION, None)])]
    fn a_request_sets_one_annotation_and_its_removal_removes_both(
        #[case] value: Option<&str>,
        #[case] first_version: bool,
        #[case] written: &[(&str, Option<&str>)],
    ) {
        let user_action = UserAction::Preserve(Request {
            first_version,
            value: value.map(str::to_owned),
            ..Request::default()
        });
        let Some(Step::Annotate(annotate)) = step(user_action, &world(&["md-a"])) else {
            panic!("nothing is annotated");
        };
        let written = written
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)));
        assert_eq!(annotate.annotations, written.collect::<BTreeMap<_, _>>());
    }

    #[test]
    fn a_target_name_keeps_its_machine_and_no_machine_has_two_names() {
        let mut bindings = TargetBindings::default();
        let mut deleted = |target: &DeferredTarget, names: &[&str]| {
            let step = bindings.resolve(target, &world(names), &Timeouts::production(), Timestamp::UNIX_EPOCH);
            step.map(|step| match step {
                Step::Delete(deletion) => deletion.name,
                step => panic!("{step:?}"),
            })
        };
        let all = ["md-a", "md-b", "other"];
        assert_eq!(deleted(&delete("x", 3), &all).as_deref(), Some("md-b"));
        assert_eq!(deleted(&delete("y", 3), &all).as_deref(), Some("md-a"));
        assert_eq!(deleted(&delete("x", 0), &all).as_deref(), Some("md-b"));
        assert_eq!(deleted(&delete("z", 0), &all), None);
        assert_eq!(deleted(&delete("x", 0), &["md-a"]), None);
    }
}
