//! The machines that a set retains, counted for every size that the set could have.

use std::sync::Arc;

use jiff::Timestamp;
use mcm_api::Machine;

use super::rollout_draft::SetDraft;

/// The active machines of one set, next candidate for deletion first. Of a set of size `n`, the last `n` stay.
///
/// The counts are made once, so that rules can compare sizes without counting machines again.
pub(super) struct RetainedMachines<'a> {
    machines: Vec<&'a Arc<Machine>>,
    /// For each position, how many machines from there on serve and are available.
    counts: Vec<Counts>,
}

/// How many of the retained machines serve, and how many are available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub serving: i64,
    pub available: i64,
}

impl<'a> RetainedMachines<'a> {
    pub(super) fn of(set: &'a SetDraft, now: Timestamp) -> Self {
        let machines = set.retained_of(i64::MAX);
        let mut counts = vec![Counts::default(); machines.len() + 1];
        for (position, machine) in machines.iter().enumerate().rev() {
            let (is_available, serves) = (set.is_available(machine, now), set.serves(machine, now));
            counts[position] = Counts {
                serving: counts[position + 1].serving + i64::from(serves),
                available: counts[position + 1].available + i64::from(is_available),
            };
        }
        Self { machines, counts }
    }

    /// The counts if the set had that size.
    pub(super) fn counts(&self, size: i64) -> Counts {
        self.counts[self.first(size)]
    }

    /// The fewest additional places with which more machines serve or are available; `None`: no number up to `most`.
    pub(super) fn places_to_gain(&self, size: i64, most: i64) -> Option<i64> {
        let now = self.counts(size);
        (1..=most).find(|places| self.counts(size + places) != now)
    }

    /// The machine that stays at this size and is deleted at one less; `None`: there is none.
    pub(super) fn last(&self, size: i64) -> Option<&'a Arc<Machine>> {
        let (with, without) = (self.first(size), self.first(size - 1));
        (with < without).then(|| self.machines[with])
    }

    /// The position of the first machine that stays at this size.
    fn first(&self, size: i64) -> usize {
        self.machines
            .len()
            .saturating_sub(usize::try_from(size).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use mcm_api::{MachineDeployment, MachineSet, Phase, keys};
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::rollout_draft::RolloutDraft;
    use super::super::{NodesByName, Settings, View};
    use super::*;

    /// The properties of one machine that the counts depend on.
    type Shape = (u8, bool, bool, bool, bool);

    fn machine(number: usize, (phase, deleting, chosen, selected, updated): Shape) -> Machine {
        let phases = [
            Phase::Running,
            Phase::Available,
            Phase::Pending,
            Phase::Unknown,
            Phase::Failed,
            Phase::Terminating,
        ];
        let name = format!("m-{number}");
        let mut machine: Machine = serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "uid": name,
                "labels": { "name": "pool", "node": format!("{}-{name}", if selected { "selected" } else { "node" }) },
                "ownerReferences": [{
                    "apiVersion": "machine.sapcloud.io/v1alpha1",
                    "kind": "MachineSet", "name": "set", "uid": "set", "controller": true,
                }],
            },
            "spec": { "class": { "kind": "MachineClass", "name": "a" } },
        }))
        .unwrap();
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
        machine.metadata.deletion_timestamp = deleting.then_some(now);
        machine.status.current_status.phase = Some(phases[usize::from(phase) % phases.len()].clone());
        let annotations = machine.metadata.annotations.get_or_insert_default();
        if chosen {
            annotations.insert(keys::PRIORITY_ANNOTATION.to_owned(), keys::CHOSEN_PRIORITY.to_owned());
            annotations.insert(keys::MARKED_ANNOTATION.to_owned(), "1970-01-01T00:00:01Z".to_owned());
        }
        if updated {
            let condition = json!({
                "type": keys::IN_PLACE_UPDATE_CONDITION, "status": "True", "reason": keys::UPDATE_SUCCESSFUL_REASON,
            });
            machine
                .status
                .conditions
                .push(serde_json::from_value(condition).unwrap());
        }
        machine
    }

    fn view(shapes: &[Shape]) -> View {
        let machines: Vec<Machine> = (0..)
            .zip(shapes)
            .map(|(number, shape)| machine(number, *shape))
            .collect();
        let nodes = machines.iter().map(|machine| {
            let name = machine.metadata.labels.as_ref().unwrap()[keys::NODE_LABEL].clone();
            let mut node = Node::default();
            if name.starts_with("selected") {
                let labels = node.metadata.labels.get_or_insert_default();
                labels.insert(keys::SELECTED_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
            }
            (name, Arc::new(node))
        });
        let nodes: NodesByName = nodes.collect();
        let mut deployment = MachineDeployment::default();
        deployment.spec.strategy.type_ = super::super::bounds::IN_PLACE_UPDATE.to_owned();
        View {
            deployment,
            machines: machines.into_iter().map(Arc::new).collect(),
            nodes: Some(nodes),
            ..View::default()
        }
    }

    fn set() -> Arc<MachineSet> {
        let mut set = MachineSet::default();
        set.metadata.name = Some("set".to_owned());
        set.metadata.uid = Some("set".to_owned());
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.insert(
            keys::LAST_SCALE_ANNOTATION.to_owned(),
            "1970-01-01T00:00:02Z".to_owned(),
        );
        Arc::new(set)
    }

    proptest! {
        /// The counts are those of the machines that stay, counted one by one.
        #[test]
        fn the_counts_equal_a_count_of_the_machines_that_stay(
            shapes in proptest::collection::vec(any::<Shape>(), 0..12),
        ) {
            let (view, now) = (view(&shapes), Timestamp::UNIX_EPOCH);
            let rollout = RolloutDraft::new(&view, Settings::default(), now, vec![set()]);
            let set = &rollout.sets[0];
            let retained = RetainedMachines::of(set, now);
            for size in -1..15 {
                let machines = set.retained_of(size);
                let count = |counts: &dyn Fn(&Machine) -> bool| {
                    machines.iter().filter(|machine| counts(machine)).count() as i64
                };
                prop_assert_eq!(
                    retained.counts(size),
                    Counts {
                        serving: count(&|machine| set.serves(machine, now)),
                        available: count(&|machine| set.is_available(machine, now)),
                    }
                );
                let without = set.retained_of(size - 1);
                let last = machines.first().filter(|_| machines.len() > without.len());
                let name = |machine: &Arc<Machine>| machine.metadata.name.clone();
                prop_assert_eq!(retained.last(size).map(name), last.map(|machine| name(machine)));
            }
        }
    }
}
