//! The rules in force: which call which of them strikes, and their counters.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use clock::Seed;
use jiff::{SignedDuration, Timestamp};
use mcm_api::cloud::Code;
use serde::{Deserialize, Serialize};

use super::fault::{FaultRule, Operation, Partial, Stale};
use super::fault_error::FaultRuleError;
use super::later;
use super::limits::Bucket;
use crate::glob;

/// A rule with its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The rule.
    pub rule: FaultRule,
    /// Matching calls so far.
    pub seen: u64,
    /// Of these, calls that the rule struck.
    pub hits: u64,
    /// When it was added.
    pub added: Timestamp,
}

/// A call as rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) operation: Operation,
    pub(super) machine: Option<&'a str>,
    /// The machine class's name and zone; empty where there is none.
    pub(super) class: &'a str,
    pub(super) zone: &'a str,
    /// Empty where it is not known.
    pub(super) caller: &'a str,
    pub(super) now: Timestamp,
}

/// What a struck call does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Effect {
    /// Its work, if it is to succeed; nothing, if it is to fail.
    Plain,
    /// Its work, and then it fails.
    Done,
    /// A part of its work, and then it fails.
    Part(Partial),
    /// Its work, so much later.
    Later(Duration),
    /// Its work, of which the last step never comes.
    Stuck,
    /// Nothing, and it says that it did.
    Lie,
    /// Its work, and the answer does not name the node.
    Nameless,
    /// It looks at the ledger as it was then.
    Stale(Timestamp),
}

/// What a rule that fired does to a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fired {
    pub(super) id: String,
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) latency: Duration,
    pub(super) effect: Effect,
}

/// Why a rule was not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// The rule makes no sense.
    #[error("the fault rule is not usable: {0}")]
    Unusable(#[from] FaultRuleError),
    /// There is such a rule already.
    #[error("there is a fault rule {0:?} already: remove it first, or leave the id out")]
    Exists(String),
    /// There is no such rule.
    #[error("there is no fault rule {0:?}")]
    Unknown(String),
}

/// All rules in the order in which they are asked.
#[derive(Debug, Default)]
pub struct Faults {
    faults: Vec<Fault>,
    added: u64,
    buckets: BTreeMap<String, Bucket>,
    /// When the last matching calls of rules about stale answers were.
    calls: BTreeMap<String, VecDeque<Timestamp>>,
}

impl Faults {
    /// Adds a rule behind the others.
    ///
    /// # Errors
    /// When it makes no sense, or its id is taken.
    pub fn add(&mut self, mut rule: FaultRule, now: Timestamp) -> Result<&Fault, FaultError> {
        rule.check()?;
        while rule.id.is_empty() {
            self.added += 1;
            let id = format!("fault-{}", self.added);
            if self.faults.iter().all(|fault| fault.rule.id != id) {
                rule.id = id;
            }
        }
        if self.faults.iter().any(|fault| fault.rule.id == rule.id) {
            return Err(FaultError::Exists(rule.id));
        }
        self.faults.push(Fault {
            rule,
            seen: 0,
            hits: 0,
            added: now,
        });
        Ok(&self.faults[self.faults.len() - 1])
    }

    /// Removes a rule and answers its counters.
    ///
    /// # Errors
    /// When there is no such rule.
    pub fn remove(&mut self, id: &str) -> Result<Fault, FaultError> {
        let index = self.faults.iter().position(|fault| fault.rule.id == id);
        let fault = index
            .map(|index| self.faults.remove(index))
            .ok_or_else(|| FaultError::Unknown(id.to_owned()))?;
        self.buckets.remove(id);
        self.calls.remove(id);
        Ok(fault)
    }

    /// All rules with their counters.
    pub fn list(&self) -> &[Fault] {
        &self.faults
    }

    /// Puts rules with their counters back in force.
    pub(super) fn restore(&mut self, faults: Vec<Fault>, added: u64) {
        self.faults = faults;
        self.added = added;
    }

    /// How many ids were given.
    pub(super) fn given(&self) -> u64 {
        self.added
    }

    /// What happens to a call. The first rule that fires decides; rules after it do not see it.
    pub(super) fn decide(&mut self, asked: &Asked<'_>, seed: &Seed, opened: Timestamp) -> Option<Fired> {
        for Fault {
            rule,
            seen,
            hits,
            added,
        } in &mut self.faults
        {
            if !rule.matches(asked) || !rule.is_in_force(asked.now, opened) {
                continue;
            }
            *seen += 1;
            if *seen <= rule.skip || rule.times.is_some_and(|times| *hits >= times) {
                continue;
            }
            // The draws of a rule's matching calls are its own, and need no memory of earlier ones.
            let mut stream = seed.stream(&format!("fault/{}/{seen}", rule.id));
            if rule.probability.is_some_and(|probability| !stream.chance(probability)) {
                continue;
            }
            if let Some(throttle) = rule.throttle {
                let bucket = self.buckets.entry(rule.id.clone()).or_default();
                if bucket.take(throttle.per_second, throttle.burst, asked.now) {
                    continue;
                }
            }
            *hits += 1;
            let effect = match rule.stale {
                Some(Stale::By(by)) => Effect::Stale(earlier(asked.now, by.0)),
                Some(Stale::Calls(back)) => {
                    let calls = self.calls.entry(rule.id.clone()).or_default();
                    calls.push_back(asked.now);
                    let full = calls.len() > back as usize;
                    Effect::Stale(if full {
                        calls.pop_front().unwrap_or(*added)
                    } else {
                        *added
                    })
                }
                None => rule.effect(),
            };
            return Some(Fired {
                id: rule.id.clone(),
                code: rule.answered(),
                message: rule.says(asked.operation),
                latency: rule.latency.draw(&mut stream),
                effect,
            });
        }
        None
    }
}

