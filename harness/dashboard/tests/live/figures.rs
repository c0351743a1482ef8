//! Figures of a large world, for docs/reference/benchmarks.md, with their budgets. They depend on the machine, so `make bench`
//! judges them and CI does not.
//!
//! `cargo test --workspace --test live figures -- --ignored --nocapture`

use std::path::PathBuf;

use crate::world::{Live, large_world, node, observe};

/// A frame after a change, in milliseconds.
const FRAME: f64 = 40.0;
/// The objects of the page, in megabytes.
const OBJECTS: f64 = 150.0;

#[test]
#[ignore = "long: figures"]
fn figures_of_ten_thousand_nodes() {
    let Some(small) = Live::with(true, large_world(1)) else {
        return;
    };
    let of_one = renderer_megabytes();
    drop(small);
    let live = Live::with(true, large_world(10_000)).unwrap();
    let mut times = Vec::new();
    for number in 1..=20 {
        live.page.eval("drydock.took = undefined");
        observe(&live.world, node(&format!("node-{number:05}"), "z1", "Unknown"));
        live.page.wait("drydock.took !== undefined");
        times.push(live.page.eval("drydock.took").as_f64().unwrap());
    }
    times.sort_by(f64::total_cmp);
    live.page.call("HeapProfiler.collectGarbage", serde_json::json!({}));
    let heap = live.page.eval("performance.memory.usedJSHeapSize").as_f64().unwrap();
    let (frame, heap) = (times[10], heap / 1e6);
    println!(
        "10,000 nodes: {frame:.1} ms of {FRAME} for each frame with a change, the slowest {:.1} ms; {heap:.0} MB of {OBJECTS} of \
         objects in the page, {:.0} MB for its process, which has {of_one:.0} MB with one node",
        times[19],
        renderer_megabytes()
    );
    assert!(frame <= FRAME, "{frame} ms for a frame");
    assert!(heap <= OBJECTS, "{heap} MB of objects");
}

/// The memory of the largest process that renders a page, in megabytes. What it shares with other processes counts in parts.
fn renderer_megabytes() -> f64 {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_renderer = |process: &PathBuf| {
        std::fs::read(process.join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("--type=renderer"))
    };
    let kilobytes = |process: PathBuf| {
        let memory = std::fs::read_to_string(process.join("smaps_rollup")).ok()?;
        let line = memory.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").parse::<f64>().ok()
    };
    let all = processes.filter(is_renderer).filter_map(kilobytes);
    all.fold(0.0, f64::max) * 1.024 / 1000.0
}
