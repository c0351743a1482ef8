//! Numbers the events, and completes the record with the result of the run.

use std::collections::BTreeMap;
use std::time::Duration;

use judge::evaluate::short;
use judge::invariants;
use scenario::job::Job;
use scenario::result::{FailureResult, RunResult};

use super::{Recorder, SCENARIO};
use crate::causes::{self, TraceEntry};
use crate::draft::{Draft, Interest, TracePlace};
use crate::limits::{self, MOST_POINTS};
use crate::model::{
    Causes, Check, CheckKind, CheckState, DisturbanceCount, Meta, Micros, Place, Point, RunRecord, Span, TraceHash,
    Unmet, Verb, Verdict,
};
use crate::{VERSION, counters};

/// The program that writes a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// The commit that is tested, if the environment names it.
    pub commit: Option<String>,
}

impl Recorder {
    /// Adds the process and the cause of each event that the trace of a simulated run explains. `missing` is the number of
    /// entries before those of `trace`, which the run did not keep.
    pub fn add_causes(&mut self, trace: &[TraceEntry], missing: u64) {
        if missing > 0 {
            let what = "entries of the trace: events of that time have no process and no cause";
            limits::add(&mut self.dropped, what, missing);
        }
        let mut points = std::mem::take(&mut self.points);
        causes::find(&mut points, &self.steps, trace, |at| self.micros(at));
        for draft in &points {
            let process = draft.point.by.as_deref().and_then(|by| by.strip_prefix("process/"));
            if let Some(process) = process {
                self.actors.process(process);
            }
        }
        self.points = points;
        self.causes_known = true;
    }

    /// The complete record. `plan` is the plan as YAML, without secrets.
    pub fn finish(mut self, job: &Job, result: &RunResult, plan: String, program: Program) -> RunRecord {
        let ended = Duration::from_secs_f64(result.stage_seconds.max(0.0));
        let ended = Micros(u64::try_from(ended.as_micros()).unwrap_or(u64::MAX));
        let last = self.points.iter().map(|draft| draft.point.at).max().unwrap_or_default();
        let lasted = ended.max(last);
        let sentence = sentence(result, &self.checks.unmet);
        let verdict_id = self.push(lasted, SCENARIO, Verb::Verdict, sentence.clone(), Interest::State);
        self.link_verdict(result.failure.as_ref());
        if self.heartbeats > 0 {
            limits::add(
                &mut self.dropped,
                "writes that change nothing but heartbeats",
                self.heartbeats,
            );
        }
        limits::thin_out(&mut self.points, MOST_POINTS, &mut self.dropped);
        let shown_by = match &self.checks.violated {
            Some((_, _, point)) => point.unwrap_or(verdict_id),
            None => verdict_id,
        };
        let mut points = self.points;
        sort(&mut points);
        let numbers: BTreeMap<u64, u32> = points.iter().map(|draft| draft.id).zip(1..).collect();
        let number = |id: Option<u64>| id.and_then(|id| numbers.get(&id).copied());
        let shown_by = number(Some(shown_by));
        let mut checks = self.checks.invariants;
        checks.extend(self.checks.expectations.into_values());
        let violated = violated(&mut checks, self.checks.violated, result.failure.as_ref(), shown_by);
        let mut points = numbered(points, &numbers);
        if let (Some(check), Some(shown_by)) = (violated, shown_by)
            && let Some(point) = points.iter_mut().find(|point| point.number == shown_by)
        {
            point.violates = Some(check);
        }
        let spans: Vec<Span> = self
            .spans
            .list()
            .into_iter()
            .map(|draft| Span {
                cause: number(draft.cause),
                ..draft.span
            })
            .collect();
        let failure = result.failure.as_ref();
        let meta = Meta {
            drydock: program.version,
            commit: program.commit,
            place: place(job, result),
            plan,
            disturbances: result
                .disturbances
                .iter()
                .map(|disturbance| DisturbanceCount {
                    what: disturbance.what.clone(),
                    hits: disturbance.hits,
                })
                .collect(),
            started: self.started,
            lasted,
            wall_seconds: result.wall_seconds,
            trace: result.trace.as_ref().map(|trace| TraceHash {
                hash: trace.hash.clone(),
                entries: trace.entries,
            }),
            verdict: Verdict {
                passed: failure.is_none(),
                sentence,
                at: failure.map(|_| lasted),
                step: failure.map(|failure| failure.step).filter(|step| *step > 0),
                point: shown_by.filter(|_| failure.is_some()),
            },
            replay: result.replay.clone(),
            causes: match self.causes_known {
                true => Causes::Recorded,
                false => Causes::Unknown,
            },
        };
        let actors = self.actors.list();
        let counters = counters::of(&actors, &spans, &points, self.watches);
        let mut record = RunRecord {
            version: VERSION,
            meta,
            actors,
            spans,
            points,
            counters,
            checks,
            logs: self.logs,
            dropped: self.dropped,
        };
        limits::limit_states(&mut record);
        record
    }
}