/// `now` less `by`; the beginning of time when that is before it.
fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

impl FaultRule {
    fn matches(&self, asked: &Asked<'_>) -> bool {
        let fits = |pattern: &str, text: &str| pattern.is_empty() || glob::matches(pattern, text);
        self.operation.is_none_or(|wanted| wanted == asked.operation)
            && (self.machine.is_empty()
                || asked
                    .machine
                    .is_some_and(|machine| glob::matches_machine(&self.machine, machine)))
            && fits(&self.class, asked.class)
            && fits(&self.zone, asked.zone)
            && fits(&self.caller, asked.caller)
    }

    fn is_in_force(&self, now: Timestamp, opened: Timestamp) -> bool {
        self.window.is_none_or(|window| {
            now >= later(opened, window.from.0) && window.until.is_none_or(|until| now < later(opened, until.0))
        })
    }

    fn effect(&self) -> Effect {
        if self.effect_before_error || self.lost_reply {
            Effect::Done
        } else if let Some(partial) = self.partial {
            Effect::Part(partial)
        } else if self.stuck {
            Effect::Stuck
        } else if self.lie {
            Effect::Lie
        } else if self.nameless {
            Effect::Nameless
        } else if !self.effect_delay.0.is_zero() {
            Effect::Later(self.effect_delay.0)
        } else {
            Effect::Plain
        }
    }

