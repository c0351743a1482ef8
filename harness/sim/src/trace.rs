//! The record of a run: its events in order, with virtual time, and one hash over all of them.
//!
//! Two runs are equal exactly if their hashes are equal.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use clock::Clock;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

/// The append-only record of a run; clones write to the same record.
#[derive(Clone)]
pub struct Trace {
    clock: Clock,
    record: Arc<Mutex<Record>>,
    full: Arc<Notify>,
}

struct Record {
    digest: Sha256,
    length: u64,
    limit: u64,
    keep: Keep,
    entries: VecDeque<Entry>,
    /// Entries about processes that `keep` has removed from `entries`.
    process_entries: Vec<Entry>,
}

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Position in the trace, counted from 0.
    pub number: u64,
    /// Virtual time.
    pub at: Timestamp,
    /// The actor: a client, `cloud`, `fault`, a process.
    pub source: String,
    /// The event, in one line.
    pub text: String,
}

/// The event of an entry, as far as readers of a trace need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A completed API request.
    Request {
        /// The method, or `WATCH`.
        verb: &'a str,
        /// The path without its query.
        path: &'a str,
        /// The HTTP status; 0: no response.
        code: u16,
        /// The revision of the store after the request.
        revision: Option<u64>,
    },
    /// A watch event that a client received.
    Delivery {
        /// For example `Node default/a`.
        object: &'a str,
        /// The object's resource version.
        revision: u64,
    },
    /// An answered cloud call.
    CloudCall {
        /// The method.
        operation: &'a str,
    },
    /// A fault.
    Fault {
        /// What it affects.
        target: &'a str,
        /// The fault.
        text: &'a str,
    },
    /// The start or end of a process.
    Process(&'a str),
    /// Anything else.
    Other,
}

impl Entry {
    /// The event of the entry.
    pub fn event(&self) -> Event<'_> {
        if self.source == FAULT {
            return match self.text.split_once(": ") {
                Some((target, text)) => Event::Fault { target, text },
                None => Event::Other,
            };
        }
        if let Some(text) = self.text.strip_prefix(PROCESS) {
            return Event::Process(text);
        }
        if let Some(delivery) = self.text.strip_prefix(DELIVERY) {
            return event_of_delivery(delivery).unwrap_or(Event::Other);
        }
        if let Some(call) = self.text.strip_prefix(CLOUD) {
            let operation = call.split(' ').next().unwrap_or_default();
            return Event::CloudCall { operation };
        }
        event_of_request(&self.text).unwrap_or(Event::Other)
    }

    fn is_about_process(&self) -> bool {
        self.source == FAULT || self.text.starts_with(PROCESS)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.at, self.source, self.text)
    }
}

/// The source of entries about faults.
const FAULT: &str = "fault";
/// The prefix of entries about the start and end of a process.
const PROCESS: &str = "process ";

/// The prefix of entries about deliveries of watches.
const DELIVERY: &str = "watch ";
/// The prefix of entries about cloud calls.
const CLOUD: &str = "cloud ";

/// Parses what [`Trace::watch_delivery`] records, without its prefix.
fn event_of_delivery(text: &str) -> Option<Event<'_>> {
    let (_, rest) = text.split_once(' ')?;
    let (object, revision) = rest.rsplit_once(" @")?;
    Some(Event::Delivery {
        object,
        revision: revision.parse().ok()?,
    })
}

/// Parses what [`Trace::api_request`] records.
fn event_of_request(text: &str) -> Option<Event<'_>> {
    let mut words = text.split(' ');
    let (verb, path, code) = (words.next()?, words.next()?, words.next()?);
    let revision = words.next().and_then(|word| word.strip_prefix('@'));
    Some(Event::Request {
        verb,
        path: path.split('?').next()?,
        code: code.parse().ok()?,
        revision: revision.and_then(|revision| revision.parse().ok()),
    })
}

/// Which entries stay in memory for the narrative; the hash always covers all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Every entry: for comparing two runs.
    All,
    /// The given number of newest entries.
    Last(usize),
}

impl Default for Keep {
    /// Enough for the narrative of a scenario; at most about ten megabytes.
    fn default() -> Self {
        Self::Last(50_000)
    }
}

