//! What the parts of a simulated world log, kept for the report of a run that fails.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::EnvFilter;

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
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .without_time()
        .with_writer(|| Keeper)
        .try_init();
}

/// What was kept so far.
pub fn kept() -> Vec<u8> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
