//! The dashboard of `drydock up`, in a browser. Skipped with a reason where no browser is installed, except in CI.

use std::path::Path;
use std::time::Duration;

use browser::Page;
use kube::api::{Api, DynamicObject, PostParams};
use scenario::{fixtures, kinds};
use serde_json::Value;
use stage::kind_api::KindApi;

use crate::drydock::{drydock, drydock_program, holds_secret, printed};
use crate::up::Up;

/// A page of the dashboard of a world.
fn opened(up: &Up) -> Option<Page> {
    let page = browser::shared()?.page();
    page.open_url(up.dashboard());
    page.wait("document.getElementById('connection').textContent === 'live'");
    Some(page)
}

/// Creates a machine, and its class and Secret if they do not exist.
async fn create_machine(up: &Up, name: &str) {
    let client = crate::drydock::client(&up.kubeconfig()).await;
    let objects = [
        fixtures::secret("default"),
        fixtures::class("default"),
        fixtures::machine(name, "default"),
    ];
    for object in objects {
        let kind = kinds::find(object["kind"].as_str().unwrap()).unwrap();
        let api: Api<DynamicObject> = kind.api(&client, "default");
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let created = api.create(&PostParams::default(), &object).await;
        let exists = matches!(&created, Err(kube::Error::Api(status)) if status.is_already_exists());
        assert!(created.is_ok() || exists, "{created:?}");
    }
}

/// Chooses a fault and its target, injects it, and waits for the result with that title.
pub fn inject(page: &Page, fault: &str, target: &str, title: &str) {
    page.eval(&format!(
        "(() => {{ const set = (id, value) => {{ const of = document.getElementById(id); of.value = value; \
         of.dispatchEvent(new Event('input')); of.dispatchEvent(new Event('change')); }}; \
         set('fault', {fault:?}); set('fault-targets', {target:?}); }})()"
    ));
    page.wait("document.getElementById('preview').textContent.includes('Hits 1 of 1') && !document.getElementById('inject').disabled");
    page.click("#inject");
    page.wait(&format!(
        "document.getElementById('fault-result').textContent.startsWith('Injected: {title}')"
    ));
}

/// Sends the request for a fault from the page. Returns the status and the text of the response.
fn post(page: &Page, fault: &str) -> String {
    let body = format!(r#"{{"fault":"{fault}"}}"#);
    page.text(&format!(
        "(async () => {{ const answer = await fetch('/api/faults', {{ method: 'POST', headers: {{ 'x-drydock-request': '1' }}, body: {body:?} }}); return answer.status + ' ' + await answer.text(); }})()"
    ))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[tokio::test]
async fn a_fault_of_the_dashboard_is_seen_in_the_lanes_and_replays_in_sim() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--buttons"]);
    let Some(page) = opened(&up) else { return };
    create_machine(&up, "m-1").await;
    page.wait(
        "drydock.world.tiles().some((tile) => tile.machine?.state === 'Running' && tile.node?.state === 'Ready')",
    );
    inject(&page, "vm.kill", "m-1", "VMs Kill");
    // The order, the change in the cloud, and the reaction of the controllers.
    for seen in ["kill the VM of m-1", "running -> stopped", "Ready True -> Unknown"] {
        page.wait(&format!(
            "document.getElementById('list').textContent.includes({seen:?})"
        ));
    }
    page.wait("document.getElementById('problems').textContent.includes('m-1')");
    inject(&page, "vm.start", "m-1", "VMs Start");
    page.wait("drydock.world.tiles()[0].vm?.state === 'running'");
    let record = page.text("(async () => (await fetch('/api/record')).text())()");
    assert!(!holds_secret(&record), "the record holds a secret");
    let plan = page.text("(async () => (await fetch('/api/plan')).text())()");
    assert!(!holds_secret(&plan), "the plan holds a secret");
    assert_eq!(page.complaints(), Vec::<String>::new());
    up.end();

    std::fs::write(folder.path().join("session.yaml"), &plan).unwrap();
    let replayed = drydock(
        folder.path(),
        &["run", "--plan", "session.yaml", "--stage", "sim", "--record=records"],
    );
    assert!(replayed.status.success(), "{plan}\n{}", printed(&replayed));
    let record = read(&folder.path().join("records/sim-session-1/run.drydock.json"));
    let points = record["points"].as_array().unwrap();
    let has = |text: &str| {
        points
            .iter()
            .any(|point| point["summary"].as_str().unwrap().contains(text))
    };
    // The VM runs again before its node would be Unknown: timeouts are those of production there.
    assert!(
        has("kill the VM of m-1") && has("running -> stopped") && has("stopped -> running"),
        "{points:#?}"
    );
    assert_eq!(record["meta"]["verdict"]["passed"], true);
}

#[tokio::test]
async fn a_process_and_the_api_server_are_disturbed_from_the_dashboard() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--buttons"]);
    let Some(page) = opened(&up) else { return };
    let conflicts = post(&page, "api.conflict");
    assert!(conflicts.starts_with("200"), "{conflicts}");
    let rules = drydock(folder.path(), &["faults", "list", "-o", "yaml"]);
    assert!(printed(&rules).contains("code: 409"), "{}", printed(&rules));
    let restarted = post(&page, "process.restart");
    assert!(restarted.starts_with("200"), "{restarted}");
    page.wait("document.getElementById('list').textContent.includes('restart mcm')");
    // The lane of the process shows that it was down.
    for seen in ["mcm killed", "mcm started"] {
        page.wait(&format!(
            "document.getElementById('list').textContent.includes({seen:?})"
        ));
    }
    // Its refused requests are in the timeline, too.
    create_machine(&up, "m-1").await;
    page.wait("document.getElementById('list').textContent.includes('409')");
}

