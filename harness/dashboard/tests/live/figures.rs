//! Figures of a large world, for docs/reference/benchmarks.md: they are printed, not judged.
//!
//! `cargo test --workspace --test live figures -- --ignored --nocapture`

use crate::world::{Live, large_world, node, observe};

#[test]
#[ignore = "long: figures"]
fn figures_of_ten_thousand_nodes() {
    let Some(live) = Live::with(true, large_world(10_000)) else {
        return;
    };
    let mut times = Vec::new();
    for number in 1..=20 {
        live.page.eval("drydock.took = undefined");
        observe(&live.world, node(&format!("node-{number:05}"), "z1", "Unknown"));
        live.page.wait("drydock.took !== undefined");
        times.push(live.page.eval("drydock.took").as_f64().unwrap());
    }
    times.sort_by(f64::total_cmp);
    let heap = live.page.eval("performance.memory.usedJSHeapSize").as_f64().unwrap();
    println!(
        "10,000 nodes: {:.1} ms for each frame with a change, at most {:.1} ms; {:.0} MB of objects in the page",
        times[10],
        times[19],
        heap / 1e6
    );
}
