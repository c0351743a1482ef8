//! The record of what goes on: an interactive session, which has no scenario, no checks and no end, or a run in progress.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Recorder;
use super::finish::{Program, numbered, sort};
use crate::model::{Causes, Meta, Place, RunRecord, Span, Verdict};
use crate::{MOST_POINTS, VERSION, counters, limits};

/// What goes on.
#[derive(Clone, Debug)]
pub struct Session {
    /// Where it runs; the scenario of a session is the name of the session.
    pub place: Place,
    /// What was done so far, or what a run does, as a plan.
    pub plan: String,
    /// Its state in one sentence.
    pub sentence: String,
    /// The command that starts it again.
    pub replay: String,
    /// The program that runs it.
    pub program: Program,
}

impl Recorder {
    /// The record so far.
    pub fn so_far(&self, now: Timestamp, session: Session) -> RunRecord {
        let mut dropped = self.dropped.clone();
        if self.heartbeats > 0 {
            limits::add(
                &mut dropped,
                "writes that change nothing but heartbeats",
                self.heartbeats,
            );
        }
        let mut drafts = self.points.clone();
        limits::thin_out(&mut drafts, MOST_POINTS, &mut dropped);
        sort(&mut drafts);
        let numbers: BTreeMap<u64, u32> = drafts.iter().map(|draft| draft.id).zip(1..).collect();
        let points = numbered(drafts, &numbers);
        let spans = self.spans.clone().list().into_iter().map(|draft| Span {
            cause: draft.cause.and_then(|id| numbers.get(&id).copied()),
            ..draft.span
        });
        let spans: Vec<Span> = spans.collect();
        let lasted = self.micros(now);
        let meta = Meta {
            drydock: session.program.version,
            commit: session.program.commit,
            place: session.place,
            plan: session.plan,
            disturbances: Vec::new(),
            started: self.started,
            lasted,
            wall_seconds: std::time::Duration::from_micros(lasted.0).as_secs_f64(),
            trace: None,
            verdict: Verdict {
                passed: true,
                sentence: session.sentence,
                at: None,
                step: None,
                point: None,
            },
            replay: session.replay,
            causes: match self.causes_known {
                true => Causes::Recorded,
                false => Causes::Unknown,
            },
        };
        let mut checks = self.checks.invariants.clone();
        checks.extend(self.checks.expectations.values().cloned());
        let actors = self.actors.clone().list();
        let counters = counters::of(&actors, &spans, &points, self.watches.clone());
        let mut record = RunRecord {
            version: VERSION,
            meta,
            actors,
            spans,
            points,
            counters,
            checks,
            logs: self.logs.clone(),
            dropped,
        };
        limits::limit_states(&mut record);
        record
    }
}
