//! Keyboards, screen readers and small screens.

use rstest::rstest;

use crate::report::{Report, failed_run};

/// Texts on their background with a contrast below 4.5, as a list of lines.
const LOW_CONTRAST: &str = "(() => {
  const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const parsed = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => 0.2126 * channel(red / 255) + 0.7152 * channel(green / 255) + 0.0722 * channel(blue / 255) + 0.05;
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parsed(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.body.querySelectorAll('*')) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!hasText || !element.checkVisibility({ visibilityProperty: true }) || element.closest('script, noscript, canvas')) continue;
    const [one, other] = [luminance(parsed(getComputedStyle(element).color)), luminance(ground(element))];
    const contrast = Math.max(one, other) / Math.min(one, other);
    if (contrast < 4.5) low.push(`${element.className || element.tagName} ${element.textContent.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return low;
})()";

#[test]
fn the_violation_is_reached_with_the_keyboard_alone() {
    let record = failed_run();
    let Some(report) = Report::open(&record) else { return };
    report.page.press("Escape");
    assert_eq!(report.selected(), "No event is selected");
    // The first stop skips everything before the list.
    report.page.press("Tab");
    assert_eq!(
        report.page.text("document.activeElement.textContent"),
        "Skip to the list of events"
    );
    report.page.press("Enter");
    report.page.press("]");
    let number = record
        .points
        .iter()
        .find(|point| point.violates.is_some())
        .unwrap()
        .number;
    assert!(report.selected().starts_with(&format!("Event {number}:")));
    let active = report
        .page
        .text("document.getElementById('list').getAttribute('aria-activedescendant')");
    assert_eq!(active, format!("event-{number}"));
    // The verdict is the last event, and its cause is the violation.
    for _ in record.points.iter().filter(|point| point.number > number) {
        report.page.press("j");
    }
    assert!(report.selected().ends_with(": verdict"), "{}", report.selected());
    report.page.press("c");
    assert!(report.selected().starts_with(&format!("Event {number}:")));
    report.page.press("k");
    assert!(report.selected().starts_with(&format!("Event {}:", number - 1)));
}

#[test]
fn every_control_is_reached_with_tab_and_has_a_name() {
    let Some(report) = Report::open(&failed_run()) else {
        return;
    };
    let mut reached = Vec::new();
    for _ in 0..60 {
        report.page.press("Tab");
        let name = "(() => { const at = document.activeElement; return at.id || at.ariaLabel || at.textContent.slice(0, 30) || at.tagName; })()";
        reached.push(report.page.text(name));
    }
    for control in [
        "replay",
        "Copy",
        "search",
        "Fit",
        "Fold idle time",
        "Pods",
        "Violation",
        "lanes",
        "list",
    ] {
        assert!(
            reached.iter().any(|name| name == control),
            "{control} is not in {reached:?}"
        );
    }
    let names = report.page.accessible_names();
    let unnamed: Vec<&String> = names
        .iter()
        .filter(|name| ["button: ", "searchbox: ", "listbox: ", "dialog: "].contains(&name.as_str()))
        .collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

#[test]
fn a_screen_reader_finds_the_verdict_the_replay_command_and_the_event() {
    let record = failed_run();
    let Some(report) = Report::open(&record) else { return };
    let names = report.page.accessible_names();
    let has = |text: &str| names.iter().any(|name| name.contains(text));
    assert!(has(&record.meta.verdict.sentence));
    assert!(has(&record.meta.replay));
    assert!(
        names.iter().any(|name| name.starts_with("heading: FAILED")),
        "{names:?}"
    );
    assert!(names.iter().any(|name| name.starts_with("option: ")), "the list");
    let position = report
        .page
        .text("document.querySelector('#list [aria-selected=true]').getAttribute('aria-setsize')");
    assert_eq!(position, record.points.len().to_string());
}

#[test]
fn the_keys_are_explained_and_escape_closes_the_explanation() {
    let Some(report) = Report::open(&failed_run()) else {
        return;
    };
    report.page.press("?");
    report.page.wait("document.getElementById('help').open");
    report.page.press("Escape");
    report.page.wait("!document.getElementById('help').open");
    // Letters in the search are no commands.
    report.page.press("/");
    report.page.press("g");
    assert_eq!(report.page.text("document.getElementById('search').value"), "g");
}

#[rstest]
#[case::light("light")]
#[case::dark("dark")]
fn texts_have_enough_contrast_as_they_are_shown(#[case] theme: &str) {
    let Some(report) = Report::open(&failed_run()) else {
        return;
    };
    report.page.media("screen", &[("prefers-color-scheme", theme)]);
    report
        .page
        .eval("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
    report.page.press("j");
    report.page.frame();
    let low = report.page.eval(LOW_CONTRAST);
    assert_eq!(low, serde_json::json!([]));
}

#[test]
fn a_small_screen_needs_no_scrolling_sideways() {
    let Some(report) = Report::open(&failed_run()) else {
        return;
    };
    report.page.resize(390, 800);
    report.page.frame();
    let wide = report.page.eval("document.documentElement.scrollWidth");
    assert!(wide.as_u64() <= Some(390), "{wide}");
}
