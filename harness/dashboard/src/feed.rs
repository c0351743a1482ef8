//! What changed, for readers that are as slow as they like: the log names the changed entities, and a reader gets the latest
//! state of each once. A reader that is further behind than the log gets everything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use crate::entity::Entity;

/// The changes that the log remembers.
const MOST_CHANGES: usize = 65_536;

/// The changes since a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// The number of the last change.
    pub number: u64,
    /// Whether `changed` has all entities: the reader drops those that it knew.
    pub all: bool,
    /// Entities that are new or changed.
    pub changed: Vec<Entity>,
    /// The ids of those that are gone.
    pub removed: Vec<String>,
}

/// The entities and the log of their changes.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    entities: BTreeMap<String, Entity>,
    log: VecDeque<String>,
    /// The number of the last change.
    number: u64,
}

impl Feed {
    /// An entity, if it exists.
    pub(crate) fn get(&self, id: &str) -> Option<&Entity> {
        self.entities.get(id)
    }

    /// All entities.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Entity> {
        self.entities.values()
    }

    /// Adds or changes an entity.
    pub(crate) fn set(&mut self, entity: Entity) {
        if self.entities.get(&entity.id) != Some(&entity) {
            self.changed(entity.id.clone());
            self.entities.insert(entity.id.clone(), entity);
        }
    }

    /// Removes an entity.
    pub(crate) fn remove(&mut self, id: &str) {
        if self.entities.remove(id).is_some() {
            self.changed(id.to_owned());
        }
    }

    /// Removes everything: each reader gets everything again.
    pub(crate) fn clear(&mut self) {
        self.entities.clear();
        self.log.clear();
        self.number += 1;
    }

    /// Counts a change that the topology does not show.
    pub(crate) fn touch(&mut self) {
        self.changed(String::new());
    }

    fn changed(&mut self, id: String) {
        if self.log.len() == MOST_CHANGES {
            self.log.pop_front();
        }
        self.log.push_back(id);
        self.number += 1;
    }

    /// The number of the last change.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The changes after a number; 0 or a number of another feed: everything.
    pub(crate) fn after(&self, number: u64) -> Changes {
        let behind = usize::try_from(self.number.saturating_sub(number)).unwrap_or(usize::MAX);
        if number == 0 || number > self.number || behind > self.log.len() {
            return Changes {
                number: self.number,
                all: true,
                changed: self.entities.values().cloned().collect(),
                removed: Vec::new(),
            };
        }
        let ids: BTreeSet<&String> = self
            .log
            .iter()
            .skip(self.log.len() - behind)
            .filter(|id| !id.is_empty())
            .collect();
        let (mut changed, mut removed) = (Vec::new(), Vec::new());
        for id in ids {
            match self.entities.get(id) {
                Some(entity) => changed.push(entity.clone()),
                None => removed.push(id.clone()),
            }
        }
        Changes {
            number: self.number,
            all: false,
            changed,
            removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, status: &str) -> Entity {
        let conditions = json!([{ "type": "Ready", "status": status }]);
        let node = json!({ "metadata": { "name": name }, "status": { "conditions": conditions } });
        Entity::of_object("Node", &node).unwrap()
    }

    #[test]
    fn a_reader_gets_the_latest_state_of_what_changed_since_its_number() {
        let mut feed = Feed::default();
        feed.set(node("a", "True"));
        feed.set(node("b", "True"));
        let first = feed.after(0);
        assert!(first.all && first.changed.len() == 2, "{first:?}");
        feed.set(node("a", "False"));
        feed.set(node("a", "Unknown"));
        feed.set(node("a", "Unknown"));
        feed.remove("Node/b");
        let next = feed.after(first.number);
        assert!(!next.all, "{next:?}");
        assert_eq!(next.changed, [node("a", "False")]);
        assert_eq!(next.removed, ["Node/b"]);
        assert_eq!(feed.after(next.number).changed, []);
    }

    #[test]
    fn a_reader_that_is_behind_the_log_gets_everything_and_the_log_stays_bounded() {
        let mut feed = Feed::default();
        feed.set(node("a", "True"));
        let number = feed.number();
        for round in 0..MOST_CHANGES {
            feed.set(node("b", if round % 2 == 0 { "True" } else { "False" }));
        }
        assert_eq!(feed.log.len(), MOST_CHANGES);
        assert!(!feed.after(number).all);
        feed.touch();
        assert!(feed.after(number).all);
        assert!(feed.after(feed.number() + 1).all, "a number of another feed");
        let number = feed.number();
        feed.clear();
        assert!(feed.after(number).all && feed.after(number).changed.is_empty());
    }
}
