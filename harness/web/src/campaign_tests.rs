use super::*;

/// A text that does harm in a page that takes it for HTML.
const EVIL: &str = "<img src=x onerror=alert(1)>\"'{{body}}";

fn campaign() -> CampaignRecord {
    let event = |name: &str, declared, seeds| EventTally {
        group: "fault".to_owned(),
        name: name.to_owned(),
        declared,
        seeds,
        times: 2 * seeds,
    };
    let invariant = |name: &str, seeds, violated| InvariantTally {
        name: name.to_owned(),
        statement: format!("the rule of {name}"),
        seeds,
        times: 10 * seeds,
        violated,
    };
    CampaignRecord {
        version: 1,
        drydock: "0".to_owned(),
        suites: vec!["rollout".to_owned()],
        seeds: 1000,
        failed: 3,
        interrupted: false,
        wall_seconds: 60.0,
        invariants: vec![invariant("I1", 1000, 0), invariant("I2", 0, 0), invariant("I3", 900, 2)],
        events: vec![
            event("reached", true, 500),
            event("rare", true, 9),
            event("never", true, 0),
            event("other", false, 1),
        ],
        groups: vec![
            GroupRecord {
                broken: "I3".to_owned(),
                first_difference: Some("mcm: crash after effect #".to_owned()),
                seeds: (1..=25).collect(),
                reason: EVIL.to_owned(),
                replay: "drydock run --plan .drydock/chaos/sim-1/plan.yaml".to_owned(),
                report: Some("sim 1\"><b>".to_owned()),
                difference: Some("sim 1/difference.html".to_owned()),
            },
            GroupRecord {
                broken: EVIL.to_owned(),
                first_difference: None,
                seeds: vec![7],
                reason: "no".to_owned(),
                replay: EVIL.to_owned(),
                report: None,
                difference: None,
            },
        ],
    }
}

fn page() -> String {
    campaign_page(&campaign(), |folder| format!("../{folder}"))
}

/// The position of a text in the page.
fn position(page: &str, text: &str) -> usize {
    page.find(text).unwrap_or_else(|| panic!("{text} is not in {page}"))
}

#[test]
fn what_was_never_reached_comes_first_and_is_marked_with_words() {
    let page = page();
    let order = ["▲ never reached", "▲ rarely reached", ">reached<"].map(|state| position(&page, state));
    assert!(order.is_sorted(), "{order:?}");
    let order = ["▲ violated in 2 seeds", "▲ never evaluated", ">held<"].map(|state| position(&page, state));
    assert!(order.is_sorted(), "{order:?}");
    for text in [
        "3 of 1000 seeds failed, in 2 ways",
        "Events (4, 1 never reached)",
        "Invariants (3, 1 never evaluated)",
    ] {
        position(&page, text);
    }
}

#[test]
fn a_group_has_an_example_with_its_report_and_its_command() {
    let page = page();
    for text in [
        "▲ I3: 25 seeds",
        "mcm: crash after effect #",
        "href=\"../sim%201%22%3E%3Cb%3E/report.html\"",
        "href=\"../sim%201/difference.html\"",
        "drydock run --plan .drydock/chaos/sim-1/plan.yaml",
        "19, 20 and 5 more",
    ] {
        position(&page, text);
    }
    assert_eq!(
        page.matches("report.html").count(),
        1,
        "a group without a report has no link"
    );
}

#[test]
fn texts_cannot_become_elements_and_the_page_requests_nothing() {
    let page = page();
    assert!(
        !page.contains("<img") && !page.contains("<b>\"") && !page.contains("<script"),
        "{page}"
    );
    position(&page, "default-src 'none'; style-src 'unsafe-inline'");
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
}

#[test]
fn a_campaign_without_failures_says_so_and_an_interrupted_one_too() {
    let mut passed = CampaignRecord {
        failed: 0,
        groups: Vec::new(),
        interrupted: true,
        ..campaign()
    };
    passed.events.retain(|event| event.seeds > 10);
    let page = campaign_page(&passed, str::to_owned);
    for text in ["All 1000 seeds passed<", "PASSED", "The campaign was interrupted"] {
        position(&page, text);
    }
}

#[test]
fn a_campaign_whose_seeds_pass_fails_if_a_declared_event_is_too_rare() {
    let rare = CampaignRecord {
        failed: 0,
        groups: Vec::new(),
        ..campaign()
    };
    let page = campaign_page(&rare, str::to_owned);
    position(&page, "FAILED");
    position(
        &page,
        "All 1000 seeds passed, but fewer than one of a hundred had rare, never<",
    );
}

#[test]
fn a_campaign_with_many_failures_says_how_many_are_in_no_group() {
    let many = CampaignRecord {
        failed: 40,
        ..campaign()
    };
    position(&campaign_page(&many, str::to_owned), "In no group: 14 failures.");
}
