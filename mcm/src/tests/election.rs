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

/// The same, and where it tells what it is doing.
fn observed(server: &TestServer, identity: &str, clock: &Clock) -> (Elector, Readiness) {
    let readiness = Readiness::default();
    let told = readiness.clone();
    let elector = elector(server, identity, clock).observed_by(move |candidacy| told.set(activity_of(candidacy)));
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

/// That of a candidate that never leads.
async fn no_work() -> Result<(), Error> {
    unreachable!()
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_renews_and_gives_the_lease_back() {
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
async fn work_that_did_not_end_leaves_the_lease_to_expire() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let leading = elector(&server, "a", &clock).lead(cancel.clone(), |tenure| async move {
        tenure.let_expire();
        Ok::<(), Error>(())
    });
    leading.await.unwrap();
    assert_eq!(holder(&server), "a");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_is_ready_as_soon_as_it_knows_who_leads_and_not_while_the_lease_is_unreadable() {
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
async fn a_release_that_is_not_answered_does_not_hold_the_end_up() {
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
async fn another_takes_over_when_the_leader_is_gone_without_a_word() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    {
        let leading = elector(&server, "a", &clock).lead(cancel.clone(), |_| work_until(cancel.clone()));
        let gone = clock.sleep(Duration::from_secs(5));
        tokio::select! { _ = leading => unreachable!(), () = gone => {} }
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
async fn a_lease_in_other_hands_ends_the_work_at_once() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let leading = elector(&server, "a", &clock).lead(cancel.clone(), |_| work_until(cancel.clone()));
    let story = async {
        clock.sleep(Duration::from_secs(5)).await;
        let mut lease = server.get(PATH).unwrap();
        lease["spec"]["holderIdentity"] = json!("thief");
        server.put(PATH, lease);
    };
    let (result, ()) = tokio::join!(leading, story);
    assert!(matches!(result, Err(Error::LeadershipLost(reason)) if reason.contains("thief")));
    assert_eq!(holder(&server), "thief");
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
    assert!(matches!(result, Err(Error::LeadershipLost(reason)) if reason.contains("gone")));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_cancelled_ends_without_having_worked() {
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
async fn a_leader_that_was_stopped_may_not_act_before_it_renews() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let leading = elector(&server, "a", &clock).lead(cancel.clone(), |tenure| async move {
        let started = clock.now();
        assert!(tenure.holds(started));
        let limit = started.checked_add(Settings::default().renew_deadline).unwrap();
        assert!(!tenure.holds(limit), "others may lead by then");
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
async fn a_leader_whose_renewals_nobody_would_miss_leads_without_them_until_its_pulse_ends() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let pulses = Pulses::default();
    let started = clock.now();
    let leading = elector(&server, "a", &clock)
        .beating(Some(pulses.clone()))
        .lead(cancel.clone(), |tenure| {
            let (clock, cancel, server, pulses) = (&clock, cancel.clone(), &server, &pulses);
            async move {
                // An odd second, so that no look falls on a beat.
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
                assert_eq!(pulses.last("a", clock.now()), None, "the pulse begins anew");
                cancel.cancel();
                Ok::<(), Error>(())
            }
        });
    leading.await.unwrap();
    assert_eq!(clock.now().duration_since(started).as_secs(), 1 + 60 * 61 + 1);
}

/// Whether a leader that beats unheard and then stands still for so long leads on.
async fn leads_after_standing_still_for(pause: Duration) -> bool {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let pulses = Pulses::default();
    let leading = elector(&server, "a", &clock)
        .beating(Some(pulses.clone()))
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

#[tokio::test(start_paused = true)]
async fn a_leader_that_stood_still_counts_from_its_last_beat() {
    assert!(leads_after_standing_still_for(Duration::from_millis(8_999)).await);
    assert!(!leads_after_standing_still_for(Duration::from_millis(9_000)).await);
}

#[tokio::test(start_paused = true)]
async fn who_is_gone_beats_no_more() {
    let (server, clock, cancel) = (TestServer::default(), clock(), CancellationToken::new());
    let pulses = Pulses::default();
    {
        let leading = elector(&server, "a", &clock)
            .beating(Some(pulses.clone()))
            .lead(cancel.clone(), |_| work_until(cancel.clone()));
        let gone = clock.sleep(Duration::from_secs(101));
        tokio::select! { _ = leading => unreachable!(), () = gone => {} }
    }
    let gone = clock.now();
    clock.sleep(Duration::from_secs(100)).await;
    let last = pulses.last("a", clock.now()).unwrap();
    assert_eq!(gone.duration_since(last).as_secs(), 1);
}
