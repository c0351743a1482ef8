//! Chooses free ports of this machine, and starts processes that listen on them.
//!
//! The range excludes ephemeral ports, which the system assigns to outgoing connections and to listeners on port 0. It
//! may assign an ephemeral port between the check and the use, or during a restart of the process that listens on it. A
//! client that dials such a port may even get it as its own source port, and connects to itself.

use std::net::TcpListener;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clock::Clock;
use tokio::net::TcpStream;

use super::child::{ChildError, Ended, Program, Running};

/// Ephemeral ports start at 32768 on Linux and at 49152 on macOS. The range has no well-known ports of Kubernetes.
const PORTS: Range<u16> = 21_000..26_000;
/// The distance between the first ports of two processes with consecutive process ids.
const STRIDE: u32 = 97;

/// How long a process may take to listen.
const START_LIMIT: Duration = Duration::from_secs(20);
/// The interval of connection attempts meanwhile: the start of a listener causes no event.
const START_PROBE: Duration = Duration::from_millis(20);
/// The number of retries when another process has taken the port first.
pub(super) const ATTEMPTS: u32 = 5;

/// The number of ports that [`free_port`] has tried so far.
static TRIED: AtomicU32 = AtomicU32::new(0);

/// Errors of choosing a port and starting a process on it.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Every port of the range is in use.
    #[error("no port from {} to {} is free", PORTS.start, PORTS.end - 1)]
    AllTaken,
    /// The operating system assigns no ephemeral port.
    #[error("no port is free: {0}")]
    Bind(#[source] std::io::Error),
    /// The process does not start, or ends before it listens.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The process does not listen in time.
    #[error("{program} does not listen {START_LIMIT:?} after its start")]
    NotListening {
        /// The program.
        program: String,
    },
}

impl PortError {
    /// Whether another process has taken the port first.
    fn is_taken(&self) -> bool {
        matches!(self, Self::Child(ChildError::Ended(ended)) if is_taken(ended))
    }
}

/// Returns a port that no process listens on. Each call returns another port, until the range is exhausted.
///
/// # Errors
/// [`PortError::AllTaken`].
pub fn free_port() -> Result<u16, PortError> {
    let first = std::process::id().wrapping_mul(STRIDE);
    let candidates = PORTS.map(|_| port_at(first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed))));
    let mut free = candidates.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().ok_or(PortError::AllTaken)
}

/// Whether a process ended because another one has taken its port first.
pub(super) fn is_taken(ended: &Ended) -> bool {
    let line = ended.last_line.as_deref().unwrap_or_default();
    line.to_lowercase().contains("address already in use")
}

/// Starts a program on a free port and waits until it listens. Retries with another port if another process has taken
/// the port first.
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

/// Waits until a process listens on a port that was free, for at most [`START_LIMIT`] and only while `process` runs.
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

/// Maps any number to a port of the range.
fn port_at(number: u32) -> u16 {
    let count = u32::from(PORTS.end - PORTS.start);
    PORTS.start + u16::try_from(number % count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_maps_to_a_port_of_the_range() {
        assert_eq!(port_at(0), PORTS.start);
        assert_eq!(port_at(4_999), PORTS.end - 1);
        assert_eq!(port_at(5_000), PORTS.start);
        assert!(PORTS.contains(&port_at(u32::MAX)));
    }

    #[test]
    fn only_an_address_in_use_counts_as_a_taken_port() {
        let ended = |program: &str, line: &str| Ended {
            program: program.to_owned(),
            status: "exit status: 1".to_owned(),
            last_line: Some(line.to_owned()),
        };
        let mcm = ended("mcm", "Address already in use (os error 98)");
        assert!(is_taken(&mcm));
        assert_eq!(
            mcm.to_string(),
            "mcm ended (exit status: 1); last log line: Address already in use (os error 98)"
        );
        assert!(is_taken(&ended("etcd", "bind: address already in use")));
        assert!(!is_taken(&ended("fakecloud", "ledger is in use by another fakecloud")));
    }

    #[test]
    fn a_free_port_is_returned_once_and_only_without_a_listener() {
        let first = free_port().unwrap();
        let second = free_port().unwrap();
        assert_ne!(first, second);
        let _listener = TcpListener::bind(("127.0.0.1", second)).unwrap();
        // One cycle through the whole range.
        let ports = (0..PORTS.len()).map(|_| free_port().unwrap());
        let ports: std::collections::BTreeSet<_> = ports.take_while(|port| *port != first).collect();
        assert!(!ports.contains(&second));
    }
}
