//! Records processes: what the stage reports after the run, and who holds the controllers' Lease.

use jiff::Timestamp;
use judge::object::text;
use serde_json::Value;

use super::Recorder;
use crate::draft::{Interest, TracePlace};
use crate::model::{Micros, SpanClass, Verb};

/// What a stage reports after the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageEvent {
    /// Its position in the trace, if it is a part of one.
    pub number: Option<u64>,
    /// When it happened.
    pub at: Timestamp,
    /// The event.
    pub what: StageEventKind,
}

/// The event of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageEventKind {
    /// A process started or ended.
    Process {
        /// Its name.
        name: String,
        /// What happened, for example `started (2)` or `crashed`.
        text: String,
        /// Whether it runs from now on.
        runs: bool,
    },
    /// A fault.
    Fault {
        /// Its name, which is the same at its begin and its end.
        name: String,
        /// What happened.
        text: String,
        /// Whether it begins or ends.
        window: Window,
    },
}

/// The part of the time in which a fault can have an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// It has an effect only at this moment.
    Moment,
    /// It can have an effect from now on.
    Begins,
    /// It has no effect from now on.
    Ends,
}

impl StageEventKind {
    /// Whether it is the begin or the end of a fault.
    fn is_window(&self) -> bool {
        matches!(
            self,
            Self::Fault {
                window: Window::Begins | Window::Ends,
                ..
            }
        )
    }
}

impl Recorder {
    /// Adds what the stage reports after the run, in the order of time. A fault that begins or ends after the last observation
    /// does so after the run. The quiet end of a run removes all faults.
    pub fn add_stage_events(&mut self, events: Vec<StageEvent>) {
        let step = std::mem::take(&mut self.step);
        let last = self.points.iter().map(|draft| draft.point.at).max();
        for event in events {
            let at = self.micros(event.at);
            if event.what.is_window() && last.is_none_or(|last| at > last) {
                continue;
            }
            match event.what {
                StageEventKind::Process { name, text, runs } => {
                    let actor = self.actors.process(&name);
                    let id = self.push(at, &actor, Verb::Process, format!("{name} {text}"), Interest::State);
                    let label = if runs { "running" } else { "down" };
                    self.spans.begin(&actor, SpanClass::Process, label, at, Some(id));
                }
                StageEventKind::Fault { name, text, window } => {
                    // The step that caused it has recorded its window.
                    let is_known =
                        window == Window::Begins && self.spans.covers(&self.actors.fault(&name), SpanClass::Fault, at);
                    let window = if is_known { Window::Moment } else { window };
                    self.fault(at, &name, text, window);
                }
            }
            if let Some(draft) = self.points.last_mut() {
                draft.order = event.number.map(TracePlace::of);
            }
        }
        if let Some(quiet) = self.quiet {
            self.spans.end_by(SpanClass::Fault, quiet);
        }
        self.step = step;
    }

    /// Records the holder of the controllers' Lease, if it changes.
    pub(super) fn lease(&mut self, at: Micros, lease: &Value) -> Option<u64> {
        let holder = text(lease, "/spec/holderIdentity");
        if holder == self.leader {
            return None;
        }
        let before = std::mem::replace(&mut self.leader, holder.to_owned());
        if !before.is_empty() {
            let actor = self.actors.process(process_of(&before));
            self.spans.end(&actor, SpanClass::Leader, at);
        }
        if holder.is_empty() {
            let actor = self.actors.process(process_of(&before));
            let summary = format!("{before} releases the Lease");
            return Some(self.push(at, &actor, Verb::Process, summary, Interest::State));
        }
        let actor = self.actors.process(process_of(holder));
        let summary = format!("{holder} holds the Lease");
        let id = self.push(at, &actor, Verb::Process, summary, Interest::State);
        self.spans.begin(&actor, SpanClass::Leader, "leader", at, Some(id));
        Some(id)
    }
}

/// The name of the process with an identity: without the suffix of the incarnation.
fn process_of(identity: &str) -> &str {
    identity.split('_').next().unwrap_or(identity)
}
