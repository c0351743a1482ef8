//! The VM that a new machine names before the driver has confirmed it.
//!
//! mcm writes `spec.providerID` and the label `node` before the phase, so that a machine without a phase may have them
//! from a process that died. A user may also have copied them from another machine's manifest. Unless this process
//! created the VM, or until the driver confirms that it belongs to the machine, its Node is neither claimed nor drained
//! nor deleted. The order of trust: GetMachineStatus, then, if the driver lacks it, ListMachines; a driver that lacks
//! both cannot contradict.

use mcm_api::{Code, DriverError, Phase, VmIdentity};

use super::deletion_note::DeletionNote;
use super::last_step::{LastStep, StepText};
use super::pass::{Pass, node_name};
use super::{Answer, Stage, View};

/// What the driver's answers of this pass mean for the VM that the machine names.
#[derive(Debug, PartialEq)]
pub(super) enum Confirmation<'a> {
    /// The driver was not asked.
    Open,
    /// The driver lacks GetMachineStatus: the list decides.
    NeedsList,
    /// The machine has this VM.
    Vm(&'a VmIdentity),
    /// The VM belongs to the machine; its node is unknown to the driver.
    Confirmed,
    /// The driver does not find the VM, or not yet.
    Refused,
    /// The VM belongs to another machine.
    Foreign,
    /// The driver could not answer.
    Failed(&'static str, &'a DriverError),
}

/// Whether the machine names a VM or a Node that nothing has confirmed: neither the driver nor the Node's own label. `step`
/// is the machine's last step.
pub(super) fn is_unconfirmed(view: &View, step: Option<&LastStep>) -> bool {
    let machine = &view.machine;
    let node = node_name(machine);
    let names_one = !machine.spec.provider_id.is_empty() || node.is_some();
    let is_labelled = node.is_some() && view.labelled_node == node;
    let is_new = match machine.status.current_status.phase {
        Some(Phase::Terminating) => step.is_some_and(|step| looks_for_unconfirmed(&step.text)),
        _ => machine.status.is_being_created(),
    };
    is_new && names_one && !is_labelled && !is_created_here(view) && !defect!(UnconfirmedVmBelieved)
}

/// Whether this process created the VM that the machine names.
pub(super) fn is_created_here(view: &View) -> bool {
    let id = view.machine.spec.provider_id.as_str();
    let created = view.created_vm.as_ref().and_then(|vm| vm.provider_id.as_deref());
    !id.is_empty() && created == Some(id)
}

/// Whether a deletion looks for the VM of a machine that was unconfirmed when it began.
fn looks_for_unconfirmed(text: &StepText) -> bool {
    use DeletionNote::{Unconfirmed, UnconfirmedBlocked, UnconfirmedRefused, UnconfirmedRetried};
    let StepText::Deletion {
        stage: Stage::FindVm,
        note: Some(note),
    } = text
    else {
        return false;
    };
    matches!(
        note,
        Unconfirmed | UnconfirmedRetried | UnconfirmedRefused { .. } | UnconfirmedBlocked { .. }
    )
}

/// What the answers of this pass say.
pub(super) fn confirmation<'a>(pass: &Pass<'a>) -> Confirmation<'a> {
    match pass.last_answer() {
        Some(Answer::Status(Ok(vm))) => Confirmation::Vm(vm),
        Some(Answer::Status(Err(error))) => match error.code {
            Code::Unimplemented if pass.machine().spec.provider_id.is_empty() => Confirmation::Refused,
            Code::Unimplemented => Confirmation::NeedsList,
            Code::NotFound => Confirmation::Refused,
            Code::Uninitialized => match error.vm.as_deref() {
                Some(vm) => Confirmation::Vm(vm),
                None => Confirmation::Confirmed,
            },
            _ => Confirmation::Failed("GetMachineStatus", error),
        },
        Some(Answer::List(Ok(listed))) => match listed.get(pass.machine().spec.provider_id.as_str()) {
            Some(owner) if owner.as_str() == pass.name() => Confirmation::Confirmed,
            Some(_) => Confirmation::Foreign,
            None => Confirmation::Refused,
        },
        Some(Answer::List(Err(error))) if error.code == Code::Unimplemented => Confirmation::Confirmed,
        Some(Answer::List(Err(error))) => Confirmation::Failed("ListMachines", error),
        _ => Confirmation::Open,
    }
}

/// The error that a machine reports whose VM the driver does not confirm.
pub(super) fn refused(pass: &Pass) -> DriverError {
    let id = &pass.machine().spec.provider_id;
    let message = format!(
        "spec.providerID is {id:?}, but the driver does not confirm that this VM belongs to the machine: it may not list the \
         VM yet. If the value was copied, remove spec.providerID and the label node"
    );
    DriverError::new(Code::NotFound, message)
}

/// The error that a machine reports that names another VM than the driver.
pub(super) fn contradicted(pass: &Pass, vm: &VmIdentity) -> DriverError {
    let id = &pass.machine().spec.provider_id;
    let own = vm.provider_id.as_deref().unwrap_or_default();
    let message = format!("spec.providerID is {id:?}, but the driver reports the VM {own:?}: remove spec.providerID");
    DriverError::new(Code::FailedPrecondition, message)
}

/// Whether the driver reports another VM than the machine names.
pub(super) fn is_contradicted(pass: &Pass, vm: &VmIdentity) -> bool {
    let id = &pass.machine().spec.provider_id;
    let other = vm.provider_id.as_deref().is_some_and(|own| own != id);
    other && !id.is_empty() && !defect!(UnconfirmedVmBelieved)
}
