//! Processes that die, stop, stand still and are started again.

use super::*;

/// Polls a controller so many times, or until the machine is Pending, and drops it.
async fn die_after(polls: usize, stage: &Stage) {
    let options = Options {
        leader_election: LeaderElectionOptions {
            enabled: false,
            ..LeaderElectionOptions::default()
        },
        ..Options::default()
    };
    let mut controller = Box::pin(crate::run(options, stage.environment(), CancellationToken::new()));
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 || stage.phase() == "Pending" {
            return Poll::Ready(());
        }
        left -= 1;
        controller.as_mut().poll(context).map(|_| ())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_at_any_moment_leaves_one_vm_at_most() {
    let mut moments = 0;
    loop {
        let stage = Stage::new();
        stage.create_machine();
        die_after(moments, &stage).await;
        if stage.phase() == "Pending" {
            break;
        }
        let recovery = async {
            stage.wait(60).await;
            assert_eq!(stage.phase(), "Pending", "killed at {moments}");
            assert_eq!(stage.cloud.vms(), 1, "killed at {moments}");
        };
        stage.run(recovery).await;
        moments += 1;
    }
    assert!(moments > 10, "only {moments} moments were tried");
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_server_is_waited_for() {
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
async fn a_plain_stop_ends_within_seconds_and_gives_the_lease_back() {
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
async fn no_more_keys_are_worked_on_at_once_than_the_flag_allows() {
    let stage = Stage::new();
    stage.cloud.0.lock().slow = Duration::from_secs(1);
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
    assert_eq!((state.vms.len(), state.most), (10, 3));
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/machine-controller-manager";

#[rstest]
#[case::a_call_that_ends_in_time(900, "")]
#[case::a_call_that_does_not(60_000, "me")]
#[tokio::test(start_paused = true)]
async fn a_stop_takes_less_than_two_seconds_and_keeps_the_lease_while_a_call_may_have_an_effect(
    #[case] call_millis: u64,
    #[case] holder: &str,
) {
    let stage = Stage::new();
    stage.cloud.0.lock().slow = Duration::from_millis(call_millis);
    stage.create_machine_named("m-00001");
    let (cancel, environment) = (CancellationToken::new(), stage.environment());
    let readiness = environment.metrics.readiness().clone();
    let controller = crate::run(Options::default(), environment, cancel.clone());
    let story = async {
        while stage.cloud.0.lock().under_way == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(readiness.get(), crate::Activity::Working);
        cancel.cancel();
        stage.clock.now()
    };
    let ended = async { (Box::pin(controller).await, stage.clock.now()) };
    let ((result, end), told) = tokio::join!(ended, story);
    result.unwrap();
    assert_eq!(readiness.get(), crate::Activity::Stopping);
    assert!(end.duration_since(told).as_millis() < 2000);
    assert_eq!(stage.server.get(LEASE).unwrap()["spec"]["holderIdentity"], holder);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_longer_than_it_leads_calls_the_cloud_no_more() {
    let stage = Stage::new();
    stage.cloud.0.lock().slow = Duration::from_secs(1);
    stage.create_machine();
    let controller = crate::run(Options::default(), stage.environment(), CancellationToken::new());
    let story = async {
        while stage.cloud.0.lock().under_way == 0 {
            tokio::task::yield_now().await;
        }
        // Nothing of the process runs meanwhile; the call's answer is there when it goes on.
        tokio::time::advance(Duration::from_secs(20)).await;
    };
    let (result, ()) = tokio::join!(Box::pin(controller), story);
    assert!(matches!(result, Err(crate::Error::LeadershipLost(_))), "{result:?}");
    assert_eq!(stage.cloud.calls(), Vec::<&str>::new());
}
