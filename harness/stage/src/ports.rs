//! Free ports of this machine, and processes that listen on them.
//!
//! They are none of those that a system gives to outgoing connections and to whoever asks for any port: such a port may be
//! given away between a look and its use, or while a process that listened there is being started again. A client that
//! dials it meanwhile may even be given it, and is connected to itself.

use std::net::TcpListener;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clock::Clock;
use tokio::net::TcpStream;

use super::child::{ChildError, Ended, Program, Running};

/// Linux gives ports from 32768 on, macOS from 49152 on. Well-known ones of Kubernetes are not among these.
const PORTS: Range<u16> = 21_000..26_000;
/// How far apart two processes begin that were started one after the other.
const STRIDE: u32 = 97;

/// How long a process may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How often that is looked at meanwhile: a port that nobody listens on yet gives no event.
const START_PROBE: Duration = Duration::from_millis(20);
/// How often a process may find that somebody was faster.
pub(super) const ATTEMPTS: u32 = 5;

/// How many ports this process was given.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Why no process listens on a port.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Something listens on each of them.
    #[error("no port from {} to {} is free", PORTS.start, PORTS.end - 1)]
    AllTaken,
    /// The operating system gives no port of its choice.
    #[error("no port is free: {0}")]
    Bind(#[source] std::io::Error),
    /// The process does not start, or ends before it listens.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The process runs, but does not listen in time.
    #[error("{program} does not listen {START_LIMIT:?} after its start")]
    NotListening {
        /// The program.
        program: String,
    },
}

impl PortError {
    /// Whether another process took the port first.
    fn is_taken(&self) -> bool {
        matches!(self, Self::Child(ChildError::Ended(ended)) if is_taken(ended))
    }
}

/// A port that nobody listens on; another one at each call, until all were given.
///
/// # Errors
/// [`PortError::AllTaken`].
pub fn free_port() -> Result<u16, PortError> {
    let first = std::process::id().wrapping_mul(STRIDE);
    let candidates = PORTS.map(|_| at(first.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed))));
    let mut free = candidates.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().ok_or(PortError::AllTaken)
}

/// Whether a process ended because another one took its port first.
pub(super) fn is_taken(ended: &Ended) -> bool {
    let line = ended.last_line.as_deref().unwrap_or_default();
    line.to_lowercase().contains("address already in use")
}

/// Starts a program on a free port, and on another one when somebody was faster. It listens there when this returns.
pub(super) async fn start(
    program: &Program,
    argument: impl Fn(u16) -> String,
    clock: &Clock,
) -> Result<(u16, Running), PortError> {
    let mut attempts = 1..=ATTEMPTS;
    loop {
        let port = free_port()?;
        let mut program = program.clone();
        program.command.push(argument(port).into());
        let mut running = program.start()?;
        match listens(port, &program.name, &mut running, clock).await {
            Ok(()) => return Ok((port, running)),
            Err(error) if error.is_taken() && attempts.next().is_some() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits until somebody listens on a port that was free, for [`START_LIMIT`] at most and no longer than `process` lives.
pub(super) async fn listens(port: u16, name: &str, process: &mut Running, clock: &Clock) -> Result<(), PortError> {
    let listening = async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            clock.sleep(START_PROBE).await;
        }
    };
    tokio::select! {
        biased;
        ended = process.ended() => Err(ChildError::from(ended).into()),
        listens = tokio::time::timeout(START_LIMIT, listening) => {
            listens.map_err(|_| PortError::NotListening { program: name.to_owned() })
        }
    }
}

/// One of the ports; which, by any number.
fn at(number: u32) -> u16 {
    let count = u32::from(PORTS.end - PORTS.start);
    PORTS.start + u16::try_from(number % count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_a_port_of_the_range() {
        assert_eq!(at(0), PORTS.start);
        assert_eq!(at(4_999), PORTS.end - 1);
        assert_eq!(at(5_000), PORTS.start);
        assert!(PORTS.contains(&at(u32::MAX)));
    }

    #[test]
    fn a_port_that_is_taken_is_told_from_a_ledger_that_is_in_use() {
        let ended = |program: &str, line: &str| Ended {
            program: program.to_owned(),
            status: "exit status: 1".to_owned(),
            last_line: Some(line.to_owned()),
        };
        let mcm = ended("mcm", "Address already in use (os error 98)");
        assert!(is_taken(&mcm));
        assert_eq!(
            mcm.to_string(),
            "mcm ended (exit status: 1); its last words: Address already in use (os error 98)"
        );
        assert!(is_taken(&ended("etcd", "bind: address already in use")));
        assert!(!is_taken(&ended("fakecloud", "ledger is in use by another fakecloud")));
    }

    #[test]
    fn a_port_is_given_once_and_not_while_somebody_listens_there() {
        let first = free_port().unwrap();
        let second = free_port().unwrap();
        assert_ne!(first, second);
        let _taken = TcpListener::bind(("127.0.0.1", second)).unwrap();
        // Once around.
        let given = (0..PORTS.len()).map(|_| free_port().unwrap());
        let given: std::collections::BTreeSet<_> = given.take_while(|port| *port != first).collect();
        assert!(!given.contains(&second));
    }
}
