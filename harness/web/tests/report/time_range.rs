//! The time range, the search, and links that restore them.

use record::{Log, LogLine, Micros};
use serde_json::json;

use crate::report::{Report, failed_run};

#[test]
fn a_range_of_the_overview_applies_to_the_list_and_the_link_restores_it() {
    let record = failed_run();
    let Some(report) = Report::open(&record) else { return };
    assert_eq!(report.listed(), record.points.len());
    let (left, top, width, height) = report.page.place_of("#overview");
    let at = |part: f64| (left + part * width, top + height / 2.0);
    report.page.drag(at(0.5), at(0.8));
    let some = report.listed();
    assert!(
        some > 0 && some < record.points.len(),
        "{some} of {}",
        record.points.len()
    );
    let range = report.page.text("document.querySelector('.range').textContent");
    // Moving the chosen range keeps its width.
    report.page.drag(at(0.65), at(0.55));
    let moved = report.page.text("document.querySelector('.range').textContent");
    assert_ne!(moved, range);
    let link = report.page.text("location.hash");

    let restored = Report::with_fragment(&record, &link).unwrap();
    assert_eq!(
        restored.page.text("document.querySelector('.range').textContent"),
        moved
    );
    assert_eq!(restored.listed(), report.listed());
    restored.page.press("f");
    assert_eq!(restored.listed(), record.points.len());
}

#[test]
fn the_rows_of_processes_stay_when_the_timeline_scrolls() {
    let Some(report) = Report::open(&failed_run()) else {
        return;
    };
    let titles = "(async () => {
      const canvas = document.getElementById('lanes');
      const box = canvas.getBoundingClientRect();
      const titles = [];
      for (let y = 24; y < box.height; y += 4) {
        canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + 20, clientY: box.top + y, bubbles: true }));
        titles.push(document.getElementById('tip').textContent);
      }
      return [...new Set(titles)].join(', ');
    })()";
    let scroll = |to: u32| {
        let expression = format!("document.getElementById('lanes-scroll').scrollTop = {to}");
        report.page.eval(&expression);
        report.page.frame();
        report.page.text(titles)
    };
    let (top, bottom) = (scroll(0), scroll(10_000));
    assert_ne!(top, bottom, "it scrolls");
    assert!(
        top.contains("process mcm") && bottom.contains("process mcm"),
        "{bottom}"
    );
    assert!(
        bottom.contains("all other objects") && !top.contains("all other objects"),
        "{bottom}"
    );
}

#[test]
fn a_link_restores_the_event_the_search_and_the_axis() {
    let record = failed_run();
    let Some(report) = Report::with_fragment(&record, "#e=5&q=verb%3Awrite&fold=0") else {
        return;
    };
    assert!(report.selected().starts_with("Event 5:"));
    assert_eq!(
        report.page.text("document.getElementById('search').value"),
        "verb:write"
    );
    let writes = record
        .points
        .iter()
        .filter(|point| point.verb == record::Verb::Write)
        .count();
    assert_eq!(report.listed(), writes);
    let folded = report.page.text("[...document.querySelectorAll('#tools button')].find((one) => one.textContent === 'Fold idle time').ariaPressed");
    assert_eq!(folded, "false");
    // A changed fragment is another view of the same page.
    report.page.open_url(&format!("{}#e=7", report.url));
    report
        .page
        .wait("document.querySelector('#detail h2').textContent.startsWith('Event 7:')");
    assert_eq!(report.listed(), record.points.len());
}

