//! Watch connections: a stream of lines, bookmarks, and the end of the stream.
//!
//! Also applies the effects of fault rules, which `faults` decides.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, stream};
use jiff::{SignedDuration, Timestamp};

use super::render::{Presentation, error_event};
use super::sent::SentByWatch;
use crate::faults::{OpenWatch, WatchEffect};
use crate::inner::Inner;
use crate::life::{Disconnected, Events};
use crate::metrics::Counted;
use crate::observe::DeliveryRecord;
use crate::registry::{Entry, Event, Watch};
use crate::signal;
use crate::status::ApiError;
use crate::types::time::after;

const BOOKMARK_PERIOD: SignedDuration = SignedDuration::from_secs(60);
/// The time between the last bookmark and the end of a watch.
const BOOKMARK_LEAD: SignedDuration = SignedDuration::from_secs(2);

/// One watch connection.
pub(super) struct Feed {
    pub(super) server: Arc<Inner>,
    pub(super) open_watch: OpenWatch,
    pub(super) entry: Entry,
    pub(super) watch: Watch,
    pub(super) presentation: Presentation,
    /// The timeout that the client requested.
    pub(super) timeout: SignedDuration,
    pub(super) deadline: Timestamp,
    pub(super) bookmarks: bool,
    /// Follows what is sent; `None`: the client's writes are not recorded.
    pub(super) sent: Option<SentByWatch>,
    /// Counts the watch; `None` in virtual time.
    pub(super) _counted: Option<Counted>,
}

/// The state of a feed.
struct State {
    feed: Feed,
    life: signal::Receiver<Events>,
    /// The restarts and expirations of the server when the watch began.
    at_start: Events,
    next_bookmark: Timestamp,
    first: bool,
    ended: bool,
    /// Half an event was sent: the connection breaks next.
    broken: bool,
    /// Events delayed by a lag, with the times of their arrival.
    delayed: VecDeque<(Timestamp, Event)>,
    /// An event to send a second time.
    duplicate: Option<Event>,
}

/// The next step of a feed.
enum Step {
    Send(Event),
    SendDuplicate(Event),
    Bookmark,
    /// Waits for events or changes, up to a time.
    Wait {
        news: bool,
        until: Option<Timestamp>,
    },
    Refuse(ApiError),
    End,
    Break,
}

type Line = Result<Bytes, Disconnected>;

impl Feed {
    /// Whether the watch continues after its timeout as if the client had restarted it.
    fn continues(&self, now: Timestamp) -> bool {
        self.server.lasting_watches && self.server.faults.are_over(now)
    }

    /// A minute from now, or shortly before the end of the watch; `spared` bookmarks come only before the end.
    fn following_bookmark(&self, now: Timestamp, spared: bool) -> Timestamp {
        let last = after(self.deadline, -BOOKMARK_LEAD);
        if now >= last {
            return self.deadline;
        }
        if spared {
            last
        } else {
            last.min(after(now, BOOKMARK_PERIOD))
        }
    }

    /// The lines of the watch, until it ends or breaks. The watch is open until the lines are dropped.
    pub(super) fn lines(self) -> impl Stream<Item = Line> + Send + 'static {
        if let Some(observer) = &self.server.observer {
            observer.watch_opened(&self.open_watch.facts().client);
        }
        let now = self.server.registry.clock().now();
        let next_bookmark = self.following_bookmark(now, self.continues(now));
        let mut life = self.server.life.follow();
        let at_start = *life.borrow_and_update();
        let state = State {
            feed: self,
            life,
            at_start,
            next_bookmark,
            first: true,
            ended: false,
            broken: false,
            delayed: VecDeque::new(),
            duplicate: None,
        };
        stream::unfold(state, |mut state| async move {
            let line = state.line().await?;
            Some((line, state))
        })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(observer) = &self.feed.server.observer {
            observer.watch_ended(&self.feed.open_watch.facts().client);
        }
    }
}

impl State {
    async fn line(&mut self) -> Option<Line> {
        if self.ended {
            return None;
        }
        loop {
            let now = self.feed.server.registry.clock().now();
            let effect = self.effect(now);
            match self.step(&effect, now) {
                Step::SendDuplicate(event) => return Some(Ok(self.send(&event, now))),
                Step::Send(event) => {
                    if effect.breaks && matches!(event, Event::Object { .. }) {
                        return Some(self.half(&event, now));
                    }
                    if effect.duplicates && matches!(event, Event::Object { .. }) {
                        self.duplicate = Some(event.clone());
                    }
                    return Some(Ok(self.send(&event, now)));
                }
                Step::Bookmark => {
                    self.next_bookmark = self.feed.following_bookmark(now, self.feed.continues(now));
                    let event = Event::Bookmark {
                        revision: self.feed.watch.revision(),
                        initial_events_end: false,
                    };
                    return Some(Ok(self.send(&event, now)));
                }
                Step::Wait { news, until } => self.wait(news, until).await,
                Step::Refuse(error) => {
                    self.ended = true;
                    self.deliver("ERROR", "", "", self.feed.watch.revision());
                    return Some(Ok(error_event(&error, self.feed.presentation.encoding)));
                }
                Step::End => return None,
                Step::Break => {
                    self.ended = true;
                    // Let the connection send the earlier lines first: it does so when its stream pauses.
                    tokio::task::yield_now().await;
                    return Some(Err(Disconnected::new()));
                }
            }
        }
    }