#[tokio::test]
async fn mcm_is_killed_at_its_next_write_from_the_dashboard() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--buttons"]);
    let Some(page) = opened(&up) else { return };
    let record = || -> Value {
        serde_json::from_str(&page.text("(async () => (await fetch('/api/record')).text())()")).unwrap()
    };
    let ended = || {
        let record = record();
        let spans = record["spans"].as_array().unwrap();
        let of_mcm = spans
            .iter()
            .filter(|span| span["actor"] == "process/mcm" && span["label"] == "down");
        of_mcm.filter(|span| span["to"].is_number()).count()
    };
    for (count, fault) in [(1, "process.crashBefore"), (2, "process.crashAfter")] {
        let answer = post(&page, fault);
        assert!(answer.starts_with("200"), "{answer}");
        let again = post(&page, fault);
        assert!(again.contains("already armed"), "{again}");
        // The first write about a new machine.
        create_machine(&up, &format!("m-{count}")).await;
        let is_restarted = async {
            while ended() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let restarted = tokio::time::timeout(Duration::from_mins(1), is_restarted).await;
        assert!(restarted.is_ok(), "{:#}", record()["points"]);
    }
    // mcm works again, and no rule is left.
    page.wait("drydock.world.tiles().filter((tile) => tile.machine?.state === 'Running').length === 2");
    let rules = drydock(folder.path(), &["faults", "list"]);
    assert!(!printed(&rules).contains("crash-next"), "{}", printed(&rules));
    up.end();
}

#[test]
fn a_world_without_mcm_cannot_restart_it() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--buttons", "--without", "mcm"]);
    let Some(page) = opened(&up) else { return };
    let faults = page.text("[...document.querySelectorAll('#fault option')].map((option) => option.value).join(' ')");
    assert!(
        faults.contains("cloud.restart") && !faults.contains("process.restart"),
        "{faults}"
    );
}

#[test]
fn a_world_without_a_dashboard_prints_no_address_and_a_used_port_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--no-dashboard"]);
    assert!(!up.printed.contains("dashboard"), "{}", up.printed);
    up.end();
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = drydock_program()
        .args(["up", "--dashboard-port", &port])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        printed(&refused).contains("choose another --dashboard-port"),
        "{}",
        printed(&refused)
    );
    let alone = drydock(folder.path(), &["up", "--without", "fakecloud", "--buttons"]);
    assert!(
        printed(&alone).contains("--buttons and --dashboard-port need fakecloud"),
        "{}",
        printed(&alone)
    );
}
