//! Watch connections: a stream of lines, bookmarks, and the end of it.
//!
//! What the fault rules do to a watch is carried out here too: what is due is asked of `faults`.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, stream};
use jiff::{SignedDuration, Timestamp};

use super::render::{Presentation, error_event};
use crate::faults::{OpenWatch, Weather};
use crate::inner::Inner;
use crate::life::{Disconnected, Moment};
use crate::observe::DeliveryRecord;
use crate::registry::{Entry, Event, Watch};
use crate::signal;
use crate::status::ApiError;

const BOOKMARK_PERIOD: SignedDuration = SignedDuration::from_secs(60);
/// A last bookmark goes out this long before a watch ends.
const BOOKMARK_LEAD: SignedDuration = SignedDuration::from_secs(2);

/// One watch connection.
pub(super) struct Feed {
    pub(super) server: Arc<Inner>,
    pub(super) open_watch: OpenWatch,
    pub(super) entry: Entry,
    pub(super) watch: Watch,
    pub(super) presentation: Presentation,
    /// How long the client wants it to last.
    pub(super) timeout: SignedDuration,
    pub(super) deadline: Timestamp,
    pub(super) bookmarks: bool,
}

/// Where a feed is.
struct State {
    feed: Feed,
    life: signal::Receiver<Moment>,
    /// What had happened to the server when the watch began.
    born: Moment,
    next_bookmark: Timestamp,
    first: bool,
    ended: bool,
    /// Half an event was sent: the connection breaks now.
    torn: bool,
    /// Events that wait for a lag to pass, with the times of their arrival.
    late: VecDeque<(Timestamp, Event)>,
    /// An event that is sent once more.
    again: Option<Event>,
}

/// What a feed does next.
enum Step {
    Send(Event),
    SendAgain(Event),
    Bookmark,
    /// Waits for news, and for a time.
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
    /// Whether it goes on as if it were begun again when its time is over: nobody would miss its end.
    fn lasts(&self, now: Timestamp) -> bool {
        self.server.lasting_watches && self.server.faults.are_over(now)
    }

    /// A minute from now, unless that is spared, but no later than shortly before the end.
    fn following_bookmark(&self, now: Timestamp, spared: bool) -> Timestamp {
        let last = self.deadline - BOOKMARK_LEAD;
        if now >= last {
            return self.deadline;
        }
        if spared { last } else { last.min(now + BOOKMARK_PERIOD) }
    }

    /// The lines of the watch, until it ends or breaks.
    pub(super) fn lines(self) -> impl Stream<Item = Line> + Send + 'static {
        let now = self.server.registry.clock().now();
        let next_bookmark = self.following_bookmark(now, self.lasts(now));
        let mut life = self.server.life.follow();
        let born = *life.borrow_and_update();
        let state = State {
            feed: self,
            life,
            born,
            next_bookmark,
            first: true,
            ended: false,
            torn: false,
            late: VecDeque::new(),
            again: None,
        };
        stream::unfold(state, |mut state| async move {
            let line = state.line().await?;
            Some((line, state))
        })
    }
}

impl State {
    async fn line(&mut self) -> Option<Line> {
        if self.ended {
            return None;
        }
        loop {
            let now = self.feed.server.registry.clock().now();
            let weather = self.weather(now);
            match self.step(&weather, now) {
                Step::SendAgain(event) => return Some(Ok(self.send(&event, now))),
                Step::Send(event) => {
                    if weather.breaks && matches!(event, Event::Object { .. }) {
                        return Some(self.half(&event, now));
                    }
                    if weather.twice && matches!(event, Event::Object { .. }) {
                        self.again = Some(event.clone());
                    }
                    return Some(Ok(self.send(&event, now)));
                }
                Step::Bookmark => {
                    self.next_bookmark = self.feed.following_bookmark(now, self.feed.lasts(now));
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
                    return Some(Ok(error_event(&error)));
                }
                Step::End => return None,
                Step::Break => {
                    self.ended = true;
                    // What was sent before is on its way first: a connection sends when its stream pauses.
                    tokio::task::yield_now().await;
                    return Some(Err(Disconnected::new()));
                }
            }
        }
    }

