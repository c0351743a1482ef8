//! What the parts of a simulated world log, kept for the report of a run that fails.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

/// The most that is kept; the rest of a longer log is dropped.
const MOST_BYTES: usize = 8 << 20;

static KEPT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Keeper;

impl Write for Keeper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_BYTES.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(&bytes[..room]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps this process's log from here on; `DRYDOCK_LOG` says how much of it (as `RUST_LOG` does elsewhere).
pub fn keep() {
    let filter = EnvFilter::try_from_env("DRYDOCK_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let layer = fmt::layer()
        .with_ansi(false)
        .without_time()
        .with_writer(|| Keeper)
        .with_filter(filter.and(filter_fn(::logs::shows_no_payload)));
    let _ = tracing_subscriber::registry().with(layer).try_init();
}

/// What was kept so far.
pub fn kept() -> Vec<u8> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
