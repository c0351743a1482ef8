//! Which object is due when: a timer queue without a task for each object.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// At most one due time for each name.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    by_name: BTreeMap<String, Timestamp>,
    by_time: BTreeSet<(Timestamp, String)>,
}

impl Schedule {
    /// Makes `name` due at `at`, and at no other time.
    pub(crate) fn set(&mut self, name: String, at: Timestamp) {
        self.remove(&name);
        self.by_time.insert((at, name.clone()));
        self.by_name.insert(name, at);
    }

    /// Makes `name` never due.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Some((name, at)) = self.by_name.remove_entry(name) {
            self.by_time.remove(&(at, name));
        }
    }

    /// Removes every name that is not wanted.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.by_name.retain(|name, _| wanted(name));
        self.by_time.retain(|(_, name)| wanted(name));
    }

    /// The earliest due time.
    pub(crate) fn earliest(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out all names that are due by `now`, those due first first, names of one time in order.
    pub(crate) fn take_until(&mut self, now: Timestamp) -> Vec<String> {
        let mut due = Vec::new();
        while self.earliest().is_some_and(|at| at <= now) {
            let Some((_, name)) = self.by_time.pop_first() else {
                break;
            };
            self.by_name.remove(&name);
            due.push(name);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn names_come_out_by_time_and_then_by_name() {
        let mut schedule = Schedule::default();
        for (name, second) in [("c", 1), ("b", 2), ("a", 2), ("d", 9)] {
            schedule.set(name.to_owned(), at(second));
        }
        assert_eq!(schedule.earliest(), Some(at(1)));
        assert_eq!(schedule.take_until(at(2)), ["c", "a", "b"]);
        assert_eq!(schedule.earliest(), Some(at(9)));
    }

    #[test]
    fn a_name_is_due_at_its_latest_setting_only() {
        let mut schedule = Schedule::default();
        schedule.set("a".to_owned(), at(1));
        schedule.set("a".to_owned(), at(5));
        assert!(schedule.take_until(at(4)).is_empty());
        schedule.remove("a");
        assert_eq!(schedule.earliest(), None);
    }

    #[test]
    fn names_that_are_not_wanted_are_never_due() {
        let mut schedule = Schedule::default();
        schedule.set("a".to_owned(), at(1));
        schedule.set("b".to_owned(), at(1));
        schedule.retain(|name| name == "b");
        assert_eq!(schedule.take_until(at(1)), ["b"]);
    }
}
