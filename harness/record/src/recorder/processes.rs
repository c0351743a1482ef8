//! Records processes: what the stage reports after the run, and who holds the controllers' Lease.

use std::collections::BTreeMap;

use jiff::Timestamp;
use judge::object::text;
use scenario::step::KubeletAction;
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
        /// If it is a rule, which the quiet end of a run removes: how many effects it has at most.
        rule: Option<Limit>,
    },
    /// An action of the plan on a kubelet.
    Kubelet {
        /// The kubelet, for example `kubelet of m-1`.
        kubelet: String,
        /// The action.
        action: KubeletAction,
        /// What happened.
        text: String,
    },
}

/// The limit of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The maximum number of its effects; `None`: there is none.
    pub at_most: Option<u64>,
}

/// The part of the time in which a fault can have an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// It has an effect only at this moment.
    Moment,
    /// Its rule changes a request at this moment.
    Hit,
    /// It can have an effect from now on.
    Begins,
    /// It has no effect from now on.
    Ends,
}

impl Recorder {
    /// Adds what the stage reports after the run, in the order of time. What happens after `end`, the end of the run, is left out.
    pub fn add_stage_events(&mut self, events: Vec<StageEvent>, end: Timestamp) {
        let step = std::mem::take(&mut self.step);
        // The rules that can have an effect, by the ids of their actors, with the number of effects that are left.
        let mut rules: BTreeMap<String, Option<u64>> = BTreeMap::new();
        for event in events.into_iter().filter(|event| event.at <= end) {
            let at = self.micros(event.at);
            match event.what {
                StageEventKind::Process { name, text, runs } => {
                    let actor = self.actors.process(&name);
                    let id = self.push(at, &actor, Verb::Process, format!("{name} {text}"), Interest::State);
                    let label = if runs { "running" } else { "down" };
                    self.spans.begin(&actor, SpanClass::Process, label, at, Some(id));
                    if !runs {
                        // The Lease still names it.
                        self.spans.cut(&actor, SpanClass::Leader, at);
                    }
                }
                StageEventKind::Kubelet { kubelet, action, text } => self.fault_of_kubelet(at, &kubelet, action, text),
                StageEventKind::Fault {
                    name,
                    text,
                    window,
                    rule,
                } => {
                    if rule.is_some() && self.quiet.is_some_and(|quiet| at > quiet) {
                        continue;
                    }
                    let actor = self.actors.fault(&name);
                    // The step that caused it has recorded its window.
                    let is_known = window == Window::Begins && self.spans.covers(&actor, SpanClass::Fault, at);
                    let window = if is_known { Window::Moment } else { window };
                    self.fault(at, &name, text, window);
                    match (window, rule) {
                        (Window::Begins, Some(limit)) => {
                            // Calls of the cloud are events already.
                            let last = limit.at_most.and_then(|most| self.nth_call(&name, at, most));
                            match last {
                                Some(last) => self.spans.end(&actor, SpanClass::Fault, last),
                                None => drop(rules.insert(actor, limit.at_most)),
                            }
                        }
                        (Window::Ends, _) => drop(rules.remove(&actor)),
                        (Window::Moment | Window::Hit, _) => self.count_effect(&mut rules, &actor, at),
                        (Window::Begins, None) => {}
                    }
                }
            }
            if let Some(draft) = self.points.last_mut() {
                draft.order = event.number.map(TracePlace::of);
            }
        }
        if let Some(quiet) = self.quiet {
            for actor in rules.keys() {
                self.spans.end(actor, SpanClass::Fault, quiet);
            }
        }
        self.step = step;
    }

    /// The time of the call number `nth` that a rule changes, from `begin`.
    fn nth_call(&self, rule: &str, begin: Micros, nth: u64) -> Option<Micros> {
        let calls = self.points.iter().map(|draft| &draft.point);
        let mut times: Vec<Micros> = calls
            .filter(|point| point.fault.as_deref() == Some(rule) && point.at >= begin)
            .map(|point| point.at)
            .collect();
        times.sort_unstable();
        times.get(usize::try_from(nth).ok()?.checked_sub(1)?).copied()
    }

    /// Counts an effect of a rule. A rule that has no more effects ends.
    fn count_effect(&mut self, rules: &mut BTreeMap<String, Option<u64>>, actor: &str, at: Micros) {
        let Some(Some(left)) = rules.get_mut(actor) else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            rules.remove(actor);
            self.spans.end(actor, SpanClass::Fault, at);
        }
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
