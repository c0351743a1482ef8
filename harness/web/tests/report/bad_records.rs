//! Records that are damaged, new, incomplete or large.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::report::{Report, failed_run, large};

/// The page with other data in it.
fn with_data(data: &str) -> String {
    let page = web::page(&failed_run()).unwrap();
    let (before, rest) = page.split_once("base64\">").unwrap();
    let (_, after) = rest.split_once('<').unwrap();
    format!("{before}base64\">{data}<{after}")
}

/// The page's data.
fn data() -> String {
    let page = web::page(&failed_run()).unwrap();
    let (_, rest) = page.split_once("base64\">").unwrap();
    rest.split('<').next().unwrap().trim().to_owned()
}

fn refusal(html: &str) -> Option<String> {
    let report = Report::of_html(html, "")?;
    report
        .page
        .wait("document.getElementById('head').textContent.includes('cannot be shown')");
    assert_eq!(report.page.eval("document.getElementById('main').hidden"), true);
    assert_eq!(report.page.complaints(), Vec::<String>::new());
    Some(report.page.text("document.getElementById('head').textContent"))
}

#[test]
fn a_file_that_was_cut_says_so() {
    let data = data();
    let Some(said) = refusal(&with_data(&data[..data.len() / 2 / 4 * 4])) else {
        return;
    };
    assert!(said.contains("drydock report"), "{said}");
}

#[test]
fn a_record_of_a_newer_version_says_so() {
    let mut record = failed_run();
    record.version = 2;
    let Some(said) = refusal(&web::page(&record).unwrap()) else {
        return;
    };
    assert!(said.contains("version 2"), "{said}");
}

#[test]
fn data_that_is_no_record_says_so() {
    let Some(said) = refusal(&with_data(&STANDARD.encode("no gzip"))) else {
        return;
    };
    assert!(said.contains("drydock report"), "{said}");
}

#[test]
fn the_page_says_what_is_not_part_of_the_record() {
    let mut record = failed_run();
    record.dropped = vec![record::Dropped {
        what: "Kubernetes Events".to_owned(),
        count: 12_345,
    }];
    let Some(report) = Report::open(&record) else { return };
    let head = report.page.text("document.getElementById('head').innerText");
    assert!(
        head.contains("Not part of the record: 12,345 Kubernetes Events."),
        "{head}"
    );
}

#[test]
fn a_run_without_events_is_shown() {
    let mut record = failed_run();
    record.points.clear();
    record.spans.clear();
    record.counters.clear();
    record.checks.clear();
    record.meta.verdict.point = None;
    let Some(report) = Report::open(&record) else { return };
    assert_eq!(report.listed(), 0);
    for key in ["]", "j", "c", "g", "f", "w", "d"] {
        report.page.press(key);
    }
    report.page.frame();
    assert_eq!(report.page.complaints(), Vec::<String>::new());
}

#[test]
fn the_largest_record_is_shown() {
    let mut record = large(record::MOST_POINTS);
    record.points[15_000].violates = Some(0);
    let Some(report) = Report::open(&record) else { return };
    assert_eq!(report.listed(), record::MOST_POINTS);
    report.page.press("]");
    assert!(report.selected().starts_with("Event 15001:"), "{}", report.selected());
    // Only the visible rows exist.
    let rows = report.page.eval("document.querySelectorAll('#list .row').length");
    assert!(rows.as_u64() < Some(100), "{rows}");
    assert_eq!(report.page.complaints(), Vec::<String>::new());
}
