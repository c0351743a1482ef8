//! Sessions of stage `kind` that end early: by Ctrl-C at every stage of their lives, and by missing
//! requirements. Asserts that no container, process or temporary folder is left.

use std::time::Duration;

use crate::session::{END_LIMIT, Session, cluster};

/// How long a session may take to report a missing requirement without running a program.
const REQUIREMENT_LIMIT: Duration = Duration::from_secs(30);
/// The same when it must try a cluster.
const TRY_LIMIT: Duration = Duration::from_mins(4);
/// The exit status of an invalid command line.
const USAGE: i32 = 2;
/// The exit status on a machine that cannot run the stage.
const UNAVAILABLE: i32 = 3;

/// The messages of a session's phases, in order; Ctrl-C is sent at each.
const PARTS: [&str; 6] = [
    // Images are built and the cluster is created at the same time.
    "creating the cluster",
    "images built",
    " created: ",
    "images loaded",
    "machine API installed",
    "deployed into",
];

/// Ctrl-C is also sent this long after the creation of the cluster began, when its node is about to start.
const MOMENTS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

#[tokio::test]
async fn ctrl_c_in_any_phase_leaves_nothing_behind() {
    let mut clusters = Vec::new();
    let later = MOMENTS.map(|moment| (PARTS[0], moment));
    let parts = PARTS[1..].iter().map(|part| (*part, Duration::ZERO));
    for (part, moment) in later.into_iter().chain(parts) {
        let mut session = Session::new(&["run", "lifecycle", "--stage", "kind"]);
        let mut running = session.start();
        running.wait_for_line(part).await;
        tokio::time::sleep(moment).await;
        running.interrupt();
        let (status, printed, error) = running.ends(END_LIMIT).await;
        assert_eq!(status, Some(130), "{part}: {error}");
        assert!(error.ends_with("drydock: interrupted\n"), "{part}: {error}");
        session.assert_nothing_is_left(part, &printed).await;
        clusters.extend(cluster(&printed));
    }
    assert_eq!(clusters.len(), MOMENTS.len() + PARTS.len() - 1);
    // A container that was being started when its cluster was deleted would exist by now.
    let left = stage::kind::leftovers().await.unwrap();
    assert!(clusters.iter().all(|cluster| !left.contains(cluster)), "{left:?}");
}

#[tokio::test]
async fn missing_requirements_fail_fast_with_one_line_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.yaml");
    std::fs::write(&wrong, "kind: [").unwrap();
    let wrong = wrong.to_str().unwrap();
    let docker = which::which("docker").unwrap();
    let without_kind = folder.path().join("bin");
    std::fs::create_dir(&without_kind).unwrap();
    std::os::unix::fs::symlink(docker, without_kind.join("docker")).unwrap();

    let run = ["run", "lifecycle", "--stage", "kind"];
    let absent = ["--images", "mcm=nothing:here,fakecloud=nothing:here"];
    let with = |more: &[&'static str]| Session::new(&[&run[..], more].concat());
    let cases = [
        (
            with(&[]).env("DOCKER_HOST", "unix:///nowhere"),
            REQUIREMENT_LIMIT,
            UNAVAILABLE,
            "unix:///nowhere",
        ),
        (
            with(&[]).env("DOCKER_HOST", "tcp://127.0.0.1:1"),
            REQUIREMENT_LIMIT,
            UNAVAILABLE,
            "no socket of this machine",
        ),
        (
            with(&[])
                .env("PATH", without_kind)
                .env("DRYDOCK_CACHE", folder.path().join("empty")),
            REQUIREMENT_LIMIT,
            UNAVAILABLE,
            "the program kind",
        ),
        (
            with(&["--cluster", "Not_a_name"]),
            REQUIREMENT_LIMIT,
            USAGE,
            "lower-case",
        ),
        (
            with(&["--kind-config", "nowhere.yaml"]),
            REQUIREMENT_LIMIT,
            USAGE,
            "--kind-config nowhere.yaml",
        ),
        (
            Session::new(&[&run[..], &["--kind-config", wrong]].concat()),
            REQUIREMENT_LIMIT,
            USAGE,
            "the cluster cannot be created",
        ),
        (
            with(&["--node-image", "nothing:here"]),
            TRY_LIMIT,
            USAGE,
            "nothing:here",
        ),
        (
            with(&absent),
            REQUIREMENT_LIMIT,
            USAGE,
            "the Docker engine has no image nothing:here",
        ),
    ];
    for (mut session, limit, exit_status, expected) in cases {
        let (status, printed, error) = session.start().ends(limit).await;
        assert_eq!(status, Some(exit_status), "{expected}: {error}");
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(error.lines().count(), 1, "{expected}: {error}");
        session.assert_nothing_is_left(expected, &printed).await;
    }
}
