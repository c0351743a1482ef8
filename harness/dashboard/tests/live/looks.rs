//! Pictures of the dashboard, which are also those of the documents.
//!
//! `DRYDOCK_WRITE_DOCS=1 cargo test --workspace --test live looks` writes them.

use std::path::Path;
use std::time::Duration;

use browser::compare_with_file;
use rstest::rstest;
use scenario::cloud::VmState;
use scenario::observation::Seen;

use crate::world::{Live, node, start, vm_event};

#[rstest]
#[case::light("dashboard-light.png", "light")]
#[case::dark("dashboard-dark.png", "dark")]
fn the_dashboard_looks_as_in_the_documents(#[case] file: &str, #[case] theme: &str) {
    // Times are fixed, and the rest of the session is much longer than the test.
    let Some(live) = Live::of_age(Duration::from_mins(10)) else {
        return;
    };
    live.page.resize(1200, 860);
    live.page.media("screen", &[("prefers-color-scheme", theme)]);
    let later = |seconds: u64, seen: Seen| live.world.lock().observe(start() + Duration::from_secs(seconds), seen);
    later(240, vm_event("pool-5-1", "z1", VmState::Stopped));
    later(280, node("pool-5-1", "z1", "Unknown"));
    live.page
        .wait("document.getElementById('problems').textContent.includes('pool-5-1')");
    live.choose("vm.kill", "pool-*");
    live.page
        .eval("drydock.select(drydock.world.tiles().find((tile) => tile.machine?.name === 'm-1').key)");
    live.page.wait("document.getElementById('fault-command')?.textContent === 'fakecloud vm kill m-1' && document.getElementById('entity').textContent.includes('Conditions')");
    live.page.wait("['running -> stopped', 'Ready True -> Unknown'].every((text) => document.getElementById('list').textContent.includes(text))");
    live.page.frame();
    let helper = browser::shared().unwrap().page();
    let picture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/images")
        .join(file);
    compare_with_file(&live.page, &helper, &picture);
}

#[test]
fn a_small_screen_needs_no_scrolling_sideways() {
    let Some(live) = Live::open() else { return };
    live.page.resize(390, 800);
    live.page.frame();
    let wide = live.page.eval("document.documentElement.scrollWidth");
    assert!(wide.as_u64() <= Some(390), "{wide}");
}
