//! Processes that crash, stop, pause and restart.

use super::*;

/// Polls a controller `polls` times, or until the machine is Pending, and drops it.
async fn crash_after(polls: usize, stage: &Stage) {
    let options = Options {
        leader_election: LeaderElectionOptions {
            enabled: false,
            ..LeaderElectionOptions::default()
        },
        ..Options::default()
    };
    let mut controller = Box::pin(crate::run(options, stage.environment(), CancellationToken::new()));
    let mut remaining = polls;
    std::future::poll_fn(|context| {
        if remaining == 0 || stage.phase() == "Pending" {
            return Poll::Ready(());
        }
        remaining -= 1;
        controller.as_mut().poll(context).map(|_| ())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_poll_leaves_at_most_one_vm() {
    let mut polls = 0;
    loop {
        let stage = Stage::new();
        stage.create_machine();
        crash_after(polls, &stage).await;
        if stage.phase() == "Pending" {
            break;
        }
        let recovery = async {
            stage.wait(60).await;
            assert_eq!(stage.phase(), "Pending", "crashed at {polls}");
            assert_eq!(stage.cloud.vms(), 1, "crashed at {polls}");
        };
        stage.run(recovery).await;
        polls += 1;
    }
    assert!(polls > 10, "only {polls} polls were tried");
}

#[tokio::test(start_paused = true)]
async fn the_controller_recovers_from_an_outage_of_the_api_server() {
    let stage = Stage::new();
    stage.server.set_down(true);
    stage
        .run(async {
            stage.wait(120).await;
            stage.server.set_down(false);
            stage.create_machine();
            stage.wait(60).await;
            assert_eq!(stage.phase(), "Pending");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_releases_the_lease() {
    let stage = Stage::new();
    stage.run(stage.wait(10)).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/machine-controller-manager";
    assert_eq!(stage.server.get(lease).unwrap()["spec"]["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_requests_in_the_same_order() {
    let mut stories = Vec::new();
    for _ in 0..2 {
        let stage = Stage::new();
        let story = async {
            for number in 0..20 {
                stage.create_machine_named(&format!("m-{number:05}"));
            }
            stage.wait(120).await;
        };
        stage.run(story).await;
        let events: Vec<_> = stage
            .server
            .all("/api/v1/namespaces/default/events")
            .into_iter()
            .collect();
        stories.push((stage.server.requests(), events));
    }
    assert!(stories[0].0.len() > 100);
    assert_eq!(stories[0], stories[1]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_keys_do_not_exceed_the_flag() {
    let stage = Stage::new();
    stage.cloud.0.lock().delay = Duration::from_secs(1);
    for number in 0..10 {
        stage.create_machine_named(&format!("m-{number:05}"));
    }
    let cancel = CancellationToken::new();
    let options = Options {
        concurrent_syncs: 3,
        ..Options::default()
    };
    let controller = crate::run(options, stage.environment(), cancel.clone());
    let story = async {
        stage.wait(300).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(Box::pin(controller), story);
    result.unwrap();
    let state = stage.cloud.0.lock();
    assert_eq!((state.vms.len(), state.max_in_progress), (10, 3));
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/machine-controller-manager";

#[rstest]
#[case::a_call_that_ends_in_time(900, "")]
#[case::a_call_that_does_not(60_000, "me")]
#[tokio::test(start_paused = true)]
async fn a_stop_takes_less_than_two_seconds_and_keeps_the_lease_during_a_call(
    #[case] call_millis: u64,
    #[case] holder: &str,
) {
    let stage = Stage::new();
    stage.cloud.0.lock().delay = Duration::from_millis(call_millis);
    stage.create_machine_named("m-00001");
    let (cancel, environment) = (CancellationToken::new(), stage.environment());
    let readiness = environment.metrics.readiness().clone();
    let controller = crate::run(Options::default(), environment, cancel.clone());
    let story = async {
        while stage.cloud.0.lock().in_progress == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(readiness.get(), crate::Activity::Working);
        cancel.cancel();
        stage.clock.now()
    };
    let ended = async { (Box::pin(controller).await, stage.clock.now()) };
    let ((result, end), cancelled) = tokio::join!(ended, story);
    result.unwrap();
    assert_eq!(readiness.get(), crate::Activity::Stopping);
    assert!(end.duration_since(cancelled).as_millis() < 2000);
    assert_eq!(stage.server.get(LEASE).unwrap()["spec"]["holderIdentity"], holder);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_paused_beyond_its_lease_makes_no_cloud_calls() {
    let stage = Stage::new();
    stage.cloud.0.lock().delay = Duration::from_secs(1);
    stage.create_machine();
    let controller = crate::run(Options::default(), stage.environment(), CancellationToken::new());
    let story = async {
        while stage.cloud.0.lock().in_progress == 0 {
            tokio::task::yield_now().await;
        }
        // The process does not run meanwhile; the call has completed when it continues.
        tokio::time::advance(Duration::from_secs(20)).await;
    };
    let (result, ()) = tokio::join!(Box::pin(controller), story);
    assert!(matches!(result, Err(crate::Error::LeadershipLost(_))), "{result:?}");
    assert_eq!(stage.cloud.calls(), Vec::<&str>::new());
}
