//! The pages without scripts: of a campaign, and of the comparison of two runs.

use record::{CampaignRecord, EventTally, GroupRecord, InvariantTally};
use rstest::rstest;

use crate::report::{Report, failed_run};

/// A text that does harm in a page that takes it for HTML.
const EVIL: &str = "<img src=x onerror=document.title='evil'>";

fn campaign() -> String {
    let event = |name: &str, seeds| EventTally {
        group: "fault".to_owned(),
        name: name.to_owned(),
        declared: true,
        seeds,
        times: seeds,
    };
    let campaign = CampaignRecord {
        version: 1,
        drydock: "0.1.0".to_owned(),
        suites: vec!["rollout".to_owned()],
        seeds: 200,
        failed: 2,
        interrupted: false,
        wall_seconds: 90.0,
        invariants: vec![InvariantTally {
            name: "I1".to_owned(),
            statement: "at most one live VM carries a Machine's uid".to_owned(),
            seeds: 200,
            times: 40_000,
            violated: 2,
        }],
        events: vec![event("crash mcm before", 180), event("api compact", 0)],
        groups: vec![GroupRecord {
            broken: "I1".to_owned(),
            first_difference: Some(EVIL.to_owned()),
            seeds: vec![17, 93],
            reason: EVIL.to_owned(),
            replay: "drydock run --plan .drydock/chaos/sim-rollout-17-disturbed-0a1b2c3d/plan.yaml".to_owned(),
            report: Some("sim-rollout-17-disturbed-0a1b2c3d".to_owned()),
            difference: None,
        }],
    };
    web::campaign_page(&campaign, str::to_owned)
}

/// A run, and the same one without one of its last events.
fn difference() -> String {
    let (one, mut other) = (failed_run(), failed_run());
    other.points.remove(one.points.len() - 10);
    for point in other.points.iter_mut().skip(one.points.len() - 5) {
        point.summary += EVIL;
    }
    web::diff_page(&one, &other)
}

#[rstest]
#[case::light("screen", &[("prefers-color-scheme", "light")])]
#[case::dark("screen", &[("prefers-color-scheme", "dark")])]
#[case::print("print", &[])]
#[case::forced_colors("screen", &[("forced-colors", "active")])]
fn the_pages_open_from_a_disk_without_errors_requests_and_elements_of_texts(
    #[case] media: &str,
    #[case] features: &[(&str, &str)],
) {
    for html in [campaign(), difference()] {
        let Some(report) = Report::of_html(&html, "") else {
            return;
        };
        report.page.media(media, features);
        report.page.open_url(&report.url);
        report.page.frame();
        assert_eq!(report.page.complaints(), Vec::<String>::new());
        let requests = report.page.requests();
        assert!(requests.iter().all(|request| request.url == report.url), "{requests:?}");
        assert_eq!(report.page.eval("document.querySelectorAll('img, script').length"), 0);
        assert_ne!(report.page.text("document.title"), "evil");
    }
}

#[test]
fn a_reader_of_a_screen_hears_the_verdict_the_groups_and_the_first_difference() {
    let Some(report) = Report::of_html(&campaign(), "") else {
        return;
    };
    let names = report.page.accessible_names().join("\n");
    for name in [
        "2 of 200 seeds failed, all in the same way",
        "▲ I1: 2 seeds",
        "The report of seed 17",
        "▲ never reached",
        "Invariants (1, 0 never evaluated)",
    ] {
        assert!(names.contains(name), "{name}: {names}");
    }
    let link = report
        .page
        .text("document.querySelector('main a').getAttribute('href')");
    assert_eq!(link, "sim-rollout-17-disturbed-0a1b2c3d/report.html");
    let Some(report) = Report::of_html(&difference(), "") else {
        return;
    };
    let names = report.page.accessible_names().join("\n");
    for name in ["▲ First difference", "Lanes of both runs"] {
        assert!(names.contains(name), "{name}: {names}");
    }
}

#[test]
fn a_small_screen_needs_no_scrolling_sideways() {
    for html in [campaign(), difference()] {
        let Some(report) = Report::of_html(&html, "") else {
            return;
        };
        report.page.resize(390, 800);
        report.page.frame();
        let wide = report.page.eval("document.documentElement.scrollWidth");
        assert!(wide.as_u64() <= Some(390), "{wide}");
    }
}

#[test]
fn the_mark_of_the_first_difference_is_at_the_same_place_for_both_runs() {
    let Some(report) = Report::of_html(&difference(), "") else {
        return;
    };
    // Equal events have the same place, so the first states of both runs begin at the same place.
    let begins = report.page.eval(
        "(() => { const begins = (letter) => [...document.querySelectorAll('svg g')].filter((one) => one.querySelector('title')?.textContent.startsWith(letter)).map((one) => one.querySelector('rect').getAttribute('x')); \
         return [begins('A')[0], begins('B')[0]]; })()",
    );
    assert_eq!(begins[0], begins[1]);
    assert_eq!(report.page.eval("document.querySelectorAll('#difference').length"), 1);
    assert_eq!(report.page.eval("document.querySelectorAll('svg .first').length"), 1);
}
