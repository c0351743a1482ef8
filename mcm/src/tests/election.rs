//! Elections over the embedded API server, on virtual time.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use clock::{Clock, Pulses};
use jiff::Timestamp;
use runtime::election::{Elector, Settings, Tenure};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::run::activity_of;
use crate::testing::TestServer;
use crate::{Activity, Error, Readiness};

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/machine-controller-manager";

fn clock() -> Clock {
    Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap())
}

fn elector(server: &TestServer, identity: &str, clock: &Clock) -> Elector {
    let lease = "machine-controller-manager";
    let (client, identity) = (server.client(), identity.to_owned());
    Elector::new(client, "default", lease, identity, Settings::default(), clock.clone())
}

/// An elector that reports its activity to the returned readiness.
fn observed(server: &TestServer, identity: &str, clock: &Clock) -> (Elector, Readiness) {
    let readiness = Readiness::default();
    let observer = readiness.clone();
    let observe = move |candidacy| observer.set(activity_of(candidacy));
    let elector = elector(server, identity, clock).observed_by(observe);
    (elector, readiness)
}

fn holder(server: &TestServer) -> String {
    server.get(PATH).unwrap()["spec"]["holderIdentity"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn work_until(cancel: CancellationToken) -> Result<(), Error> {
    cancel.cancelled().await;
    Ok(())
}

/// The work of a candidate that never leads.
async fn no_work() -> Result<(), Error> {
    unreachable!()
}

#[tokio::test(start_paused = true)]
async fn the_only_candidate_leads_renews_and_releases_the_lease() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let leading = elector(&server, "a", &clock).lead(cancel.clone(), |_| work_until(cancel.clone()));
    let story = async {
        clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(holder(&server), "a");
        let renewals = server
            .requests()
            .into_iter()
            .filter(|request| request.starts_with("PUT"))
            .count();
        assert!((29..=30).contains(&renewals), "{renewals} renewals in a minute");
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(leading, story);
    result.unwrap();
    assert_eq!(holder(&server), "");
}

#[tokio::test(start_paused = true)]
async fn the_lease_expires_after_work_that_did_not_end() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let leading = elector(&server, "a", &clock).lead(cancel.clone(), |tenure| async move {
        tenure.let_expire();
        Ok::<(), Error>(())
    });
    leading.await.unwrap();
    assert_eq!(holder(&server), "a");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_is_ready_once_it_has_read_the_lease() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let first = elector(&server, "a", &clock).lead(cancel.clone(), |_| work_until(cancel.clone()));
    let (second, readiness) = observed(&server, "b", &clock);
    let story = async {
        clock.sleep(Duration::from_secs(1)).await;
        let waiting = second.lead(cancel.clone(), |_| no_work());
        let watch = async {
            clock.sleep(Duration::from_secs(3)).await;
            assert_eq!(readiness.get(), Activity::Standby);
            cancel.cancel();
        };
        tokio::join!(waiting, watch).0
    };
    let (first, second) = tokio::join!(first, story);
    first.unwrap();
    second.unwrap();

    server.set_down(true);
    let ((alone, readiness), cancel) = (observed(&server, "c", &clock), CancellationToken::new());
    let story = async {
        clock.sleep(Duration::from_secs(3)).await;
        assert_eq!(readiness.get(), Activity::Starting);
        cancel.cancel();
    };
    let waiting = alone.lead(cancel.clone(), |_| no_work());
    tokio::join!(waiting, story).0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_release_without_a_response_times_out() {
    let (server, clock) = (TestServer::default(), clock());
    let started = clock.now();
    let leading = elector(&server, "a", &clock).lead(CancellationToken::new(), |_| async {
        server.set_silent();
        Ok::<(), Error>(())
    });
    leading.await.unwrap();
    let took = clock.now().duration_since(started).as_millis();
    assert!((500..600).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn another_candidate_takes_over_after_a_crash_of_the_leader() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    {
        let leading = elector(&server, "a", &clock).lead(cancel.clone(), |_| work_until(cancel.clone()));
        let crash = clock.sleep(Duration::from_secs(5));
        tokio::select! { _ = leading => unreachable!(), () = crash => {} }
    }
    let started = clock.now();
    let took_over = Rc::new(Cell::new(None));
    let second = elector(&server, "b", &clock);
    second
        .lead(cancel.clone(), |_| async {
            took_over.set(Some(clock.now()));
            Ok::<(), Error>(())
        })
        .await
        .unwrap();
    let waited = took_over.get().unwrap().duration_since(started).as_secs();
    assert!((14..=17).contains(&waited), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_its_work_before_others_may_start() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let leading = elector(&server, "a", &clock).lead(cancel.clone(), |_| work_until(cancel.clone()));
    let story = async {
        clock.sleep(Duration::from_secs(5)).await;
        server.set_down(true);
        clock.now()
    };
    let ended = async {
        let result = leading.await;
        (result, clock.now())
    };
    let ((result, end), down) = tokio::join!(ended, story);
    assert!(matches!(result, Err(Error::LeadershipLost(reason)) if reason.contains("connection was closed")));
    let seconds = end.duration_since(down).as_secs();
    assert!((8..=10).contains(&seconds), "stopped after {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn another_holder_of_the_lease_ends_the_work_at_once() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let leading = elector(&server, "a", &clock).lead(cancel.clone(), |_| work_until(cancel.clone()));
    let story = async {
        clock.sleep(Duration::from_secs(5)).await;
        let mut lease = server.get(PATH).unwrap();
        lease["spec"]["holderIdentity"] = json!("intruder");
        server.put(PATH, lease);
    };
    let (result, ()) = tokio::join!(leading, story);
    assert!(matches!(result, Err(Error::LeadershipLost(reason)) if reason.contains("intruder")));
    assert_eq!(holder(&server), "intruder");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_ends_the_work() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let leading = elector(&server, "a", &clock).lead(cancel.clone(), |_| work_until(cancel.clone()));
    let story = async {
        clock.sleep(Duration::from_secs(5)).await;
        server.remove(PATH);
    };
    let (result, ()) = tokio::join!(leading, story);
    assert!(matches!(result, Err(Error::LeadershipLost(reason)) if reason.contains("deleted")));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_candidate_ends_without_work() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    server.set_down(true);
    let leading = elector(&server, "a", &clock).lead(cancel.clone(), |_| no_work());
    let story = async {
        clock.sleep(Duration::from_secs(5)).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(leading, story);
    result.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_paused_leader_may_not_act_before_it_renews() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let leading = elector(&server, "a", &clock).lead(cancel.clone(), |tenure| async move {
        let started = clock.now();
        assert!(tenure.holds(started));
        let limit = started.checked_add(Settings::default().renew_deadline).unwrap();
        assert!(!tenure.holds(limit), "another process may lead at that time");
        Ok::<(), Error>(())
    });
    leading.await.unwrap();
    assert!(Tenure::unlimited().holds(Timestamp::UNIX_EPOCH));
}

fn renewals(server: &TestServer) -> usize {
    let requests = server.requests();
    requests.iter().filter(|request| request.starts_with("PUT")).count()
}

#[tokio::test(start_paused = true)]
async fn a_leader_with_a_pulse_leads_without_renewals_until_the_pulse_ends() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let pulses = Pulses::default();
    let started = clock.now();
    let leading = elector(&server, "a", &clock)
        .renewing_by_pulse(Some(pulses.clone()))
        .lead(cancel.clone(), |tenure| {
            let (clock, cancel, server, pulses) = (&clock, cancel.clone(), &server, &pulses);
            async move {
                // An odd second, so that no check coincides with a beat.
                clock.sleep(Duration::from_secs(1)).await;
                for _ in 0..60 {
                    clock.sleep(Duration::from_secs(61)).await;
                    assert!(tenure.holds(clock.now()));
                }
                assert_eq!(renewals(server), 0);
                pulses.end_all(clock.now());
                clock.sleep(Duration::from_millis(900)).await;
                assert_eq!(renewals(server), 0, "the last beat was a second ago");
                clock.sleep(Duration::from_millis(200)).await;
                assert_eq!(renewals(server), 1);
                assert_eq!(pulses.last("a", clock.now()), None, "the pulse restarts");
                cancel.cancel();
                Ok::<(), Error>(())
            }
        });
    leading.await.unwrap();
    assert_eq!(clock.now().duration_since(started).as_secs(), 1 + 60 * 61 + 1);
}

/// Whether a leader with a pulse still leads after the pulse ends and the leader pauses for this time.
async fn leads_after_pause(pause: Duration) -> bool {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let pulses = Pulses::default();
    let leading = elector(&server, "a", &clock)
        .renewing_by_pulse(Some(pulses.clone()))
        .lead(cancel.clone(), |_| work_until(cancel.clone()));
    let mut leading = pin!(leading);
    tokio::select! {
        biased;
        _ = &mut leading => unreachable!(),
        () = clock.sleep(Duration::from_secs(101)) => {}
    }
    pulses.end_all(clock.now());
    clock.sleep(pause).await;
    cancel.cancel();
    let ended = leading.await;
    ended.is_ok()
}

/// A process that could not try to renew tries once more until the Lease expires.
#[tokio::test(start_paused = true)]
async fn the_lease_duration_counts_from_the_last_beat() {
    assert!(leads_after_pause(Duration::from_millis(13_999)).await);
    assert!(!leads_after_pause(Duration::from_millis(14_000)).await);
}

#[tokio::test(start_paused = true)]
async fn a_crash_ends_the_pulse() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let pulses = Pulses::default();
    {
        let leading = elector(&server, "a", &clock)
            .renewing_by_pulse(Some(pulses.clone()))
            .lead(cancel.clone(), |_| work_until(cancel.clone()));
        let crash = clock.sleep(Duration::from_secs(101));
        tokio::select! { _ = leading => unreachable!(), () = crash => {} }
    }
    let crashed = clock.now();
    clock.sleep(Duration::from_secs(100)).await;
    let last = pulses.last("a", clock.now()).unwrap();
    assert_eq!(crashed.duration_since(last).as_secs(), 1);
}
