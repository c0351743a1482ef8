//! Rules about all calls, and about the run as a whole.

use super::{Stop, Verdict};
use crate::leftovers::wait_for_leftovers;
use crate::session::RANDOM_PREFIX;
use crate::{CallError, Session};

/// Calls everything once. Failures other than a missing answer belong to other cases.
pub(super) async fn deadlines(session: &Session) -> Verdict {
    let machine = session.machine();
    answered(session.create(&machine).await.err())?;
    answered(session.create(&machine).await.err())?;
    answered(session.status(&machine).await.err())?;
    answered(session.status(&session.machine()).await.err())?;
    answered(session.list().await.err())?;
    answered(session.initialize(&machine).await.err())?;
    answered(session.update(&machine, None).await.err())?;
    answered(session.volume_ids(Vec::new()).await.err())?;
    answered(session.delete(&machine).await.err())?;
    answered(session.delete(&machine).await.err())
}

fn answered(error: Option<CallError>) -> Verdict {
    match error {
        Some(error @ CallError::NoAnswer { .. }) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The machines of all other cases are deleted by now. A deletion may take a while in the cloud.
pub(super) async fn leftovers(session: &Session) -> Verdict {
    let left = wait_for_leftovers(session).await;
    if !left.is_empty() {
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        return Err(Stop::Failed(format!("left after DeleteMachine: {}", left.join(", "))));
    }
    let now = match session.list().await {
        Err(error) if error.is_unimplemented() => return Ok(()),
        listed => listed?,
    };
    let before = session.before.lock().clone();
    // Another run may have ended meanwhile.
    let gone = before
        .iter()
        .find(|(id, machine)| !now.contains_key(*id) && !machine.starts_with(RANDOM_PREFIX));
    match gone {
        None => Ok(()),
        Some((id, machine)) => Err(Stop::Failed(format!(
            "VM {id} of machine {machine} was listed before the run and is gone: the driver deleted it, or its owner did"
        ))),
    }
}
