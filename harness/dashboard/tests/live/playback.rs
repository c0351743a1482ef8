//! The playback of a simulated world: a person pauses it, and lets it go on by single events, at a speed and to its end.

use std::sync::Arc;
use std::time::Duration;

use browser::Page;
use clock::Clock;
use dashboard::server::Dashboard;
use dashboard::{Arrival, BeginError, Change, LiveWorld, PlayedRun, Player, RunEnd, RunHandle, Settings, Shared};
use jiff::Timestamp;
use parking_lot::Mutex;
use record::{Place, Program, Recorder, RunRecord, Session};
use rstest::rstest;
use scenario::StageKind;
use scenario::observation::Observation;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::world::{Cloud, Live, machine, start, vm_event};
use scenario::cloud::VmState;

/// The events of the run; every fourth one is a step. The last one violates an invariant.
const EVENTS: u64 = 12;
/// The virtual time between two events.
const BETWEEN: Duration = Duration::from_mins(10);

/// A run in which a machine appears every ten minutes.
struct Machines(Mutex<(Recorder, bool)>);

impl PlayedRun for Machines {
    fn record(&self, now: Timestamp) -> RunRecord {
        let (recorder, has_ended) = self.0.lock().clone();
        let session = Session {
            place: Place {
                scenario: "machines".to_owned(),
                about: String::new(),
                stage: StageKind::Sim,
                target: None,
                seed: 1,
                mutant: None,
                controller: None,
            },
            plan: String::new(),
            sentence: String::new(),
            replay: String::new(),
            program: Program {
                version: "0".to_owned(),
                commit: None,
            },
        };
        let mut record = recorder.so_far(now, session);
        if has_ended {
            let last = record.points.len() - 1;
            record.points[last].violates = Some(0);
            let check = json!({
                "kind": "invariant", "name": "I1", "statement": "at most one VM", "evaluated": 12, "state": "violated",
                "observed": "two VMs", "violated": record.points[last].number,
            });
            record.checks = vec![serde_json::from_value(check).unwrap()];
        }
        record
    }

    fn plan(&self) -> String {
        "seed: 1\n".to_owned()
    }

    fn begin_again(&self, _: Change, _: RunHandle) -> Result<(), BeginError> {
        Err(BeginError::Ended)
    }
}

/// The thread of the run, as the simulation's one.
fn run(player: &RunHandle, machines: &Machines) {
    let mut at = start();
    for number in 0..EVENTS {
        let recorded = machines.0.lock().0.recorded();
        let arrival = Arrival {
            at,
            recorded,
            is_step: number % 4 == 0,
            is_after_due_steps: false,
        };
        if player.wait(arrival).is_break() {
            return;
        }
        let name = format!("m-{number}");
        for what in [vm_event(&name, "z1", VmState::Running), machine(&name, None, "Running")] {
            player.observe(&Observation { at, what });
        }
        machines.0.lock().0.note(at, &format!("event {number}"));
        at += BETWEEN;
    }
    machines.0.lock().1 = true;
    let end = RunEnd {
        passed: false,
        sentence: "Invariant I1 was broken: two VMs".to_owned(),
    };
    player.finish(at, end);
}

/// A page that plays the run.
struct Playing {
    page: Page,
    url: String,
    _runtime: Runtime,
    _cancel: DropGuard,
}

impl Playing {
    fn open() -> Option<Self> {
        let page = browser::shared()?.page();
        let runtime = Runtime::new().unwrap();
        let settings = Settings {
            without: vec![""],
            ..Settings::new(StageKind::Sim, 1, "0.1.0", "drydock play machines")
        };
        let world: Shared = Arc::new(Mutex::new(LiveWorld::without_timeline(start(), settings)));
        let machines = Arc::new(Machines(Mutex::new((Recorder::new(start()), false))));
        let player = Player::new(Clock::wall(), start(), Arc::clone(&world), Arc::clone(&machines) as _);
        let executor = Arc::new(Cloud::of(&world));
        let bound = runtime.block_on(Dashboard::bind(0, false, world, executor, Clock::wall()));
        let dashboard = bound.unwrap().playing(player.clone());
        let url = dashboard.url();
        let cancel = CancellationToken::new();
        runtime.spawn(dashboard.serve(cancel.clone()));
        // A run that waits for ever ends with the process.
        std::thread::spawn(move || {
            let handle = player.current();
            handle.begin(start());
            run(&handle, &machines);
        });
        page.open_url(&url);
        page.wait("document.getElementById('connection')?.textContent === 'live'");
        page.wait("document.getElementById('play-state').textContent === 'paused'");
        Some(Self {
            page,
            url,
            _runtime: runtime,
            _cancel: cancel.drop_guard(),
        })
    }

