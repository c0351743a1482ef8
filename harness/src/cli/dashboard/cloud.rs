//! Follows the cloud from now on: the page shows what happens while it is open, and the past of the ledger can be long.

use clock::Clock;
use futures::stream::{self, BoxStream, StreamExt};
use scenario::cloud::{CloudEvent, Vm};
use stage::cloud::{CloudClient, CloudError};

use crate::engine::observe::RETRY;

/// What is observed of the cloud.
#[derive(Debug)]
pub(super) enum CloudChange {
    /// All VMs that exist.
    Vms(Vec<Vm>),
    /// An event after the list.
    Event(CloudEvent),
    /// The cloud cannot be followed at the moment; a list comes next.
    Trouble(String),
}

type Events = BoxStream<'static, Result<(u64, CloudEvent), CloudError>>;

/// Where the stream continues.
enum Position {
    /// With a list.
    List,
    /// With the events after a number.
    After(u64),
    /// With the next of these events.
    Events(Events),
}

/// The VMs, then events. After a failure the VMs are listed again: the cloud may have been restarted, and its ledger may not have
/// the missed events any more. The stream never ends.
pub(super) fn follow_cloud(cloud: CloudClient, clock: Clock) -> BoxStream<'static, CloudChange> {
    stream::unfold(Position::List, move |position| {
        let (cloud, clock) = (cloud.clone(), clock.clone());
        async move {
            match next(&cloud, position).await {
                Ok((change, position)) => Some((change, position)),
                Err(what) => {
                    clock.sleep(RETRY).await;
                    let trouble = CloudChange::Trouble(format!("watch of the cloud: {what}"));
                    Some((trouble, Position::List))
                }
            }
        }
    })
    .boxed()
}

async fn next(cloud: &CloudClient, position: Position) -> Result<(CloudChange, Position), String> {
    let mut events = match position {
        Position::List => {
            let (number, vms) = cloud.snapshot().await.map_err(|error| error.to_string())?;
            return Ok((CloudChange::Vms(vms), Position::After(number)));
        }
        Position::After(number) => cloud.watch(number).await.map_err(|error| error.to_string())?,
        Position::Events(events) => events,
    };
    match events.next().await {
        Some(Ok((_, event))) => Ok((CloudChange::Event(event), Position::Events(events))),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("the stream ended".to_owned()),
    }
}
