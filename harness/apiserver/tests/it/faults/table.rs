//! The table of actions in `docs/using/api-server-faults.md`: the class and meaning of each action, and the tests
//! that prove its effect.
//!
//! `DRYDOCK_WRITE_DOCS=1 cargo test -p apiserver-tests faults::table` updates the page.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use apiserver::faults::{self, Rule};

const BEGIN: &str =
    "<!-- actions: written by a test of the API server, harness/apiserver/tests/it/faults/table.rs -->\n";
const END: &str = "<!-- end of actions -->\n";

/// An action with settings, its meaning, and the tests that prove it.
struct Row {
    action: &'static str,
    meaning: &'static str,
    tests: &'static [&'static str],
}

const ROWS: [Row; 22] = [
    Row {
        action: "delay: {at: beforeCommit, by: 2s}",
        meaning: "the request waits before it is done",
        tests: &["a_delayed_write_is_not_there_until_its_delay_is_over"],
    },
    Row {
        action: "delay: {at: afterCommit, by: 2s}",
        meaning: "it is done, and its answer waits",
        tests: &["a_write_whose_answer_is_delayed_is_there_before_it_arrives"],
    },
    Row {
        action: "drop: {at: beforeCommit}",
        meaning: "the connection breaks, nothing is done",
        tests: &["a_connection_that_drops_before_the_commit_leaves_nothing_behind"],
    },
    Row {
        action: "drop: {at: afterCommit}",
        meaning: "it is done, then the connection breaks: the answer is lost",
        tests: &[
            "a_write_is_there_although_its_client_saw_the_connection_drop",
            "over_http2_a_dropped_request_ends_alone_and_the_next_one_is_served",
        ],
    },
    Row {
        action: "fail: {code: 409}",
        meaning: "a write meets a conflict",
        tests: &[
            "a_refused_write_is_answered_as_a_server_would_and_not_done",
            "a_conflict_names_the_object_and_a_second_try_succeeds",
        ],
    },
    Row {
        action: "fail: {code: 410}",
        meaning: "a list of a fixed revision, or a watch from one, is told that it is too old (a watch by an event)",
        tests: &["a_list_or_watch_of_the_past_is_told_that_it_is_gone_and_others_are_not"],
    },
    Row {
        action: "fail: {code: 429, retryAfter: 5s}",
        meaning: "too many requests; come again then",
        tests: &["a_refused_write_is_answered_as_a_server_would_and_not_done"],
    },
    Row {
        action: "fail: {code: 503, retryAfter: 90s, message: text}",
        meaning: "refused with 401, 403, 413 (creations, updates and patches), 500, 503 or 504 before anything is done",
        tests: &[
            "a_refused_write_is_answered_as_a_server_would_and_not_done",
            "a_refusal_says_when_to_come_again_and_what_it_is_told_to_say",
        ],
    },
    Row {
        action: "fail: {code: 504, at: afterCommit}",
        meaning: "the write is done, the answer is 500, 503 or 504: something behind the server lost the answer",
        tests: &["a_write_that_is_refused_after_its_commit_is_there"],
    },
    Row {
        action: "fail: {code: 403, at: afterCommit}",
        meaning: "the write is done, the answer says that it was not",
        tests: &["a_write_that_is_refused_after_its_commit_is_there"],
    },
    Row {
        action: "truncateWatch: {afterEvents: 2}",
        meaning: "the watch ends after so many events of objects; with 0, after 100 ms",
        tests: &["a_truncated_watch_ends_after_its_last_event"],
    },
    Row {
        action: "truncateWatch: {afterEvents: 2, midway: true}",
        meaning: "its connection breaks in the middle of the next event",
        tests: &["a_watch_that_is_truncated_midway_breaks_within_an_event"],
    },
    Row {
        action: "freezeWatch: {}",
        meaning: "the watch stays open and says nothing, until the rule or the watch ends",
        tests: &[
            "a_frozen_watch_is_silent_until_the_rule_is_gone",
            "a_frozen_watch_ends_in_its_time_without_a_bookmark",
            "a_rule_takes_hold_of_an_open_watch_when_its_window_opens_and_counts_it_once",
        ],
    },
    Row {
        action: "lagWatch: {by: 30s}",
        meaning: "events arrive that much later, in order",
        tests: &[
            "the_events_of_a_lagging_watch_arrive_late_and_in_order",
            "a_lag_that_ends_lets_everything_through_and_no_bookmark_overtakes",
        ],
    },
    Row {
        action: "duplicateEvent: {}",
        meaning: "each event arrives twice",
        tests: &["a_stuttering_watch_sends_each_event_twice"],
    },
    Row {
        action: "staleList: {by: {duration: 30s}}",
        meaning: "lists that a cache may answer (`resourceVersion=0` or not older than one) show the past, \
                  never older than asked for",
        tests: &[
            "a_list_from_a_cache_shows_the_past_and_others_do_not",
            "a_cache_that_lags_by_a_duration_shows_what_was_there_then",
        ],
    },
    Row {
        action: "staleGet: {by: {revisions: 5}}",
        meaning: "the same for reads of one object",
        tests: &["a_read_from_a_cache_shows_the_object_as_it_was"],
    },
    Row {
        action: "staleList: {by: {revisions: 5}, consistent: true}",
        meaning: "lists that must show the present show the past; `staleGet` knows `consistent` too",
        tests: &["a_byzantine_server_shows_the_past_to_those_who_ask_for_the_present"],
    },
    Row {
        action: "partition: {how: refuse}",
        meaning: "the client's connections break, open watches too, and it gets no new ones",
        tests: &[
            "a_partitioned_client_is_refused_and_its_watches_break_while_others_are_served",
            "a_partition_begins_and_ends_with_its_window",
        ],
    },
    Row {
        action: "partition: {how: hang}",
        meaning: "its requests and watches stand still, and go on when the partition ends",
        tests: &[
            "behind_a_silent_partition_requests_and_watches_stand_still_until_it_ends",
            "a_partition_begins_and_ends_with_its_window",
        ],
    },
    Row {
        action: "compact: {}",
        meaning: "history is forgotten: every open watch is told 410, and old revisions are gone; with \
                  `behindOnly: true` watches that are up to date go on",
        tests: &[
            "compacting_tells_every_watch_that_its_past_is_gone",
            "compacting_may_spare_the_watches_that_are_up_to_date",
        ],
    },
    Row {
        action: "restart: {keepHistory: false, down: 30s}",
        meaning: "every connection breaks and is refused while the server is down; without `keepHistory` no old \
                  revision is served afterwards; `at: afterCommit` does the request first",
        tests: &[
            "a_restart_breaks_every_connection_and_forgets_the_past",
            "a_restart_after_the_commit_that_keeps_history_lets_watches_resume",
            "a_server_that_is_down_refuses_everybody_until_it_is_back",
            "over_a_socket_a_server_that_is_down_refuses_new_connections",
        ],
    },
];

