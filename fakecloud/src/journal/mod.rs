//! The ledger on disk: every change is written to a log before its client gets the reply, and from time to time the
//! whole ledger, so that the log stays short.
//!
//! This module collects changes, writes them in groups, and reports when they are durable. `model` defines the content
//! of the ledger, `format` the file formats. A cloud without a folder has no journal.

mod audit;
mod damage;
mod earlier;
mod error;
mod files;
mod format;
pub mod inspect;
mod load;
mod reader;
mod salvage;
mod strict;
#[cfg(test)]
mod tests;
mod version;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub use self::audit::AuditLimits;
pub use self::damage::{Damage, Reason};
pub use self::error::JournalError;
use self::files::{Batch, Files, Opened};
use self::format::Frame;
pub use self::salvage::{Loss, Place, Step, Unrecoverable};
pub use self::version::LaterVersion;
use crate::model::{Cloud, Record, Snapshot};

/// Collects pending changes. Clones share the journal.
#[derive(Clone, Debug)]
pub(crate) struct Journal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pending: Mutex<Pending>,
    /// Number of the last frame that a reply must wait for.
    needed: AtomicU64,
    /// Number of the last durable frame.
    safe: watch::Sender<u64>,
    more: Notify,
    /// Whether the log is so long that the whole ledger must be written.
    long: AtomicBool,
}

#[derive(Debug)]
struct Pending {
    batch: Batch,
    number: u64,
    /// Last record of the cloud's log that was collected.
    record: u64,
}

/// The writer of a folder; there is one for each folder.
#[derive(Debug)]
pub struct Writer {
    journal: Journal,
    files: Files,
}

/// The content of a folder.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) journal: Journal,
    pub(crate) writer: Writer,
    /// None: the folder is new.
    pub(crate) state: Option<Snapshot>,
    pub(crate) records: Vec<Record>,
}

impl Journal {
    /// Opens a folder, or creates it.
    ///
    /// # Errors
    /// It cannot be used, another process uses it, its files are damaged or contradict each other, or a later version wrote
    /// them. The files of the ledger are then unchanged.
    pub(crate) fn open(folder: &Path, audit: AuditLimits) -> Result<Found, JournalError> {
        let Opened {
            files,
            state,
            records,
            number,
        } = Files::open(folder, audit)?;
        let journal = Self(Arc::new(Shared {
            pending: Mutex::new(Pending {
                batch: Batch::default(),
                number,
                record: state.as_ref().map_or(0, |state| state.log),
            }),
            needed: AtomicU64::new(number),
            safe: watch::Sender::new(number),
            more: Notify::new(),
            // A new folder gets the whole ledger with the first step.
            long: AtomicBool::new(state.is_none()),
        }));
        let writer = Writer {
            journal: journal.clone(),
            files,
        };
        Ok(Found {
            journal,
            writer,
            state,
            records,
        })
    }

    /// Collects the changes of the last step. Must be called after every step, in order.
    pub(crate) fn take(&self, cloud: &mut Cloud, instance: &str, now: Timestamp) {
        let changes = cloud.take_changes();
        let last = cloud.log().last();
        let mut pending = self.0.pending.lock();
        if changes.is_empty() && pending.record == last && !self.0.long.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(records) = cloud.log().after(pending.record) {
            pending.batch.records.extend(records.cloned());
        }
        pending.record = last;
        pending.number += 1;
        let number = pending.number;
        if !changes.is_empty() {
            self.0.needed.store(number, Ordering::Release);
        }
        pending.batch.frames.push(Frame {
            number,
            time: now,
            log: last,
            changes,
        });
        if self.0.long.swap(false, Ordering::Relaxed) {
            pending.batch.snapshot = Some((number, Box::new(cloud.snapshot(instance, now))));
        }
        drop(pending);
        self.0.more.notify_one();
    }

    /// Waits until all changes so far are durable.
    ///
    /// # Errors
    /// They cannot be written: the process is about to end.
    pub(crate) async fn settled(&self) -> Result<(), Unsafe> {
        let needed = self.0.needed.load(Ordering::Acquire);
        let mut safe = self.0.safe.subscribe();
        let reached = safe.wait_for(|safe| *safe >= needed).await;
        match reached {
            Ok(safe) if *safe < u64::MAX => Ok(()),
            _ => Err(Unsafe),
        }
    }

    fn next_batch(&self) -> Option<(Batch, u64)> {
        let mut pending = self.0.pending.lock();
        let batch = std::mem::take(&mut pending.batch);
        (!batch.frames.is_empty()).then_some((batch, pending.number))
    }
}

/// The ledger cannot be written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot write the ledger to its folder; the process ends")]
pub(crate) struct Unsafe;

impl Writer {
    /// Writes collected changes until `token` is cancelled and none is left.
    ///
    /// # Errors
    /// A file cannot be written; clients that wait for a change get an error.
    pub async fn run(self, token: CancellationToken) -> Result<(), JournalError> {
        let Self { journal, mut files } = self;
        loop {
            let Some((batch, number)) = journal.next_batch() else {
                if token.is_cancelled() {
                    return Ok(());
                }
                tokio::select! {
                    biased;
                    () = journal.0.more.notified() => {}
                    () = token.cancelled() => {}
                }
                continue;
            };
            let written = tokio::task::spawn_blocking(move || {
                let written = files.write(batch);
                (files, written)
            });
            let (returned, written) = written
                .await
                .map_err(|error| JournalError::Interrupted(error.to_string()))?;
            files = returned;
            match written {
                Ok(long) => journal.0.long.store(long, Ordering::Relaxed),
                Err(error) => {
                    // No frame has this number: waiting calls wake up and see the error.
                    journal.0.safe.send_replace(u64::MAX);
                    return Err(error);
                }
            }
            journal.0.safe.send_replace(number);
        }
    }
}
