//! Follows a run while it is in progress.

use std::fmt::Debug;
use std::ops::ControlFlow;

use dashboard::Arrival;
use jiff::Timestamp;
use scenario::observation::Observation;
use sim::Trace;

/// Is called by the engine of a run, on the run's thread. In virtual time a call may block: time does not pass meanwhile. It must
/// not use the thread's random numbers, such as those of a new `HashMap`, because the run depends on them.
pub trait Follower: Debug + Send + Sync {
    /// The scenario starts. `trace`: the trace of a simulated run.
    fn begin(&self, at: Timestamp, trace: Option<&Trace>);

    /// Something is about to happen. The run goes on when this returns, or ends.
    fn wait(&self, arrival: Arrival) -> ControlFlow<()>;

    /// Something was observed and recorded.
    fn observe(&self, observation: &Observation);
}
