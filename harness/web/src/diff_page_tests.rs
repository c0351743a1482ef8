use serde_json::{Value, json};

use super::*;

/// A text that does harm in a page that takes it for HTML.
const EVIL: &str = "<img src=x onerror=alert(1)>";

fn record(seed: u64, events: &[&str]) -> RunRecord {
    let points: Vec<Value> = events
        .iter()
        .zip(1_u64..)
        .map(|(summary, number)| {
            json!({ "number": number, "at": 1_000_000 * number, "actor": "machine/m", "verb": "write", "summary": summary,
                    "diff": { "status": { "text": summary } } })
        })
        .collect();
    let text = json!({
        "version": 1,
        "meta": {
            "drydock": "0", "scenario": EVIL, "stage": "sim", "seed": seed, "plan": "",
            "started": "2030-01-01T00:00:00Z", "lasted": 9_000_000, "wallSeconds": 0.0,
            "verdict": { "passed": true, "sentence": EVIL }, "replay": EVIL, "causes": "unknown",
        },
        "actors": [{ "id": "machine/m", "kind": "machine", "name": EVIL }],
        "spans": [
            { "actor": "machine/m", "from": 1_000_000, "to": 2_000_000, "label": "Pending", "class": "phase" },
            { "actor": "machine/m", "from": 2_000_000, "label": EVIL, "class": "phase" },
        ],
        "points": points, "counters": [], "checks": [],
    });
    record::read(text.to_string().as_bytes()).unwrap()
}

/// A page of runs whose third event differs.
fn page() -> String {
    diff_page(
        &record(1, &["a", "b", EVIL, "d"]),
        &record(2, &["a", "b", "other", "d", "e"]),
    )
}

#[test]
fn the_first_difference_is_marked_in_the_table_and_in_the_lanes() {
    let page = page();
    for text in [
        "the first 2 events are equal, and the next one is not",
        "B: event 3, +0m03.000s: other",
        "id=\"difference\"",
        "<text x=\"",
        "▲ first difference</text>",
        "Replay A",
        "&quot;text&quot;: &quot;other&quot;",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    // a, b and d.
    assert_eq!(page.matches("<td class=\"result\">equal</td>").count(), 3);
    assert_eq!(page.matches("class=\"different\"").count(), 2);
    assert_eq!(page.matches("<title>A: Pending").count(), 1);
    assert_eq!(page.matches("<title>B: Pending").count(), 1);
}

#[test]
fn equal_runs_have_no_mark() {
    let page = diff_page(&record(1, &["a", "b"]), &record(2, &["a", "b"]));
    assert!(
        page.contains("EQUAL") && page.contains("no difference in 2 events"),
        "{page}"
    );
    assert!(!page.contains("first difference"), "{page}");
}

#[test]
fn a_run_that_ends_earlier_has_no_more_events() {
    let page = diff_page(&record(1, &["a"]), &record(2, &["a", "b"]));
    assert!(
        page.contains("A: no more events") && page.contains("B: event 2"),
        "{page}"
    );
}

#[test]
fn texts_cannot_become_elements_and_the_page_requests_nothing() {
    let page = page();
    assert!(!page.contains("<img") && !page.contains("<script"), "{page}");
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
}

#[test]
fn large_runs_say_what_is_left_out() {
    let texts = |word: &str| (0..2000).map(|number| format!("{word} {number}")).collect::<Vec<_>>();
    let (left, right) = (texts("left"), texts("right"));
    let list = |texts: &[String]| record(1, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let page = diff_page(&list(&left), &list(&right));
    assert!(page.contains("the last 1700 of A and 1700 of B"), "no count");
    assert!(page.len() < 300_000, "{}", page.len());
}
