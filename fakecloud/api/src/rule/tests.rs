//! New and old spellings of rules.

use rstest::rstest;
use serde_json::Value;

use super::*;
use crate::Deprecations;

fn rule(text: &str) -> FaultRule {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    serde_saphyr::from_str::<FaultRule>(text).unwrap_err().to_string()
}

/// Each old field and its new spelling, with the other fields that the rule needs.
const RENAMED: [(&str, &str); 34] = [
    ("{id: a}", "{name: a}"),
    ("{operation: create}", "{match: {call: createMachine}}"),
    ("{operation: initialize}", "{match: {call: initializeMachine}}"),
    ("{operation: delete}", "{match: {call: deleteMachine}}"),
    ("{operation: get_status}", "{match: {call: getMachineStatus}}"),
    ("{operation: list}", "{match: {call: listMachines}}"),
    ("{operation: volumes}", "{match: {call: getVolumeIDs}}"),
    ("{operation: update}", "{match: {call: updateMachine}}"),
    ("{operation: attach}", "{match: {call: attachVolume}}"),
    ("{operation: detach}", "{match: {call: detachVolume}}"),
    ("{call: createMachine}", "{match: {call: createMachine}}"),
    ("{machine: 'm-*'}", "{match: {machine: 'm-*'}}"),
    ("{class: a}", "{match: {class: a}}"),
    ("{zone: a}", "{match: {zone: a}}"),
    ("{caller: a}", "{match: {client: a}}"),
    ("{skip: 1}", "{match: {skip: 1}}"),
    ("{times: 2}", "{match: {times: 2}}"),
    ("{probability: 0.5}", "{match: {probability: 0.5}}"),
    (
        "{window: {from: 1m, until: 2m}}",
        "{match: {window: {from: 1m, until: 2m}}}",
    ),
    (
        "{throttle: {perSecond: 2}}",
        "{match: {throttle: {perSecond: 2, burst: 1}}}",
    ),
    ("{code: Internal}", "{action: {code: Internal}}"),
    ("{error: quota}", "{action: {error: quota}}"),
    ("{message: text}", "{action: {message: text}}"),
    ("{latency: 1s-3s}", "{action: {latency: 1s-3s}}"),
    ("{effectBeforeError: true}", "{action: {at: afterCommit}}"),
    ("{afterEffect: true}", "{action: {at: afterCommit}}"),
    ("{lostReply: true}", "{action: {lostReply: true}}"),
    ("{effectDelay: 5m}", "{action: {effectDelay: 5m}}"),
    ("{stuck: true}", "{action: {stuck: true}}"),
    ("{partial: disks}", "{action: {partial: disks}}"),
    ("{stale: {calls: 3}}", "{action: {stale: {calls: 3}}}"),
    ("{lie: true}", "{action: {lie: true}}"),
    ("{nameless: true}", "{action: {nameless: true}}"),
    ("{effect: {stale: 90s}}", "{action: {stale: {by: 90s}}}"),
];

#[test]
fn each_old_spelling_is_read_as_the_new_one_and_never_written() {
    for (old, new) in RENAMED {
        let value = rule(new);
        assert_eq!(rule(old), value, "{old}");
        assert_ne!(value, FaultRule::new(""), "{new} has an effect");
        for written in [
            serde_saphyr::to_string(&value).unwrap(),
            serde_json::to_string(&value).unwrap(),
        ] {
            assert_eq!(rule(&written), value, "{written}");
            let mut found = Deprecations::default();
            found.add_rule("a", "", &serde_saphyr::from_str::<Value>(&written).unwrap());
            assert_eq!(found, Deprecations::default(), "{written}");
        }
    }
}

#[test]
fn every_old_field_is_tested_and_reported() {
    for (field, path) in old::FIELDS {
        assert!(
            RENAMED.iter().any(|(old, _)| old.starts_with(&format!("{{{field}:"))),
            "{field}"
        );
        let mut found = Deprecations::default();
        found.add_rule("a", "inject", &serde_json::json!({ field: true }));
        let line = found.iter().next().unwrap().to_string();
        assert!(
            line.starts_with(&format!("a: inject.{field} is now inject.{path}")),
            "{line}"
        );
    }
}

#[rstest]
#[case("lie", "{action: {lie: true}}")]
#[case("stuck", "{action: {stuck: true}}")]
#[case("onlyNics", "{action: {partial: nics}}")]
#[case("nameless", "{action: {nameless: true}}")]
#[case("{stale: 30s}", "{action: {stale: {by: 30s}}}")]
fn each_old_effect_of_scenarios_has_a_new_field(#[case] effect: &str, #[case] new: &str) {
    assert_eq!(rule(&format!("{{effect: {effect}}}")), rule(new));
}

#[test]
fn values_without_effect_count_as_absent() {
    let stored = r#"{"id":"slow","skip":0,"code":"OK","latency":"1s","effectBeforeError":false,"lostReply":false,
        "effectDelay":"0s","stuck":false,"lie":false,"nameless":false,"machine":"","message":""}"#;
    let mut read: FaultRule = serde_json::from_str(stored).unwrap();
    assert_eq!(
        read.action.effect_delay.take().map(|delay| delay.0.is_zero()),
        Some(true)
    );
    assert_eq!(read, rule("{name: slow, action: {latency: 1s}}"));
}

