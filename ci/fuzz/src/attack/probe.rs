//! Measures how long `/healthz` takes, on a separate thread, so that the attack does not delay the measurement.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::{Clock, LostTime};

use super::LATEST_HEALTH;
use super::client::{Client, InFlight};

/// The time between two measurements.
const PERIOD: Duration = Duration::from_millis(20);
/// How long one response may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A running measurement.
pub(super) struct Probe {
    end: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Measured>>,
}

/// The longest time, the number of measurements, and descriptions of late responses.
type Measured = (Duration, u64, Vec<String>);

impl Probe {
    /// Starts to measure. A late response is described with the requests that are in flight then.
    pub(super) fn start(kubeconfig: PathBuf, in_flight: InFlight) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let end = Arc::clone(&end);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(measure(kubeconfig, &in_flight, &end))
            }
        });
        Self { end, thread }
    }

    /// Ends the measurement and returns its result.
    pub(super) fn end(self) -> Measured {
        self.end.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(Ok(measured)) => measured,
            Ok(Err(error)) => (Duration::ZERO, 0, vec![format!("/healthz cannot be measured: {error}")]),
            Err(_) => (
                Duration::ZERO,
                0,
                vec!["the measurement of /healthz panicked".to_owned()],
            ),
        }
    }
}

async fn measure(kubeconfig: PathBuf, in_flight: &InFlight, end: &AtomicBool) -> anyhow::Result<Measured> {
    let client = Client::new(&kubeconfig).await?;
    let (clock, lost) = (Clock::wall(), LostTime::measured());
    let (mut longest, mut probes, mut late) = (Duration::ZERO, 0, Vec::new());
    while !end.load(Ordering::Relaxed) {
        let start = clock.now();
        let result = tokio::time::timeout(LIMIT, client.is_served("/healthz")).await;
        // Without the time in which this process was not scheduled.
        let took = Duration::try_from(clock.now() - start)
            .unwrap_or_default()
            .saturating_sub(lost.since(start));
        probes += 1;
        longest = longest.max(took);
        match result {
            Ok(Ok(())) if took <= LATEST_HEALTH => {}
            Ok(Ok(())) => late.push(format!(
                "/healthz took {} ms beside {}",
                took.as_millis(),
                in_flight.all().join(", ")
            )),
            Ok(Err(error)) => late.push(error),
            Err(_) => late.push(format!("/healthz took longer than {} s", LIMIT.as_secs())),
        }
        clock.sleep(PERIOD).await;
    }
    Ok((longest, probes, late))
}
