//! Figures of large reports, for docs/reference/benchmarks.md, with their budgets. They depend on the machine, so `make bench`
//! judges them and CI does not.
//!
//! `cargo test --workspace --test report figures -- --ignored --nocapture`

use record::{Actor, ActorKind, Micros, RunRecord, Span, SpanClass};

use crate::report::{Report, large};

/// The first paint of a report with the maximum number of events, in milliseconds.
const FIRST_PAINT: f64 = 300.0;
/// A frame while the time range moves, in milliseconds.
const FRAME: f64 = 16.0;
/// The boxes that are visible at the same time.
const BOXES: u32 = 2000;
/// The rows that fit into the timeline without scrolling.
const ROWS: u32 = 7;

/// The median time of drawing 40 movements, in milliseconds: callbacks of one frame run in their order.
const DRAWING: &str = "(async () => {
  const times = [];
  for (let round = 0; round < 40; round++) {
    await new Promise((resolve) => {
      let begin = 0;
      requestAnimationFrame(() => { begin = performance.now(); });
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: round % 2 === 0 ? 'd' : 'a', bubbles: true }));
      requestAnimationFrame(() => { times.push(performance.now() - begin); resolve(); });
    });
  }
  return times.sort((one, other) => one - other)[20];
})()";

/// The rectangles that one movement draws in the timeline.
const RECTANGLES: &str = "(async () => {
  const original = CanvasRenderingContext2D.prototype.fillRect;
  let count = 0;
  CanvasRenderingContext2D.prototype.fillRect = function (...box) {
    if (this.canvas.id === 'lanes') count += 1;
    original.apply(this, box);
  };
  document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'f', bubbles: true }));
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  CanvasRenderingContext2D.prototype.fillRect = original;
  return count;
})()";

#[test]
#[ignore = "long: figures"]
fn figures_of_the_largest_report() {
    let record = large(record::MOST_POINTS);
    let Some(report) = Report::open(&record) else { return };
    let paint = "performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint').startTime";
    let paint = number(&report, paint);
    let loaded = number(&report, "performance.now()");
    let frame = number(&report, DRAWING);
    let kilobytes = web::page(&record).unwrap().len() / 1000;
    println!(
        "20,000 events: first paint after {paint:.0} ms of {FIRST_PAINT}, everything within {loaded:.0} ms, {kilobytes} kB, \
         {frame:.1} ms of {FRAME} for each frame of the whole run"
    );
    assert!(paint <= FIRST_PAINT, "first paint after {paint} ms");
    assert!(frame <= FRAME, "{frame} ms for a frame");
}

#[test]
#[ignore = "long: figures"]
fn figures_of_many_visible_boxes() {
    let Some(report) = Report::open(&boxes()) else { return };
    let rectangles = number(&report, RECTANGLES);
    assert!(
        rectangles >= f64::from(BOXES),
        "only {rectangles} rectangles are visible"
    );
    let frame = number(&report, DRAWING);
    println!("2,000 visible boxes, {rectangles} rectangles: {frame:.1} ms of {FRAME} for each frame");
    assert!(frame <= FRAME, "{frame} ms for a frame");
}

fn number(report: &Report, expression: &str) -> f64 {
    report.page.eval(expression).as_f64().unwrap()
}

/// A record of machines with many phases, all of them visible.
fn boxes() -> RunRecord {
    let mut record = large(BOXES as usize);
    let name = |number: u32| format!("machine/box-{}", number % ROWS);
    let machines = (0..ROWS).map(|number| Actor {
        id: name(number),
        kind: ActorKind::Machine,
        name: format!("box-{number}"),
        parent: None,
        zone: None,
    });
    record.actors = machines.collect();
    for point in &mut record.points {
        point.actor = name(point.number);
    }
    record.spans = (0..BOXES)
        .map(|number| Span {
            actor: name(number),
            from: Micros(u64::from(number) * 1000),
            to: Some(Micros(u64::from(number + ROWS) * 1000)),
            label: ["Running", "Pending", "Failed"][number as usize % 3].to_owned(),
            class: SpanClass::Phase,
            cause: None,
        })
        .collect();
    record
}
