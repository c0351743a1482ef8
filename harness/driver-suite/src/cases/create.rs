//! Creation: every call may be repeated, because its response may be lost.

use std::time::Duration;

use mcm_api::{Machine, ProviderId};
use mcm_driver::{Code, VmIdentity};

use super::{Stop, Verdict};
use crate::session::name_of;
use crate::{Call, CallError, Session};

/// How long a client waits before it gives up; the call is interrupted at different points.
const PATIENCE: [Duration; 3] = [
    Duration::from_millis(1),
    Duration::from_millis(20),
    Duration::from_millis(200),
];

/// How often a concurrent creation may be repeated until it succeeds.
const REPETITIONS: usize = 5;

/// The provider id of a created VM.
pub(super) fn id_of(vm: &VmIdentity) -> Result<&ProviderId, Stop> {
    let missing = || Stop::Failed("CreateMachine returned no provider id".to_owned());
    vm.provider_id.as_ref().ok_or_else(missing)
}

pub(super) async fn identity(session: &Session) -> Verdict {
    let vm = session.create(&session.machine()).await?;
    id_of(&vm)?;
    if vm.node_name.is_none() {
        return Err(Stop::Failed("CreateMachine returned no node name".to_owned()));
    }
    Ok(())
}

pub(super) async fn repeated(session: &Session) -> Verdict {
    let machine = session.machine();
    let first = session.create(&machine).await?;
    let second = session.create(&machine).await?;
    same(Call::CreateMachine, &second, &first)?;
    session.has_only(&machine, id_of(&first)?).await
}

pub(super) async fn concurrent(session: &Session) -> Verdict {
    let machine = session.machine();
    let (one, other) = tokio::join!(session.create(&machine), session.create(&machine));
    for answer in [&one, &other] {
        if let Err(error) = answer {
            check_repeatable(error)?;
        }
    }
    if let (Ok(one), Ok(other)) = (&one, &other) {
        same(Call::CreateMachine, one, other)?;
    }
    let vm = create_eventually(session, &machine).await?;
    for answer in [one, other].iter().flatten() {
        same(Call::CreateMachine, answer, &vm)?;
    }
    session.has_only(&machine, id_of(&vm)?).await
}

pub(super) async fn lost_response(session: &Session) -> Verdict {
    for patience in PATIENCE {
        let machine = session.machine();
        session.create_and_give_up(&machine, patience).await;
        let vm = create_eventually(session, &machine).await?;
        session.has_only(&machine, id_of(&vm)?).await?;
    }
    Ok(())
}

/// Repeats the creation while another one is pending.
async fn create_eventually(session: &Session, machine: &Machine) -> Result<VmIdentity, Stop> {
    for _ in 0..REPETITIONS {
        match session.create(machine).await {
            Err(error) if is_pending(&error) => tokio::time::sleep(Duration::from_secs(1)).await,
            answer => return Ok(answer?),
        }
    }
    Ok(session.create(machine).await?)
}

/// A driver may refuse the second of two concurrent calls, with a code that makes `mcm` repeat it soon.
fn check_repeatable(error: &CallError) -> Verdict {
    if is_pending(error) {
        return Ok(());
    }
    Err(Stop::Failed(format!(
        "one of two concurrent calls failed, and not with Aborted: {error}"
    )))
}

fn is_pending(error: &CallError) -> bool {
    error.code() == Some(Code::Aborted)
}

/// The VM that a call returned is the created one.
pub(super) fn same(call: Call, found: &VmIdentity, created: &VmIdentity) -> Verdict {
    if found.provider_id != created.provider_id {
        let (found, created) = (name_of(found), name_of(created));
        return Err(Stop::Failed(format!(
            "{call} returned {found}, and CreateMachine {created} for the same machine"
        )));
    }
    if found.node_name != created.node_name {
        return Err(Stop::Failed(format!(
            "{call} returned the node name {:?}, and CreateMachine {:?} for the same machine",
            found.node_name.as_deref().unwrap_or_default(),
            created.node_name.as_deref().unwrap_or_default(),
        )));
    }
    Ok(())
}
