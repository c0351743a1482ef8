//! The rules in force: which call which of them strikes, and their counters.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use clock::Seed;
use jiff::{SignedDuration, Timestamp};
use mcm_api::cloud::Code;
use serde::{Deserialize, Serialize};

use super::limits::Bucket;
use super::{At, CloudCall, FaultRule, FaultRuleError, Partial, Stale, later};
use crate::glob;

/// A rule with its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The rule.
    pub rule: FaultRule,
    /// Matching calls so far.
    pub seen: u64,
    /// The number of these calls that the rule hit.
    pub hits: u64,
    /// When it was added.
    pub added: Timestamp,
}

/// A call as rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) operation: CloudCall,
    pub(super) machine: Option<&'a str>,
    /// The machine class's name and zone; empty where there is none.
    pub(super) class: &'a str,
    pub(super) zone: &'a str,
    /// Empty where it is not known.
    pub(super) caller: &'a str,
    pub(super) now: Timestamp,
}

/// What a call does instead of its work after a hit.
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
    #[error("there is a fault rule {0:?} already: remove it first, or leave the name out")]
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
    /// When it makes no sense, or its name is taken.
    pub fn add(&mut self, mut rule: FaultRule, now: Timestamp) -> Result<&Fault, FaultError> {
        rule.check()?;
        while rule.name.is_empty() {
            self.added += 1;
            let name = format!("fault-{}", self.added);
            if self.faults.iter().all(|fault| fault.rule.name != name) {
                rule.name = name;
            }
        }
        if self.faults.iter().any(|fault| fault.rule.name == rule.name) {
            return Err(FaultError::Exists(rule.name));
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
    pub fn remove(&mut self, name: &str) -> Result<Fault, FaultError> {
        let index = self.faults.iter().position(|fault| fault.rule.name == name);
        let fault = index
            .map(|index| self.faults.remove(index))
            .ok_or_else(|| FaultError::Unknown(name.to_owned()))?;
        self.buckets.remove(name);
        self.calls.remove(name);
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

    /// How many names were given.
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
            if !matches(rule, asked) || !is_in_force(rule, asked.now, opened) {
                continue;
            }
            *seen += 1;
            if *seen <= rule.matches.skip || rule.matches.times.is_some_and(|times| *hits >= times) {
                continue;
            }
            // The draws of a rule's matching calls are its own, and need no memory of earlier ones.
            let mut stream = seed.stream(&format!("fault/{}/{seen}", rule.name));
            if rule
                .matches
                .probability
                .is_some_and(|probability| !stream.chance(probability))
            {
                continue;
            }
            if let Some(throttle) = rule.matches.throttle {
                let bucket = self.buckets.entry(rule.name.clone()).or_default();
                if bucket.take(throttle.per_second, throttle.burst, asked.now) {
                    continue;
                }
            }
            *hits += 1;
            let effect = match rule.action.stale {
                Some(Stale::By(by)) => Effect::Stale(earlier(asked.now, by.0)),
                Some(Stale::Calls(back)) => {
                    let calls = self.calls.entry(rule.name.clone()).or_default();
                    calls.push_back(asked.now);
                    let full = calls.len() > back as usize;
                    Effect::Stale(if full {
                        calls.pop_front().unwrap_or(*added)
                    } else {
                        *added
                    })
                }
                None => effect(rule),
            };
            return Some(Fired {
                id: rule.name.clone(),
                code: rule.answered(),
                message: message(rule, asked.operation),
                latency: rule.action.latency.unwrap_or_default().draw(&mut stream),
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

fn matches(rule: &FaultRule, asked: &Asked<'_>) -> bool {
    let wanted = &rule.matches;
    let fits = |pattern: &Option<String>, text: &str| pattern.as_deref().is_none_or(|it| glob::matches(it, text));
    wanted.call.is_none_or(|call| call == asked.operation)
        && wanted.machine.as_deref().is_none_or(|pattern| {
            asked
                .machine
                .is_some_and(|machine| glob::matches_machine(pattern, machine))
        })
        && fits(&wanted.class, asked.class)
        && fits(&wanted.zone, asked.zone)
        && fits(&wanted.client, asked.caller)
}

fn is_in_force(rule: &FaultRule, now: Timestamp, opened: Timestamp) -> bool {
    rule.matches.window.is_none_or(|window| {
        now >= later(opened, window.from.unwrap_or_default().0)
            && window.until.is_none_or(|until| now < later(opened, until.0))
    })
}

fn effect(rule: &FaultRule) -> Effect {
    let action = &rule.action;
    let delay = action.effect_delay.unwrap_or_default().0;
    if action.at == At::AfterCommit || action.lost_reply {
        Effect::Done
    } else if let Some(partial) = action.partial {
        Effect::Part(partial)
    } else if action.stuck {
        Effect::Stuck
    } else if action.lie {
        Effect::Lie
    } else if action.nameless {
        Effect::Nameless
    } else if !delay.is_zero() {
        Effect::Later(delay)
    } else {
        Effect::Plain
    }
}

fn message(rule: &FaultRule, operation: CloudCall) -> String {
    match (&rule.action.message, rule.action.error) {
        (Some(message), _) => message.clone(),
        (None, Some(error)) => error.text().to_owned(),
        (None, None) if rule.action.lost_reply => {
            format!("the connection ended before the reply to {operation} arrived")
        }
        (None, None) => format!("{operation} failed by the fault rule {}", rule.name),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn asked(operation: CloudCall, machine: Option<&str>) -> Asked<'_> {
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

    fn read(yaml: &str) -> FaultRule {
        serde_saphyr::from_str(yaml).unwrap()
    }

    fn fired(faults: &mut Faults, operation: CloudCall, machine: Option<&str>) -> Option<Code> {
        faults
            .decide(&asked(operation, machine), &Seed::new(1), at(0))
            .map(|fired| fired.code)
    }

    #[test]
    fn a_rule_skips_then_fires_so_often_then_rests() {
        let mut faults = rules([FaultRule::of("a", CloudCall::CreateMachine)
            .code(Code::Internal)
            .skip(1)
            .times(2)]);
        let outcomes: Vec<_> = (0..5)
            .map(|_| fired(&mut faults, CloudCall::CreateMachine, Some("x")))
            .collect();
        assert_eq!(outcomes, [None, Some(Code::Internal), Some(Code::Internal), None, None]);
        assert_eq!((faults.list()[0].seen, faults.list()[0].hits), (5, 2));
    }

    #[test]
    fn rules_fire_one_after_the_other() {
        let once = |id, code| FaultRule::of(id, CloudCall::CreateMachine).code(code).times(1);
        let mut faults = rules([
            once("a", Code::ResourceExhausted),
            once("b", Code::Unavailable),
            once("c", Code::Internal),
        ]);
        let outcomes: Vec<_> = (0..4)
            .map(|_| fired(&mut faults, CloudCall::CreateMachine, Some("x")))
            .collect();
        let expected = [Code::ResourceExhausted, Code::Unavailable, Code::Internal].map(Some);
        assert_eq!(outcomes[..3], expected);
        assert_eq!(outcomes[3], None);
    }

    #[test]
    fn a_rule_matches_by_operation_and_machine() {
        let mut faults = rules([FaultRule::of("a", CloudCall::DeleteMachine)
            .code(Code::Aborted)
            .machine("worker-*")]);
        assert_eq!(
            fired(&mut faults, CloudCall::CreateMachine, Some("default/worker-1")),
            None
        );
        assert_eq!(
            fired(&mut faults, CloudCall::DeleteMachine, Some("default/other")),
            None
        );
        assert_eq!(fired(&mut faults, CloudCall::ListMachines, None), None);
        assert_eq!(
            fired(&mut faults, CloudCall::DeleteMachine, Some("default/worker-1")),
            Some(Code::Aborted)
        );
        let mut faults = rules([FaultRule::new("any").code(Code::Unavailable)]);
        assert_eq!(
            fired(&mut faults, CloudCall::ListMachines, None),
            Some(Code::Unavailable)
        );
    }

    #[test]
    fn a_rule_gets_a_name_and_keeps_it_to_itself() {
        let mut faults = Faults::default();
        let rule = FaultRule::new("").code(Code::Internal);
        assert_eq!(faults.add(rule.clone(), at(0)).unwrap().rule.name, "fault-1");
        assert_eq!(faults.add(rule, at(0)).unwrap().rule.name, "fault-2");
        let same = FaultRule::new("fault-1").code(Code::Internal);
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
            let matches = format!("{{class: '{class}', zone: '{zone}', client: '{caller}'}}");
            let mut faults = rules([read(&format!("{{match: {matches}, action: {{code: Internal}}}}"))]);
            let fired = faults.decide(&asked(CloudCall::ListMachines, None), &Seed::new(1), at(0));
            assert_eq!(fired.is_some(), expected, "{class} {zone} {caller}");
        }
    }

    #[test]
    fn a_rule_is_in_force_within_its_window_only() {
        let rule = read("{match: {window: {from: 60s, until: 120s}}, action: {code: Internal}}");
        let mut faults = rules([rule]);
        let hits: Vec<i64> = [59, 60, 119, 120]
            .into_iter()
            .filter(|second| {
                let asked = Asked {
                    now: at(*second),
                    ..asked(CloudCall::ListMachines, None)
                };
                faults.decide(&asked, &Seed::new(1), at(0)).is_some()
            })
            .collect();
        assert_eq!(hits, [60, 119]);
        assert_eq!(faults.list()[0].seen, 2);
    }

    #[test]
    fn a_rule_strikes_by_chance_as_often_as_it_says_and_other_rules_change_nothing() {
        let rule = |name| {
            read(&format!(
                "{{name: {name}, match: {{call: createMachine, probability: 0.3}}, action: {{code: Internal}}}}"
            ))
        };
        let hits = |faults: &mut Faults| -> Vec<bool> {
            (0..1000)
                .map(|_| fired(faults, CloudCall::CreateMachine, None) == Some(Code::Internal))
                .collect()
        };
        let alone = hits(&mut rules([rule("a")]));
        let count = alone.iter().filter(|hit| **hit).count();
        assert!((250..350).contains(&count), "{count} of 1000");
        let mut both = rules([
            rule("a"),
            FaultRule::of("b", CloudCall::ListMachines).code(Code::Aborted),
        ]);
        assert_eq!(hits(&mut both), alone);
        assert_ne!(hits(&mut rules([rule("c")])), alone);
    }

    #[test]
    fn a_throttle_lets_so_many_calls_pass_and_strikes_the_others() {
        let rule = read("{match: {throttle: {perSecond: 0.5, burst: 2}}, action: {code: Unavailable}}");
        let mut faults = rules([rule]);
        let passed: Vec<i64> = [0, 0, 0, 1, 2, 3, 10, 10, 10]
            .into_iter()
            .filter(|second| {
                let asked = Asked {
                    now: at(*second),
                    ..asked(CloudCall::ListMachines, None)
                };
                faults.decide(&asked, &Seed::new(1), at(0)).is_none()
            })
            .collect();
        assert_eq!(passed, [0, 0, 2, 10, 10]);
    }

    #[test]
    fn a_stale_answer_by_calls_shows_the_call_so_many_before() {
        let rule = read("{match: {call: listMachines}, action: {stale: {calls: 2}}}");
        let mut faults = rules([rule]);
        let shown: Vec<Effect> = [10, 20, 30, 40]
            .into_iter()
            .filter_map(|second| {
                let asked = Asked {
                    now: at(second),
                    ..asked(CloudCall::ListMachines, None)
                };
                faults.decide(&asked, &Seed::new(1), at(0)).map(|fired| fired.effect)
            })
            .collect();
        assert_eq!(shown, [at(0), at(0), at(10), at(20)].map(Effect::Stale));
    }

    #[test]
    fn a_rule_in_a_journal_of_an_older_release_is_read() {
        let stored = r#"{"rule": {"id": "a", "operation": "get_status", "machine": "m-*", "skip": 1, "times": 2,
            "window": {"from": "0s"}, "code": "Internal", "latency": "0s", "effectBeforeError": false,
            "lostReply": false, "effectDelay": "0s", "stuck": false, "lie": false, "nameless": false},
            "seen": 3, "hits": 1, "added": "1970-01-01T00:00:00Z"}"#;
        let fault: Fault = serde_json::from_str(stored).unwrap();
        assert_eq!((fault.rule.name.as_str(), fault.seen, fault.hits), ("a", 3, 1));
        let mut faults = Faults::default();
        faults.restore(vec![fault], 0);
        let machine = Some("default/m-1");
        let call = CloudCall::GetMachineStatus;
        assert_eq!(fired(&mut faults, call, machine), Some(Code::Internal));
        assert_eq!(fired(&mut faults, call, machine), None);
    }

    #[test]
    fn a_rule_that_changes_nothing_is_refused() {
        let error = Faults::default().add(FaultRule::new("a"), at(0)).unwrap_err();
        assert!(error.to_string().contains("action.latency"), "{error}");
    }
}
