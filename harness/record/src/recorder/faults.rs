//! Records steps, and the time in which a fault can have an effect.

use std::collections::BTreeMap;

use jiff::Timestamp;
use scenario::Step;
use scenario::step::{CloudRequest, DisturbanceChange, KubeletAction, KubeletFaultKind, Request};

use super::processes::Window;
use super::{Recorder, SCENARIO};
use crate::draft::{Interest, StepMark, TracePlace, id_of_fault};
use crate::model::{Link, Micros, SpanClass, Verb};

/// The rules that can have an effect.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    /// The maximum number of effects, and the number so far, by rule.
    rules: BTreeMap<String, (Option<u64>, u64)>,
}

impl Recorder {
    /// Records that a step begins. `values` follows its description, and `until` is when the pause that it starts ends.
    pub fn step(&mut self, at: Timestamp, number: usize, step: &Step, values: &str, until: Option<Timestamp>) {
        self.step = number;
        let time = self.micros(at);
        let text = format!("step {number}: {}{values}", step.description());
        let id = self.push(time, SCENARIO, Verb::Step, text.clone(), Interest::State);
        self.latest = Some(id);
        self.steps.push(mark_of(step, id, number, time));
        self.spans.begin(SCENARIO, SpanClass::Step, &text, time, Some(id));
        self.fault_of_step(time, step, until.map(|until| self.micros(until)));
        for draft in self.points.iter_mut().rev().take_while(|draft| draft.id > id) {
            draft.cause = Some((Link::Caused, id));
        }
    }

    /// The step that was recorded last began when the trace had this number of entries.
    pub fn place_step(&mut self, entries: u64) {
        let Some(mark) = self.steps.last_mut() else { return };
        mark.order = TracePlace::of_step(entries);
        for draft in self.points.iter_mut().rev().take_while(|draft| draft.id >= mark.id) {
            draft.order = mark.order;
        }
    }

    /// Records a fault that is no step of the scenario: a step of its plan at a fixed time.
    pub fn timed_step(&mut self, at: Timestamp, step: &Step, until: Option<Timestamp>) {
        let until = until.map(|until| self.micros(until));
        self.fault_of_step(self.micros(at), step, until);
    }

    /// Records the fault that a step starts or ends.
    fn fault_of_step(&mut self, at: Micros, step: &Step, until: Option<Micros>) {
        let text = step.description();
        match step.request() {
            Request::Pause(pause) => {
                let name = format!("pause of {}", pause.process);
                self.fault(at, &name, text, Window::Begins);
                if let Some(until) = until {
                    let actor = self.actors.fault(&name);
                    self.spans.end(&actor, SpanClass::Fault, until);
                }
            }
            Request::Cloud(CloudRequest::FailZone(zone)) => {
                self.fault(at, &format!("zone {}", zone.zone), text, Window::Begins);
            }
            Request::Cloud(CloudRequest::RestoreZone(zone)) => {
                self.fault(at, &format!("zone {zone}"), text, Window::Ends);
            }
            Request::Cloud(CloudRequest::Kubelet(action)) => {
                self.fault_of_kubelet(at, &step.targets().fault.unwrap_or_default(), action, text);
            }
            _ => match (step.disturbance(), step.targets().fault) {
                (Some(DisturbanceChange::Begins { rule, at_most }), _) => {
                    self.windows.rules.insert(rule.clone(), (at_most, 0));
                    self.fault(at, &rule, text, Window::Begins);
                }
                (Some(DisturbanceChange::Ends { rule }), _) => {
                    self.windows.rules.remove(&rule);
                    self.fault(at, &rule, text, Window::Ends);
                }
                (Some(DisturbanceChange::ProcessEnds(process)), _) => {
                    self.fault(at, &format!("{process} is down"), text, Window::Begins);
                }
                (Some(DisturbanceChange::ProcessStarts(process)), _) => {
                    self.fault(at, &format!("{process} is down"), text, Window::Ends);
                }
                (None, Some(target)) => self.fault(at, &target, text, Window::Moment),
                (None, None) => {}
            },
        }
    }

    /// Records the fault that an action on a kubelet starts or ends.
    pub(super) fn fault_of_kubelet(&mut self, at: Micros, kubelet: &str, action: KubeletAction, text: String) {
        let (mut what, window) = kubelet_window(action);
        // A kubelet has one outage at a time: another one, or its end, ends it.
        if OUTAGES.contains(&what) {
            for outage in OUTAGES {
                let actor = id_of_fault(&format!("{outage} {kubelet}"));
                if self.spans.current(&actor, SpanClass::Fault).is_some() {
                    self.spans.end(&actor, SpanClass::Fault, at);
                    what = if window == Window::Ends { outage } else { what };
                }
            }
        }
        self.fault(at, &format!("{what} {kubelet}"), text, window);
    }

