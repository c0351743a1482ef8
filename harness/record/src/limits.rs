//! Limits the size of a record: of the least interesting events, of states and of changes of numbers the middle is dropped first.

use std::collections::{BTreeMap, BTreeSet};

use crate::draft::{Draft, Interest};
use crate::model::{Dropped, RunRecord};

/// The maximum number of events in a record.
pub const MOST_POINTS: usize = 20_000;
/// The maximum number of states in a record, of all actors.
pub const MOST_SPANS: usize = 50_000;
/// The maximum number of actors in a record. Those with events or states, and their parents, are fewer.
pub const MOST_ACTORS: usize = 200_000;
/// The maximum number of changes of one counter.
pub const MOST_STEPS: usize = 50_000;
/// The maximum number of logs, and of the lines of one: more than the processes of a run write into its record.
pub const MOST_LOGS: usize = 1000;
pub const MOST_LINES: usize = 50_000;

/// Drops states, changes of counters and actors without either, until at most as many remain as a record can have.
pub(crate) fn limit_states(record: &mut RunRecord) {
    let spans = drop_middle(&mut record.spans, MOST_SPANS);
    if spans > 0 {
        add(&mut record.dropped, "states, from the middle of the run", spans);
    }
    if record.actors.len() > MOST_ACTORS {
        let before = record.actors.len();
        drop_unused_actors(record);
        let unused = before.saturating_sub(record.actors.len());
        add(&mut record.dropped, "actors without events and states", unused as u64);
    }
    let steps = record
        .counters
        .iter_mut()
        .map(|counter| drop_middle(&mut counter.steps, MOST_STEPS));
    let steps: u64 = steps.sum();
    if steps > 0 {
        add(
            &mut record.dropped,
            "changes of numbers, from the middle of the run",
            steps,
        );
    }
}

/// Drops the actors that no event, no state and no other actor names.
fn drop_unused_actors(record: &mut RunRecord) {
    let named = record.points.iter().map(|point| &point.actor);
    let mut used: BTreeSet<String> = named
        .chain(record.spans.iter().map(|span| &span.actor))
        .cloned()
        .collect();
    let named_by: BTreeMap<&String, [Option<&String>; 2]> = record
        .actors
        .iter()
        .map(|actor| (&actor.id, [actor.parent.as_ref(), actor.zone.as_ref()]))
        .collect();
    let mut next: Vec<String> = used.iter().cloned().collect();
    while let Some(id) = next.pop() {
        let names = named_by.get(&id).copied().unwrap_or_default().into_iter().flatten();
        let new: Vec<String> = names.filter(|name| used.insert((*name).clone())).cloned().collect();
        next.extend(new);
    }
    record.actors.retain(|actor| used.contains(&actor.id));
}

/// Drops the middle of a list until at most `most` remain. Returns how many were dropped.
fn drop_middle<T>(list: &mut Vec<T>, most: usize) -> u64 {
    let excess = list.len().saturating_sub(most);
    let first = most / 2;
    if excess > 0 {
        list.drain(first..first + excess);
    }
    excess as u64
}

/// Drops events until at most `most` remain, and adds their numbers to `dropped`.
pub(crate) fn thin_out(points: &mut Vec<Draft>, most: usize, dropped: &mut Vec<Dropped>) {
    for interest in Interest::ALL {
        let excess = points.len().saturating_sub(most);
        if excess == 0 {
            return;
        }
        let of_class = points.iter().filter(|point| point.interest == interest).count();
        let drop_count = excess.min(of_class);
        if drop_count == 0 {
            continue;
        }
        let first = (of_class - drop_count) / 2;
        let mut index = 0;
        points.retain(|point| {
            if point.interest != interest {
                return true;
            }
            index += 1;
            index <= first || index > first + drop_count
        });
        add(dropped, interest.name(), drop_count as u64);
    }
}

/// Adds to the number of dropped events of a kind.
pub(crate) fn add(dropped: &mut Vec<Dropped>, what: &str, count: u64) {
    match dropped.iter_mut().find(|known| known.what == what) {
        Some(known) => known.count += count,
        None => dropped.push(Dropped {
            what: what.to_owned(),
            count,
        }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::short(&[1, 2, 3], &[1, 2, 3], 0)]
    #[case::as_long_as_it_may_be(&[1, 2, 3, 4], &[1, 2, 3, 4], 0)]
    #[case::too_long(&[1, 2, 3, 4, 5, 6], &[1, 2, 5, 6], 2)]
    fn the_middle_of_a_long_list_is_dropped(#[case] list: &[u8], #[case] left: &[u8], #[case] dropped: u64) {
        let mut list = list.to_vec();
        assert_eq!(drop_middle(&mut list, 4), dropped);
        assert_eq!(list, left);
    }
}
