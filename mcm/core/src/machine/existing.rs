//! The existing VM of a machine whose creation fails with AlreadyExists, for drivers without GetMachineStatus. ListMachines
//! returns only VMs with the tags of the class, so that mcm never adopts a VM of another cluster.

use std::collections::BTreeMap;

use mcm_api::{Code, DriverError, MachineName, NodeName, ProviderId, VmIdentity};

use super::Answer;
use super::pass::Pass;

/// Whether only a list can show which VM exists. With GetMachineStatus the next attempt asks for the VM.
pub(super) fn needs_list(pass: &Pass, error: &DriverError) -> bool {
    let unsupported =
        |answer: &Answer| matches!(answer, Answer::Status(Err(error)) if error.code == Code::Unimplemented);
    error.code == Code::AlreadyExists && pass.view.answers.iter().any(unsupported)
}

/// The error of CreateMachine in this pass.
pub(super) fn creation_error<'a>(pass: &Pass<'a>) -> Option<&'a DriverError> {
    pass.view.answers.iter().rev().find_map(|answer| match answer {
        Answer::Create(Err(error)) => Some(error),
        _ => None,
    })
}

/// The only listed VM of the machine. A list has no node names: that of the error counts if it is about this VM, and
/// otherwise the machine's name.
pub(super) fn adopted(
    machine: &str,
    error: &DriverError,
    listed: &BTreeMap<ProviderId, MachineName>,
) -> Option<VmIdentity> {
    let mut own = listed.iter().filter(|(_, name)| name.as_str() == machine);
    let (Some((provider_id, _)), None) = (own.next(), own.next()) else {
        return None;
    };
    let named = error
        .vm
        .as_deref()
        .filter(|vm| vm.provider_id.as_ref() == Some(provider_id));
    let mut vm = named.cloned().unwrap_or_default();
    vm.provider_id = Some(provider_id.clone());
    vm.node_name = vm.node_name.or_else(|| NodeName::new(machine));
    Some(vm)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn vm(id: &str, node: &str) -> VmIdentity {
        VmIdentity {
            provider_id: ProviderId::new(id),
            node_name: NodeName::new(node),
            ..VmIdentity::default()
        }
    }

    #[rstest]
    #[case::not_listed(None, &[], None)]
    #[case::of_other_machines(None, &[("1", "other"), ("2", "m-10")], None)]
    #[case::own(None, &[("1", "other"), ("2", "m-1")], Some(vm("2", "m-1")))]
    #[case::several(None, &[("1", "m-1"), ("2", "m-1")], None)]
    #[case::named_by_the_error(Some(vm("2", "ip-1")), &[("2", "m-1")], Some(vm("2", "ip-1")))]
    #[case::named_without_its_node(Some(vm("2", "")), &[("2", "m-1")], Some(vm("2", "m-1")))]
    #[case::the_error_names_a_foreign_vm(Some(vm("3", "ip-1")), &[("2", "m-1")], Some(vm("2", "m-1")))]
    #[case::a_foreign_vm_only(Some(vm("3", "m-1")), &[], None)]
    fn only_a_listed_vm_of_the_machine_is_adopted(
        #[case] named: Option<VmIdentity>,
        #[case] listed: &[(&str, &str)],
        #[case] expected: Option<VmIdentity>,
    ) {
        let error = DriverError {
            vm: named.map(Box::new),
            ..DriverError::new(Code::AlreadyExists, "")
        };
        let entry = |(id, name): &(&str, &str)| Some((ProviderId::new(*id)?, MachineName::new(*name)?));
        let listed = listed.iter().filter_map(entry).collect();
        assert_eq!(adopted("m-1", &error, &listed), expected);
    }
}
