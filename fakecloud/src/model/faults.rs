//! The active fault rules: which rule hits a call, and their counters.

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
pub(super) struct CallInfo<'a> {
    pub(super) call: CloudCall,
    pub(super) machine: Option<&'a str>,
    /// The machine class's name and zone; empty: none.
    pub(super) class: &'a str,
    pub(super) zone: &'a str,
    /// The name that the client gives; empty: none.
    pub(super) client: &'a str,
    pub(super) now: Timestamp,
}

/// The effect of a call that a rule hits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Effect {
    /// The usual effect if the call succeeds, none if it fails.
    Plain,
    /// The usual effect, then the call fails.
    Done,
    /// A part of the effect, then the call fails.
    Part(Partial),
    /// The usual effect after this delay.
    Later(Duration),
    /// The usual effect without its last transition.
    Stuck,
    /// None, and the reply reports success.
    Lie,
    /// The usual effect, and the reply does not name the node.
    Nameless,
    /// The reply shows the ledger as it was at this time.
    Stale(Timestamp),
}

/// The consequences of a hit for a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hit {
    pub(super) id: String,
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) latency: Duration,
    pub(super) effect: Effect,
}

/// Why a rule was rejected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// The rule is invalid.
    #[error("the fault rule is not usable: {0}")]
    Unusable(#[from] FaultRuleError),
    /// A rule with this name exists.
    #[error("there is a fault rule {0:?} already: remove it first, or leave the name out")]
    Exists(String),
    /// The rule does not exist.
    #[error("there is no fault rule {0:?}")]
    Unknown(String),
}

/// All rules in the order in which they are evaluated.
#[derive(Debug, Default)]
pub struct Faults {
    faults: Vec<Fault>,
    added: u64,
    buckets: BTreeMap<String, Bucket>,
    /// Times of the last matching calls of rules with stale replies.
    calls: BTreeMap<String, VecDeque<Timestamp>>,
}

impl Faults {
    /// Appends a rule.
    ///
    /// # Errors
    /// The rule is invalid, or its name exists.
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

    /// Removes a rule and returns its counters.
    ///
    /// # Errors
    /// The rule does not exist.
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

    /// Restores rules with their counters.
    pub(super) fn restore(&mut self, faults: Vec<Fault>, added: u64) {
        self.faults = faults;
        self.added = added;
    }

    /// Number of generated names.
    pub(super) fn given(&self) -> u64 {
        self.added
    }

    /// Decides what happens to a call. The first rule that hits it decides; later rules do not count it.
    pub(super) fn decide(&mut self, info: &CallInfo<'_>, seed: &Seed, opened: Timestamp) -> Option<Hit> {
        for Fault {
            rule,
            seen,
            hits,
            added,
        } in &mut self.faults
        {
            if !matches(rule, info) || !is_active(rule, info.now, opened) {
                continue;
            }
            *seen += 1;
            if *seen <= rule.matches.skip || rule.matches.times.is_some_and(|times| *hits >= times) {
                continue;
            }
            // Each matching call of each rule has its own random stream, independent of earlier calls.
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
                if bucket.take(throttle.per_second, throttle.burst, info.now) {
                    continue;
                }
            }
            *hits += 1;
            let effect = match rule.action.stale {
                Some(Stale::By(by)) => Effect::Stale(earlier(info.now, by.0)),
                Some(Stale::Calls(back)) => {
                    let calls = self.calls.entry(rule.name.clone()).or_default();
                    calls.push_back(info.now);
                    let full = calls.len() > back as usize;
                    Effect::Stale(if full {
                        calls.pop_front().unwrap_or(*added)
                    } else {
                        *added
                    })
                }
                None => effect(rule),
            };
            return Some(Hit {
                id: rule.name.clone(),
                code: rule.answered(),
                message: message(rule, info.call),
                latency: rule.action.latency.unwrap_or_default().draw(&mut stream),
                effect,
            });
        }
        None
    }
}

/// `now - by`, saturating.
fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

fn matches(rule: &FaultRule, info: &CallInfo<'_>) -> bool {
    let wanted = &rule.matches;
    let fits = |pattern: &Option<String>, text: &str| pattern.as_deref().is_none_or(|it| glob::matches(it, text));
    // A rule about all calls that only delays or falsifies replies does not change calls about volumes.
    let changes = rule.answered() != Code::Ok || !info.call.is_about_volumes();
    wanted.call.map_or(changes, |call| call == info.call)
        && wanted.machine.as_deref().is_none_or(|pattern| {
            info.machine
                .is_some_and(|machine| glob::matches_machine(pattern, machine))
        })
        && fits(&wanted.class, info.class)
        && fits(&wanted.zone, info.zone)
        && fits(&wanted.client, info.client)
}

