//! An election on a thread of its own, so that work which keeps its thread busy does not delay renewals.

use std::pin::pin;

use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Elector, LeadershipLost, Tenure};

/// Runs `work` on the thread of the caller while the candidate that `build` returns leads on another thread.
///
/// `build` runs on that thread, inside its Tokio runtime, so that the connections of the candidate's client belong to
/// it. Otherwise the rules of [`Elector::lead`] apply: `work` is dropped when leadership is lost, and the Lease is
/// released only after `work` succeeds. When the returned future is dropped, the Lease is left to expire.
///
/// # Errors
/// What `build` or `work` returns, or [`LeadershipLost`].
pub async fn lead_on_own_thread<B, W, F, T, E>(build: B, cancel: CancellationToken, work: W) -> Result<T, E>
where
    B: FnOnce() -> Result<Elector, E> + Send + 'static,
    W: FnOnce(Tenure) -> F,
    F: Future<Output = Result<T, E>>,
    T: Default,
    E: From<LeadershipLost> + Send + 'static,
{
    let (leads, leading) = oneshot::channel();
    let (finish, finished) = oneshot::channel();
    let (end, mut ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("leader election".to_owned())
        .spawn(move || drop(end.send(elect(build, cancel, leads, finished))))
        .map_err(|error| LeadershipLost(format!("no thread for leader election: {error}")))?;
    let Ok(tenure) = leading.await else {
        return ended.await.unwrap_or_else(panicked).map(|()| T::default());
    };
    let result = {
        let mut work = pin!(work(tenure));
        tokio::select! {
            biased;
            lost = &mut ended => return lost.unwrap_or_else(panicked).map(|()| T::default()),
            result = &mut work => result,
        }
    };
    let _ = finish.send(result.is_ok());
    // The thread ends once the Lease is released or left to expire.
    let _ = ended.await;
    result
}

/// Runs the election until leadership is lost or the work has `finished`.
fn elect<B, E>(
    build: B,
    cancel: CancellationToken,
    leads: oneshot::Sender<Tenure>,
    finished: oneshot::Receiver<bool>,
) -> Result<(), E>
where
    B: FnOnce() -> Result<Elector, E>,
    E: From<LeadershipLost>,
{
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| LeadershipLost(format!("no runtime for leader election: {error}")))?;
    let result = runtime.block_on(async {
        let elector = build()?;
        elector
            .lead(cancel, |tenure| async move {
                let _ = leads.send(tenure);
                match finished.await {
                    Ok(true) => Ok(()),
                    Ok(false) | Err(_) => Err(LeadershipLost("the work failed".to_owned()).into()),
                }
            })
            .await
    });
    runtime.shutdown_background();
    result
}

/// The result of a thread that ended without one.
fn panicked<E: From<LeadershipLost>>(_: oneshot::error::RecvError) -> Result<(), E> {
    Err(LeadershipLost("the thread of leader election panicked".to_owned()).into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use clock::Clock;
    use http_body_util::BodyExt;
    use kube::Client;
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::super::Settings;
    use super::*;

    /// A server with one Lease, and the number of writes.
    #[derive(Clone, Default)]
    struct LeaseServer(Arc<Mutex<(Option<Value>, u64)>>);

    impl LeaseServer {
        fn client(&self) -> Client {
            let server = self.clone();
            let service = tower::service_fn(move |request: http::Request<Body>| {
                let server = server.clone();
                async move {
                    let write = request.method() != http::Method::GET;
                    let body = request.into_body().collect().await?.to_bytes();
                    Ok::<_, tower::BoxError>(server.answer(write.then_some(&body)))
                }
            });
            Client::new(service, "default")
        }

        fn answer(&self, body: Option<&[u8]>) -> http::Response<Body> {
            let mut state = self.0.lock();
            let (lease, writes) = &mut *state;
            let failure = |code, reason| (code, json!({ "status": "Failure", "code": code, "reason": reason }));
            let mut conflict = false;
            if let Some(body) = body {
                let mut written: Value = serde_json::from_slice(body).unwrap();
                let version = written["metadata"]["resourceVersion"].as_str();
                conflict = version.is_some_and(|version| version != writes.to_string());
                if !conflict {
                    *writes += 1;
                    written["metadata"]["resourceVersion"] = json!(writes.to_string());
                    *lease = Some(written);
                }
            }
            let (code, answer) = match lease {
                _ if conflict => failure(409, "Conflict"),
                Some(lease) => (200, lease.clone()),
                None => failure(404, "NotFound"),
            };
            let body = Body::from(serde_json::to_vec(&answer).unwrap());
            http::Response::builder().status(code).body(body).unwrap()
        }

        fn elector(&self) -> Elector {
            let settings = Settings {
                lease_duration: Duration::from_secs(2),
                renew_deadline: Duration::from_millis(1500),
                retry_period: Duration::from_millis(200),
            };
            Elector::new(
                self.client(),
                "default",
                "lease",
                "me".to_owned(),
                settings,
                Clock::wall(),
            )
        }

        fn holder(&self) -> Value {
            let state = self.0.lock();
            state
                .0
                .as_ref()
                .map_or(Value::Null, |lease| lease["spec"]["holderIdentity"].clone())
        }
    }

    /// A decision that takes much longer than the Lease lasts.
    fn burn(time: Duration) {
        let clock = Clock::wall();
        let end = clock.now().checked_add(time).unwrap();
        while clock.now() < end {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn work_that_keeps_its_thread_busy_for_three_seconds_does_not_lose_leadership() {
        let server = LeaseServer::default();
        let (candidate, observed) = (server.clone(), server.clone());
        let work = |tenure: Tenure| async move {
            burn(Duration::from_secs(3));
            assert!(tenure.holds(Clock::wall().now()));
            assert_eq!(observed.holder(), "me");
            Ok::<(), LeadershipLost>(())
        };
        lead_on_own_thread(move || Ok(candidate.elector()), CancellationToken::new(), work)
            .await
            .unwrap();
        assert!(server.0.lock().1 >= 10, "{} writes", server.0.lock().1);
        assert_eq!(server.holder(), "", "the lease is released");
    }

    #[tokio::test]
    async fn failed_work_leaves_the_lease_to_expire() {
        let server = LeaseServer::default();
        let candidate = server.clone();
        let failed = || LeadershipLost("no disk".to_owned());
        let result = lead_on_own_thread(
            move || Ok(candidate.elector()),
            CancellationToken::new(),
            |_| async move { Err::<(), _>(failed()) },
        );
        assert_eq!(result.await, Err(failed()));
        assert_eq!(server.holder(), "me");
    }

    #[tokio::test]
    async fn work_is_dropped_when_another_candidate_takes_the_lease() {
        let server = LeaseServer::default();
        let candidate = server.clone();
        let thief = server.clone();
        let work = |_| async move {
            let other = json!({ "metadata": { "name": "lease" }, "spec": { "holderIdentity": "other" } });
            thief.answer(Some(&serde_json::to_vec(&other).unwrap()));
            std::future::pending::<Result<(), LeadershipLost>>().await
        };
        let result = lead_on_own_thread(move || Ok(candidate.elector()), CancellationToken::new(), work).await;
        assert!(result.is_err(), "{result:?}");
    }

    #[tokio::test]
    async fn a_cancelled_candidate_ends_without_work() {
        let (server, cancel) = (LeaseServer::default(), CancellationToken::new());
        cancel.cancel();
        let work = |_| async { unreachable!() };
        let result: Result<(), LeadershipLost> = lead_on_own_thread(move || Ok(server.elector()), cancel, work).await;
        assert_eq!(result, Ok(()));
    }
}
