//! Records of runs, their HTML reports, and the command `report`.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use harness::schema::FileKind;
use serde_json::Value;

use crate::drydock::{drydock, holds_secret, printed, simulate};
use crate::json_schema::Validator;

/// A machine comes up, and the last expectation is one that fails. A user replaces the cloud's credential meanwhile.
const FAILS: &str = "
name: story
about: A machine comes up while its credential is replaced.
steps:
- apply: {machine: m-1}
- patch: {kind: Secret, name: class-a-secret, merge: {stringData: {apiToken: fixture-cloud-credential}}}
- expect:
    that: {phase: {machine: m-1, is: Running}}
    holds: {eventually: bootDelay + slack}
- kubelet: {machine: m-1, do: stop}
- expect:
    that: {phase: {machine: m-1, is: Running}}
    holds: {always: 20m}
";

fn failed(folder: &Path) -> std::path::PathBuf {
    std::fs::write(folder.join("story.yaml"), FAILS).unwrap();
    let output = drydock(
        folder,
        &["run", "--file", "story.yaml", "--stage", "sim", "--seed", "3"],
    );
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    folder.join(".drydock/reports/sim-story-3")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The record in an HTML report.
pub fn record_in(page: &str) -> String {
    let (_, rest) = page.split_once("base64\">").unwrap();
    let packed = STANDARD.decode(rest.split('<').next().unwrap()).unwrap();
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_failed_run_leaves_a_valid_record_with_causes_and_a_report_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let report = failed(folder.path());
    let text = read(&report.join("run.drydock.json"));
    let record: Value = serde_json::from_str(&text).unwrap();
    let errors = Validator::new(FileKind::Record.schema().to_value()).errors(&record);
    assert!(errors.is_empty(), "{errors:#?}");

    let verdict = &record["meta"]["verdict"];
    let sentence = verdict["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("Step 5 failed at +"), "{sentence}");
    let points = record["points"].as_array().unwrap();
    let find = |what: &str| {
        points
            .iter()
            .find(|point| point["summary"].as_str().unwrap().contains(what))
            .unwrap()
    };
    let unknown = find("Running -> Unknown");
    assert_eq!(unknown["by"], "process/mcm", "{unknown:#}");
    assert_eq!(unknown["diff"]["status"]["currentStatus"]["phase"], "Unknown");
    // The latest change of the node that mcm had received: it has the taint that follows Ready.
    let at = |number: &Value| &points[number.as_u64().unwrap() as usize - 1];
    let cause = at(&unknown["cause"]);
    assert!(
        cause["summary"].as_str().unwrap().starts_with("node m-1 spec.taints +"),
        "{cause:#}"
    );
    let not_ready = at(&cause["previous"]);
    assert_eq!(not_ready["summary"], "node m-1 Ready True -> Unknown", "{not_ready:#}");
    assert_eq!(not_ready["by"], "process/controllers");
    let vm = find("VM vm-");
    let call = &points[vm["cause"].as_u64().unwrap() as usize - 1];
    assert_eq!(call["summary"], "cloud CreateMachine for m-1: OK", "{call:#}");

    let spans = record["spans"].as_array().unwrap();
    let fault = spans.iter().find(|span| span["class"] == "fault").unwrap();
    assert_eq!(fault["label"], "stop of the kubelet of m-1");
    let counters = record["counters"].as_array().unwrap();
    let watches = counters
        .iter()
        .find(|counter| counter["chart"] == "open watches")
        .unwrap();
    let open = watches["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["value"].as_u64());
    assert!(open.max().flatten() >= Some(8), "of mcm: {watches:#}");
    let checks = record["checks"].as_array().unwrap();
    let states: Vec<&str> = checks
        .iter()
        .filter(|check| check["kind"] == "expectation")
        .map(|check| check["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["held", "violated"]);
    let invariants = checks
        .iter()
        .filter(|check| check["kind"] == "invariant" && check["name"] != "I17");
    assert!(invariants.clone().all(|check| check["evaluated"].as_u64() > Some(10)));
    assert_eq!(invariants.count(), judge::invariants::ALL.len() - 1);

    let page = read(&report.join("report.html"));
    assert_eq!(record_in(&page), text);
    assert!(page.len() < 300_000, "{} bytes", page.len());
    for (file, text) in [("run.drydock.json", &text), ("report.html", &page)] {
        assert!(!holds_secret(text), "{file} holds a secret");
    }
}

#[test]
fn recording_a_run_does_not_change_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let hash = |arguments: &[&str]| {
        let (output, runs) = simulate(folder.path(), &[&["lifecycle", "--seed", "7"], arguments].concat());
        assert!(output.status.success(), "{}", printed(&output));
        (runs[0]["trace"]["hash"].clone(), printed(&output))
    };
    let (plain, _) = hash(&[]);
    let (recorded, said) = hash(&["--record"]);
    assert_eq!(plain, recorded);
    assert!(said.contains(".drydock/records/sim-lifecycle-7/report.html"), "{said}");
    let record: Value = serde_json::from_str(&read(
        &folder.path().join(".drydock/records/sim-lifecycle-7/run.drydock.json"),
    ))
    .unwrap();
    assert_eq!(record["meta"]["verdict"]["passed"], true);
    assert_eq!(record["meta"]["trace"]["hash"], plain);
    hash(&["--record=elsewhere"]);
    assert!(folder.path().join("elsewhere/sim-lifecycle-7/report.html").exists());
}

#[test]
fn a_report_is_made_from_a_record_a_folder_or_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let report = failed(folder.path());
    let written = read(&report.join("report.html"));
    for given in [
        "sim-story-3",
        ".drydock/reports/sim-story-3",
        ".drydock/reports/sim-story-3/run.drydock.json",
    ] {
        let output = drydock(folder.path(), &["report", given, "-o", "made.html"]);
        assert!(output.status.success(), "{}", printed(&output));
        assert_eq!(read(&folder.path().join("made.html")), written, "{given}");
        let record = "./.drydock/reports/sim-story-3/run.drydock.json";
        let refused = drydock(folder.path(), &["report", given, "-o", record]);
        assert_eq!(refused.status.code(), Some(2), "{given}");
        assert!(
            printed(&refused).contains("is the record itself"),
            "{}",
            printed(&refused)
        );
    }
    let valid = drydock(
        folder.path(),
        &["validate", ".drydock/reports/sim-story-3/run.drydock.json"],
    );
    assert!(
        printed(&valid).contains("valid, record of story on sim with"),
        "{}",
        printed(&valid)
    );
}

#[test]
fn what_is_no_record_is_refused_with_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("newer.json"), "{\"version\": 9}").unwrap();
    std::fs::write(folder.join("cut.json"), "{\"version\": 1, \"meta\": {\"dry").unwrap();
    std::fs::create_dir(folder.join("empty")).unwrap();
    let huge = std::fs::File::create(folder.join("huge.json")).unwrap();
    huge.set_len(2 << 30).unwrap();
    for (given, expected) in [
        (
            "newer.json",
            "newer.json: version: it has version 9, and this program reads up to 1",
        ),
        ("cut.json", "cut.json: it ends in the middle"),
        ("huge.json", "huge.json: it has 2147483648 bytes"),
        ("empty", "empty contains no run.drydock.json"),
        ("nothing", "there is no record nothing"),
        ("list", "report folders have `drydock reports list`"),
    ] {
        let output = drydock(folder, &["report", given]);
        assert_eq!(output.status.code(), Some(2), "{given}");
        assert!(printed(&output).contains(expected), "{given}: {}", printed(&output));
    }
}

#[test]
fn two_runs_are_compared_on_a_page() {
    let folder = tempfile::tempdir().unwrap();
    simulate(folder.path(), &["lifecycle", "--seeds", "7..9", "--record=records"]);
    let [one, other] = ["records/sim-lifecycle-7", "records/sim-lifecycle-8"];
    let output = drydock(folder.path(), &["diff", one, other, "-o", "difference.html"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("difference.html\n") && text.contains("The first difference:"),
        "{text}"
    );
    let page = read(&folder.path().join("difference.html"));
    for part in ["▲ First difference", "id=\"difference\"", "Lanes of both runs"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!holds_secret(&page), "the page holds a secret");
    let record = format!("{other}/run.drydock.json");
    let refused = drydock(folder.path(), &["diff", one, other, "-o", &record]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        printed(&refused).contains("is a record: name another file"),
        "{}",
        printed(&refused)
    );
}
