//! Performs the faults of a plan in a world.

use anyhow::Context;
use fakecloud::proto;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use runtime::error::is_not_found;
use serde_json::json;

use crate::plan::{Fault, FaultAction};
use crate::side::{NAMESPACE, Side, WORKERS};
use crate::world::World;

/// Performs a fault. `machines`: the names of the machines with numbers.
///
/// # Errors
/// If the cloud or the API server refuses it.
pub async fn perform(world: &World, fault: &Fault, machines: &[String]) -> anyhow::Result<()> {
    match fault.action {
        FaultAction::Cut => world.proxy.cut(),
        FaultAction::Reconnect => world.proxy.restore(),
        FaultAction::ChangeTemplate => {
            let deployments = world.side.deployment().of(&world.client, NAMESPACE);
            let change = Patch::Merge(world.side.change());
            deployments.patch(WORKERS, &PatchParams::default(), &change).await?;
        }
        _ => {}
    }
    for number in &fault.to {
        let machine = machines.get(number - 1).context("a fault of an unknown machine")?;
        let performed = of_machine(world, fault.action, machine).await;
        if performed.as_ref().is_err_and(is_gone) {
            continue;
        }
        performed.with_context(|| format!("{}: {:?} of {machine}", world.side.name(), fault.action))?;
    }
    Ok(())
}

/// Whether the machine has been replaced meanwhile: its fault has nothing to happen to.
fn is_gone(error: &anyhow::Error) -> bool {
    let of_cloud = error.downcast_ref::<tonic::Status>();
    let of_server = error.downcast_ref::<kube::Error>();
    of_cloud.is_some_and(|status| status.code() == tonic::Code::NotFound) || of_server.is_some_and(is_not_found)
}

async fn of_machine(world: &World, action: FaultAction, machine: &str) -> anyhow::Result<()> {
    let mut cloud = world.cloud.clone();
    let vm = proto::VmReference {
        by: Some(proto::vm_reference::By::Machine(format!("{NAMESPACE}/{machine}"))),
    };
    match action {
        FaultAction::FillDisk => drop(cloud.fill_disk(vm).await?),
        FaultAction::FreeDisk => {
            let request = proto::ClearNodeConditionRequest {
                vm: Some(vm),
                r#type: "DiskPressure".to_owned(),
            };
            cloud.clear_node_condition(request).await?;
        }
        FaultAction::Panic => drop(cloud.panic_vm(vm).await?),
        FaultAction::Reboot => drop(cloud.reboot_vm(vm).await?),
        FaultAction::DeleteNode => {
            let nodes: Api<Node> = Api::all(world.client.clone());
            nodes.delete(machine, &DeleteParams::default()).await?;
        }
        FaultAction::Remediate => {
            let machines = world.side.machine().of(&world.client, NAMESPACE);
            let annotation = json!({ "metadata": { "annotations": { (Side::remediate_annotation()): "" } } });
            let patch = Patch::Merge(annotation);
            machines.patch(machine, &PatchParams::default(), &patch).await?;
        }
        FaultAction::ChangeTemplate | FaultAction::Cut | FaultAction::Reconnect => {}
    }
    Ok(())
}
