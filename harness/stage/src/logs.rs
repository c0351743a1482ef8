//! Keeps the log of a simulated world for the report of a failed run, and counts the reasons of mcm's decisions in that
//! log.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

use clock::Clock;
use jiff::Timestamp;
use judge::evaluate::between;
use mcm_api::GoDuration;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

/// The maximum size of the begin of the kept log, and of its end. What is between them is dropped.
const MOST_BYTES: usize = 4 << 20;

/// The clock of the simulated world, and the time at which it starts.
static CLOCK: Mutex<Option<(Clock, Timestamp)>> = Mutex::new(None);

static KEPT: Mutex<Kept> = Mutex::new(Kept::new());

static REASONS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Counts decisions, which are log events with a reason, by the kind of the reason.
struct Reasons;

/// The field of a decision's event that contains the kind of its reason.
const KIND: &str = "kind";

fn is_decision(event: &Metadata<'_>) -> bool {
    event.is_event() && event.target().starts_with("mcm") && event.fields().field(KIND).is_some()
}

impl<S: Subscriber> Layer<S> for Reasons {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Counter);
    }
}

struct Counter;

impl Visit for Counter {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == KIND {
            let mut reasons = REASONS.lock();
            *reasons.entry(value.to_owned()).or_default() += 1;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// How often mcm has logged each reason so far.
pub fn reasons() -> BTreeMap<String, u64> {
    REASONS.lock().clone()
}

/// The virtual time since the start of the world, and the process that writes the line.
struct TimeAndProcess;

impl FormatTime for TimeAndProcess {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let Some((clock, start)) = CLOCK.lock().clone() else {
            return Ok(());
        };
        let passed = format!("+{}", GoDuration(between(start, clock.now())));
        let process = sim::current_process();
        write!(writer, "{passed:<13}{:<11}", process.as_deref().unwrap_or("-"))
    }
}

/// From now on the lines of the log have the time of `clock`, from zero.
pub fn count_from_now(clock: &Clock) {
    *CLOCK.lock() = Some((clock.clone(), clock.now()));
}

/// The begin and the end of a log, by lines.
#[derive(Debug)]
struct Kept {
    first: Vec<u8>,
    last: VecDeque<Vec<u8>>,
    /// The size of `last`.
    size: usize,
    dropped: u64,
}

impl Kept {
    const fn new() -> Self {
        Self {
            first: Vec::new(),
            last: VecDeque::new(),
            size: 0,
            dropped: 0,
        }
    }

    fn add(&mut self, line: &[u8], most: usize) {
        if self.last.is_empty() && self.first.len() + line.len() <= most {
            self.first.extend_from_slice(line);
            return;
        }
        self.size += line.len();
        self.last.push_back(line.to_vec());
        while self.size > most
            && let Some(line) = self.last.pop_front()
        {
            self.size -= line.len();
            self.dropped += 1;
        }
    }

    fn text(&self) -> Vec<u8> {
        let mut text = self.first.clone();
        if self.dropped > 0 {
            text.extend_from_slice(format!("({} lines are dropped)\n", self.dropped).as_bytes());
        }
        text.extend(self.last.iter().flatten());
        text
    }
}

/// The writer of one line, which it receives in one piece.
struct Keeper;

impl Write for Keeper {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        KEPT.lock().add(line, MOST_BYTES);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the log of this process from now on. `DRYDOCK_LOG` is the filter, in the syntax of `RUST_LOG`.
pub fn keep() {
    let filter = EnvFilter::try_from_env("DRYDOCK_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let layer = fmt::layer()
        .with_ansi(false)
        .with_timer(TimeAndProcess)
        .with_writer(|| Keeper)
        .with_filter(filter.and(filter_fn(::logs::shows_no_payload)));
    let reasons = Reasons.with_filter(filter_fn(is_decision));
    let _ = tracing_subscriber::registry().with(layer).with(reasons).try_init();
}

/// Forgets the log kept so far, before another run of this process.
pub fn forget() {
    *KEPT.lock() = Kept::new();
    REASONS.lock().clear();
}

/// The log kept so far.
pub fn kept() -> Vec<u8> {
    KEPT.lock().text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_long_log_is_dropped_by_lines() {
        let mut kept = Kept::new();
        for number in 0..9 {
            kept.add(format!("line {number}\n").as_bytes(), 15);
        }
        let text = String::from_utf8(kept.text()).unwrap();
        assert_eq!(text, "line 0\nline 1\n(5 lines are dropped)\nline 7\nline 8\n");
    }

    #[test]
    fn a_short_log_is_kept_as_a_whole() {
        let mut kept = Kept::new();
        for line in ["a\n", "b\n"] {
            kept.add(line.as_bytes(), 15);
        }
        assert_eq!(kept.text(), b"a\nb\n");
    }
}
