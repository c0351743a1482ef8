//! Faults: preview, injection, what is seen of it, and the plan.

use scenario::plan::Plan;

use crate::world::{Live, small_world};

#[test]
fn a_fault_shows_what_it_hits_its_command_and_its_plan_line_before_it_is_injected() {
    let Some(live) = Live::open() else { return };
    live.choose("vm.kill", "pool-*");
    let preview = live.text_of("preview");
    assert!(
        preview.contains("Hits 3 of 4: pool-5-0, pool-5-1, pool-5-2"),
        "{preview}"
    );
    assert!(live.text_of("fault-command").contains("fakecloud vm kill pool-5-1"));
    assert!(live.text_of("fault-plan").contains("deferred"));
    assert!(live.cloud.performed.lock().is_empty());
}

#[test]
fn an_injected_fault_is_seen_in_the_topology_and_in_the_timeline() {
    let Some(live) = Live::open() else { return };
    live.choose("vm.kill", "m-1");
    live.page.click("#inject");
    live.page
        .wait("document.getElementById('fault-result').textContent.startsWith('Injected: VMs Kill')");
    live.page
        .wait("document.getElementById('problems').textContent.includes('m-1 stopped')");
    live.page
        .wait("document.getElementById('list').textContent.includes('kill the VM of m-1')");
    live.page
        .wait("document.getElementById('list').textContent.includes('VM vm-m-1')");
    assert_eq!(live.cloud.performed.lock().len(), 1);
}

#[test]
fn a_fault_with_a_time_ends_by_itself_and_has_a_window_in_the_lanes() {
    let Some(live) = Live::open() else { return };
    live.choose("kubelet.partition", "m-1");
    live.page.eval("(() => { const of = document.getElementById('fault-seconds'); of.value = '1'; of.dispatchEvent(new Event('input')); })()");
    live.page.wait("!document.getElementById('inject').disabled && document.getElementById('fault-command').textContent.includes('--lasts 1s')");
    live.page.click("#inject");
    live.page
        .wait("document.getElementById('list').textContent.includes('partition the kubelet of m-1')");
    live.page
        .wait("document.getElementById('list').textContent.includes('reconnect the kubelet of m-1')");
    let record = live.world.lock().timeline().record(clock::Clock::wall().now());
    let window = record
        .spans
        .iter()
        .find(|span| span.class == record::SpanClass::Fault)
        .unwrap();
    assert!(window.to.is_some(), "{window:?}");
}

#[test]
fn a_fault_without_a_time_is_listed_until_it_is_ended() {
    let Some(live) = Live::open() else { return };
    live.choose("vm.kill", "m-1");
    live.page.click("#inject");
    live.page
        .wait("document.getElementById('active-faults').textContent.includes('VMs Kill: 1, until it is ended')");
    // Other pages get it, too.
    let active = live
        .page
        .eval("(async () => (await (await fetch('/api/state')).json()).active)()");
    assert_eq!(
        (&active[0]["number"], active[1].is_null()),
        (&1.into(), true),
        "{active}"
    );
    live.page.click("#active-faults button");
    live.page
        .wait("document.getElementById('active-faults').textContent === ''");
    live.page
        .wait("document.getElementById('list').textContent.includes('start the VM of m-1')");
    let ended = live.page.text(
        "(async () => { const answer = await fetch('/api/faults/end', { method: 'POST', headers: { 'x-drydock-request': '1' }, body: '{\"number\":1}' }); return answer.status + ' ' + await answer.text(); })()",
    );
    assert!(ended.starts_with("404 number: no fault 1 is active"), "{ended}");
}

#[test]
fn the_selection_is_the_target() {
    let Some(live) = Live::open() else { return };
    live.page
        .eval("drydock.select(drydock.world.tiles().find((tile) => tile.machine?.name === 'pool-5-1').key)");
    live.page
        .wait("document.getElementById('fault-targets').value === 'pool-5-1'");
    live.page.eval("(() => { const of = document.getElementById('fault'); of.value = 'zone.api'; of.dispatchEvent(new Event('change')); })()");
    live.page
        .wait("document.getElementById('fault-targets').value === 'z1'");
    live.page
        .wait("document.getElementById('preview').innerText.includes('Hits 1 of 2: z1')");
}

#[test]
fn an_invalid_target_or_time_is_explained_and_cannot_be_injected() {
    let Some(live) = Live::open() else { return };
    live.page.eval("(() => { const of = document.getElementById('fault-targets'); of.value = 'nobody'; of.dispatchEvent(new Event('input')); })()");
    live.page
        .wait("document.getElementById('preview').textContent.includes('no machine matches')");
    assert_eq!(live.page.eval("document.getElementById('inject').disabled"), true);
    live.page.eval("(() => { const of = document.getElementById('fault'); of.value = 'api.slow'; of.dispatchEvent(new Event('change')); const time = document.getElementById('fault-seconds'); time.value = '0'; time.dispatchEvent(new Event('input')); })()");
    live.page
        .wait("document.getElementById('preview').textContent.includes('write 1 to 86400')");
}

#[test]
fn a_fault_that_the_world_refuses_says_why() {
    let Some(live) = Live::open() else { return };
    live.page.eval("(() => { const of = document.getElementById('fault'); of.value = 'process.restart'; of.dispatchEvent(new Event('change')); })()");
    live.page.wait("!document.getElementById('inject').disabled");
    live.page.click("#inject");
    live.page
        .wait("document.getElementById('fault-result').className === 'error'");
    assert!(live.text_of("fault-result").contains("no such process"));
}

#[test]
fn the_session_is_saved_as_a_plan_of_its_objects_and_faults() {
    let Some(live) = Live::open() else { return };
    live.choose("vm.reboot", "m-1");
    live.page.click("#inject");
    live.page
        .wait("document.getElementById('fault-result').textContent.startsWith('Injected')");
    let text = live.page.text("(async () => (await fetch('/api/plan')).text())()");
    let plan = Plan::from_yaml(&text, "session.yaml", &[]).unwrap();
    let steps: Vec<String> = plan.scenario.steps.iter().map(scenario::Step::description).collect();
    assert!(
        steps.iter().any(|step| step.contains("reboot the VM of m-1")),
        "{steps:?}"
    );
    assert!(steps.iter().any(|step| step.contains("pool")), "{steps:?}");
    live.page.click("#save");
    live.page
        .wait("document.getElementById('saved').textContent.includes('drydock run --plan session.yaml')");
}

#[test]
fn a_dashboard_without_buttons_shows_commands_and_has_no_button() {
    let Some(live) = Live::with(false, small_world) else {
        return;
    };
    live.page.eval("(() => { const of = document.getElementById('fault-targets'); of.value = 'm-1'; of.dispatchEvent(new Event('input')); })()");
    live.page
        .wait("document.getElementById('fault-command')?.textContent.includes('fakecloud vm kill m-1')");
    assert_eq!(
        live.page.eval("document.getElementById('inject')"),
        serde_json::Value::Null
    );
    let refused = live.page.eval(
        "(async () => { const answer = await fetch('/api/faults', { method: 'POST', headers: { 'x-drydock-request': '1' }, body: JSON.stringify({ fault: 'vm.kill', targets: ['m-1'] }) }); return [answer.status, await answer.text()]; })()",
    );
    assert_eq!(refused[0], 403);
    assert!(refused[1].as_str().unwrap().contains("read-only"), "{refused}");
    assert!(live.cloud.performed.lock().is_empty());
}
