//! The cases. Each file contains those of one group; a case checks one rule and relies on no other case.

mod create;
mod delete;
mod errors;
mod optional;
mod read;
mod whole;

use std::fmt;

use futures::future::BoxFuture;

use crate::Session;
pub(crate) use crate::verdict::{Stop, Verdict};

/// A running case.
pub type CaseFuture<'a> = BoxFuture<'a, Verdict>;

/// A case: one rule of the contract.
#[derive(Clone, Copy)]
pub struct Case {
    /// The name by which `--only` selects it.
    pub name: &'static str,
    /// The rule in one sentence.
    pub rule: &'static str,
    check: for<'a> fn(&'a Session) -> CaseFuture<'a>,
}

impl Case {
    /// Checks the rule.
    pub async fn run(&self, session: &Session) -> Verdict {
        (self.check)(session).await
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

macro_rules! cases {
    ($($name:literal, $rule:literal, $check:path;)+) => {
        /// All cases, in the order in which they run.
        pub const CASES: &[Case] = &[$(Case {
            name: $name,
            rule: $rule,
            check: |session| Box::pin($check(session)),
        }),+];
    };
}

cases! {
    "create-identity", "CreateMachine returns a provider id and a node name.", create::identity;
    "create-repeated", "A repeated CreateMachine returns the same VM and creates no second one.", create::repeated;
    "create-concurrent", "Concurrent CreateMachine calls for one machine end with one VM.", create::concurrent;
    "create-lost-response", "A CreateMachine whose response was lost and is repeated ends with one VM.", create::lost_response;
    "status-created", "GetMachineStatus returns the provider id and the node name that CreateMachine returned.", read::status_of_a_created_machine;
    "status-unknown", "GetMachineStatus of a machine without a VM fails with NotFound.", read::status_of_an_unknown_machine;
    "list-created", "ListMachines contains every VM of the class with the name of its machine.", read::list_contains_created_vms;
    "list-other-cluster", "ListMachines for the ownership tags of another cluster does not contain this cluster's VMs.", read::list_of_another_cluster;
    "initialize-repeated", "InitializeMachine can be repeated, and the VM is then initialized.", optional::initialize;
    "update-repeated", "UpdateMachine can be repeated with the spec that the VM already has.", optional::update;
    "stop-repeated", "StopMachine can be repeated, keeps the VM, and returns it as stopped; GetMachineStatus agrees.", optional::stop;
    "stop-unknown", "StopMachine of a machine without a VM fails with NotFound.", optional::stop_of_an_unknown_machine;
    "volumes-foreign", "GetVolumeIds returns nothing for volumes of other providers.", optional::foreign_volumes;
    "delete-removes", "After DeleteMachine neither GetMachineStatus nor ListMachines finds the VM.", delete::removes;
    "delete-repeated", "A repeated DeleteMachine succeeds.", delete::repeated;
    "delete-unknown", "DeleteMachine of a machine that never had a VM succeeds.", delete::unknown;
    "delete-by-provider-id", "DeleteMachine without a machine uid deletes the VM of the provider id and nothing else.", delete::by_provider_id;
    "foreign-provider-id", "GetMachineStatus of a machine that names another machine's VM does not return that VM, and DeleteMachine keeps it.", delete::foreign_provider_id;
    "error-invalid-class", "CreateMachine with an invalid provider spec fails with InvalidArgument.", errors::invalid_class;
    "error-other-provider", "CreateMachine with a class of another provider fails with InvalidArgument.", errors::other_provider;
    "error-secrets", "No error message contains a value of the Secret.", errors::secrets;
    "deadlines", "Every call answers within --timeout.", whole::deadlines;
    "leftovers", "After all cases ListMachines returns the VMs from before.", whole::leftovers;
}