    /// The current effect of the fault rules on this watch.
    fn effect(&mut self, now: Timestamp) -> WatchEffect {
        let Feed { server, open_watch, .. } = &mut self.feed;
        let (effect, hits) = open_watch.effect(&server.faults, now);
        for hit in &hits {
            server.report(hit, open_watch.facts());
        }
        effect
    }

    fn step(&mut self, effect: &WatchEffect, now: Timestamp) -> Step {
        let events = *self.life.borrow_and_update();
        if events.shut_down {
            return Step::End;
        }
        if self.broken || events.restarts != self.at_start.restarts || effect.cut {
            return Step::Break;
        }
        if effect.silent {
            return Step::Wait {
                news: false,
                until: effect.until,
            };
        }
        if events.watch_expirations != self.at_start.watch_expirations {
            return Step::Refuse(self.feed.watch.expired(&self.feed.server.registry));
        }
        if effect.ends {
            return Step::End;
        }
        let deadline = self.feed.deadline;
        if effect.frozen {
            return if now >= deadline {
                Step::End
            } else {
                Step::Wait {
                    news: false,
                    until: Some(earliest(deadline, effect.until)),
                }
            };
        }
        if let Some(event) = self.duplicate.take() {
            return Step::SendDuplicate(event);
        }
        match self.next(effect, now) {
            Ok(Some(event)) => return Step::Send(event),
            Ok(None) => {}
            Err(Some(error)) => return Step::Refuse(error),
            Err(None) => return Step::End,
        }
        if now >= deadline && !(effect == &WatchEffect::default() && self.extend(now)) {
            return Step::End;
        }
        let deadline = self.feed.deadline;
        if self.feed.bookmarks && now >= self.next_bookmark && self.delayed.is_empty() {
            return Step::Bookmark;
        }
        let mut wake = earliest(deadline, effect.until);
        if let Some((arrived, _)) = self.delayed.front() {
            wake = wake.min(due(*arrived, effect));
        } else if self.feed.bookmarks {
            wake = wake.min(self.next_bookmark);
        }
        Step::Wait {
            news: true,
            until: Some(wake),
        }
    }

    /// Extends the watch by its timeout, if it continues.
    fn extend(&mut self, now: Timestamp) -> bool {
        let continues = self.feed.continues(now) && self.feed.timeout.is_positive();
        if continues {
            self.feed.deadline = after(now, self.feed.timeout);
            self.next_bookmark = self.feed.following_bookmark(now, true);
        }
        continues
    }

    /// The next event that is due. Without a lag it is the next event of the watch.
    fn next(&mut self, effect: &WatchEffect, now: Timestamp) -> Result<Option<Event>, Option<ApiError>> {
        let Feed { watch, server, .. } = &mut self.feed;
        if effect.lag.is_zero() && self.delayed.is_empty() {
            return watch.next(&server.registry);
        }
        loop {
            match watch.next(&server.registry) {
                Ok(Some(event)) => self.delayed.push_back((now, event)),
                Ok(None) => break,
                // The end of the watch comes after the delayed events.
                Err(end) if self.delayed.is_empty() => return Err(end),
                Err(_) => break,
            }
        }
        let is_due = self
            .delayed
            .front()
            .is_some_and(|(arrived, _)| due(*arrived, effect) <= now);
        Ok(is_due
            .then(|| self.delayed.pop_front())
            .flatten()
            .map(|(_, event)| event))
    }

    async fn wait(&mut self, news: bool, until: Option<Timestamp>) {
        let Self { feed, life, .. } = self;
        let server = &feed.server;
        let time = async {
            match until {
                Some(until) => server.registry.clock().sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // The sender lives as long as the server.
            _ = life.changed() => {}
            () = feed.watch.changed(), if news => {}
            () = time => {}
        }
    }

    fn send(&mut self, event: &Event, now: Timestamp) -> Bytes {
        if let Some(sent) = &mut self.feed.sent {
            sent.send(event);
        }
        match event {
            Event::Object { kind, object, revision } => {
                self.feed.open_watch.sent();
                self.deliver(kind.event(), &object.key.namespace, &object.key.name, *revision);
            }
            Event::Bookmark { revision, .. } => self.deliver("BOOKMARK", "", "", *revision),
        }
        let line = self.render(event, now);
        line.unwrap_or_else(|error| {
            self.ended = true;
            error_event(&error, self.feed.presentation.encoding)
        })
    }

    /// Sends half of the event's line; the connection breaks after it.
    fn half(&mut self, event: &Event, now: Timestamp) -> Line {
        self.broken = true;
        let line = self.render(event, now).map_err(|_| Disconnected::new())?;
        Ok(line.slice(..line.len() / 2))
    }

    fn render(&mut self, event: &Event, now: Timestamp) -> Result<Bytes, ApiError> {
        let first = std::mem::take(&mut self.first);
        self.feed.presentation.event(&self.feed.entry, event, now, first)
    }

    fn deliver(&self, event: &str, namespace: &str, name: &str, revision: u64) {
        let Feed {
            server,
            open_watch,
            entry,
            ..
        } = &self.feed;
        if let Some(observer) = &server.observer {
            observer.delivery(&DeliveryRecord {
                client: &open_watch.facts().client,
                resource: &entry.table,
                event,
                namespace,
                name,
                revision,
            });
        }
    }
}

fn earliest(deadline: Timestamp, other: Option<Timestamp>) -> Timestamp {
    other.map_or(deadline, |other| deadline.min(other))
}

/// The send time of an event that arrived at `arrived`.
fn due(arrived: Timestamp, effect: &WatchEffect) -> Timestamp {
    arrived.saturating_add(effect.lag).unwrap_or(Timestamp::MAX)
}
