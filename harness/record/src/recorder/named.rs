//! Links the result of a check to the main events of the objects that it names.

use std::collections::BTreeSet;

use scenario::result::FailureResult;

use super::Recorder;
use super::finish::observed;
use crate::draft::Draft;
use crate::model::{ActorKind, Link, Verb};

/// The maximum number of events that a result names.
const MOST_NAMED: usize = 12;

impl Recorder {
    /// Links the verdict, which is the last event, to what shows the failure and to the objects that the failure names.
    pub(super) fn link_verdict(&mut self, failure: Option<&FailureResult>) {
        let Some(verdict) = self.points.last().map(|draft| draft.id) else {
            return;
        };
        let shown_by = self.checks.violated.as_ref().and_then(|(_, _, point)| *point);
        if let Some(failure) = failure.filter(|failure| !failure.expectation) {
            let shows = shown_by.unwrap_or(verdict);
            self.name_events(shows, observed(failure));
        }
        if let (Some(draft), Some(shown_by)) = (self.points.last_mut(), shown_by) {
            draft.cause = Some((Link::Caused, shown_by));
        }
    }

    /// Links an event to the main events of the objects that a text names. Without a cause, the latest one becomes it.
    pub(super) fn name_events(&mut self, id: u64, text: &str) {
        let named = self.main_events(text);
        let Some(draft) = self.points.iter_mut().rev().find(|draft| draft.id == id) else {
            return;
        };
        let mut named: Vec<u64> = named.into_iter().filter(|other| *other != id).collect();
        if draft.cause.is_none() && !named.is_empty() {
            draft.cause = Some((Link::Named, named.remove(0)));
        }
        let cause = draft.cause.map(|(_, cause)| cause);
        named.retain(|other| Some(*other) != cause && !draft.seen.contains(other));
        draft.seen.extend(named);
    }

    /// The main events of the objects that a text names, the latest first: the creation and the last state of a VM, the last
    /// call about a machine with the fault that changed it, the last write and the removal of an object.
    fn main_events(&self, text: &str) -> Vec<u64> {
        let is_separator = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '-' || letter == '.');
        let words: BTreeSet<&str> = text
            .split(is_separator)
            .map(|word| word.trim_end_matches('.'))
            .collect();
        let mut ids = BTreeSet::new();
        for actor in self.actors.named(&words) {
            let of_actor = || self.points.iter().filter(|draft| draft.point.actor == actor.id);
            let last = |verbs: &[Verb]| of_actor().rfind(|draft| verbs.contains(&draft.point.verb));
            let mut found = vec![last(&[Verb::Write]), last(&[Verb::Delete])];
            if actor.kind == ActorKind::Vm {
                found.extend([of_actor().next(), last(&[Verb::Vm])]);
            }
            let call = last(&[Verb::Call]);
            found.extend([call, call.and_then(|call| self.begin_of_fault(call))]);
            ids.extend(found.into_iter().flatten().map(|draft| (draft.point.at, draft.id)));
        }
        ids.into_iter().rev().map(|(_, id)| id).take(MOST_NAMED).collect()
    }

    /// The begin of the fault that changed a call.
    fn begin_of_fault(&self, call: &Draft) -> Option<&Draft> {
        let actor = format!("fault/{}", call.point.fault.as_ref()?);
        let mut faults = self.points.iter().filter(|draft| draft.id < call.id);
        faults.rfind(|draft| draft.point.actor == actor && draft.point.verb == Verb::Fault)
    }
}