#[rstest]
#[case("{machine: a, match: {machine: a}}", "`match.machine` beside `machine`")]
#[case("{match: {machine: a}, machine: b}", "`machine` beside `match.machine`")]
#[case("{id: a, name: a}", "`name` beside `id`")]
#[case("{operation: create, call: createMachine}", "`call` beside `operation`")]
#[case("{caller: a, match: {client: a}}", "`match.client` beside `caller`")]
#[case(
    "{afterEffect: false, action: {at: afterCommit}}",
    "`action.at` beside `afterEffect`"
)]
#[case("{effect: lie, action: {lie: false}}", "`action.lie` beside `effect`")]
#[case("{action: {partial: nics}, effect: onlyNics}", "`effect` beside `action.partial`")]
#[case("{skip: 0, match: {skip: 1}}", "`match.skip` beside `skip`")]
fn two_spellings_of_one_field_are_rejected_and_both_are_named(#[case] text: &str, #[case] expected: &str) {
    let error = refused(text);
    assert!(
        error.contains(expected) && error.contains("one spelling of the field"),
        "{error}"
    );
    let mixed = rule("{times: 2, match: {machine: a}}");
    assert_eq!(
        mixed,
        rule("{match: {times: 2, machine: a}}"),
        "other fields may be mixed"
    );
}

#[rstest]
#[case::of_a_rule("name: a\nactoin: {}\n", "line 2", &["actoin", "name, match, action"])]
#[case::of_a_match("name: a\nmatch:\n  cal: createMachine\n", "line 3", &["cal", "client"])]
#[case::an_old_name_in_a_new_place("match:\n  skip: 1\n  caller: a\n", "line 3", &["caller", "client"])]
#[case::of_an_action("action:\n  code: Internal\n  efect: 1\n", "line 3", &["efect", "lostReply"])]
#[case::a_call("match:\n  call: creatMachine\n", "line 2", &["creatMachine", "createMachine"])]
#[case::a_code("action:\n  code: Broken\n", "line 2", &["Broken", "ResourceExhausted"])]
#[case::a_number("match:\n  times: -1\n", "line 2", &["invalid u64"])]
#[case::a_delay("action:\n  latency: soon\n", "line 2", &["soon", "10s-60s"])]
#[case::two_spellings("skip: 1\nmatch:\n  skip: 1\n", "line 3", &["`skip`", "`match.skip`"])]
fn an_error_names_its_line_and_its_field(#[case] text: &str, #[case] place: &str, #[case] expected: &[&str]) {
    let error = refused(text);
    let first = error.lines().next().unwrap();
    assert!(first.contains(place), "{error}");
    for part in expected {
        assert!(first.contains(part), "{part}: {error}");
    }
}

#[rstest]
#[case("{}", "the rule has no effect")]
#[case("{match: {times: 0}, action: {code: Internal}}", "match.times is 0")]
#[case("{match: {probability: 1.5}, action: {code: Internal}}", "match.probability is 1.5")]
#[case(
    "{match: {window: {from: 2m, until: 1m}}, action: {code: Internal}}",
    "match.window.until must be later"
)]
#[case(
    "{match: {throttle: {perSecond: 0}}, action: {code: Internal}}",
    "match.throttle.perSecond is 0"
)]
#[case("{match: {throttle: {perSecond: 1}}}", "returns no error")]
#[case(
    "{match: {call: createMachine}, action: {code: Internal, lie: true}}",
    "action.lie requires a call that succeeds"
)]
#[case(
    "{match: {call: createMachine}, action: {stuck: true, lie: true}}",
    "action.stuck and action.lie exclude each other"
)]
#[case(
    "{match: {call: listMachines}, action: {stuck: true}}",
    "action.stuck is for creations and deletions"
)]
#[case(
    "{match: {call: detachVolume}, action: {effectDelay: 5s}}",
    "action.effectDelay is for creations, deletions and attachments"
)]
#[case("{action: {effectDelay: 5s}}", "createMachine, deleteMachine or attachVolume")]
#[case(
    "{match: {call: attachVolume}, action: {code: Internal, effectDelay: 5s}}",
    "action.effectDelay requires a call that succeeds"
)]
#[case(
    "{match: {call: deleteMachine}, action: {code: Internal, partial: nics}}",
    "action.partial does not apply to this match.call"
)]
#[case("{match: {call: createMachine}, action: {partial: nics}}", "returns no error")]
#[case(
    "{match: {call: createMachine}, action: {stale: {by: 1m}}}",
    "action.stale is for calls that read"
)]
#[case("{match: {call: listMachines}, action: {stale: {calls: 0}}}", "action.stale is zero")]
#[case(
    "{action: {code: Internal, error: quota}}",
    "action.error and action.code are both given"
)]
#[case("{action: {at: afterCommit}}", "returns no error")]
#[case(
    "{match: {call: attachVolume}, action: {latency: 5s}}",
    "action.latency has no effect on attachVolume"
)]
#[case(
    "{match: {call: detachVolume}, action: {lostReply: true}}",
    "action.lostReply has no effect on attachVolume"
)]
#[case(
    "{match: {call: detachVolume}, action: {lie: true}}",
    "action.lie has no effect on attachVolume and detachVolume"
)]
fn an_invalid_rule_is_rejected_with_its_fix(#[case] text: &str, #[case] expected: &str) {
    let error = rule(text).check().unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[rstest]
#[case(
    "{match: {call: createMachine, probability: 0.5, zone: local-1}, action: {error: capacity}}",
    Code::ResourceExhausted
)]
#[case("{action: {lostReply: true}}", Code::Unavailable)]
#[case("{match: {call: deleteMachine}, action: {stuck: true}}", Code::Ok)]
#[case(
    "{match: {call: attachVolume, machine: 'worker-*'}, action: {effectDelay: 30s}}",
    Code::Ok
)]
#[case("{action: {latency: 1s-3s}}", Code::Ok)]
fn a_valid_rule_survives_yaml(#[case] text: &str, #[case] answered: Code) {
    let rule_before = rule(text);
    rule_before.check().unwrap();
    assert_eq!(rule_before.answered(), answered);
    assert_eq!(rule(&serde_saphyr::to_string(&rule_before).unwrap()), rule_before);
}
