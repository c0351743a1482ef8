//! What the page says about an event besides its text: what came before it, what did not hold, and what did not happen.

use record::{CheckKind, Link, RunRecord, Unmet, Verb};
use serde_json::json;

use crate::report::{Report, failed_run};

/// The number of the first event with a condition.
fn first(record: &RunRecord, is: impl Fn(&record::Point) -> bool) -> u32 {
    record.points.iter().find(|point| is(point)).unwrap().number
}

fn detail(report: &Report) -> String {
    report.page.frame();
    report.page.text("document.getElementById('detail').innerText")
}

/// The events that a search finds.
fn found(report: &Report, search: &str) -> usize {
    // The first one clears the selection, the second one the search.
    report.page.press("Escape");
    report.page.press("Escape");
    report.page.frame();
    report.page.press("/");
    report.page.type_text(search);
    report.page.press("Escape");
    report.listed()
}

#[test]
fn a_recorded_cause_is_kept_apart_from_what_only_came_before() {
    let mut record = failed_run();
    let number = first(&record, |point| point.previous.is_some() && point.cause.is_some());
    let point = &mut record.points[number as usize - 1];
    let (previous, cause) = (point.previous.unwrap(), point.cause.unwrap());
    point.link = Some(Link::Before);
    point.seen = vec![1];
    let Some(report) = Report::with_fragment(&record, &format!("#e={number}")) else {
        return;
    };
    let text = detail(&report);
    for part in [
        "Its own history",
        "What came before",
        "came before:",
        "Also received just before",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    report.page.press("p");
    assert!(report.selected().starts_with(&format!("Event {previous}:")));

    record.points[number as usize - 1].link = Some(Link::Caused);
    record.points[cause as usize - 1].cause = None;
    let report = Report::with_fragment(&record, &format!("#e={number}")).unwrap();
    let text = detail(&report);
    assert!(text.contains("What led to it") && text.contains("caused by:"), "{text}");
    report.page.press("c");
    assert!(report.selected().starts_with(&format!("Event {cause}:")));
}

#[test]
fn a_missed_expectation_shows_only_the_conditions_that_do_not_hold() {
    let mut record = failed_run();
    let index = record
        .checks
        .iter()
        .position(|check| check.kind == CheckKind::Expectation)
        .unwrap();
    record.checks[index].unmet = vec![Unmet {
        wanted: "machine md-a-1 is Running".to_owned(),
        found: "machine md-a-1 is Pending".to_owned(),
    }];
    let number = record.meta.verdict.point.unwrap();
    record.points[number as usize - 1].violates = Some(index);
    let Some(report) = Report::open(&record) else { return };
    let text = detail(&report);
    for part in ["Wanted", "machine md-a-1 is Running", "machine md-a-1 is Pending"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_expectation_shows_how_its_values_changed() {
    let mut record = failed_run();
    let expectation = record
        .checks
        .iter_mut()
        .find(|check| check.kind == CheckKind::Expectation)
        .unwrap();
    let change = "phase of md-a-1: Pending → Running (+5.000s)";
    expectation.readings = vec![change.to_owned()];
    let name = format!("{:?}", expectation.name);
    let Some(report) = Report::open(&record) else { return };
    let row = report.page.text(&format!(
        "[...document.querySelectorAll('#checks tr')].find((row) => row.firstChild.textContent === {name}).textContent"
    ));
    assert!(row.contains(change), "{row}");
}

#[test]
fn the_head_says_which_calls_were_never_made_and_what_a_fault_hit() {
    let mut record = failed_run();
    for point in record.points.iter_mut().filter(|point| point.verb == Verb::Call) {
        point.call = point.summary.split(' ').nth(1).map(str::to_owned);
    }
    record.points.iter_mut().for_each(|point| {
        if point.call.as_deref() == Some("ListMachines") {
            point.call = Some("Other".to_owned());
        }
    });
    let hit = record
        .points
        .iter()
        .find(|point| point.fault.is_some())
        .unwrap()
        .clone();
    let Some(report) = Report::open(&record) else { return };
    report.page.eval("document.querySelector('.activity').open = true");
    report.page.frame();
    let text = report.page.text("document.querySelector('.activity').innerText");
    let line = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default()
            .to_owned()
    };
    assert!(line("ListMachines").contains("never called"), "{text}");
    assert!(
        line(hit.fault.as_deref().unwrap()).contains(&format!("{} at", hit.number)),
        "{text}"
    );
}

#[test]
fn a_search_finds_changed_fields_and_old_and_new_values() {
    let mut record = failed_run();
    let number = first(&record, |point| point.diff.is_some() && point.previous.is_some());
    let previous = record.points[number as usize - 1].previous.unwrap();
    record.points[previous as usize - 1].diff.as_mut().unwrap()["metadata"]["annotations"] =
        json!({ "unusual.key": "old-value" });
    record.points[number as usize - 1].diff = Some(json!({ "metadata": { "annotations": { "unusual.key": null } } }));
    let Some(report) = Report::open(&record) else { return };
    assert_eq!(found(&report, "field:unusual"), 2);
    assert_eq!(found(&report, "value:old-value"), 2);
    assert_eq!(found(&report, "unusual.key -value:nothing"), 2);
}

#[test]
fn a_vm_that_does_not_exist_before_its_creation_is_no_failure() {
    let mut record = failed_run();
    let all = record
        .points
        .iter()
        .filter(|point| point.code.as_deref().is_some_and(|code| code != "OK"))
        .count();
    let number = first(&record, |point| {
        point.verb == Verb::Call && point.code.as_deref() == Some("OK")
    });
    let point = &mut record.points[number as usize - 1];
    (point.call, point.code) = (Some("GetMachineStatus".to_owned()), Some("NotFound".to_owned()));
    let Some(report) = Report::open(&record) else { return };
    assert_eq!(found(&report, "is:failed"), all);
}
