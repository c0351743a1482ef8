//! GetMachineStatus and ListMachines.

use mcm_driver::Code;

use super::create::{id_of, same};
use super::{Stop, Verdict};
use crate::ownership::of_another_cluster;
use crate::session::{existing, name_of};
use crate::{Call, Inputs, Session};

pub(super) async fn status_of_a_created_machine(session: &Session) -> Verdict {
    let machine = session.machine();
    let created = session.create(&machine).await?;
    let found = existing(session.status(&machine).await)?;
    same(Call::GetMachineStatus, &found, &created)
}

pub(super) async fn status_of_an_unknown_machine(session: &Session) -> Verdict {
    match session.status(&session.machine()).await {
        Ok(vm) => Err(Stop::Failed(format!(
            "GetMachineStatus returned {} for a machine that was never created",
            name_of(&vm)
        ))),
        Err(error) if error.code() == Some(Code::NotFound) => Ok(()),
        Err(error) if error.is_unimplemented() => Err(error.into()),
        Err(error) => Err(Stop::Failed(format!("{error}; expected the code NotFound"))),
    }
}

pub(super) async fn list_contains_created_vms(session: &Session) -> Verdict {
    session.list().await?;
    let machines = [session.machine(), session.machine()];
    for machine in &machines {
        let vm = session.create(machine).await?;
        session.has_only(machine, id_of(&vm)?).await?;
    }
    Ok(())
}

pub(super) async fn list_of_another_cluster(session: &Session) -> Verdict {
    let Some(spec) = of_another_cluster(&session.inputs.class.provider_spec, &session.other_name()) else {
        return Err(Stop::Skipped(
            "the provider spec has no ownership tag kubernetes.io/cluster/…: add one to the class".to_owned(),
        ));
    };
    session.list().await?;
    let mut other = session.inputs.clone();
    other.class.provider_spec = spec;
    other.class.metadata.name = Some(session.other_name());
    let machine = session.machine();
    session.create(&machine).await?;
    no_vm_of_this_run(session, &other).await
}

async fn no_vm_of_this_run(session: &Session, other: &Inputs) -> Verdict {
    let listed = session.list_with(other).await?;
    match listed.iter().find(|(_, machine)| session.owns(machine)) {
        None => Ok(()),
        Some((id, machine)) => Err(Stop::Failed(format!(
            "ListMachines for the tags of another cluster contains VM {id} of machine {machine}"
        ))),
    }
}