    /// What the fault rules make of this watch now.
    fn weather(&mut self, now: Timestamp) -> Weather {
        let Feed { server, open_watch, .. } = &mut self.feed;
        let (weather, strikes) = open_watch.weather(&server.faults, now);
        for strike in &strikes {
            server.report(strike, open_watch.facts());
        }
        weather
    }

    fn step(&mut self, weather: &Weather, now: Timestamp) -> Step {
        let moment = *self.life.borrow_and_update();
        if moment.shut_down {
            return Step::End;
        }
        if self.torn || moment.restarts != self.born.restarts || weather.cut {
            return Step::Break;
        }
        if weather.silent {
            return Step::Wait {
                news: false,
                until: weather.until,
            };
        }
        if moment.expulsions != self.born.expulsions {
            return Step::Refuse(self.feed.watch.expired(&self.feed.server.registry));
        }
        if weather.over {
            return Step::End;
        }
        let deadline = self.feed.deadline;
        if weather.frozen {
            return if now >= deadline {
                Step::End
            } else {
                Step::Wait {
                    news: false,
                    until: Some(earliest(deadline, weather.until)),
                }
            };
        }
        if let Some(event) = self.again.take() {
            return Step::SendAgain(event);
        }
        match self.next(weather, now) {
            Ok(Some(event)) => return Step::Send(event),
            Ok(None) => {}
            Err(Some(error)) => return Step::Refuse(error),
            Err(None) => return Step::End,
        }
        if now >= deadline && !(weather == &Weather::default() && self.begins_again(now)) {
            return Step::End;
        }
        let deadline = self.feed.deadline;
        if self.feed.bookmarks && now >= self.next_bookmark && self.late.is_empty() {
            return Step::Bookmark;
        }
        let mut wake = earliest(deadline, weather.until);
        if let Some((arrived, _)) = self.late.front() {
            wake = wake.min(due(*arrived, weather));
        } else if self.feed.bookmarks {
            wake = wake.min(self.next_bookmark);
        }
        Step::Wait {
            news: true,
            until: Some(wake),
        }
    }

    /// At the end of its time: whether it goes on for as long again.
    fn begins_again(&mut self, now: Timestamp) -> bool {
        let lasts = self.feed.lasts(now) && self.feed.timeout.is_positive();
        if lasts {
            self.feed.deadline = now + self.feed.timeout;
            self.next_bookmark = self.feed.following_bookmark(now, true);
        }
        lasts
    }

    /// The next event that is due. Without a lag it is the watch's next one.
    fn next(&mut self, weather: &Weather, now: Timestamp) -> Result<Option<Event>, Option<ApiError>> {
        let Feed { watch, server, .. } = &mut self.feed;
        if weather.lag.is_zero() && self.late.is_empty() {
            return watch.next(&server.registry);
        }
        loop {
            match watch.next(&server.registry) {
                Ok(Some(event)) => self.late.push_back((now, event)),
                Ok(None) => break,
                // The end of the watch comes behind what was sent before it.
                Err(end) if self.late.is_empty() => return Err(end),
                Err(_) => break,
            }
        }
        let is_due = self
            .late
            .front()
            .is_some_and(|(arrived, _)| due(*arrived, weather) <= now);
        Ok(is_due.then(|| self.late.pop_front()).flatten().map(|(_, event)| event))
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
            error_event(&error)
        })
    }

    /// Half of the event's line; the connection breaks behind it.
    fn half(&mut self, event: &Event, now: Timestamp) -> Line {
        self.torn = true;
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

/// When an event that arrived then is sent.
fn due(arrived: Timestamp, weather: &Weather) -> Timestamp {
    arrived.saturating_add(weather.lag).unwrap_or(Timestamp::MAX)
}
