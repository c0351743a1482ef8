//! The text of a result.

use mcm_api::VmIdentity;
use mcm_api::cloud::Power;
use serde::Serialize;
use serde_json::{Value, json};

use super::calls::Outcome;
use super::error::VmError;
use super::options::OutputFormat;

const PROVIDER_ID: &str = "PROVIDER ID";
const MACHINE: &str = "MACHINE";

/// A VM for scripts.
#[derive(Serialize)]
struct VmOfMachine<'a> {
    machine: &'a str,
    #[serde(flatten)]
    vm: &'a VmIdentity,
}

/// The text for standard output, with a line break at its end.
pub(super) fn render(outcome: &Outcome, format: OutputFormat) -> Result<String, VmError> {
    let failed = |error: &dyn std::error::Error| VmError::Print(error.to_string());
    match format {
        OutputFormat::Text => Ok(text(outcome)),
        OutputFormat::Json => {
            let value = value(outcome).map_err(|error| failed(&error))?;
            let text = serde_json::to_string_pretty(&value).map_err(|error| failed(&error))?;
            Ok(text + "\n")
        }
        OutputFormat::Yaml => {
            let value = value(outcome).map_err(|error| failed(&error))?;
            serde_saphyr::to_string(&value).map_err(|error| failed(&error))
        }
    }
}

fn text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Vm { verb, vm, .. } => format!("{verb}: {}\n", identity(vm)),
        Outcome::Deleted {
            provider_id: Some(id), ..
        } => format!("deleted: provider id {id}\n"),
        Outcome::Deleted { machine, .. } => format!("deleted: the machine {machine} has no VM\n"),
        Outcome::List { class, vms } if vms.is_empty() => format!("the class {class} has no VMs\n"),
        Outcome::List { vms, .. } => {
            let width = vms.keys().map(|id| id.len()).chain([PROVIDER_ID.len()]).max();
            let width = width.unwrap_or_default();
            let rows = vms
                .iter()
                .map(|(id, machine)| format!("{:width$}  {machine}\n", id.as_str()));
            std::iter::once(format!("{PROVIDER_ID:width$}  {MACHINE}\n"))
                .chain(rows)
                .collect()
        }
    }
}

fn identity(vm: &VmIdentity) -> String {
    let id = vm.provider_id.as_deref().unwrap_or("unknown");
    let node = vm.node_name.as_deref().unwrap_or("unknown");
    let addresses = vm
        .addresses
        .iter()
        .map(|address| format!(", {} {}", address.type_, address.address));
    let power = match vm.power {
        Some(Power::Running) => ", running",
        Some(Power::Stopped) => ", stopped",
        None => "",
    };
    format!("provider id {id}, node {node}{power}{}", addresses.collect::<String>())
}

fn value(outcome: &Outcome) -> Result<Value, serde_json::Error> {
    match outcome {
        Outcome::Vm { machine, vm, .. } => serde_json::to_value(VmOfMachine { machine, vm }),
        Outcome::Deleted {
            machine,
            provider_id,
            last_known_state,
        } => {
            let mut value = json!({ "machine": machine, "deleted": true });
            for (key, text) in [("providerId", provider_id), ("lastKnownState", last_known_state)] {
                if let Some(text) = text {
                    value[key] = json!(text);
                }
            }
            Ok(value)
        }
        Outcome::List { vms, .. } => Ok(vms
            .iter()
            .map(|(id, machine)| json!({ "providerId": id, "machine": machine }))
            .collect()),
    }
}
