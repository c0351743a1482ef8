//! Events expire an hour after their last write, as with kube-apiserver's default `--event-ttl`. There is no timer:
//! the next write of an event removes the expired ones.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use super::{Entry, Registry};
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Key, Object};

/// The lifetime of an event after its last write.
const EVENT_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// The write times of events, in order.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    writes: VecDeque<(Timestamp, Key, u64)>,
}

impl Expiry {
    fn record(&mut self, object: &Object, now: Timestamp) {
        self.writes.push_back((now, object.key.clone(), object.revision));
    }

    /// Removes and returns the writes that are too old.
    fn take_expired(&mut self, now: Timestamp) -> Vec<(Key, u64)> {
        let mut over = Vec::new();
        while let Some((written, key, revision)) = self.writes.pop_front() {
            if now.duration_since(written) < EVENT_LIFE {
                self.writes.push_front((written, key, revision));
                break;
            }
            over.push((key, revision));
        }
        over
    }
}

pub(super) fn is_event(resource: &Resource) -> bool {
    resource.plural == "events"
}

impl Registry {
    /// Records the write of an event and removes the expired ones.
    pub(super) fn event_written(&self, entry: &Entry, object: &Object) -> Result<(), ApiError> {
        let now = self.clock.now();
        let over = {
            let mut expiry = self.expiry.lock();
            expiry.record(object, now);
            expiry.take_expired(now)
        };
        for (key, revision) in over {
            // An event that was written again has a later entry.
            if let Some(current) = self
                .store
                .get(&entry.table, &key)
                .filter(|event| event.revision == revision)
            {
                self.take(entry, &current, false)?;
            }
        }
        Ok(())
    }
}