fn rule(row: &Row) -> Rule {
    let rules = faults::parse(&format!("name: example\naction: {{{}}}", row.action)).unwrap();
    rules.into_iter().next().unwrap()
}

fn written() -> String {
    let mut text = "| action | class | what happens | proved by |\n|---|---|---|---|\n".to_owned();
    for row in &ROWS {
        let tests: Vec<String> = row.tests.iter().map(|test| format!("`{test}`")).collect();
        let class = rule(row).class();
        writeln!(
            text,
            "| `{}` | {class} | {} | {} |",
            row.action,
            row.meaning,
            tests.join(", ")
        )
        .unwrap();
    }
    text
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("it/faults")
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/using/api-server-faults.md")
}

#[test]
fn the_page_contains_the_current_table() {
    let page = page();
    let text = std::fs::read_to_string(&page).unwrap();
    let (head, rest) = text
        .split_once(BEGIN)
        .expect("the page has the marker at the start of the table");
    let (_, tail) = rest
        .split_once(END)
        .expect("the page has the marker at the end of the table");
    let expected = format!("{head}{BEGIN}{}{END}{tail}", written());
    if std::env::var_os("DRYDOCK_WRITE_DOCS").is_some() {
        std::fs::write(&page, expected).unwrap();
        return;
    }
    assert!(
        text == expected,
        "docs/using/api-server-faults.md is stale; DRYDOCK_WRITE_DOCS=1 cargo test -p apiserver-tests faults::table updates it"
    );
}

#[test]
fn every_action_is_in_the_table() {
    let unknown = serde_json::from_value::<faults::Action>(serde_json::json!({ "nonsense": {} })).unwrap_err();
    let (_, all) = unknown
        .to_string()
        .split_once("expected one of ")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let all: BTreeSet<String> = all.split(", ").map(|word| word.trim_matches('`').to_owned()).collect();
    let shown: BTreeSet<String> = ROWS.iter().map(|row| rule(row).action.word().to_owned()).collect();
    assert_eq!(shown, all);
}

#[test]
fn every_test_of_the_table_exists() {
    let mut sources = String::new();
    for file in std::fs::read_dir(folder()).unwrap() {
        sources.push_str(&std::fs::read_to_string(file.unwrap().path()).unwrap());
    }
    for row in &ROWS {
        assert!(!row.tests.is_empty(), "nothing proves {}", row.action);
        for test in row.tests {
            assert!(
                sources.contains(&format!("fn {test}(")),
                "the test {test} does not exist"
            );
        }
    }
}

#[test]
fn the_examples_of_the_page_are_valid_rules() {
    let text = std::fs::read_to_string(page()).unwrap();
    let examples: Vec<&str> = text
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(yaml, _)| yaml)
        .collect();
    assert!(!examples.is_empty());
    for example in examples {
        if let Err(error) = faults::parse(example) {
            panic!("{error}:\n{example}");
        }
    }
}
