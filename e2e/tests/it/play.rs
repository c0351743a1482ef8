//! `drydock play`: a simulated world that a page paces, over plain HTTP.

use std::path::Path;

use rstest::rstest;
use serde_json::Value;

use crate::dashboard::inject;
use crate::dashboard_client::DashboardClient;
use crate::drydock::{drydock, drydock_program, holds_secret, printed, simulate};
use crate::up::Up;

/// A played world and its page.
struct Playing {
    process: Up,
    page: DashboardClient,
}

impl Playing {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = drydock_program();
        command.arg("play").args(arguments).current_dir(folder);
        let process = Up::when_it_prints("Ctrl-C ends it", &mut command);
        let page = DashboardClient::log_in(&process.printed, "Open ");
        Self { process, page }
    }

    fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.page.request(&format!("GET {path}"), "").1).unwrap()
    }

    fn command(&self, body: &str) {
        let (head, answer) = self.page.request("POST /api/play", body);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}: {answer}");
    }

    /// Injects a fault, and waits until the world waits again.
    fn inject(&self, body: &str) {
        let (head, answer) = self.page.request("POST /api/faults", body);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}: {answer}");
        self.wait_for("paused");
    }

    /// Waits for that state of the playback. Asks again and again: the time of a simulation is none of the wall clock.
    fn wait_for(&self, state: &str) {
        loop {
            let playback = self.get("/api/state")["playback"].clone();
            if playback["state"] == state {
                return;
            }
            assert_ne!(playback["state"], "ended", "{playback}");
            std::thread::yield_now();
        }
    }

    /// Goes on by single events until the topology is like that.
    fn go_on_until(&self, is_reached: impl Fn(&[Value]) -> bool) {
        while !is_reached(self.get("/api/state")["changes"]["changed"].as_array().unwrap()) {
            self.command(r#"{"action":"event"}"#);
            self.wait_for("paused");
        }
    }

    /// The summaries of the events so far.
    fn events(&self) -> Vec<String> {
        let record = self.get("/api/record");
        let points = record["points"].as_array().unwrap();
        points
            .iter()
            .map(|point| point["summary"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[test]
fn a_played_run_is_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let playing = Playing::start(folder.path(), &["lifecycle", "--seed", "7"]);
    playing.wait_for("paused");
    let before = playing.events();
    for _ in 0..3 {
        playing.command(r#"{"action":"event"}"#);
        playing.wait_for("paused");
    }
    let after = playing.events();
    assert!(after.len() >= before.len() + 3, "{before:?} {after:?}");
    // In real time the next event is minutes away.
    playing.command(r#"{"action":"speed","speed":1}"#);
    playing.command(r#"{"action":"resume"}"#);
    playing.command(r#"{"action":"pause"}"#);
    playing.command(r#"{"action":"step"}"#);
    playing.wait_for("paused");
    let so_far = playing.get("/api/record");
    assert_eq!(so_far["meta"]["causes"], "recorded");
    assert!(
        so_far["checks"]
            .as_array()
            .unwrap()
            .iter()
            .any(|check| check["kind"] == "invariant")
    );
    playing.command(r#"{"action":"end"}"#);
    playing.wait_for("ended");

    let record = playing.get("/api/record");
    assert_eq!(record["meta"]["verdict"]["passed"], true);
    assert!(record["points"].as_array().unwrap().len() > after.len());
    let (_, runs) = simulate(folder.path(), &["lifecycle", "--seed", "7", "--record=records"]);
    assert_eq!(record["meta"]["trace"], runs[0]["trace"]);
    let text = std::fs::read(folder.path().join("records/sim-lifecycle-7/run.drydock.json")).unwrap();
    let mut plain: Value = serde_json::from_slice(&text).unwrap();
    // The wall clock is the only difference.
    plain["meta"]["wallSeconds"] = record["meta"]["wallSeconds"].clone();
    assert_eq!(record, plain);
    assert!(!holds_secret(&record.to_string()), "the record holds a secret");
    playing.process.end();
}

#[test]
fn a_fault_of_the_page_is_part_of_the_run_and_of_its_plan() {
    let folder = tempfile::tempdir().unwrap();
    let playing = Playing::start(folder.path(), &["lifecycle", "--seed", "7", "--buttons"]);
    playing.wait_for("paused");
    while !playing
        .events()
        .iter()
        .any(|event| event.contains("Pending -> Running"))
    {
        playing.command(r#"{"action":"event"}"#);
        playing.wait_for("paused");
    }
    let before = playing.events();
    let (head, preview) = playing
        .page
        .request("POST /api/preview", r#"{"fault":"vm.kill","targets":["*"]}"#);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}: {preview}");
    assert!(preview.contains("afterEvents"), "{preview}");
    // The history stays the same, and the world waits behind the fault.
    playing.inject(r#"{"fault":"vm.kill","targets":["*"],"seconds":600}"#);
    assert_eq!(
        playing.events().split_at(before.len()),
        (before.as_slice(), ["kill the VM of m-1".to_owned()].as_slice())
    );
    let active = playing.get("/api/state")["active"].clone();
    assert_eq!(active[0]["title"], "VMs Kill: 1");
    // The end of a fault comes in place of the later one.
    let number = active[0]["number"].to_string();
    let (head, answer) = playing
        .page
        .request("POST /api/faults/end", &format!("{{\"number\":{number}}}"));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}: {answer}");
    playing.wait_for("paused");
    playing.inject(r#"{"fault":"process.crashAfter","targets":[]}"#);
    let events = playing.events();
    for event in ["start the VM of m-1", "crash mcm after its next effect"] {
        assert!(events.iter().any(|seen| seen == event), "{event}: {events:#?}");
    }
    playing.command(r#"{"action":"end"}"#);
    playing.wait_for("ended");
    let (head, refused) = playing
        .page
        .request("POST /api/faults", r#"{"fault":"process.restart","targets":[]}"#);
    assert!(
        head.starts_with("HTTP/1.1 409") && refused.contains("the run has ended"),
        "{head}: {refused}"
    );

    let record = playing.get("/api/record");
    let (_, plan) = playing.page.request("GET /api/plan", "");
    assert!(!holds_secret(&plan) && !plan.contains("at: 11m"), "{plan}");
    std::fs::write(folder.path().join("session.yaml"), plan).unwrap();
    let (_, runs) = simulate(folder.path(), &["--plan", "session.yaml"]);
    assert_eq!(runs[0]["trace"], record["meta"]["trace"]);
    playing.process.end();
}

#[test]
fn a_fault_of_several_machines_begins_on_all_of_them_and_before_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let playing = Playing::start(folder.path(), &["rolling_restart", "--buttons"]);
    playing.wait_for("paused");
    playing.go_on_until(|entities| entities.iter().filter(|one| one["kind"] == "vm").count() >= 2);
    // The world waits before a step of its scenario.
    playing.command(r#"{"action":"step"}"#);
    playing.wait_for("paused");
    let before = playing.events();
    let (_, preview) = playing
        .page
        .request("POST /api/preview", r#"{"fault":"kubelet.partition","targets":["*"]}"#);
    let hits = serde_json::from_str::<Value>(&preview).unwrap()["hits"]
        .as_array()
        .unwrap()
        .len();
    assert!(hits >= 2, "{preview}");
    playing.inject(r#"{"fault":"kubelet.partition","targets":["*"]}"#);
    let events = playing.events();
    let new = &events[before.len()..];
    let partitions = new
        .iter()
        .filter(|event| event.contains("partition the kubelet of"))
        .count();
    assert_eq!(partitions, hits, "{new:#?}");
    assert!(!new.iter().any(|event| event.starts_with("step ")), "{new:#?}");
    playing.process.end();
}

#[test]
fn the_page_of_a_played_run_shows_what_a_fault_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let playing = Playing::start(folder.path(), &["node_deleted", "--buttons"]);
    let Some(browser) = browser::shared() else { return };
    let page = browser.page();
    let (_, url) = playing.process.printed.split_once("Open ").unwrap();
    page.open_url(url.lines().next().unwrap());
    page.wait("document.getElementById('play-state').textContent === 'paused'");
    playing.go_on_until(|entities| {
        let mut machines = entities.iter().filter(|one| one["kind"] == "machine");
        machines.any(|machine| machine["state"] == "Running")
    });
    page.wait("drydock.world.tiles().some((tile) => tile.machine?.state === 'Running')");
    inject(&page, "kubelet.stop", "*", "Kubelets Stop");
    page.wait("document.getElementById('play-state').textContent === 'paused'");
    page.wait("document.getElementById('list').textContent.includes('stop the kubelet of')");
    page.wait("document.getElementById('active-faults').textContent.includes('Kubelets Stop')");
    page.press("v");
    page.wait("!['paused', 'running at full speed'].includes(document.getElementById('play-state').textContent)");
    page.wait("document.getElementById('list').textContent.includes('Ended: the kubelet has stopped')");
    assert_eq!(page.complaints(), Vec::<String>::new());
    playing.process.end();
}

#[test]
fn without_buttons_a_played_run_has_no_faults() {
    let folder = tempfile::tempdir().unwrap();
    let playing = Playing::start(folder.path(), &["lifecycle"]);
    playing.wait_for("paused");
    assert_eq!(playing.get("/api/state")["faults"], serde_json::json!([]));
    let (head, refused) = playing
        .page
        .request("POST /api/faults", r#"{"fault":"process.restart","targets":[]}"#);
    assert!(head.starts_with("HTTP/1.1 403"), "{head}: {refused}");
    playing.process.end();
}

#[test]
fn a_failed_seed_of_a_campaign_has_a_page_and_is_played_from_its_plan() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = "chaos first-light --mutant R04 --failures 1 --jobs 1";
    let output = drydock(folder.path(), &campaign.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let page = std::fs::read_to_string(folder.path().join(".drydock/chaos/campaign.html")).unwrap();
    let (_, link) = page.split_once("href=\"").unwrap();
    let report = Path::new(".drydock/chaos").join(link.split_once('"').unwrap().0);
    assert!(folder.path().join(&report).exists(), "{}", report.display());
    let again = drydock(
        folder.path(),
        &["report", "--campaign", ".drydock/chaos", "-o", "again.html"],
    );
    assert!(again.status.success(), "{}", printed(&again));
    let again = std::fs::read_to_string(folder.path().join("again.html")).unwrap();
    for text in ["1 of 4 seeds failed", "▲ violated in 1 seed", "▲ never reached"] {
        assert!(page.contains(text) && again.contains(text), "{text}: {page}");
    }
    assert!(!holds_secret(&page));

    let plan = report.with_file_name("plan.yaml").display().to_string();
    let mut playing = Playing::start(folder.path(), &["--plan", &plan]);
    playing.wait_for("paused");
    playing.command(r#"{"action":"end"}"#);
    playing.wait_for("ended");
    let end = playing.get("/api/state")["playback"]["end"].clone();
    assert_eq!(end["passed"], false);
    let record = playing.get("/api/record");
    assert_eq!(record["meta"]["verdict"]["sentence"], end["sentence"]);
    let points = record["points"].as_array().unwrap();
    assert_eq!(points.iter().filter(|point| !point["violates"].is_null()).count(), 1);
    playing
        .process
        .prints("Its report is in .drydock/reports/sim-campaign-4");
    // The plan that the page saves is that of the run.
    let (_, saved) = playing.page.request("GET /api/plan", "");
    std::fs::write(folder.path().join("session.yaml"), saved).unwrap();
    let replayed = drydock(folder.path(), &["run", "--plan", "session.yaml"]);
    assert_eq!(replayed.status.code(), Some(1), "{}", printed(&replayed));
    assert_eq!(playing.process.exit_status(), Some(1));
}

#[rstest]
#[case::a_folder_without_a_campaign(&["report", "--campaign", "."], "contains no campaign.drydock.json")]
#[case::an_unknown_scenario(&["play", "lifecicle"], "near it are: lifecycle")]
#[case::nothing(&["play"], "<SCENARIO")]
#[case::two(&["play", "lifecycle", "--plan", "a.yaml"], "cannot be used with")]
#[case::no_such_plan(&["play", "--plan", "a.yaml"], "a.yaml")]
#[case::a_wrong_port(&["play", "lifecycle", "--dashboard-port", "70000"], "--dashboard-port")]
fn a_wrong_command_line_is_refused(#[case] arguments: &[&str], #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock(folder.path(), arguments);
    let printed = printed(&output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(printed.contains(expected), "{printed}");
}
