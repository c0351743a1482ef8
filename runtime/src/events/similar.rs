//! Combines similar events, as client-go's event correlator does: after some events of one object that differ only in their
//! message, further ones are one event with a count. A set of a thousand machines does not need a thousand events.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use lru::LruCache;

use super::{EventKey, MAX_REMEMBERED};

/// The number of events that differ only in their message. The next one is combined with later ones.
const MAX_SIMILAR: usize = 10;
/// How long after the last of them events are similar.
const PERIOD: SignedDuration = SignedDuration::from_mins(10);
/// The start of the message of a combined event.
pub(super) const COMBINED: &str = "(combined from similar events): ";

/// The recent messages of events that differ only in their message.
#[derive(Debug)]
pub(super) struct SimilarEvents(LruCache<EventKey, Messages>);

#[derive(Debug)]
struct Messages {
    different: BTreeSet<String>,
    last: Timestamp,
}

impl Default for SimilarEvents {
    fn default() -> Self {
        Self(LruCache::new(MAX_REMEMBERED))
    }
}

impl SimilarEvents {
    /// Whether the event is combined with similar ones.
    pub(super) fn is_combined(&mut self, key: &EventKey, now: Timestamp) -> bool {
        let (kind, message) = key.without_message();
        let messages = self.0.get_or_insert_mut(kind, || Messages {
            different: BTreeSet::new(),
            last: now,
        });
        if now.duration_since(messages.last) > PERIOD {
            messages.different.clear();
        }
        messages.last = now;
        if messages.different.len() < MAX_SIMILAR {
            messages.different.insert(message);
            return false;
        }
        !messages.different.contains(&message)
    }
}
