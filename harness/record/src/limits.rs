//! Limits the number of events: of the least interesting ones the middle is dropped first.

use crate::draft::{Draft, Interest};
use crate::model::Dropped;

/// The maximum number of events in a record.
pub const MOST_POINTS: usize = 20_000;

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
