//! Endless watches: a list, then its changes; after failures they restart with increasing waits.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::runtime::watcher::{Config, Event, Result, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::backoff::doubled;

/// The longest wait between two attempts.
const LONGEST: Duration = Duration::from_secs(10);
/// A watch that is requested again works if the request has not failed for this time.
const SETTLED: Duration = Duration::from_secs(5);

/// What a watch reports.
#[derive(Debug)]
pub enum Signal<K> {
    /// An event.
    Event(Event<K>),
    /// The watch failed, was requested again from where it was, and has not failed since, without an event so far: no object
    /// has changed.
    Resumed,
}

/// Watches all objects that `api` and `config` select. After a failure it waits for `first`, doubles the wait with each
/// further failure up to ten seconds, and resets it once the server responds. There is no jitter, because a process
/// watches few kinds.
///
/// [`Event::Init`] comes before the list is requested. A consumer that compares a list with the objects it knows must
/// compare it with those that it knew at that moment: the list does not contain objects created later.
pub fn watch<K>(api: Api<K>, config: Config, first: Duration) -> impl Stream<Item = Result<Event<K>>> + Send
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    watch_signals(api, config, first).filter_map(async |signal| match signal {
        Ok(Signal::Event(event)) => Some(Ok(event)),
        Ok(Signal::Resumed) => None,
        Err(error) => Some(Err(error)),
    })
}

/// As [`watch`], and reports when a failed watch works again although no object changes.
pub fn watch_signals<K>(api: Api<K>, config: Config, first: Duration) -> impl Stream<Item = Result<Signal<K>>> + Send
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    with_backoff(watcher(api, config), first)
}

/// Waits after each error. kube's own backoff would start over with every [`Event::Init`], which no server caused.
fn with_backoff<K, S>(events: S, first: Duration) -> impl Stream<Item = Result<Signal<K>>> + Send
where
    K: Send,
    S: Stream<Item = Result<Event<K>>> + Send,
{
    let state = (Box::pin(events), 0_u32, Duration::ZERO);
    stream::unfold(state, move |(mut events, failures, wait)| async move {
        let event = if wait.is_zero() {
            events.next().await?
        } else {
            tokio::time::sleep(wait).await;
            match tokio::time::timeout(SETTLED, events.next()).await {
                Ok(event) => event?,
                Err(_) => return Some((Ok(Signal::Resumed), (events, 0, Duration::ZERO))),
            }
        };
        let state = match &event {
            Err(_) => (events, failures.saturating_add(1), doubled(first, failures, LONGEST)),
            Ok(Event::Init) => (events, failures, Duration::ZERO),
            Ok(_) => (events, 0, Duration::ZERO),
        };
        Some((event.map(Signal::Event), state))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use k8s_openapi::api::core::v1::Secret;
    use kube::runtime::watcher::Error;
    use tokio::time::Instant;

    use super::*;

    type Events = Vec<Result<Event<Secret>>>;

    fn refused() -> Events {
        vec![Ok(Event::Init), Err(Error::NoResourceVersion)]
    }

    fn answered() -> Events {
        vec![
            Ok(Event::Init),
            Ok(Event::InitApply(Secret::default())),
            Ok(Event::InitDone),
        ]
    }

    #[expect(clippy::disallowed_methods, reason = "the paused time of this test's runtime")]
    #[tokio::test(start_paused = true)]
    async fn a_refused_list_is_retried_with_increasing_waits() {
        let refusals = |times| std::iter::repeat_with(refused).take(times).flatten();
        let events = stream::iter(refusals(9).chain(answered()).chain(refusals(2)));
        let mut events = Box::pin(with_backoff(events, Duration::from_millis(200)));
        let start = Instant::now();
        let mut refusals = Vec::new();
        while let Some(event) = events.next().await {
            if event.is_err() {
                refusals.push(start.elapsed().as_secs_f64());
            }
        }
        let expected = [0.0, 0.2, 0.6, 1.4, 3.0, 6.2, 12.6, 22.6, 32.6, 42.6, 42.8];
        let close = |(one, other): (&f64, &f64)| (one - other).abs() < 0.05;
        assert!(
            refusals.len() == expected.len() && refusals.iter().zip(&expected).all(close),
            "{refusals:?}"
        );
    }

    /// A list is requested when the stream is polled after its announcement.
    #[tokio::test]
    async fn a_list_is_announced_before_it_is_requested() {
        let requested = AtomicBool::new(false);
        let events = stream::iter(answered())
            .inspect(|event| requested.store(!matches!(event, Ok(Event::Init)), Ordering::Relaxed));
        let mut events = std::pin::pin!(with_backoff(events, Duration::from_millis(200)));
        assert!(matches!(events.next().await, Some(Ok(Signal::Event(Event::Init)))));
        assert!(!requested.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_requested_again_is_resumed_unless_it_fails_again() {
        let failed = || Err(Error::NoResourceVersion);
        let events = stream::iter([failed(), failed()]).chain(stream::pending());
        let signals = with_backoff::<Secret, _>(events, Duration::from_millis(200)).take(3);
        let signals: Vec<_> = signals.collect().await;
        assert!(
            matches!(signals.as_slice(), [Err(_), Err(_), Ok(Signal::Resumed)]),
            "{signals:?}"
        );
    }

    /// A list that does not respond is not resumed.
    #[tokio::test(start_paused = true)]
    async fn a_list_that_does_not_respond_is_not_resumed() {
        let events = stream::iter(refused().into_iter().chain([Ok(Event::Init)])).chain(stream::pending());
        let mut signals = std::pin::pin!(with_backoff(events, Duration::from_millis(200)));
        for _ in 0..3 {
            signals.next().await;
        }
        let next = tokio::time::timeout(10 * SETTLED, signals.next()).await;
        assert!(next.is_err(), "{next:?}");
    }
}
