//! Deletion.

use mcm_api::{Machine, ProviderId};

use super::create::id_of;
use super::{Stop, Verdict};
use crate::Session;
use crate::session::name_of;

pub(super) async fn removes(session: &Session) -> Verdict {
    let machine = session.machine();
    session.create(&machine).await?;
    session.delete(&machine).await?;
    session.wait_until_gone(&machine).await
}

pub(super) async fn repeated(session: &Session) -> Verdict {
    let machine = session.machine();
    session.create(&machine).await?;
    session.delete(&machine).await?;
    // At once, while the cloud may still be at it, and when there is nothing left.
    session.delete(&machine).await?;
    session.wait_until_gone(&machine).await?;
    Ok(session.delete(&machine).await?)
}

pub(super) async fn unknown(session: &Session) -> Verdict {
    Ok(session.delete(&session.machine()).await?)
}

pub(super) async fn by_provider_id(session: &Session) -> Verdict {
    let (orphan, other) = (session.machine(), session.machine());
    let orphan_vm = session.create(&orphan).await?;
    let other_vm = session.create(&other).await?;
    let (orphan_id, other_id) = (id_of(&orphan_vm)?, id_of(&other_vm)?);

    session.delete(&without_uid(&orphan, orphan_id)).await?;
    session.wait_until_gone(&orphan).await?;
    session.has_only(&other, other_id).await?;

    // As for the second VM of a machine, which is already gone: the first one stays.
    session.delete(&without_uid(&other, orphan_id)).await?;
    let kept = session.has_only(&other, other_id).await;
    kept.map_err(|stop| match stop {
        Stop::Failed(reason) => Stop::Failed(format!(
            "DeleteMachine with the provider id of a deleted VM, and the name of another VM's machine: {reason}"
        )),
        skipped => skipped,
    })
}

pub(super) async fn foreign_provider_id(session: &Session) -> Verdict {
    let (owner, mut copy) = (session.machine(), session.machine());
    let vm = session.create(&owner).await?;
    let id = id_of(&vm)?;
    copy.spec.provider_id = id.to_string();
    if let Ok(found) = session.status(&copy).await
        && found.provider_id.as_ref() == Some(id)
    {
        return Err(Stop::Failed(format!(
            "GetMachineStatus returned {} for a machine that only names it in spec.providerID",
            name_of(&found)
        )));
    }
    session.delete(&copy).await?;
    session.has_only(&owner, id).await
}

/// The request with which `mcm` deletes an orphan.
fn without_uid(machine: &Machine, provider_id: &ProviderId) -> Machine {
    let mut machine = machine.clone();
    machine.metadata.uid = None;
    machine.spec.provider_id = provider_id.to_string();
    machine
}
