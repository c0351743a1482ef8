//! The signals that ask a program to end in order.

use std::io;

use futures::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGINT, SIGTERM, SIGQUIT and SIGHUP, including those that arrive between two calls of [`Termination::next`].
/// Signals that the parent process chose to ignore, as `nohup` does with SIGHUP, stay ignored.
#[derive(Debug)]
pub struct Termination {
    signals: Vec<(SignalKind, Signal)>,
}

impl Termination {
    /// Starts to listen.
    ///
    /// # Errors
    /// If the operating system refuses a handler.
    pub fn listen() -> io::Result<Self> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::quit(),
            SignalKind::hangup(),
        ];
        let ignored = ignored();
        let listened = kinds
            .into_iter()
            .filter(|kind| !is_in(ignored, kind.as_raw_value()))
            .map(|kind| Ok((kind, signal(kind)?)));
        Ok(Self {
            signals: listened.collect::<io::Result<_>>()?,
        })
    }

    /// Waits for the next signal. Returns its number.
    pub async fn next(&mut self) -> i32 {
        let signals = self.signals.iter_mut();
        let received = signals.map(|(kind, signal)| {
            Box::pin(async move {
                signal.recv().await;
                kind.as_raw_value()
            })
        });
        let received: Vec<_> = received.collect();
        if received.is_empty() {
            return std::future::pending().await;
        }
        select_all(received).await.0
    }
}

/// The set of signals that this process ignores, as a bit mask; empty where the system has no `/proc`.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    mask_of(&status)
}

fn mask_of(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}

/// Whether the mask contains the signal of that number; the lowest bit is signal 1.
fn is_in(mask: u64, number: i32) -> bool {
    let bit = u32::try_from(number - 1)
        .ok()
        .and_then(|shift| 1_u64.checked_shl(shift));
    bit.is_some_and(|bit| mask & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        let mask = mask_of(status);
        let found: Vec<i32> = (1..=64).filter(|number| is_in(mask, *number)).collect();
        assert_eq!(found, [SignalKind::hangup().as_raw_value(), 13]);
        assert_eq!(mask_of("Name:\tx\n"), 0);
    }
}
