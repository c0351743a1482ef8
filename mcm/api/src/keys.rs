//! Keys of labels, annotations, finalizers, taints and conditions (spec: the constants table).

/// Finalizer on Machines and MachineClasses.
pub const MACHINE_FINALIZER: &str = "machine.sapcloud.io/machine-controller-manager";
/// Finalizer on Secrets that a MachineClass refers to.
pub const SECRET_FINALIZER: &str = "machine.sapcloud.io/machine-controller";
/// Finalizer on Nodes of managed machines.
pub const NODE_FINALIZER: &str = "node.machine.sapcloud.io/machine-controller";

/// Label on a Machine: the name of its Node.
pub const NODE_LABEL: &str = "node";
/// Label on a Machine: the name of its MachineDeployment.
pub const DEPLOYMENT_LABEL: &str = "name";
/// Label on a Machine, a Go boolean: delete without regard for pods.
pub const FORCE_DELETION_LABEL: &str = "force-deletion";
/// Label on a Node: the name of its Machine.
pub const MACHINE_NAME_LABEL: &str = "node.gardener.cloud/machine-name";

/// Annotation on a Machine: rank when a set scales down.
pub const PRIORITY_ANNOTATION: &str = "machinepriority.machine.sapcloud.io";
/// The priority that a machine gets when nobody set one.
pub const DEFAULT_PRIORITY: &str = "3";
/// Annotation that overrides every creation timeout of a machine (a Go duration).
pub const EFFECTIVE_CREATION_TIMEOUT_ANNOTATION: &str = "node.machine.sapcloud.io/effective-creation-timeout";
/// Annotation on a Machine: how long it took to join.
pub const JOIN_DURATION_ANNOTATION: &str = "node.machine.sapcloud.io/machine-join-duration";
/// Annotation on a Node that is none of ours.
pub const NOT_MANAGED_ANNOTATION: &str = "node.machine.sapcloud.io/not-managed-by-mcm";

/// Taint that holds a Pending machine back from Running.
pub const CRITICAL_COMPONENTS_TAINT: &str = "node.gardener.cloud/critical-components-not-ready";

/// Placeholder in user data for the bootstrap token.
pub const BOOTSTRAP_TOKEN_PLACEHOLDER: &str = "<<BOOTSTRAP_TOKEN>>";
/// Placeholder in user data for the machine's name.
pub const MACHINE_NAME_PLACEHOLDER: &str = "<<MACHINE_NAME>>";
/// Key of the user data in a class's Secret.
pub const USER_DATA_KEY: &str = "userData";

/// Annotation on a Node: the node template that was synchronised to it last, as JSON.
pub const LAST_APPLIED_TEMPLATE_ANNOTATION: &str = "node.machine.sapcloud.io/last-applied-anno-labels-taints";
/// Annotation on a Node: the virtual capacity that was synchronised to it last, as JSON.
pub const LAST_APPLIED_CAPACITY_ANNOTATION: &str = "node.machine.sapcloud.io/last-applied-virtual-capacity";
/// Annotation on a Node: `true` deletes its Machine.
pub const TRIGGER_DELETION_ANNOTATION: &str = "node.machine.sapcloud.io/trigger-deletion-by-mcm";
/// Taint with which a Node may register; it goes when the Machine is Running.
pub const INSTANCE_NOT_READY_TAINT: &str = "node.machine.sapcloud.io/instance-not-ready";
/// Annotation on a Machine: the provider spec that its VM has, as JSON.
pub const LAST_APPLIED_PROVIDER_SPEC_ANNOTATION: &str = "last-applied-providerspec";
/// Annotation on a Machine: a hash of the provider spec whose application was begun.
pub const INFLIGHT_PROVIDER_SPEC_ANNOTATION: &str = "inflight-providerspec-hash";

/// Label on a Node: its Machine may be updated in place.
pub const CANDIDATE_FOR_UPDATE_LABEL: &str = "node.machine.sapcloud.io/candidate-for-update";
/// Label on a Node: its Machine is to be updated in place now.
pub const SELECTED_FOR_UPDATE_LABEL: &str = "node.machine.sapcloud.io/selected-for-update";
/// Label on a Node: what came of the update in place, `successful` or `failed`.
pub const UPDATE_RESULT_LABEL: &str = "node.machine.sapcloud.io/update-result";
/// Annotation on a Node: why the update in place failed.
pub const UPDATE_FAILED_REASON_ANNOTATION: &str = "node.machine.sapcloud.io/update-failed-reason";
/// Label on a Machine, exactly `True`: a drain outside a deletion goes without regard for pods.
pub const FORCE_DRAIN_LABEL: &str = "force-drain";
/// Node condition of an update in place; its reason says how far it is.
pub const IN_PLACE_UPDATE_CONDITION: &str = "InPlaceUpdate";