    /// Waits until the page shows that many machines.
    fn shows(&self, machines: usize) {
        self.page.wait(&format!("drydock.world.tiles().length === {machines}"));
    }

    fn is(&self, state: &str) {
        self.page.wait(&format!(
            "document.getElementById('play-state').textContent === {state:?}"
        ));
    }

    /// Sends a command. Returns the status and the text of the response.
    fn send(&self, body: &str) -> String {
        self.page.text(&format!(
            "(async () => {{ const answer = await fetch('/api/play', {{ method: 'POST', headers: {{ 'x-drydock-request': '1' }}, body: {body:?} }}); \
             return answer.status + ' ' + await answer.text(); }})()"
        ))
    }
}

#[test]
fn a_world_is_played_with_the_keyboard() {
    let Some(playing) = Playing::open() else { return };
    playing.shows(0);
    playing.page.press("n");
    playing.shows(1);
    playing.is("paused");
    playing.page.press("n");
    playing.shows(2);
    playing
        .page
        .wait("document.getElementById('list').textContent.includes('event 1')");
    assert!(
        !playing
            .page
            .text("document.getElementById('list').textContent")
            .contains("event 2")
    );
    // To the next step, which is the fifth event.
    playing.page.press("m");
    playing.shows(4);
    playing.is("paused");
    // The chosen speed is as slow as the wall clock: ten minutes for the next event.
    playing.page.press("<");
    playing.page.press("<");
    playing.page.wait("document.getElementById('play-speed').value === '1'");
    playing.page.press(" ");
    playing.is("running");
    playing
        .page
        .wait("/^\\+30m0[1-9]/.test(document.getElementById('play-clock').textContent)");
    playing.page.press(" ");
    playing.is("paused");
    playing.shows(4);
    assert_eq!(playing.page.complaints(), Vec::<String>::new());
}