/// Sorts events by time, and those of one time by the trace: an observer receives events of several watches in another
/// order than they happened. Events that are not in the trace stay behind everything that was recorded before them.
pub(super) fn sort(points: &mut [Draft]) {
    points.sort_by_key(|draft| (draft.point.at, draft.id));
    let mut latest = (Micros(0), TracePlace::default());
    let mut orders: BTreeMap<u64, TracePlace> = BTreeMap::new();
    for draft in points.iter() {
        if draft.point.at != latest.0 {
            latest = (draft.point.at, TracePlace::default());
        }
        let own = draft.order;
        latest.1 = own.map_or(latest.1, |own| latest.1.max(own));
        orders.insert(draft.id, own.unwrap_or(latest.1));
    }
    points.sort_by_key(|draft| (draft.point.at, orders.get(&draft.id).copied(), draft.id));
}

fn place(job: &Job, result: &RunResult) -> Place {
    Place {
        scenario: result.scenario.clone(),
        about: job.plan.scenario.about.clone(),
        stage: result.stage,
        target: result.target,
        seed: result.seed,
        mutant: result.mutant.clone(),
        controller: result.controller.clone(),
    }
}

/// The points with numbers instead of ids.
pub(super) fn numbered(drafts: Vec<Draft>, numbers: &BTreeMap<u64, u32>) -> Vec<Point> {
    let number = |id: Option<u64>| id.and_then(|id| numbers.get(&id).copied());
    // Whether the object is known completely after a write, by the id of the write.
    let mut incomplete: BTreeMap<u64, bool> = BTreeMap::new();
    let mut points = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let mut point = draft.point;
        point.number = number(Some(draft.id)).unwrap_or_default();
        let cause = draft.cause.and_then(|(link, id)| Some((link, number(Some(id))?)));
        (point.link, point.cause) = cause.unzip();
        point.seen = draft.seen.iter().filter_map(|id| number(Some(*id))).collect();
        point.previous = number(draft.previous);
        if let Some(previous) = draft.previous {
            point.incomplete |= incomplete.get(&previous).copied().unwrap_or(true);
        }
        incomplete.insert(draft.id, point.incomplete);
        points.push(point);
    }
    points
}

/// Marks the violated check. Returns its index.
fn violated(
    checks: &mut [Check],
    violated: Option<(CheckKind, String, Option<u64>)>,
    failure: Option<&FailureResult>,
    shown_by: Option<u32>,
) -> Option<usize> {
    let failure = failure?;
    let (kind, name) = match (violated, &failure.invariant) {
        (Some((kind, name, _)), _) => (kind, name),
        (None, Some(invariant)) => (CheckKind::Invariant, invariant.clone()),
        (None, None) => return None,
    };
    let index = checks
        .iter()
        .position(|check| check.kind == kind && check.name == name)?;
    let check = &mut checks[index];
    check.state = CheckState::Violated;
    check.violated = shown_by;
    if check.observed.is_empty() {
        observed(failure).clone_into(&mut check.observed);
    }
    Some(index)
}

/// What a violated invariant observed: the reason without the rule.
pub(super) fn observed(failure: &FailureResult) -> &str {
    let rule = failure.invariant.as_deref().and_then(|name| {
        let invariant = invariants::ALL.iter().find(|invariant| invariant.name == name)?;
        Some(format!("invariant {name} is broken ({}): ", invariant.statement))
    });
    let reason = failure.reason.as_str();
    rule.and_then(|rule| reason.strip_prefix(&rule)).unwrap_or(reason)
}

/// The verdict in one sentence.
fn sentence(result: &RunResult, unmet: &[Unmet]) -> String {
    let Some(failure) = &result.failure else {
        let lasted = short(Duration::from_secs_f64(result.stage_seconds.max(0.0)));
        return format!("The run passed after {lasted}: every expectation was met and no invariant was broken");
    };
    let after = short(Duration::from_secs_f64(failure.after_seconds.max(0.0)));
    let observed = observed(failure);
    match (&failure.invariant, failure.step) {
        (Some(invariant), _) => format!("Invariant {invariant} was broken at +{after}: {observed}"),
        (None, 0) => format!("The run failed at +{after}: {observed}"),
        (None, step) if failure.expectation && unmet.len() > 1 => {
            let holds = observed
                .strip_prefix("expected ")
                .and_then(|rest| rest.split(": ").next());
            let holds = holds.unwrap_or("expectation");
            format!(
                "Step {step} failed at +{after} ({holds}): {} conditions do not hold",
                unmet.len()
            )
        }
        (None, step) => format!("Step {step} failed at +{after}: {observed}"),
    }
}