    /// Records the begin, an effect or the end of a fault.
    pub(super) fn fault(&mut self, at: Micros, name: &str, text: String, window: Window) {
        let actor = self.actors.fault(name);
        let interest = match window {
            Window::Moment | Window::Hit => Interest::Call,
            Window::Begins | Window::Ends => Interest::State,
        };
        let id = self.push(at, &actor, Verb::Fault, text, interest);
        match window {
            Window::Moment => {}
            Window::Hit => {
                if let Some(draft) = self.points.last_mut() {
                    draft.point.fault = Some(name.to_owned());
                }
            }
            Window::Begins => self.spans.begin(&actor, SpanClass::Fault, name, at, Some(id)),
            Window::Ends => self.spans.end(&actor, SpanClass::Fault, at),
        }
    }

    /// Counts an effect of a rule. A rule that has no more effects ends.
    pub(super) fn rule_hit(&mut self, at: Micros, rule: &str) {
        if let Some((_, hits)) = self.windows.rules.get_mut(rule) {
            *hits += 1;
        }
        self.end_spent_rules(at);
    }

    /// Updates the effects of rules of the API server.
    pub fn rule_hits(&mut self, at: Timestamp, hits: &BTreeMap<String, u64>) {
        if self.windows.rules.is_empty() {
            return;
        }
        for (rule, (_, known)) in &mut self.windows.rules {
            *known = hits.get(rule).copied().unwrap_or_default().max(*known);
        }
        self.end_spent_rules(self.micros(at));
    }

    fn end_spent_rules(&mut self, at: Micros) {
        let is_spent = |(most, hits): &(Option<u64>, u64)| most.is_some_and(|most| *hits >= most);
        let spent = self.windows.rules.iter().filter(|(_, rule)| is_spent(rule));
        let spent: Vec<String> = spent.map(|(name, _)| name.clone()).collect();
        for name in spent {
            self.windows.rules.remove(&name);
            let actor = self.actors.fault(&name);
            self.spans.end(&actor, SpanClass::Fault, at);
        }
    }

    /// Ends all rules: the quiet end removes them.
    pub(super) fn end_rules(&mut self, at: Micros) {
        for name in std::mem::take(&mut self.windows.rules).into_keys() {
            let actor = self.actors.fault(&name);
            self.spans.end(&actor, SpanClass::Fault, at);
        }
    }
}

/// What causes depend on of a step that begins.
fn mark_of(step: &Step, id: u64, number: usize, at: Micros) -> StepMark {
    let targets = step.targets();
    StepMark {
        id,
        number,
        at,
        order: None,
        object: targets.object.map(|object| (object.kind, object.name)),
        fault: targets.fault,
        changes_others: matches!(
            step.request(),
            Request::Drain { .. } | Request::Flap(_) | Request::Strip(_) | Request::Autoscaler(_)
        ),
        keeps: matches!(step.request(), Request::Keep(_)),
    }
}

/// The outages of a kubelet.
const OUTAGES: [&str; 3] = ["stop of the", "partition of the", "outage of the"];

/// What is wrong with a kubelet after an action, and whether it begins or ends.
fn kubelet_window(action: KubeletAction) -> (&'static str, Window) {
    match action {
        KubeletAction::Stop => ("stop of the", Window::Begins),
        KubeletAction::Start => ("stop of the", Window::Ends),
        KubeletAction::Partition => ("partition of the", Window::Begins),
        KubeletAction::Reconnect => ("partition of the", Window::Ends),
        KubeletAction::FillDisk => ("full disk of the", Window::Begins),
        KubeletAction::FreeDisk => ("full disk of the", Window::Ends),
        KubeletAction::Freeze | KubeletAction::Flap(_) => ("outage of the", Window::Begins),
        KubeletAction::Slow(_) => ("slowness of the", Window::Begins),
        KubeletAction::SlowRecovery(_) => ("slow recovery of the", Window::Begins),
        KubeletAction::ClockAhead(_) | KubeletAction::ClockBehind(_) => ("wrong clock of the", Window::Begins),
        KubeletAction::Zombie => ("new registration of the", Window::Begins),
        KubeletAction::TakeOver => ("take-over of the", Window::Begins),
        KubeletAction::End(KubeletFaultKind::Outage) => ("outage of the", Window::Ends),
        KubeletAction::End(KubeletFaultKind::Slow) => ("slowness of the", Window::Ends),
        KubeletAction::End(KubeletFaultKind::SlowRecovery) => ("slow recovery of the", Window::Ends),
        KubeletAction::End(KubeletFaultKind::Clock) => ("wrong clock of the", Window::Ends),
        KubeletAction::End(KubeletFaultKind::Zombie) => ("new registration of the", Window::Ends),
        KubeletAction::End(KubeletFaultKind::TakeOver) => ("take-over of the", Window::Ends),
    }
}