impl Trace {
    /// An empty trace whose entries carry `clock`'s time.
    pub fn new(clock: Clock, keep: Keep) -> Self {
        let record = Record {
            digest: Sha256::new(),
            length: 0,
            limit: u64::MAX,
            keep,
            entries: VecDeque::new(),
            process_entries: Vec::new(),
        };
        Self {
            clock,
            record: Arc::new(Mutex::new(record)),
            full: Arc::default(),
        }
    }

    /// The clock of its entries.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns when the trace has more than `limit` entries. A later call replaces the limit of an earlier one.
    pub async fn outgrown(&self, limit: u64) {
        self.lock().limit = limit;
        loop {
            let full = self.full.notified();
            if self.len() > limit {
                return;
            }
            full.await;
        }
    }

    /// Records a start or end of the process `name`.
    pub fn process(&self, name: &str, what: impl fmt::Display) {
        self.record(name, format!("{PROCESS}{what}"));
    }

    /// Changes which entries stay in memory, starting now.
    pub fn keep(&self, keep: Keep) {
        let mut record = self.lock();
        record.keep = keep;
        record.drop_excess_entries();
    }

    /// Records an event of `source`.
    pub fn record(&self, source: &str, text: impl Into<String>) {
        let at = self.clock.now();
        let outgrown = {
            let mut record = self.lock();
            record.append(at, source, text.into());
            record.length > record.limit
        };
        if outgrown {
            self.full.notify_waiters();
        }
    }

    /// Records a completed API request with its HTTP status and the revision of the store after it.
    pub fn api_request(&self, client: &str, verb: &str, path: &str, code: u16, revision: Option<u64>) {
        let revision = revision.map(|revision| format!(" @{revision}")).unwrap_or_default();
        self.record(client, format!("{verb} {path} {code}{revision}"));
    }

    /// Records a watch event that `client` received, for instance `MODIFIED` of `Node default/a`.
    pub fn watch_delivery(&self, client: &str, kind: &str, object: &str, revision: &str) {
        self.record(client, format!("{DELIVERY}{kind} {object} @{revision}"));
    }

    /// Records a cloud call and its status code; `machine` is given if known.
    pub fn cloud_call(&self, client: &str, operation: &str, machine: Option<&str>, code: &str) {
        let machine = machine.map(|machine| format!(" {machine}")).unwrap_or_default();
        self.record(client, format!("{CLOUD}{operation}{machine} {code}"));
    }

    /// Records an injected fault and the process or component that it affects.
    pub fn fault(&self, target: &str, text: &str) {
        self.record(FAULT, format!("{target}: {text}"));
    }

    /// The hash (SHA-256, hexadecimal) over everything recorded so far.
    pub fn hash(&self) -> String {
        let digest = self.lock().digest.clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The number of recorded entries, including those no longer in memory.
    pub fn len(&self) -> u64 {
        self.lock().length
    }

    /// Whether nothing has been recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries in memory, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.iter().cloned().collect()
    }

