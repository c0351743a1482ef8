//! Watches that never end: a list, then the changes since, and after a failure again, with longer waits in between.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::runtime::utils::{Backoff, StreamBackoff};
use kube::runtime::watcher::{Config, Event, Result, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::backoff::doubled;

/// The longest wait between two attempts.
const LONGEST: Duration = Duration::from_secs(10);

/// Watches all objects that `api` and `config` select. After a failure it waits for `first`, doubles the wait with each
/// further failure up to ten seconds, and starts over once the server answers. Without jitter, as a process watches few
/// kinds.
pub fn watch<K>(api: Api<K>, config: Config, first: Duration) -> impl Stream<Item = Result<Event<K>>> + Send
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    StreamBackoff::new(answers(watcher(api, config)), Doubling::from(first))
}

/// The events that the server caused. [`Event::Init`] comes before the list is requested, and every event resets a
/// [`StreamBackoff`]: it is held back until the list is answered.
fn answers<K>(events: impl Stream<Item = Result<Event<K>>>) -> impl Stream<Item = Result<Event<K>>> {
    let mut requested = false;
    events.flat_map(move |event| {
        let (init, event) = match event {
            Ok(Event::Init) => {
                requested = true;
                (None, None)
            }
            Ok(event) => (
                std::mem::take(&mut requested).then_some(Ok(Event::Init)),
                Some(Ok(event)),
            ),
            Err(error) => (None, Some(Err(error))),
        };
        stream::iter(init.into_iter().chain(event))
    })
}

/// Each wait is twice as long as the one before.
#[derive(Debug)]
struct Doubling {
    first: Duration,
    failures: u32,
}

impl From<Duration> for Doubling {
    fn from(first: Duration) -> Self {
        Self { first, failures: 0 }
    }
}

impl Iterator for Doubling {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = doubled(self.first, self.failures, LONGEST);
        self.failures = self.failures.saturating_add(1);
        Some(wait)
    }
}

impl Backoff for Doubling {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
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
    async fn a_list_that_is_refused_is_requested_after_longer_and_longer_waits() {
        let refusals = |times| std::iter::repeat_with(refused).take(times).flatten();
        let events = answers(stream::iter(refusals(9).chain(answered()).chain(refusals(2))));
        let mut events = Box::pin(StreamBackoff::new(events, Doubling::from(Duration::from_millis(200))));
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

    #[tokio::test]
    async fn a_list_that_is_answered_begins_with_its_init_and_only_such_a_list() {
        let events = refused().into_iter().chain(answered());
        let events = events.chain([Ok(Event::Apply(Secret::default()))]);
        let events: Vec<_> = answers(stream::iter(events)).collect().await;
        let words = events.iter().map(|event| match event {
            Ok(Event::Init) => "init",
            Ok(Event::InitApply(_)) => "listed",
            Ok(Event::InitDone) => "done",
            Ok(Event::Apply(_)) => "applied",
            Ok(Event::Delete(_)) => "deleted",
            Err(_) => "refused",
        });
        assert_eq!(
            words.collect::<Vec<_>>(),
            ["refused", "init", "listed", "done", "applied"]
        );
    }
}
