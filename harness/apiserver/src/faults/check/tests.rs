//! Every invalid rule and its error.

use rstest::rstest;

use crate::faults::{Action, Rule, parse};

#[rstest]
#[case::no_name("{action: {drop: {}}}", "fault rule \"number 1\": the rule: missing field `name`")]
#[case::empty_name("{name: '', action: {drop: {}}}", "name: it is empty")]
#[case::strange_name("{name: a/b, action: {drop: {}}}", "name: it is not a name; use at most 100 letters")]
#[case::unknown_field(
    "{name: a, action: {drop: {}}, when: now}",
    "unknown field `when`, expected one of `name`, `match`"
)]
#[case::unknown_word(
    "{name: a, match: {verb: [get]}, action: {drop: {}}}",
    "match.verb: unknown field `verb`, expected one of"
)]
#[case::unknown_verb(
    "{name: a, match: {verbs: [read]}, action: {drop: {}}}",
    "match.verbs[0]: unknown variant `read`"
)]
#[case::unknown_action(
    "{name: a, action: {dorp: {}}}",
    "action: unknown variant `dorp`, expected one of `delay`, `drop`"
)]
#[case::unknown_setting("{name: a, action: {delay: {for: 2s}}}", "action.delay.for: unknown field `for`")]
#[case::no_unit("{name: a, action: {delay: {by: 2}}}", "action.delay.by: invalid type: integer `2`")]
#[case::no_duration("{name: a, action: {delay: {by: soon}}}", "such as 90s, 1m30s or 250ms")]
#[case::no_delay(
    "{name: a, action: {delay: {by: 0s}}}",
    "action.delay.by: with zero the rule changes nothing"
)]
#[case::no_lag("{name: a, action: {lagWatch: {by: 0s}}}", "action.lagWatch.by: with zero")]
#[case::not_behind(
    "{name: a, action: {staleList: {by: {revisions: 0}}}}",
    "action.staleList.by: it is not behind"
)]
#[case::not_ago(
    "{name: a, action: {staleGet: {by: {duration: 0s}}}}",
    "write {duration: 30s} or {revisions: 5}"
)]
#[case::never(
    "{name: a, match: {times: 0}, action: {drop: {}}}",
    "match.times: with 0 the rule has no hits"
)]
#[case::improbable(
    "{name: a, match: {probability: 1.5}, action: {drop: {}}}",
    "match.probability: 1.5 is not a probability; write a number from 0 to 1"
)]
#[case::unlikely("{name: a, match: {probability: -0.1}, action: {drop: {}}}", "match.probability")]
#[case::backwards(
    "{name: a, match: {window: {from: 2m, until: 90s}}, action: {drop: {}}}",
    "match.window: it ends before it begins; make until later"
)]
#[case::empty_window(
    "{name: a, match: {window: {from: 2m, until: 2m}}, action: {drop: {}}}",
    "match.window: it ends"
)]
#[case::kind(
    "{name: a, match: {resource: Machine}, action: {drop: {}}}",
    "match.resource: \"Machine\" is a kind"
)]
#[case::empty_pattern(
    "{name: a, match: {client: ''}, action: {drop: {}}}",
    "match.client: an empty pattern"
)]
#[case::conflict_of_a_read(
    "{name: a, match: {verbs: [get]}, action: {fail: {code: 409}}}",
    "match.verbs: the action fail with code 409 does not apply to get; leave verbs out, or choose from create, update, patch"
)]
#[case::gone_write(
    "{name: a, match: {verbs: [create]}, action: {fail: {code: 410}}}",
    "choose from list, watch"
)]
#[case::frozen_list(
    "{name: a, match: {verbs: [list, watch]}, action: {freezeWatch: {}}}",
    "the action freezeWatch does not apply to list"
)]
#[case::stale_write(
    "{name: a, match: {verbs: [patch]}, action: {staleList: {by: {revisions: 1}}}}",
    "does not apply to patch"
)]
#[case::unknown_code(
    "{name: a, action: {fail: {code: 418}}}",
    "action.fail.code: there is no answer 418; choose from 401, 403, 409"
)]
#[case::gone_afterwards(
    "{name: a, action: {fail: {code: 410, at: afterCommit}}}",
    "action.fail.at: 410 answers reads"
)]
#[case::hurry(
    "{name: a, action: {fail: {code: 500, retryAfter: 1s}}}",
    "action.fail.retryAfter: no server sends it with 500"
)]
#[case::half_a_second(
    "{name: a, action: {fail: {code: 429, retryAfter: 500ms}}}",
    "it is sent in whole seconds"
)]
#[case::speechless(
    "{name: a, action: {fail: {code: 500, message: ''}}}",
    "action.fail.message: it is empty"
)]
#[case::half_a_partition(
    "{name: a, match: {verbs: [get]}, action: {partition: {how: hang}}}",
    "match.verbs: a partition cuts a client off from everything; leave it out"
)]
#[case::counted_partition(
    "{name: a, match: {times: 2}, action: {partition: {how: hang}}}",
    "match.times: a partition"
)]
#[case::negative("{name: a, match: {skip: -1}, action: {drop: {}}}", "match.skip: invalid value")]
#[case::endless("{name: a, action: {delay: {by: 1000y}}}", "action.delay.by")]
fn errors_name_the_field_and_the_fix(#[case] text: &str, #[case] expected: &str) {
    let error = parse(text).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(error.starts_with("fault rule \""), "{error}");
}

#[test]
fn nan_is_not_a_probability() {
    let mut rule = Rule::new("a", Action::FreezeWatch {});
    rule.matches.probability = Some(f64::NAN);
    assert_eq!(rule.check().unwrap_err().field, "match.probability");
}
