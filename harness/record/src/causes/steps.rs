//! The steps during which requests were sent, and what they cause.

use scenario::step::KubeletAction;

use crate::draft::{Draft, StepMark, TracePlace};
use crate::model::Verb;

/// The begin of each note about a machine that the harness keeps.
const KEEPER: &str = "the keeper ";

/// The steps of a scenario, in their order.
pub(super) struct Steps<'a> {
    marks: &'a [StepMark],
    /// The notes about machines that the harness keeps.
    notes: Vec<&'a Draft>,
}

impl<'a> Steps<'a> {
    pub(super) fn of(marks: &'a [StepMark], points: &'a [Draft]) -> Self {
        let is_note = |draft: &&Draft| draft.point.verb == Verb::Note && draft.point.summary.starts_with(KEEPER);
        Self {
            marks,
            notes: points.iter().filter(is_note).collect(),
        }
    }

    /// The step during which an entry of the trace was recorded.
    pub(super) fn at(&self, order: TracePlace) -> Option<&StepMark> {
        // A step without a place began before the first entry.
        let count = self
            .marks
            .partition_point(|mark| mark.order.is_none_or(|begin| begin <= order));
        self.marks[..count].last()
    }

    /// The event that caused a write of the harness: the step that changes the object, or the note that says so.
    pub(super) fn writing(&self, draft: &Draft, order: TracePlace) -> Option<u64> {
        let key = draft.key.as_ref()?;
        let step = self.at(order)?;
        let is_target = step
            .object
            .as_ref()
            .is_some_and(|(kind, name)| *kind == key.kind && *name == key.name);
        if is_target {
            return Some(step.id);
        }
        let names_it = |note: &&&Draft| note.point.summary.rsplit(' ').next() == Some(key.name.as_str());
        let note = self.notes.iter().filter(|note| note.id < draft.id).rfind(names_it);
        let note = note.filter(|_| key.kind == "Machine").map(|note| note.id);
        note.or_else(|| step.changes_others.then_some(step.id))
    }

    /// The step that set the number of machines which a note is about.
    pub(super) fn keeping(&self, note: &Draft) -> Option<u64> {
        let is_about = note.point.summary.starts_with(KEEPER);
        let mut keeping = self.marks.iter().filter(|mark| mark.keeps && mark.id < note.id);
        keeping.next_back().filter(|_| is_about).map(|mark| mark.id)
    }

    /// The step that disturbs the VM or the kubelet of an event at that time.
    pub(super) fn disturbing(&self, draft: &Draft, zone: Option<&str>) -> Option<&StepMark> {
        let (_, machine) = draft.related.first()?;
        let names = [
            Some(format!("VM of {machine}")),
            Some(KubeletAction::target(machine)),
            zone.map(|zone| format!("zone {zone}")),
        ];
        let is_disturbed = |mark: &&StepMark| {
            let fault = mark.fault.as_ref();
            mark.at == draft.point.at
                && mark.id < draft.id
                && fault.is_some_and(|fault| names.contains(&Some(fault.clone())))
        };
        self.marks.iter().rfind(is_disturbed)
    }
}
