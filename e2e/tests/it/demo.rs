//! `drydock demo`, and the colors and amounts of output that all commands have.

use crate::drydock::{drydock, drydock_program, printed};

#[test]
fn the_demo_shows_a_failure_its_preservation_and_the_replacement() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = drydock_program();
    let output = command
        .arg("demo")
        .env("TMPDIR", folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = printed(&output);
    assert!(output.status.success(), "{text}");
    let moments = [
        "1. A deployment of 3 machines",
        "Pending → Running",
        "fakecloud vm kill demo-",
        "Running → Unknown (is unhealthy",
        "Unknown → Failed (health checks failing",
        "Failed → Failed:Preserved",
        "It is kept until",
        "(in 72 hours)",
        "kubectl annotate node demo-",
        "and its VM are gone",
        "nothing is left",
    ];
    let mut rest = text.as_str();
    for moment in moments {
        let (_, after) = rest
            .split_once(moment)
            .unwrap_or_else(|| panic!("{moment:?} is missing in {text}"));
        rest = after;
    }
    // The replacement may be Running before the failed machine is gone, or after.
    assert_eq!(text.matches("Pending → Running").count(), 4, "{text}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_quiet_run_prints_the_total_and_a_verbose_one_hashes() {
    let folder = tempfile::tempdir().unwrap();
    let run = |flags: &[&str]| {
        let arguments = ["run", "lifecycle", "joins_never", "--stage", "sim"];
        printed(&drydock(folder.path(), &[&arguments, flags].concat()))
    };
    assert_eq!(run(&["-q"]), "2 passed, 0 failed\n");
    let (normal, verbose) = (run(&[]), run(&["-v"]));
    assert!(normal.contains("ok   2/2 ") && !normal.contains("trace"), "{normal}");
    assert!(verbose.contains(" entries)"), "{verbose}");
}

#[test]
fn failures_are_red_if_colors_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["run", "r04-lost-lease", "--stage", "sim", "--mutant", "R04"];
    let red = "\u{1b}[31mFAIL";
    for (flags, colored) in [
        (&[][..], false),
        (&["--color", "always"], true),
        (&["--color=never"], false),
    ] {
        let text = printed(&drydock(folder.path(), &[&arguments, flags].concat()));
        assert!(
            text.contains("FAIL") && text.contains(red) == colored,
            "{flags:?}: {text}"
        );
    }
}

#[test]
fn expected_failures_of_the_corpus_are_not_printed_as_failures() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(&drydock(folder.path(), &["regressions", "R04"]));
    assert!(
        text.contains("with the defect R04: fails, as expected: ") && !text.contains("FAIL"),
        "{text}"
    );
}