fn is_active(rule: &FaultRule, now: Timestamp, opened: Timestamp) -> bool {
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

fn message(rule: &FaultRule, call: CloudCall) -> String {
    match (&rule.action.message, rule.action.error) {
        (Some(message), _) => message.clone(),
        (None, Some(error)) => error.text().to_owned(),
        (None, None) if rule.action.lost_reply => {
            format!("the connection ended before the reply to {call} arrived")
        }
        (None, None) => format!("{call} failed by the fault rule {}", rule.name),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn info(call: CloudCall, machine: Option<&str>) -> CallInfo<'_> {
        CallInfo {
            call,
            machine,
            class: "pool",
            zone: "local-1",
            client: "mcm-0",
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

    fn hit(faults: &mut Faults, call: CloudCall, machine: Option<&str>) -> Option<Code> {
        faults
            .decide(&info(call, machine), &Seed::new(1), at(0))
            .map(|hit| hit.code)
    }

    #[test]
    fn a_rule_hits_a_limited_number_of_calls_after_the_skipped_ones() {
        let mut faults = rules([FaultRule::of("a", CloudCall::CreateMachine)
            .code(Code::Internal)
            .skip(1)
            .times(2)]);
        let outcomes: Vec<_> = (0..5)
            .map(|_| hit(&mut faults, CloudCall::CreateMachine, Some("x")))
            .collect();
        assert_eq!(outcomes, [None, Some(Code::Internal), Some(Code::Internal), None, None]);
        assert_eq!((faults.list()[0].seen, faults.list()[0].hits), (5, 2));
    }

    #[test]
    fn exhausted_rules_let_the_next_rule_hit() {
        let once = |id, code| FaultRule::of(id, CloudCall::CreateMachine).code(code).times(1);
        let mut faults = rules([
            once("a", Code::ResourceExhausted),
            once("b", Code::Unavailable),
            once("c", Code::Internal),
        ]);
        let outcomes: Vec<_> = (0..4)
            .map(|_| hit(&mut faults, CloudCall::CreateMachine, Some("x")))
            .collect();
        let expected = [Code::ResourceExhausted, Code::Unavailable, Code::Internal].map(Some);
        assert_eq!(outcomes[..3], expected);
        assert_eq!(outcomes[3], None);
    }

    #[test]
    fn a_rule_matches_by_call_and_machine() {
        let mut faults = rules([FaultRule::of("a", CloudCall::DeleteMachine)
            .code(Code::Aborted)
            .machine("worker-*")]);
        assert_eq!(
            hit(&mut faults, CloudCall::CreateMachine, Some("default/worker-1")),
            None
        );
        assert_eq!(hit(&mut faults, CloudCall::DeleteMachine, Some("default/other")), None);
        assert_eq!(hit(&mut faults, CloudCall::ListMachines, None), None);
        assert_eq!(
            hit(&mut faults, CloudCall::DeleteMachine, Some("default/worker-1")),
            Some(Code::Aborted)
        );
        let mut faults = rules([FaultRule::new("any").code(Code::Unavailable)]);
        assert_eq!(hit(&mut faults, CloudCall::ListMachines, None), Some(Code::Unavailable));
    }

    #[test]
    fn a_rule_gets_a_generated_name_and_names_are_unique() {
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
    fn a_rule_matches_by_class_zone_and_client() {
        for (class, zone, client, expected) in [
            ("po*", "local-*", "mcm-?", true),
            ("other", "", "", false),
            ("", "far", "", false),
            ("", "", "cluster-autoscaler", false),
        ] {
            let matches = format!("{{class: '{class}', zone: '{zone}', client: '{client}'}}");
            let mut faults = rules([read(&format!("{{match: {matches}, action: {{code: Internal}}}}"))]);
            let hit = faults.decide(&info(CloudCall::ListMachines, None), &Seed::new(1), at(0));
            assert_eq!(hit.is_some(), expected, "{class} {zone} {client}");
        }
    }

    #[test]
    fn a_rule_is_active_only_within_its_window() {
        let rule = read("{match: {window: {from: 60s, until: 120s}}, action: {code: Internal}}");
        let mut faults = rules([rule]);
        let hits: Vec<i64> = [59, 60, 119, 120]
            .into_iter()
            .filter(|second| {
                let info = CallInfo {
                    now: at(*second),
                    ..info(CloudCall::ListMachines, None)
                };
                faults.decide(&info, &Seed::new(1), at(0)).is_some()
            })
            .collect();
        assert_eq!(hits, [60, 119]);
        assert_eq!(faults.list()[0].seen, 2);
    }

    #[test]
    fn a_rule_hits_with_its_probability_independently_of_other_rules() {
        let rule = |name| {
            read(&format!(
                "{{name: {name}, match: {{call: createMachine, probability: 0.3}}, action: {{code: Internal}}}}"
            ))
        };
        let hits = |faults: &mut Faults| -> Vec<bool> {
            (0..1000)
                .map(|_| hit(faults, CloudCall::CreateMachine, None) == Some(Code::Internal))
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
    fn a_throttle_passes_calls_up_to_its_rate_and_hits_the_others() {
        let rule = read("{match: {throttle: {perSecond: 0.5, burst: 2}}, action: {code: Unavailable}}");
        let mut faults = rules([rule]);
        let passed: Vec<i64> = [0, 0, 0, 1, 2, 3, 10, 10, 10]
            .into_iter()
            .filter(|second| {
                let info = CallInfo {
                    now: at(*second),
                    ..info(CloudCall::ListMachines, None)
                };
                faults.decide(&info, &Seed::new(1), at(0)).is_none()
            })
            .collect();
        assert_eq!(passed, [0, 0, 2, 10, 10]);
    }

    #[test]
    fn a_reply_that_is_stale_by_calls_shows_the_state_at_an_earlier_call() {
        let rule = read("{match: {call: listMachines}, action: {stale: {calls: 2}}}");
        let mut faults = rules([rule]);
        let shown: Vec<Effect> = [10, 20, 30, 40]
            .into_iter()
            .filter_map(|second| {
                let info = CallInfo {
                    now: at(second),
                    ..info(CloudCall::ListMachines, None)
                };
                faults.decide(&info, &Seed::new(1), at(0)).map(|hit| hit.effect)
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
        assert_eq!(hit(&mut faults, call, machine), Some(Code::Internal));
        assert_eq!(hit(&mut faults, call, machine), None);
    }

    #[test]
    fn a_rule_without_an_effect_is_rejected() {
        let error = Faults::default().add(FaultRule::new("a"), at(0)).unwrap_err();
        assert!(error.to_string().contains("action.latency"), "{error}");
    }
}
