//! Figures of large reports, for docs/reference/benchmarks.md: they are printed, not judged.
//!
//! `cargo test --workspace --test report figures -- --ignored --nocapture`

use record::{Micros, Span, SpanClass};

use crate::report::{Report, large};

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

#[test]
#[ignore = "long: figures"]
fn figures_of_large_reports() {
    let mut record = large(record::MOST_POINTS);
    let Some(report) = Report::open(&record) else { return };
    let paint = report
        .page
        .eval("performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint').startTime");
    let loaded = report.page.eval("performance.now()");
    let kilobytes = web::page(&record).unwrap().len() / 1000;
    println!("20,000 events: first paint after {paint:.0} ms, everything within {loaded:.0} ms, {kilobytes} kB");
    println!(
        "20,000 events: {:.1} ms for each frame of the whole run",
        report.page.eval(DRAWING).as_f64().unwrap()
    );

    let actors: Vec<String> = record
        .actors
        .iter()
        .filter(|actor| actor.id.starts_with("machine/"))
        .map(|actor| actor.id.clone())
        .collect();
    record.points.truncate(2000);
    record.meta.lasted = Micros(2_000_000);
    record.spans = (0..2000)
        .map(|number| Span {
            actor: actors[number % actors.len()].clone(),
            from: Micros(number as u64 * 1000),
            to: Some(Micros(number as u64 * 1000 + 3000)),
            label: ["Running", "Pending", "Failed"][number % 3].to_owned(),
            class: SpanClass::Phase,
            cause: None,
        })
        .collect();
    let report = Report::open(&record).unwrap();
    println!(
        "2,000 boxes: {:.1} ms for each frame",
        report.page.eval(DRAWING).as_f64().unwrap()
    );
}
