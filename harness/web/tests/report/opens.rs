//! The page opens anywhere, requests nothing, and shows what a record contains.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use rstest::rstest;

use crate::report::{Report, failed_run};

#[rstest]
#[case::light("screen", &[("prefers-color-scheme", "light")])]
#[case::dark("screen", &[("prefers-color-scheme", "dark")])]
#[case::print("print", &[])]
#[case::forced_colors("screen", &[("forced-colors", "active"), ("prefers-reduced-motion", "reduce")])]
fn a_report_opens_from_a_disk_without_errors_and_requests(#[case] media: &str, #[case] features: &[(&str, &str)]) {
    let Some(report) = Report::open(&failed_run()) else {
        return;
    };
    report.page.media(media, features);
    report.page.open_url(&report.url);
    report.page.wait("!document.getElementById('main').hidden");
    report.page.frame();
    assert_eq!(report.page.complaints(), Vec::<String>::new());
    let requests = report.page.requests();
    assert!(
        requests.iter().all(|request| request.url.starts_with(&report.url)),
        "{requests:?}"
    );
}

#[test]
fn a_report_opens_from_a_server_and_requests_nothing_else() {
    let Some(browser) = browser::shared() else { return };
    let html = web::page(&failed_run()).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n",
                html.len()
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(html.as_bytes());
        }
    });
    let page = browser.page();
    let url = format!("http://{address}/report.html");
    page.open_url(&url);
    page.wait("document.querySelectorAll('#list .row').length > 0");
    assert_eq!(page.complaints(), Vec::<String>::new());
    let urls: Vec<String> = page.requests().into_iter().map(|request| request.url).collect();
    // A browser asks a server for its icon by itself.
    let own: Vec<&String> = urls.iter().filter(|url| !url.ends_with("/favicon.ico")).collect();
    assert_eq!(own, [&url]);
}

#[test]
fn the_head_has_the_verdict_the_replay_command_and_the_plan() {
    let record = failed_run();
    let Some(report) = Report::open(&record) else { return };
    let head = report.page.text("document.getElementById('head').innerText");
    for part in ["FAILED", &record.meta.verdict.sentence, &record.meta.replay, "Plan"] {
        assert!(head.contains(part), "{part}: {head}");
    }
    report
        .page
        .eval("document.querySelectorAll('#head details').forEach((one) => { one.open = true; })");
    let head = report.page.text("document.getElementById('head').innerText");
    let line = record.meta.plan.lines().last().unwrap().trim();
    assert!(head.contains(line), "{line}: {head}");
    report.page.click(".replay button");
    report
        .page
        .wait("/copied|selected/.test(document.querySelector('.replay [role=status]').textContent)");
}

#[test]
fn a_report_opens_at_the_violation() {
    let record = failed_run();
    let Some(report) = Report::open(&record) else { return };
    let number = record
        .points
        .iter()
        .find(|point| point.violates.is_some())
        .unwrap()
        .number;
    assert!(
        report.selected().starts_with(&format!("Event {number}:")),
        "{}",
        report.selected()
    );
    let detail = report.page.text("document.getElementById('detail').innerText");
    assert!(detail.contains("It violates I1"), "{detail}");
}

#[test]
fn a_passed_run_has_the_same_page() {
    let mut record = failed_run();
    record.meta.verdict.passed = true;
    record.meta.verdict.sentence = "Every expectation was met.".to_owned();
    let Some(report) = Report::open(&record) else { return };
    assert_eq!(
        report.page.text("document.querySelector('.badge').textContent"),
        "PASSED"
    );
    assert!(report.page.text("document.title").starts_with("passed: "));
    assert_eq!(report.listed(), record.points.len());
}

#[test]
fn the_change_of_an_event_leads_to_all_writes_of_a_field_and_to_the_object() {
    let record = failed_run();
    let point = record
        .points
        .iter()
        .find(|point| point.diff.is_some() && point.previous.is_some())
        .unwrap();
    let Some(report) = Report::with_fragment(&record, &format!("#e={}", point.number)) else {
        return;
    };
    report.page.click("#detail .changes .link");
    report
        .page
        .wait("/All writes of /i.test(document.getElementById('detail').innerText)");
    let links = report.page.eval("document.querySelectorAll('#detail ol .link').length");
    assert!(links.as_u64() >= Some(1), "{links}");
    report
        .page
        .eval("[...document.querySelectorAll('#detail details')].find((one) => one.querySelector('pre')).open = true");
    let name = point.object.as_deref().unwrap().rsplit(' ').next().unwrap();
    let name = name.rsplit('/').next().unwrap();
    report.page.wait(&format!(
        "document.querySelector('#detail pre.object').textContent.includes({name:?})"
    ));
}

#[test]
fn the_table_of_checks_links_the_violation() {
    let record = failed_run();
    let Some(report) = Report::open(&record) else { return };
    report.page.press("Escape");
    assert_eq!(report.selected(), "No event is selected");
    report.page.click("#checks .link");
    let number = record.checks.iter().find_map(|check| check.violated).unwrap();
    assert!(report.selected().starts_with(&format!("Event {number}:")));
}

#[test]
fn texts_of_a_record_are_no_markup() {
    const EVIL: &str = "</script><img src=x onerror=\"document.title='hacked'\"><b>{{data}}";
    let mut record = failed_run();
    record.meta.verdict.sentence = EVIL.to_owned();
    record.meta.plan = EVIL.to_owned();
    record.meta.place.scenario = EVIL.to_owned();
    record.actors.iter_mut().for_each(|actor| actor.name = EVIL.to_owned());
    record.spans.iter_mut().for_each(|span| span.label = EVIL.to_owned());
    record
        .checks
        .iter_mut()
        .for_each(|check| check.observed = EVIL.to_owned());
    for point in &mut record.points {
        point.summary = EVIL.to_owned();
        point.object = point.object.take().map(|_| EVIL.to_owned());
        point.diff = Some(serde_json::json!({ EVIL: EVIL }));
    }
    let Some(report) = Report::open(&record) else { return };
    report.page.press("j");
    report.page.frame();
    let canvas = report.page.place_of("#lanes");
    report
        .page
        .drag((canvas.0 + 300.0, canvas.1 + 60.0), (canvas.0 + 320.0, canvas.1 + 60.0));
    report.page.media("print", &[]);
    report.page.frame();
    let made = report
        .page
        .eval("document.querySelectorAll('img, #list b, #detail section b').length");
    assert_eq!(made, 0);
    assert!(!report.page.text("document.title").starts_with("hacked"));
    assert!(
        report
            .page
            .text("document.getElementById('list').textContent")
            .contains(EVIL)
    );
    assert_eq!(report.page.complaints(), Vec::<String>::new());
}

#[test]
fn without_scripts_there_is_a_table_with_the_verdict_and_the_main_events() {
    let record = failed_run();
    let Some(browser) = browser::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, web::page(&record).unwrap()).unwrap();
    let page = browser.page();
    page.call(
        "Emulation.setScriptExecutionDisabled",
        serde_json::json!({ "value": true }),
    );
    page.open_url(&format!("file://{}", file.display()));
    let names = page.accessible_names();
    let has = |text: &str| names.iter().any(|name| name.contains(text));
    assert!(has(&record.meta.verdict.sentence), "{names:?}");
    assert!(has("violation: "), "{names:?}");
}
