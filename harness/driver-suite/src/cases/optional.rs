//! Optional calls: InitializeMachine, UpdateMachine, StopMachine and GetVolumeIds.

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, NFSVolumeSource, PersistentVolumeSpec};

use mcm_driver::{Code, Power};

use super::create::{id_of, same};
use super::{Stop, Verdict};
use crate::session::{existing, name_of};
use crate::{Call, CallError, Session};

pub(super) async fn initialize(session: &Session) -> Verdict {
    let machine = session.machine();
    let created = session.create(&machine).await?;
    for _ in 0..2 {
        let vm = session.initialize(&machine).await?;
        if vm.provider_id.is_some() && vm.provider_id != created.provider_id {
            let (found, created) = (name_of(&vm), name_of(&created));
            return Err(Stop::Failed(format!(
                "InitializeMachine returned {found}, and CreateMachine {created}"
            )));
        }
    }
    match session.status(&machine).await {
        Err(error @ CallError::Failed { .. }) if !error.is_unimplemented() => {
            Err(Stop::Failed(format!("after a successful InitializeMachine {error}")))
        }
        Err(error @ CallError::NoAnswer { .. }) => Err(error.into()),
        _ => Ok(()),
    }
}

pub(super) async fn update(session: &Session) -> Verdict {
    let machine = session.machine();
    let created = session.create(&machine).await?;
    // Some drivers require it; others have no such call.
    match session.initialize(&machine).await {
        Err(error) if !error.is_unimplemented() => return Err(error.into()),
        _ => {}
    }
    let spec = session.inputs.class.provider_spec.to_string();
    for last_applied in [None, Some(spec.clone()), Some(spec)] {
        session.update(&machine, last_applied).await?;
    }
    session.has_only(&machine, id_of(&created)?).await
}

pub(super) async fn stop(session: &Session) -> Verdict {
    let machine = session.machine();
    let created = session.create(&machine).await?;
    for _ in 0..2 {
        let vm = session.wait_until_stopped(&machine).await?;
        same(Call::StopMachine, &vm, &created)?;
    }
    let power = existing(session.status(&machine).await).map(|vm| vm.power);
    if let Ok(Some(Power::Running)) = power {
        let reason = "after a successful StopMachine GetMachineStatus returns the VM with power running";
        return Err(Stop::Failed(reason.to_owned()));
    }
    session.has_only(&machine, id_of(&created)?).await
}

pub(super) async fn stop_of_an_unknown_machine(session: &Session) -> Verdict {
    match session.stop(&session.machine()).await {
        Err(error) if error.code() == Some(Code::NotFound) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(vm) => Err(Stop::Failed(format!(
            "StopMachine returned {} for a machine without a VM",
            name_of(&vm)
        ))),
    }
}

pub(super) async fn foreign_volumes(session: &Session) -> Verdict {
    let csi = PersistentVolumeSpec {
        csi: Some(CSIPersistentVolumeSource {
            driver: "csi.of-another-provider.drydock.dev".to_owned(),
            volume_handle: "volume-of-another-provider".to_owned(),
            ..CSIPersistentVolumeSource::default()
        }),
        ..PersistentVolumeSpec::default()
    };
    let nfs = PersistentVolumeSpec {
        nfs: Some(NFSVolumeSource {
            path: "/".to_owned(),
            server: "nfs.invalid".to_owned(),
            ..NFSVolumeSource::default()
        }),
        ..PersistentVolumeSpec::default()
    };
    match session.volume_ids(vec![csi, nfs]).await?.first() {
        None => Ok(()),
        Some(id) => Err(Stop::Failed(format!(
            "GetVolumeIds returned {id:?} for volumes of other providers"
        ))),
    }
}