    fn says(&self, operation: Operation) -> String {
        match (self.message.as_str(), self.error) {
            ("", Some(error)) => error.text().to_owned(),
            ("", None) if self.lost_reply => format!("the connection ended before the reply to {operation} arrived"),
            ("", None) => format!("{operation} failed by the fault rule {}", self.id),
            (message, _) => message.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use mcm_api::duration::GoDuration;

    use super::super::fault::{Throttle, Window};
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn asked(operation: Operation, machine: Option<&str>) -> Asked<'_> {
        Asked {
            operation,
            machine,
            class: "pool",
            zone: "local-1",
            caller: "mcm-0",
            now: at(0),
        }
    }

    fn rules(rules: impl IntoIterator<Item = FaultRule>) -> Faults {
        let mut faults = Faults::default();
        for rule in rules {
            faults.add(rule, at(0)).unwrap();
        }
        faults
    }

    fn fired(faults: &mut Faults, operation: Operation, machine: Option<&str>) -> Option<Code> {
        faults
            .decide(&asked(operation, machine), &Seed::new(1), at(0))
            .map(|fired| fired.code)
    }

    #[test]
    fn a_rule_skips_then_fires_so_often_then_rests() {
        let mut faults = rules([FaultRule {
            skip: 1,
            times: Some(2),
            ..FaultRule::new("a", Some(Operation::Create), Code::Internal)
        }]);
        let outcomes: Vec<_> = (0..5)
            .map(|_| fired(&mut faults, Operation::Create, Some("x")))
            .collect();
        assert_eq!(outcomes, [None, Some(Code::Internal), Some(Code::Internal), None, None]);
        assert_eq!((faults.list()[0].seen, faults.list()[0].hits), (5, 2));
    }

    #[test]
    fn rules_fire_one_after_the_other() {
        let once = |id, code| FaultRule {
            times: Some(1),
            ..FaultRule::new(id, Some(Operation::Create), code)
        };
        let mut faults = rules([
            once("a", Code::ResourceExhausted),
            once("b", Code::Unavailable),
            once("c", Code::Internal),
        ]);
        let outcomes: Vec<_> = (0..4)
            .map(|_| fired(&mut faults, Operation::Create, Some("x")))
            .collect();
        let expected = [Code::ResourceExhausted, Code::Unavailable, Code::Internal].map(Some);
        assert_eq!(outcomes[..3], expected);
        assert_eq!(outcomes[3], None);
    }

    #[test]
    fn a_rule_matches_by_operation_and_machine() {
        let mut faults = rules([FaultRule {
            machine: "worker-*".to_owned(),
            ..FaultRule::new("a", Some(Operation::Delete), Code::Aborted)
        }]);
        assert_eq!(fired(&mut faults, Operation::Create, Some("default/worker-1")), None);
        assert_eq!(fired(&mut faults, Operation::Delete, Some("default/other")), None);
        assert_eq!(fired(&mut faults, Operation::List, None), None);
        assert_eq!(
            fired(&mut faults, Operation::Delete, Some("default/worker-1")),
            Some(Code::Aborted)
        );
        let mut faults = rules([FaultRule::new("any", None, Code::Unavailable)]);
        assert_eq!(fired(&mut faults, Operation::List, None), Some(Code::Unavailable));
    }

    #[test]
    fn a_rule_gets_an_id_and_keeps_it_to_itself() {
        let mut faults = Faults::default();
        let rule = FaultRule::new("", None, Code::Internal);
        assert_eq!(faults.add(rule.clone(), at(0)).unwrap().rule.id, "fault-1");
        assert_eq!(faults.add(rule, at(0)).unwrap().rule.id, "fault-2");
        let same = FaultRule::new("fault-1", None, Code::Internal);
        assert_eq!(faults.add(same, at(0)), Err(FaultError::Exists("fault-1".to_owned())));
        faults.remove("fault-1").unwrap();
        assert_eq!(faults.remove("fault-1"), Err(FaultError::Unknown("fault-1".to_owned())));
    }

    #[test]
    fn a_rule_matches_by_class_zone_and_caller() {
        for (class, zone, caller, expected) in [
            ("po*", "local-*", "mcm-?", true),
            ("other", "", "", false),
            ("", "far", "", false),
            ("", "", "cluster-autoscaler", false),
        ] {
            let mut faults = rules([FaultRule {
                class: class.to_owned(),
                zone: zone.to_owned(),
                caller: caller.to_owned(),
                ..FaultRule::new("a", None, Code::Internal)
            }]);
            let fired = faults.decide(&asked(Operation::List, None), &Seed::new(1), at(0));
            assert_eq!(fired.is_some(), expected, "{class} {zone} {caller}");
        }
    }

    #[test]
    fn a_rule_is_in_force_within_its_window_only() {
        let window = Window {
            from: GoDuration(Duration::from_secs(60)),
            until: Some(GoDuration(Duration::from_secs(120))),
        };
        let mut faults = rules([FaultRule {
            window: Some(window),
            ..FaultRule::new("a", None, Code::Internal)
        }]);
        let struck: Vec<i64> = [59, 60, 119, 120]
            .into_iter()
            .filter(|second| {
                let asked = Asked {
                    now: at(*second),
                    ..asked(Operation::List, None)
                };
                faults.decide(&asked, &Seed::new(1), at(0)).is_some()
            })
            .collect();
        assert_eq!(struck, [60, 119]);
        assert_eq!(faults.list()[0].seen, 2);
    }

    #[test]
    fn a_rule_strikes_by_chance_as_often_as_it_says_and_other_rules_change_nothing() {
        let rule = |id| FaultRule {
            probability: Some(0.3),
            ..FaultRule::new(id, Some(Operation::Create), Code::Internal)
        };
        let struck = |faults: &mut Faults| -> Vec<bool> {
            (0..1000)
                .map(|_| fired(faults, Operation::Create, None) == Some(Code::Internal))
                .collect()
        };
        let alone = struck(&mut rules([rule("a")]));
        let count = alone.iter().filter(|struck| **struck).count();
        assert!((250..350).contains(&count), "{count} of 1000");
        let mut both = rules([rule("a"), FaultRule::new("b", Some(Operation::List), Code::Aborted)]);
        assert_eq!(struck(&mut both), alone);
        assert_ne!(struck(&mut rules([rule("c")])), alone);
    }

    #[test]
    fn a_throttle_lets_so_many_calls_pass_and_strikes_the_others() {
        let mut faults = rules([FaultRule {
            throttle: Some(Throttle {
                per_second: 0.5,
                burst: 2,
            }),
            ..FaultRule::new("a", None, Code::Unavailable)
        }]);
        let passed: Vec<i64> = [0, 0, 0, 1, 2, 3, 10, 10, 10]
            .into_iter()
            .filter(|second| {
                let asked = Asked {
                    now: at(*second),
                    ..asked(Operation::List, None)
                };
                faults.decide(&asked, &Seed::new(1), at(0)).is_none()
            })
            .collect();
        assert_eq!(passed, [0, 0, 2, 10, 10]);
    }

    #[test]
    fn a_stale_answer_by_calls_shows_the_call_so_many_before() {
        let mut faults = rules([FaultRule {
            stale: Some(Stale::Calls(2)),
            ..FaultRule::new("a", Some(Operation::List), Code::Ok)
        }]);
        let shown: Vec<Effect> = [10, 20, 30, 40]
            .into_iter()
            .filter_map(|second| {
                let asked = Asked {
                    now: at(second),
                    ..asked(Operation::List, None)
                };
                faults.decide(&asked, &Seed::new(1), at(0)).map(|fired| fired.effect)
            })
            .collect();
        assert_eq!(shown, [at(0), at(0), at(10), at(20)].map(Effect::Stale));
    }

    #[test]
    fn a_rule_that_changes_nothing_is_refused() {
        let error = Faults::default()
            .add(FaultRule::new("a", None, Code::Ok), at(0))
            .unwrap_err();
        assert!(error.to_string().contains("a latency"), "{error}");
    }
}