#[test]
fn a_world_goes_on_to_its_violation_which_is_then_selected() {
    let Some(playing) = Playing::open() else { return };
    playing.page.click("#play-end");
    playing.is("▲ FAILED: Invariant I1 was broken: two VMs");
    playing.shows(12);
    playing
        .page
        .wait("document.getElementById('detail').textContent.includes('event 11')");
    playing
        .page
        .wait("document.getElementById('checks').textContent.includes('at most one VM')");
    assert_eq!(
        playing
            .page
            .eval("[...document.querySelectorAll('#play button, #play select')].every((one) => one.disabled)"),
        true
    );
    assert_eq!(playing.page.text("document.activeElement.id"), "play-state");
    let refused = playing.send(r#"{"action":"resume"}"#);
    assert!(refused.starts_with("409 the run has ended"), "{refused}");
    assert_eq!(playing.page.complaints().len(), 1, "the refused command");
}

#[test]
fn a_world_at_the_highest_speed_and_without_a_limit_does_not_wait() {
    let Some(playing) = Playing::open() else { return };
    playing.page.eval("(() => { const speed = document.getElementById('play-speed'); speed.value = 'max'; speed.dispatchEvent(new Event('change')); })()");
    playing.page.click("#play-run");
    playing.is("▲ FAILED: Invariant I1 was broken: two VMs");
    let clock = playing.page.text("document.getElementById('play-clock').textContent");
    assert!(clock.starts_with("+2h00m"), "{clock}");
}

#[test]
fn a_late_response_does_not_replace_the_end() {
    let Some(playing) = Playing::open() else { return };
    playing.page.eval(
        "(() => { const now = window.fetch, shown = () => document.getElementById('play-state').textContent; \
         window.fetch = async (...request) => { const answer = await now(...request); \
           while (!shown().includes('FAILED')) await new Promise((resolve) => setTimeout(resolve, 10)); \
           setTimeout(() => { window.late = true; }, 100); return answer; }; })()",
    );
    playing.page.click("#play-end");
    playing.page.wait("window.late");
    playing.is("▲ FAILED: Invariant I1 was broken: two VMs");
    let clock = playing.page.text("document.getElementById('play-clock').textContent");
    assert!(clock.starts_with("+2h00m"), "{clock}");
}

#[test]
fn the_controls_have_names_keys_and_an_announced_state() {
    let Some(playing) = Playing::open() else { return };
    let names = playing.page.accessible_names().join("\n");
    for name in [
        "Playback",
        "Play",
        "Next event",
        "Next step",
        "Next violation or end",
        "Speed",
    ] {
        assert!(names.contains(name), "{name}: {names}");
    }
    let keys = playing.page.text(
        "[...document.querySelectorAll('#play button')].map((button) => button.getAttribute('aria-keyshortcuts')).join(' ')",
    );
    assert_eq!(keys, "Space n m v");
    assert_eq!(
        playing
            .page
            .text("document.getElementById('play-state').getAttribute('role')"),
        "status"
    );
    // Space on a button presses that button only.
    playing.page.eval("document.getElementById('play-event').focus()");
    playing.page.press(" ");
    playing.shows(1);
    playing.is("paused");
    playing.page.eval("document.activeElement.blur()");
    playing.page.press("?");
    let help = playing.page.text("document.getElementById('help').innerText");
    assert!(help.contains("to the next violation, or to the end"), "{help}");
    // Faults are those of the plan.
    assert_eq!(playing.page.text("document.getElementById('chaos').textContent"), "");
    assert_eq!(
        playing.page.text("(async () => (await fetch('/api/plan')).text())()"),
        "seed: 1\n"
    );
}

#[rstest]
#[case::an_unknown_action(r#"{"action":"rewind"}"#, "422 action: there is no \"rewind\"")]
#[case::too_fast(
    r#"{"action":"speed","speed":20000}"#,
    "422 speed: 20000 is no speed; give a number from 1 to 10000"
)]
#[case::too_slow(r#"{"action":"speed","speed":0}"#, "422 speed: 0 is no speed")]
#[case::an_unknown_field(
    r#"{"action":"pause","for":"1m"}"#,
    "400 the request is no command: unknown field `for`"
)]
#[case::no_json("pause", "400 the request is no command")]
fn a_wrong_command_is_refused_with_the_fix(#[case] body: &str, #[case] expected: &str) {
    let Some(playing) = Playing::open() else { return };
    let refused = playing.send(body);
    assert!(refused.starts_with(expected), "{refused}");
    playing.is("paused");
}

#[test]
fn a_command_needs_the_secret_the_page_and_the_right_method() {
    let Some(playing) = Playing::open() else { return };
    let status = |options: &str| {
        playing
            .page
            .eval(&format!("(async () => (await fetch('/api/play', {options})).status)()"))
    };
    assert_eq!(status("{}"), 405);
    assert_eq!(status("{ method: 'PUT' }"), 405);
    let without_header = "{ method: 'POST', body: '{\"action\":\"resume\"}' }";
    assert_eq!(status(without_header), 403);
    let stranger = browser::shared().unwrap().page();
    let url = format!("{}/api/play", playing.url.split("/?").next().unwrap());
    stranger.open_url(&url);
    assert!(stranger.text("document.body.innerText").contains("secret is missing"));
    playing.is("paused");
}

#[test]
fn a_world_on_the_wall_clock_has_no_controls() {
    let Some(live) = Live::open() else { return };
    assert_eq!(live.page.eval("document.getElementById('play').hidden"), true);
    assert_eq!(
        live.page
            .eval("document.getElementById('play').getClientRects().length"),
        0
    );
    let answer = live.page.text(
        "(async () => { const answer = await fetch('/api/play', { method: 'POST', headers: { 'x-drydock-request': '1' }, body: '{\"action\":\"pause\"}' }); \
         return answer.status + ' ' + await answer.text(); })()",
    );
    assert!(answer.starts_with("404 this world runs on the wall clock"), "{answer}");
}