#[test]
fn the_range_and_the_words_of_a_search_apply_to_the_logs() {
    let mut record = failed_run();
    let line = |at: u64, text: &str| LogLine {
        at: Micros(at),
        text: text.to_owned(),
    };
    let end = record.meta.lasted.0;
    let log = |name: &str, lines: Vec<LogLine>| Log {
        name: name.to_owned(),
        lines,
    };
    record.logs = vec![
        log(
            "fakecloud",
            vec![line(1, "serves"), line(end, "<img src=x onerror=alert(1)>")],
        ),
        log("mcm", vec![line(0, "leads"), line(end, "creates a VM")]),
    ];
    let Some(report) = Report::open(&record) else { return };
    let summary = || report.page.text("document.querySelector('#logs summary').textContent");
    let text = || report.page.text("document.querySelector('#logs pre').textContent");
    assert_eq!(summary(), "Logs: 4 lines in this range");
    report.page.eval("document.querySelector('#logs details').open = true");
    report
        .page
        .wait("document.querySelector('#logs pre').textContent !== ''");
    let expected = ["mcm  leads", "fakecloud  serves", "<img src=x", "creates a VM"];
    for (shown, expected) in text().lines().zip(expected) {
        assert!(shown.contains(expected), "{shown}");
    }
    let (left, top, width, height) = report.page.place_of("#overview");
    let at = |part: f64| (left + part * width, top + height / 2.0);
    report.page.drag(at(0.0), at(0.5));
    assert_eq!(summary(), "Logs: 2 lines in this range");
    report.page.press("f");
    report.page.press("/");
    report.page.type_text("vm -is:violation");
    report.page.frame();
    assert_eq!(summary(), "Logs: 1 line in this range");
    report.page.eval("const choice = document.querySelector('#logs select'); choice.value = 'fakecloud'; choice.dispatchEvent(new Event('change'))");
    assert_eq!(summary(), "Logs: 0 lines in this range");
    assert_eq!(report.page.complaints(), Vec::<String>::new());
}

#[test]
fn a_link_with_nonsense_shows_the_whole_run() {
    let record = failed_run();
    let Some(report) = Report::with_fragment(&record, "#e=999999&r=7,-3&q=%00&x=<b>") else {
        return;
    };
    assert_eq!(report.selected(), "No event is selected");
    report.page.eval("document.getElementById('search').value = ''; document.getElementById('search').dispatchEvent(new Event('input'))");
    assert_eq!(report.listed(), record.points.len());
    assert_eq!(report.page.complaints(), Vec::<String>::new());
}

#[test]
fn a_search_has_words_fields_and_exclusions() {
    let record = failed_run();
    let Some(report) = Report::open(&record) else { return };
    let find = |text: &str| {
        report.page.press("/");
        report.page.eval("document.getElementById('search').select()");
        report.page.type_text(text);
        report.listed()
    };
    assert_eq!(find("is:violation"), 1);
    let calls = find("verb:call");
    assert_eq!(calls + find("-verb:call"), record.points.len());
    let head = report.page.text("document.getElementById('list-head').textContent");
    assert!(head.contains("match"), "{head}");
}

#[test]
fn the_wheel_zooms_the_timeline_only_with_ctrl() {
    let Some(report) = Report::open(&failed_run()) else {
        return;
    };
    let (left, top, width, _) = report.page.place_of("#lanes");
    let range = || report.page.text("document.querySelector('.range').textContent");
    let before = range();
    let wheel = |modifiers: u32| {
        let event = json!({ "type": "mouseWheel", "x": left + width / 2.0, "y": top + 40.0, "deltaX": 0, "deltaY": -120, "modifiers": modifiers });
        report.page.call("Input.dispatchMouseEvent", event);
        report.page.frame();
    };
    wheel(0);
    assert_eq!(range(), before);
    wheel(2);
    report
        .page
        .wait(&format!("document.querySelector('.range').textContent !== {before:?}"));
}

#[test]
fn an_event_is_chosen_in_the_timeline() {
    let Some(report) = Report::open(&failed_run()) else {
        return;
    };
    report.page.press("Escape");
    let (left, top, width, height) = report.page.place_of("#lanes");
    // Somewhere in the rows of machines there are events.
    let found = (0..40).any(|step| {
        let x = left + 160.0 + (width - 170.0) * f64::from(step) / 40.0;
        (2..(height / 12.0) as u32).any(|row| {
            report.page.click_at((x, top + 12.0 * f64::from(row)));
            report.page.eval("document.querySelector('#detail h2').textContent") != "No event is selected"
        })
    });
    assert!(found);
    report
        .page
        .wait("document.querySelector('#list [aria-selected=true]') !== null");
}
