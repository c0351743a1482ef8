//! Parses valid rules and arbitrary texts.

use proptest::prelude::*;

use super::*;

const GOOD: &str = "\
- name: lose-first-create
  match:
    client: system:serviceaccount:*:machine-controller-manager
    verbs: [create, patch]
    resource: machines.machine.sapcloud.io
    namespace: shoot--*
    object: m-?
    skip: 1
    times: 2
    probability: 0.25
    window: {from: 90s, until: 5m}
  action:
    drop: {at: afterCommit}
- name: slow
  action: {delay: {by: 1m30s}}
---
name: refuse
match: {verbs: [get]}
action: {fail: {code: 429, retryAfter: 5s, message: slow down}}
";

#[test]
fn rules_are_parsed_from_lists_and_documents_and_formatted() {
    let rules = parse(GOOD).unwrap();
    let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["lose-first-create", "slow", "refuse"]);
    assert_eq!(
        rules[0].to_string(),
        "lose-first-create: drop afterCommit of create, patch on machines.machine.sapcloud.io in shoot--* named m-? \
         by system:serviceaccount:*:machine-controller-manager, 2 times, after 1, with probability 0.25, from 1m30s \
         to 5m"
    );
    let json = serde_json::to_string_pretty(&rules).unwrap();
    assert_eq!(parse(&json).unwrap(), rules);
    let yaml = serde_saphyr::to_string(&rules).unwrap();
    assert_eq!(parse(&yaml).unwrap(), rules);
}

#[test]
fn absent_fields_are_not_formatted() {
    let rule = &parse("{name: a, action: {freezeWatch: {}}}").unwrap()[0];
    let text = serde_json::to_string(rule).unwrap();
    assert_eq!(text, r#"{"name":"a","action":{"freezeWatch":{}}}"#);
}

/// An accepted rule is the same after formatting and parsing.
fn assert_stable(text: &str) {
    if let Ok(rules) = parse(text) {
        let json = serde_json::to_string(&rules).unwrap();
        assert_eq!(parse(&json).unwrap(), rules, "{text}");
    }
}

const WORDS: [&str; 40] = [
    "name: ",
    "match: ",
    "action: ",
    "client: ",
    "verbs: ",
    "resource: ",
    "times: ",
    "skip: ",
    "probability: ",
    "window: ",
    "from: ",
    "until: ",
    "drop: ",
    "delay: ",
    "fail: ",
    "code: ",
    "partition: ",
    "how: ",
    "restart: ",
    "staleList: ",
    "by: ",
    "revisions: ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "\n",
    "\n- ",
    "  ",
    "---\n",
    "afterCommit",
    "hang",
    "get",
    "409",
    "-1",
    "1e300",
    "90s",
    "&a ",
    "*a",
];

proptest! {
    #[test]
    fn any_text_is_parsed_or_rejected(text in ".{0,200}") {
        assert_stable(&text);
    }

    #[test]
    fn any_sequence_of_words_is_parsed_or_rejected(words in proptest::collection::vec(0..WORDS.len(), 0..60)) {
        let text: String = words.into_iter().map(|index| WORDS[index]).collect();
        assert_stable(&text);
    }

    #[test]
    fn a_damaged_file_is_parsed_or_rejected(
        cuts in proptest::collection::vec((0..GOOD.len(), 0..6usize, 0..WORDS.len()), 1..4),
    ) {
        let mut text = GOOD.to_owned();
        for (at, length, word) in cuts {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            text.replace_range(at..end, WORDS[word]);
        }
        assert_stable(&text);
    }
}
