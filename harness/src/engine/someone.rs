//! Who is meant by a step about a machine whose name nobody knew, and the plain step that it then is.

use std::collections::BTreeMap;

use apiserver::faults::Pattern;
use jiff::{SignedDuration, Timestamp};
use mcm_api::keys;
use serde_json::{Value, json};

use super::world::{WorldState, text};
use crate::invariants::{is_deleting, label};
use crate::scenario::someone::{Deed, Someone};
use crate::scenario::step::{Annotate, Answer, Deletion, KubeletStep, Patch, VmStep};
use crate::scenario::{Step, Timeouts};

const EXPIRY: &str = "/status/currentStatus/preserveExpiryTime";

/// Machines that were chosen, by what they are called.
#[derive(Debug, Default)]
pub(super) struct Called(BTreeMap<String, String>);

impl Called {
    /// The step; `None`: there is nobody to whom it could happen.
    pub(super) fn resolve(
        &mut self,
        someone: &Someone,
        world: &WorldState,
        timeouts: &Timeouts,
        now: Timestamp,
    ) -> Option<Step> {
        let name = self.find(someone, world)?;
        let machine = world.object("Machine", &name).filter(|machine| !is_deleting(machine))?;
        let node = Some(label(machine, keys::NODE_LABEL))
            .filter(|node| world.object("Node", node).is_some())
            .map(str::to_owned);
        let has_vm = world.vms_of(&name).next().is_some();
        let step = match &someone.deed {
            Deed::Preserve(request) => Step::Annotate(Annotate {
                kind: if request.node { "Node" } else { "Machine" }.to_owned(),
                name: if request.node { node? } else { name },
                annotations: [(keys::PRESERVE_ANNOTATION.to_owned(), request.value.clone())].into(),
            }),
            Deed::Expire(time) => {
                machine.pointer(EXPIRY).filter(|expiry| !expiry.is_null())?;
                let time = SignedDuration::try_from(time.value(timeouts)).ok()?;
                let ends = Timestamp::from_second(now.checked_add(time).ok()?.as_second()).ok()?;
                patch(
                    "Machine",
                    name,
                    json!({ "status": { "currentStatus": { "preserveExpiryTime": ends.to_string() } } }),
                    true,
                )
            }
            Deed::Cordon => patch("Node", node?, json!({ "spec": { "unschedulable": true } }), false),
            Deed::Uncordon => patch("Node", node?, json!({ "spec": { "unschedulable": false } }), false),
            Deed::Prefer => Step::Annotate(Annotate {
                kind: "Machine".to_owned(),
                name,
                annotations: [(keys::PRIORITY_ANNOTATION.to_owned(), Some("1".to_owned()))].into(),
            }),
            Deed::Kubelet(action) if has_vm => Step::Kubelet(KubeletStep {
                machine: name,
                action: *action,
            }),
            Deed::Vm(action) if has_vm => Step::Vm(VmStep {
                machine: name,
                action: *action,
            }),
            Deed::Kubelet(_) | Deed::Vm(_) => return None,
            Deed::Delete => deletion("Machine", name),
            Deed::DeleteNode => deletion("Node", node?),
        };
        Some(step)
    }

    fn find(&mut self, someone: &Someone, world: &WorldState) -> Option<String> {
        if let Some(known) = self.0.get(&someone.called) {
            return Some(known.clone());
        }
        let pattern = Pattern::new(&someone.among);
        let names: Vec<&str> = world
            .of_kind("Machine")
            .filter(|machine| !is_deleting(machine))
            .map(|machine| text(machine, "/metadata/name"))
            .filter(|name| pattern.matches(name) && !self.0.values().any(|taken| taken == name))
            .collect();
        let position = someone.nth.checked_rem(names.len() as u64)?;
        let chosen = (*names.get(usize::try_from(position).ok()?)?).to_owned();
        self.0.insert(someone.called.clone(), chosen.clone());
        Some(chosen)
    }
}

fn patch(kind: &str, name: String, merge: Value, status: bool) -> Step {
    Step::Patch(Patch {
        kind: kind.to_owned(),
        name,
        namespace: None,
        merge,
        status,
    })
}

fn deletion(kind: &str, name: String) -> Step {
    Step::Delete(Deletion {
        kind: kind.to_owned(),
        name,
        answer: Answer::DeletedIfThere,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::kinds;
    use crate::engine::observe::{Observation, Seen};

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

    fn delete(called: &str, nth: u64) -> Someone {
        Someone {
            called: called.to_owned(),
            among: "md-*".to_owned(),
            nth,
            deed: Deed::Delete,
        }
    }

    #[test]
    fn who_was_chosen_once_is_meant_again_and_nobody_is_chosen_twice() {
        let mut called = Called::default();
        let mut deleted = |someone: &Someone, names: &[&str]| {
            let step = called.resolve(someone, &world(names), &Timeouts::production(), Timestamp::UNIX_EPOCH);
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
