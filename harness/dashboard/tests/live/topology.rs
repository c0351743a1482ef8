//! The topology and what belongs to a selection.

use crate::world::{Live, applied, large_world, machine, node, observe, vm_event};
use browser::Page;
use scenario::cloud::VmState;
use serde_json::json;

#[test]
fn the_dashboard_opens_without_errors_and_requests_only_its_server() {
    let Some(live) = Live::open() else { return };
    assert_eq!(live.page.complaints(), Vec::<String>::new());
    let requests = live.page.requests();
    assert!(
        requests.iter().all(|request| request.url.starts_with(live.origin())),
        "{requests:?}"
    );
    // The secret does not stay in the address.
    assert_eq!(
        live.page.text("location.origin + location.pathname + location.search"),
        format!("{}/", live.origin())
    );
    let counts = live.text_of("counts");
    for part in ["1 deployments", "1 sets", "4 machines", "4 VMs", "4 nodes"] {
        assert!(counts.contains(part), "{part}: {counts}");
    }
}

#[test]
fn a_machine_is_one_tile_with_its_vm_its_node_and_its_pods() {
    let Some(live) = Live::open() else { return };
    assert_eq!(live.page.eval("drydock.world.tiles().length"), 4);
    let text = select(&live.page, "pool-5-0");
    for part in [
        "machine pool-5-0 is Running",
        "VM vm-pool-5-0 is running",
        "node pool-5-0 is Ready",
        "1 pods run",
        "zone z1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    live.page
        .wait("document.getElementById('entity').textContent.includes('deployment pool: 3/3')");
    let text = live.text_of("entity");
    for part in ["set pool-5: 3/3", "Ready True", "web-0: Running"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Selects a tile by its machine. Returns its description.
fn select(page: &Page, machine: &str) -> String {
    page.eval(&format!(
        "drydock.select(drydock.world.tiles().find((tile) => tile.machine?.name === {machine:?}).key)"
    ));
    page.wait(&format!(
        "document.querySelector('#entity h2')?.textContent === {machine:?}"
    ));
    page.text("document.getElementById('entity').innerText")
}

#[test]
fn a_change_of_the_world_is_seen_without_a_reload() {
    let Some(live) = Live::open() else { return };
    observe(&live.world, node("pool-5-1", "z1", "Unknown"));
    live.page
        .wait("document.getElementById('problems').textContent.includes('pool-5-1 NotReady')");
    assert!(live.text_of("topology-head").contains("1 of 4 have a problem"));
    observe(&live.world, vm_event("pool-5-1", "z1", VmState::Terminated));
    observe(&live.world, machine("new-1", None, ""));
    live.page
        .wait("drydock.world.tiles().some((tile) => tile.zone === 'no VM yet' && tile.machine.name === 'new-1')");
    live.page
        .wait("document.getElementById('counts').innerText.includes('3 VMs')");
}

#[test]
fn tiles_are_chosen_with_the_keyboard_and_a_problem_is_a_button() {
    let Some(live) = Live::open() else { return };
    live.page.eval("document.getElementById('topology').focus()");
    live.page.press("ArrowRight");
    live.page
        .wait("document.querySelector('#entity h2')?.textContent === 'm-1'");
    live.page.press("ArrowRight");
    live.page
        .wait("document.querySelector('#entity h2')?.textContent === 'pool-5-0'");
    observe(&live.world, node("pool-5-2", "z2", "False"));
    live.page.wait("document.querySelector('#problems .link') !== null");
    live.page.click("#problems .link");
    live.page
        .wait("document.querySelector('#entity h2')?.textContent === 'pool-5-2'");
}

#[test]
fn a_tile_is_chosen_with_the_pointer() {
    let Some(live) = Live::open() else { return };
    let (left, top, ..) = live.page.place_of("#topology");
    live.page.click_at((left + 20.0, top + 40.0));
    live.page
        .wait("document.querySelector('#entity h2')?.textContent === 'm-1'");
}

#[test]
fn a_deployment_or_a_search_dims_the_tiles_of_other_machines() {
    let Some(live) = Live::open() else { return };
    // Whether the tiles of m-1, pool-5-0 and pool-5-1, which are the first row, are opaque, at a place without text.
    let opaque = || {
        live.page.frame();
        live.page.eval(
            "[0, 1, 2].map((number) => document.getElementById('topology').getContext('2d').getImageData(4 + 96 * number + 88, 50, 1, 1).data[3] === 255)",
        )
    };
    assert_eq!(opaque(), json!([true, true, true]));
    live.page.click("#owners .link");
    live.page
        .wait("document.querySelector('#owners .link').ariaPressed === 'true'");
    assert_eq!(opaque(), json!([false, true, true]));
    live.page
        .wait("document.getElementById('entity').textContent.includes('Conditions of poolAvailable True')");
    let details = live.page.text("document.getElementById('entity').textContent");
    assert!(details.starts_with("deployment pool3"), "{details}");
    live.page.click("#owners .link");
    live.page
        .wait("document.querySelector('#owners .link').ariaPressed === 'false'");
    live.page.eval("document.getElementById('dim').focus()");
    live.page.type_text("m-1");
    live.page.wait("drydock.search === 'm-1'");
    assert_eq!(opaque(), json!([true, false, false]));
}

#[test]
fn names_and_messages_are_no_markup() {
    const EVIL: &str = "<img src=x onerror=\"document.title='hacked'\">";
    let Some(live) = Live::open() else { return };
    observe(&live.world, machine(EVIL, None, EVIL));
    observe(&live.world, vm_event(EVIL, EVIL, VmState::Stopped));
    let event = json!({ "metadata": { "name": "e", "namespace": "default" }, "involvedObject": { "name": EVIL }, "reason": EVIL, "message": EVIL });
    observe(&live.world, applied("Event", event));
    live.page.wait("drydock.world.tiles().length === 5");
    live.page
        .eval("drydock.select(drydock.world.tiles().find((tile) => tile.machine?.name.startsWith('<img')).key)");
    live.page
        .wait("document.getElementById('entity').textContent.includes('Events of <img')");
    live.page
        .wait("document.getElementById('list').textContent.includes('<img')");
    assert_eq!(live.page.eval("document.querySelectorAll('img').length"), 0);
    assert_eq!(live.page.text("document.title"), "Drydock dashboard");
    assert_eq!(live.page.complaints(), Vec::<String>::new());
}

#[test]
fn ten_thousand_nodes_are_shown_and_stay_current() {
    let Some(live) = Live::with(true, large_world(10_000)) else {
        return;
    };
    assert_eq!(live.page.eval("drydock.world.tiles().length"), 10_000);
    assert!(live.text_of("topology-head").contains("11 of 10000 have a problem"));
    // All of them are visible at once, at a few pixels each.
    let height = live
        .page
        .eval("document.getElementById('topology').clientHeight")
        .as_f64()
        .unwrap();
    assert!(height < 800.0, "{height}");
    observe(&live.world, node("node-00001", "z2", "Unknown"));
    live.page
        .wait("document.getElementById('topology-head').textContent.includes('12 of 10000')");
    let opaque = || {
        live.page.frame();
        let count = live.page.eval(
            "(() => { const of = document.getElementById('topology'); const { data } = of.getContext('2d').getImageData(0, 0, of.width, of.height); \
             let count = 0; for (let at = 3; at < data.length; at += 4) count += Number(data[at] === 255); return count; })()",
        );
        count.as_u64().unwrap()
    };
    let before = opaque();
    live.page.eval("document.getElementById('dim').focus()");
    live.page.type_text("node-0099");
    live.page.wait("drydock.search === 'node-0099'");
    // Ten tiles and the headings are left.
    let after = opaque();
    assert!(
        after > 0 && after < before / 20,
        "{before} opaque pixels became {after}"
    );
    assert_eq!(live.page.complaints(), Vec::<String>::new());
}
