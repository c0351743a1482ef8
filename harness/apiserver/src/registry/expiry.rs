//! Events end by themselves an hour after they were last written, as with kube-apiserver's default
//! `--event-ttl`. Nothing wakes for that: what is over goes when the next event is written.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use super::{Entry, Registry, tree};
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Key, Object};

/// How long an event is kept after its last write.
const EVENT_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// Which events were written when, in that order.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    writes: VecDeque<(Timestamp, Key, u64)>,
}

impl Expiry {
    fn note(&mut self, object: &Object, now: Timestamp) {
        self.writes.push_back((now, object.key.clone(), object.revision));
    }

    /// Takes out the writes that are too long ago.
    fn take_over(&mut self, now: Timestamp) -> Vec<(Key, u64)> {
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
    /// Takes note that an event was written, and removes those that were not for an hour.
    pub(super) fn event_written(&self, entry: &Entry, object: &Object) -> Result<(), ApiError> {
        let now = self.clock.now();
        let over = {
            let mut expiry = self.expiry.lock();
            expiry.note(object, now);
            expiry.take_over(now)
        };
        for (key, revision) in over {
            // One that was written again meanwhile has a later place in the line.
            if let Some(current) = self
                .store
                .get(&entry.table, &key)
                .filter(|event| event.revision == revision)
            {
                let last = tree(&current)?;
                self.take(entry, &current, last, false)?;
            }
        }
        Ok(())
    }
}