    /// The entries about process starts, process ends and faults, oldest first. All of them stay in memory.
    pub fn process_entries(&self) -> Vec<Entry> {
        let record = self.lock();
        let newest = record.entries.iter().filter(|entry| entry.is_about_process());
        record.process_entries.iter().chain(newest).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Trace")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Record {
    /// The digest covers each field with its length as a prefix, so that no two records share an encoding.
    fn append(&mut self, at: Timestamp, source: &str, text: String) {
        self.digest.update(at.as_nanosecond().to_le_bytes());
        for field in [source, &text] {
            self.digest.update((field.len() as u64).to_le_bytes());
            self.digest.update(field.as_bytes());
        }
        tracing::trace!(target: "sim::trace", number = self.length, %at, source, text);
        self.entries.push_back(Entry {
            number: self.length,
            at,
            source: source.to_owned(),
            text,
        });
        self.length += 1;
        self.drop_excess_entries();
    }

    fn drop_excess_entries(&mut self) {
        if let Keep::Last(count) = self.keep {
            let excess = self.entries.len().saturating_sub(count);
            let dropped = self.entries.drain(..excess);
            self.process_entries.extend(dropped.filter(Entry::is_about_process));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn trace(keep: Keep) -> Trace {
        Trace::new(Clock::simulated(Timestamp::UNIX_EPOCH), keep)
    }

    #[tokio::test(start_paused = true)]
    async fn the_hash_covers_source_text_time_and_order() {
        let empty = trace(Keep::All).hash();
        let hash_of = |entries: &[(&str, &str)]| {
            let trace = trace(Keep::All);
            for (source, text) in entries {
                trace.record(source, *text);
            }
            trace.hash()
        };
        let plain = hash_of(&[("mcm", "a"), ("kubelet", "b")]);
        assert_eq!(plain, hash_of(&[("mcm", "a"), ("kubelet", "b")]));
        assert_ne!(plain, empty);
        assert_ne!(plain, hash_of(&[("kubelet", "b"), ("mcm", "a")]));
        assert_ne!(plain, hash_of(&[("mcma", ""), ("kubelet", "b")]));

        let late = trace(Keep::All);
        tokio::time::sleep(Duration::from_millis(1)).await;
        late.record("mcm", "a");
        late.record("kubelet", "b");
        assert_ne!(plain, late.hash());
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_entries_changes_neither_hash_nor_length() {
        let (all, last) = (trace(Keep::All), trace(Keep::Last(2)));
        for number in 0..5 {
            all.record("mcm", number.to_string());
            last.record("mcm", number.to_string());
        }
        assert_eq!(all.hash(), last.hash());
        assert_eq!((all.len(), last.len()), (5, 5));
        let kept: Vec<_> = last
            .entries()
            .into_iter()
            .map(|entry| (entry.number, entry.text))
            .collect();
        assert_eq!(kept, [(3, "3".to_owned()), (4, "4".to_owned())]);
    }

    #[tokio::test(start_paused = true)]
    async fn entries_about_processes_stay_in_memory() {
        let trace = trace(Keep::Last(2));
        trace.process("mcm", "started (1)");
        for number in 0..5 {
            trace.record("mcm", number.to_string());
        }
        trace.fault("mcm", "crash before effect 3");
        trace.process("mcm", "crashed");
        let kept: Vec<_> = trace.process_entries().into_iter().map(|entry| entry.text).collect();
        assert_eq!(
            kept,
            ["process started (1)", "mcm: crash before effect 3", "process crashed"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn entries_are_parsed_as_they_were_recorded() {
        let trace = trace(Keep::All);
        trace.api_request("mcm", "PATCH", "/api/v1/nodes/a?dryRun=All", 200, Some(17));
        trace.watch_delivery("mcm", "MODIFIED", "Machine default/a", "17");
        trace.cloud_call("mcm", "CreateMachine", None, "0");
        trace.fault("mcm", "crash before effect 3");
        trace.process("mcm", "crashed");
        trace.record("hash-order", "machine-1");
        let entries = trace.entries();
        let events: Vec<_> = entries.iter().map(Entry::event).collect();
        let expected = [
            Event::Request {
                verb: "PATCH",
                path: "/api/v1/nodes/a",
                code: 200,
                revision: Some(17),
            },
            Event::Delivery {
                object: "Machine default/a",
                revision: 17,
            },
            Event::CloudCall {
                operation: "CreateMachine",
            },
            Event::Fault {
                target: "mcm",
                text: "crash before effect 3",
            },
            Event::Process("crashed"),
            Event::Other,
        ];
        assert_eq!(events, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn entries_read_as_a_narrative() {
        let trace = trace(Keep::All);
        trace.api_request("mcm", "PATCH", "/api/v1/nodes/a", 200, Some(17));
        trace.watch_delivery("mcm", "MODIFIED", "Node a", "17");
        trace.cloud_call("mcm", "CreateMachine", Some("m-1"), "Internal");
        trace.fault("mcm", "crash before effect 3");
        let lines: Vec<_> = trace.entries().iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "1970-01-01T00:00:00Z mcm PATCH /api/v1/nodes/a 200 @17",
                "1970-01-01T00:00:00Z mcm watch MODIFIED Node a @17",
                "1970-01-01T00:00:00Z mcm cloud CreateMachine m-1 Internal",
                "1970-01-01T00:00:00Z fault mcm: crash before effect 3",
            ]
        );
    }
}
