//! What happened to each process: the faults and steps that end or start it, and its earlier events.

use std::collections::BTreeMap;

use crate::draft::{Draft, PROCESS, id_of_fault};
use crate::model::{Link, Micros, Verb};

/// The events of processes, and the faults.
pub(super) struct Processes<'a> {
    /// The events of each process, by its actor.
    events: BTreeMap<&'a str, Vec<&'a Draft>>,
    /// The ids of the events of each fault, by its actor and time.
    faults: BTreeMap<(&'a str, Micros), u64>,
}

impl<'a> Processes<'a> {
    pub(super) fn of(points: &'a [Draft]) -> Self {
        let mut processes = Self {
            events: BTreeMap::new(),
            faults: BTreeMap::new(),
        };
        for draft in points {
            let actor = draft.point.actor.as_str();
            match draft.point.verb {
                Verb::Process => processes.events.entry(actor).or_default().push(draft),
                Verb::Fault => drop(processes.faults.insert((actor, draft.point.at), draft.id)),
                _ => {}
            }
        }
        processes
    }

    /// The fault or step that ends or starts the process at that time, or else its previous event.
    pub(super) fn before(&self, draft: &Draft) -> Option<(Link, u64)> {
        let name = draft.point.actor.strip_prefix(PROCESS)?;
        // Faults of all replicas name the process without a number.
        let all = name
            .trim_end_matches(|letter: char| letter.is_ascii_digit())
            .trim_end_matches('-');
        let mut faults = [name, all]
            .into_iter()
            .flat_map(|name| [format!("crash of {name}"), format!("{name} is down")])
            .filter_map(|fault| {
                self.faults
                    .get(&(id_of_fault(&fault).as_str(), draft.point.at))
                    .copied()
            });
        if let Some(fault) = faults.next() {
            return Some((Link::Caused, fault));
        }
        let of_process = self.events.get(draft.point.actor.as_str())?;
        let place = |draft: &Draft| (draft.point.at, draft.order, draft.id);
        let earlier = of_process.iter().filter(|other| place(other) < place(draft));
        earlier
            .max_by_key(|other| place(other))
            .map(|other| (Link::Own, other.id))
    }
}
