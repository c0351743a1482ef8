//! Pictures of the report, which are also those of the documents.
//!
//! `DRYDOCK_WRITE_DOCS=1 cargo test --workspace --test report looks` writes them.

use browser::compare_with_file;
use rstest::rstest;

use crate::report::{Report, failed_run, picture};

#[rstest]
#[case::light("report-light.png", "screen", "light")]
#[case::dark("report-dark.png", "screen", "dark")]
#[case::print("report-print.png", "print", "light")]
fn the_report_looks_as_in_the_documents(#[case] file: &str, #[case] media: &str, #[case] theme: &str) {
    let Some(report) = Report::open(&failed_run()) else {
        return;
    };
    report.page.resize(1200, 860);
    report.page.media(media, &[("prefers-color-scheme", theme)]);
    report.page.frame();
    let helper = browser::shared().unwrap().page();
    compare_with_file(&report.page, &helper, &picture(file));
}

#[test]
fn a_dark_page_is_not_taken_for_a_light_one() {
    let Some(report) = Report::open(&failed_run()) else {
        return;
    };
    report.page.resize(1200, 860);
    report.page.media("screen", &[("prefers-color-scheme", "dark")]);
    let helper = browser::shared().unwrap().page();
    assert!(!browser::difference_from_file(&report.page, &helper, &picture("report-light.png")).is_small());
    report.page.media("screen", &[("prefers-color-scheme", "light")]);
    report.page.eval("document.querySelector('.timeline').remove()");
    assert!(!browser::difference_from_file(&report.page, &helper, &picture("report-light.png")).is_small());
}

#[test]
fn the_printed_report_has_the_checks_and_the_events_of_the_range() {
    let record = failed_run();
    let Some(report) = Report::open(&record) else { return };
    report.page.press("/");
    report.page.type_text("is:violation");
    report.page.frame();
    report.page.media("print", &[]);
    report.page.frame();
    assert_eq!(
        report.page.eval("document.querySelectorAll('#print tbody tr').length"),
        1
    );
    let hidden = report
        .page
        .eval("getComputedStyle(document.querySelector('.panes')).display");
    assert_eq!(hidden, "none");
    let printed = report.page.pdf();
    assert!(printed.starts_with(b"%PDF"), "{} bytes", printed.len());
}
