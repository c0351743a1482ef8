//! States that last: each actor has at most one state of a class at a time.

use std::collections::BTreeMap;

use crate::model::{Micros, Span, SpanClass};

/// A span of which the cause is a provisional id.
#[derive(Clone, Debug)]
pub(crate) struct DraftSpan {
    /// The id of the event that began it.
    pub(crate) cause: Option<u64>,
    /// The span, without its cause.
    pub(crate) span: Span,
}

/// All spans so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans {
    list: Vec<DraftSpan>,
    open: BTreeMap<(String, SpanClass), usize>,
}

impl Spans {
    /// Begins a state and ends the previous one of the class. A state that is the current one continues.
    pub(super) fn begin(&mut self, actor: &str, class: SpanClass, label: &str, at: Micros, cause: Option<u64>) {
        if self.current(actor, class).is_some_and(|current| current == label) {
            return;
        }
        self.end(actor, class, at);
        self.open.insert((actor.to_owned(), class), self.list.len());
        self.list.push(DraftSpan {
            cause,
            span: Span {
                actor: actor.to_owned(),
                from: at,
                to: None,
                label: label.to_owned(),
                class,
                cause: None,
            },
        });
    }

    /// Ends the current state of the class.
    pub(super) fn end(&mut self, actor: &str, class: SpanClass, at: Micros) {
        if let Some(index) = self.open.remove(&(actor.to_owned(), class)) {
            let span = &mut self.list[index].span;
            span.to = Some(at.max(span.from));
        }
    }

    /// Ends the state of the class that lasts at a time, also if later ones are known.
    pub(super) fn cut(&mut self, actor: &str, class: SpanClass, at: Micros) {
        let key = (actor.to_owned(), class);
        for (index, DraftSpan { span, .. }) in self.list.iter_mut().enumerate() {
            let lasts = span.from <= at && span.to.is_none_or(|to| at < to);
            if lasts && span.actor == actor && span.class == class {
                span.to = Some(at);
                if self.open.get(&key) == Some(&index) {
                    self.open.remove(&key);
                }
            }
        }
    }

    /// Ends all states of an actor.
    pub(super) fn end_all(&mut self, actor: &str, at: Micros) {
        for class in [SpanClass::Phase, SpanClass::Drain, SpanClass::Vm, SpanClass::Node] {
            self.end(actor, class, at);
        }
    }

    /// The current state of the class.
    pub(super) fn current(&self, actor: &str, class: SpanClass) -> Option<&String> {
        let index = self.open.get(&(actor.to_owned(), class))?;
        Some(&self.list[*index].span.label)
    }

    /// Whether a state of the class lasts at a time, or ends then.
    pub(super) fn covers(&self, actor: &str, class: SpanClass, at: Micros) -> bool {
        let mut of_actor = self
            .list
            .iter()
            .filter(|draft| draft.span.actor == actor && draft.span.class == class);
        of_actor.any(|draft| draft.span.from <= at && draft.span.to.is_none_or(|to| at <= to))
    }

    /// All spans, in the order of their start.
    pub(super) fn list(self) -> Vec<DraftSpan> {
        let mut list = self.list;
        list.sort_by_key(|draft| draft.span.from);
        list
    }
}
