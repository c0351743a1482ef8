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
    Failed(String),
}

/// Why the cloud cannot be followed.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error("the stream ended")]
    Ended,
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
                Err(error) => {
                    clock.sleep(RETRY).await;
                    let failure = CloudChange::Failed(format!("watch of the cloud: {error}"));
                    Some((failure, Position::List))
                }
            }
        }
    })
    .boxed()
}

async fn next(cloud: &CloudClient, position: Position) -> Result<(CloudChange, Position), FollowError> {
    let mut events = match position {
        Position::List => {
            let (number, vms) = cloud.snapshot().await?;
            return Ok((CloudChange::Vms(vms), Position::After(number)));
        }
        Position::After(number) => cloud.watch(number).await?,
        Position::Events(events) => events,
    };
    match events.next().await {
        Some(Ok((_, event))) => Ok((CloudChange::Event(event), Position::Events(events))),
        Some(Err(error)) => Err(error.into()),
        None => Err(FollowError::Ended),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clock::Seed;
    use fakecloud::{Config, Fakecloud};
    use scenario::Timeouts;
    use scenario::cloud::VmState;
    use scenario::step::{VmAction, VmStep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_stream_begins_with_the_vms_and_has_no_event_of_the_past() {
        let clock = Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap());
        let cloud = Fakecloud::new(Config::default(), clock.clone(), Seed::new(1));
        let client = CloudClient::new(cloud.control_server()).with_driver(cloud.driver_server());
        client.create_vm("default", "m-1", true).await.unwrap();
        clock.sleep(Duration::from_mins(10)).await;
        let mut changes = follow_cloud(client.clone(), clock);
        let Some(CloudChange::Vms(vms)) = changes.next().await else {
            panic!("the stream begins with another change");
        };
        let [vm] = vms.as_slice() else { panic!("{vms:?}") };
        assert_eq!((vm.machine.as_str(), vm.state), ("m-1", VmState::Running));
        let kill = VmStep::new("m-1", VmAction::Kill);
        client.vm_action(&vm.id, &kill, &Timeouts::production()).await.unwrap();
        loop {
            match changes.next().await.unwrap() {
                CloudChange::Event(CloudEvent::Vm(vm)) if vm.state == VmState::Stopped => break,
                // A change between the number and the list is in both.
                CloudChange::Event(CloudEvent::Vm(vm)) => assert_eq!(vm.state, VmState::Running),
                CloudChange::Event(CloudEvent::Call(call)) => assert_ne!(call.call, "createMachine"),
                CloudChange::Event(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
