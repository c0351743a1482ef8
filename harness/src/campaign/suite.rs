//! The suites of campaigns, and the events that must occur in each.

use scenario::occurred::Group;

/// A suite of generated plans.
#[derive(Debug)]
pub struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// One sentence for lists.
    pub about: &'static str,
    /// The events that must occur in at least one of a hundred seeds.
    pub declares: &'static [(Group, &'static str)],
}

/// All suites.
pub static SUITES: [Suite; 4] = [
    Suite {
        name: FIRST_LIGHT,
        about: "machines without sets: created, joined, unhealthy, deleted",
        declares: &[
            (Group::Transition, "new -> Pending"),
            (Group::Transition, "Pending -> Running"),
            (Group::Transition, "new -> CrashLoopBackOff"),
            (Group::Transition, "CrashLoopBackOff -> Pending"),
            (Group::Transition, "Running -> Unknown"),
            (Group::Transition, "Unknown -> Running"),
            (Group::Transition, "Unknown -> Failed"),
            (Group::Transition, "Running -> Terminating"),
            (Group::Transition, "Pending -> Terminating"),
            (Group::Transition, "Terminating -> gone"),
            (Group::Fault, "crash mcm before"),
            (Group::Fault, "crash mcm after"),
            (Group::Fault, "crash fakecloud before"),
            (Group::Fault, "crash fakecloud after"),
            (Group::Fault, "pause mcm"),
            (Group::Fault, "lag mcm"),
            (Group::Fault, "cloud CreateMachine error"),
            (Group::Fault, "cloud CreateMachine error after effect"),
            (Group::Fault, "cloud CreateMachine slow"),
            (Group::Fault, "cloud DeleteMachine error"),
            (Group::Fault, "cloud GetMachineStatus error"),
            (Group::Fault, "vm kill"),
            (Group::Fault, "vm reboot"),
            (Group::Fault, "kubelet stop"),
            (Group::Fault, "api delay beforeCommit"),
            (Group::Fault, "api delay afterCommit"),
            (Group::Fault, "api drop beforeCommit"),
            (Group::Fault, "api drop afterCommit"),
            (Group::Fault, "api fail 409 beforeCommit"),
            (Group::Fault, "api fail 503 beforeCommit"),
            (Group::Fault, "api truncateWatch"),
            (Group::Fault, "api lagWatch"),
            (Group::Fault, "api partition"),
            (Group::Fault, "api compact"),
            (Group::Fault, "api freezeWatch"),
            (Group::Fault, "api restart"),
            (Group::Reason, "AskForVm"),
            (Group::Reason, "CreateVm"),
            (Group::Reason, "CreationFailed"),
            (Group::Reason, "DeleteVm"),
            (Group::Reason, "Released"),
        ],
    },
    Suite {
        name: MACHINE,
        about: "machines without sets, with pods under a budget: created, joined, unhealthy, drained, deleted",
        declares: &[
            (Group::Transition, "Pending -> Running"),
            (Group::Transition, "CrashLoopBackOff -> Pending"),
            (Group::Transition, "Running -> Unknown"),
            (Group::Transition, "Running -> Terminating"),
            (Group::Transition, "Terminating -> gone"),
            (Group::Fault, "crash mcm before"),
            (Group::Fault, "crash mcm after"),
            (Group::Fault, "cloud DeleteMachine error"),
            (Group::Fault, "api fail 409 beforeCommit"),
            (Group::Fault, "api drop afterCommit"),
            (Group::Fault, "api partition"),
            (Group::Fault, "kubelet stop"),
            (Group::Reason, "Draining"),
            (Group::Reason, "DeleteVm"),
            (Group::Reason, "Released"),
        ],
    },
    Suite {
        name: ROLLOUT,
        about: "a deployment: scaled, rolled, paused and rolled back, while machines fail",
        declares: &[
            (Group::Transition, "new -> Pending"),
            (Group::Transition, "Pending -> Running"),
            (Group::Transition, "Running -> Unknown"),
            (Group::Transition, "Unknown -> Failed"),
            (Group::Transition, "Running -> Terminating"),
            (Group::Transition, "Pending -> Terminating"),
            (Group::Transition, "Terminating -> gone"),
            (Group::Fault, "crash mcm before"),
            (Group::Fault, "crash mcm after"),
            (Group::Fault, "pause mcm"),
            (Group::Fault, "lag mcm"),
            (Group::Fault, "cloud CreateMachine error"),
            (Group::Fault, "cloud DeleteMachine error"),
            (Group::Fault, "vm kill"),
            (Group::Fault, "kubelet stop"),
            (Group::Fault, "api drop beforeCommit"),
            (Group::Fault, "api drop afterCommit"),
            (Group::Fault, "api fail 409 beforeCommit"),
            (Group::Fault, "api fail 503 beforeCommit"),
            (Group::Fault, "api lagWatch"),
            (Group::Fault, "api partition"),
            (Group::Reason, "NewSet"),
            (Group::Reason, "TooFew"),
            (Group::Reason, "TooMany"),
            (Group::Reason, "Failed"),
            (Group::Reason, "Scaled"),
            (Group::Reason, "Grown"),
            (Group::Reason, "Shrunk"),
            (Group::Reason, "CleanedUp"),
            (Group::Reason, "Emptied"),
            (Group::Reason, "Refilled"),
            (Group::Reason, "RolledBack"),
            (Group::Reason, "Tainted"),
            (Group::Reason, "Untainted"),
            (Group::Reason, "Selected"),
            (Group::Reason, "HandedOver"),
            (Group::Reason, "KeptAway"),
            (Group::Reason, "LetBack"),
        ],
    },
    Suite {
        name: PRESERVATION,
        about: "a deployment or set that preserves failed machines: requests, releases, recoveries, expiries, rollouts",
        declares: &[
            (Group::Transition, "Running -> Running:Preserved"),
            (Group::Transition, "Unknown -> Failed"),
            (Group::Transition, "Failed -> Failed:Preserved"),
            (Group::Transition, "Failed:Preserved -> Running:Preserved"),
            (Group::Transition, "Running:Preserved -> Unknown"),
            (Group::Transition, "Running:Preserved -> Running"),
            (Group::Transition, "Failed:Preserved -> Failed"),
            (Group::Transition, "Failed:Preserved -> Terminating"),
            (Group::Transition, "Terminating -> gone"),
            (Group::Preservation, "failed, kept by auto"),
            (Group::Preservation, "failed, kept by machine"),
            (Group::Preservation, "failed, kept by node"),
            (Group::Preservation, "failed, kept as its template asks"),
            (Group::Preservation, "kept by machine"),
            (Group::Preservation, "kept by node"),
            (Group::Preservation, "kept by a set alone"),
            (Group::Preservation, "the first version's word"),
            (Group::Preservation, "relapse"),
            (Group::Preservation, "recovery"),
            (Group::Preservation, "limit reached"),
            (Group::Preservation, "ended: MaximumLowered"),
            (Group::Preservation, "ended: Expired"),
            (Group::Preservation, "ended: ExpiryRemoved"),
            (Group::Preservation, "ended: Refused"),
            (Group::Preservation, "ended: Removed"),
            (Group::Preservation, "ended: RollingOut"),
            (Group::Preservation, "scale-down during a drain"),
            (Group::Preservation, "rollout during a drain"),
            (Group::Preservation, "crash during a drain"),
            (Group::Preservation, "node gone"),
            (Group::Preservation, "named, and stays"),
            (Group::Preservation, "VM stopped by its driver"),
            (Group::Preservation, "pod kept"),
            (Group::Reason, "Chosen"),
            (Group::Fault, "crash mcm before"),
            (Group::Fault, "crash mcm after"),
            (Group::Fault, "pause mcm"),
            (Group::Fault, "lag mcm"),
            (Group::Fault, "cloud CreateMachine error"),
            (Group::Fault, "cloud DeleteMachine error"),
            (Group::Fault, "api drop beforeCommit"),
            (Group::Fault, "api drop afterCommit"),
            (Group::Fault, "api fail 409 beforeCommit"),
            (Group::Fault, "api fail 503 beforeCommit"),
            (Group::Fault, "api lagWatch"),
            (Group::Fault, "api partition"),
        ],
    },
];

/// The suite of machines without sets, which is also a tag of scenarios.
pub const FIRST_LIGHT: &str = "first-light";

/// The suite of machines with pods under a budget, which is also a tag of scenarios.
pub const MACHINE: &str = "machine";

/// The suite of deployments, which is also a tag of scenarios.
pub const ROLLOUT: &str = "rollout";

/// The suite of preservation, which is also a tag of scenarios.
pub const PRESERVATION: &str = "preservation";

/// The suite of that name.
pub fn find(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name)
}
