//! Keys of labels, annotations, finalizers, taints and conditions.

/// The kind of machine classes.
pub const MACHINE_CLASS: &str = "MachineClass";
/// Former, provider-specific kinds of classes, which are migrated to [`MACHINE_CLASS`].
pub const CLASSES_OF_FORMER_TIMES: [&str; 6] = [
    "AWSMachineClass",
    "AlicloudMachineClass",
    "AzureMachineClass",
    "GCPMachineClass",
    "OpenStackMachineClass",
    "PacketMachineClass",
];

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
/// Label on a Machine, a Go boolean: delete it without a drain.
pub const FORCE_DELETION_LABEL: &str = "force-deletion";
/// Label on a Node: the name of its Machine.
pub const MACHINE_NAME_LABEL: &str = "node.gardener.cloud/machine-name";

/// Annotation on a Machine: rank when a set scales down.
pub const PRIORITY_ANNOTATION: &str = "machinepriority.machine.sapcloud.io";
/// The priority of a machine without the annotation.
pub const DEFAULT_PRIORITY: &str = "3";
/// Annotation that overrides every creation timeout of a machine (a Go duration).
pub const EFFECTIVE_CREATION_TIMEOUT_ANNOTATION: &str = "node.machine.sapcloud.io/effective-creation-timeout";
/// Annotation on a Machine: how long it took to join.
pub const JOIN_DURATION_ANNOTATION: &str = "node.machine.sapcloud.io/machine-join-duration";
/// Annotation on a Node that no machine manages.
pub const NOT_MANAGED_ANNOTATION: &str = "node.machine.sapcloud.io/not-managed-by-mcm";

/// Taint that keeps a Pending machine from becoming Running.
pub const CRITICAL_COMPONENTS_TAINT: &str = "node.gardener.cloud/critical-components-not-ready";

/// Placeholder in user data for the bootstrap token.
pub const BOOTSTRAP_TOKEN_PLACEHOLDER: &str = "<<BOOTSTRAP_TOKEN>>";
/// Placeholder in user data for the machine's name.
pub const MACHINE_NAME_PLACEHOLDER: &str = "<<MACHINE_NAME>>";
/// Key of the user data in a class's Secret.
pub const USER_DATA_KEY: &str = "userData";

/// Label on a MachineSet, in its selector, its template and on its Machines: identifies the deployment's template.
pub const TEMPLATE_HASH_LABEL: &str = "machine-template-hash";
/// Label on a MachineSet or MachineDeployment, `True`: no machine is created or deleted.
pub const FREEZE_LABEL: &str = "freeze";
/// The value of [`FREEZE_LABEL`], and of annotations whose presence alone matters.
pub const TRUE: &str = "True";
/// Label on a MachineSet: it creates no machines, because an update in place manages their number.
pub const SCALE_UP_DISABLED_LABEL: &str = "node.machine.sapcloud.io/scale-up-disabled";
/// Label on a Node: its machine belongs to an outdated template of its deployment.
pub const CANDIDATE_FOR_UPDATE_LABEL: &str = "node.machine.sapcloud.io/candidate-for-update";
/// Label on a Node: its update in place may start.
pub const SELECTED_FOR_UPDATE_LABEL: &str = "node.machine.sapcloud.io/selected-for-update";
/// Label on a Node (set by the agent on it) and on a Machine that was transferred: the result of the update in place.
pub const UPDATE_RESULT_LABEL: &str = "node.machine.sapcloud.io/update-result";
/// The value of [`UPDATE_RESULT_LABEL`] after a successful update.
pub const UPDATE_SUCCESSFUL: &str = "successful";
/// Annotation on a Node: why its update in place failed.
pub const UPDATE_FAILED_REASON_ANNOTATION: &str = "node.machine.sapcloud.io/update-failed-reason";
/// Type of the Node condition that reports the progress of an update in place.
pub const IN_PLACE_UPDATE_CONDITION: &str = "InPlaceUpdate";
/// Reason of [`IN_PLACE_UPDATE_CONDITION`] after a successful update.
pub const UPDATE_SUCCESSFUL_REASON: &str = "UpdateSuccessful";

/// Annotation on a MachineSet and its MachineDeployment: the template's revision in the deployment's history.
pub const REVISION_ANNOTATION: &str = "deployment.kubernetes.io/revision";
/// Annotation on a MachineSet: its previous revisions, separated by commas.
pub const REVISION_HISTORY_ANNOTATION: &str = "deployment.kubernetes.io/revision-history";
/// Annotation on a MachineSet: its deployment's replicas when the set was last scaled.
pub const DESIRED_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation on a MachineSet: its deployment's replicas plus surge when the set was last scaled.
pub const MAX_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/max-replicas";
/// Annotation on a MachineSet and taint on its Nodes: the scheduler avoids them because the set is outdated.
pub const PREFER_NO_SCHEDULE: &str = "deployment.machine.sapcloud.io/prefer-no-schedule";
/// Annotation on a MachineSet or MachineDeployment: a user requests the end of its freeze.
pub const UNFREEZE_ANNOTATION: &str = "safety.machine.sapcloud.io/unfreeze";
/// Annotation on a MachineDeployment: machines that cluster-autoscaler chose, as `name~time,name~time`. On a Node, the value
/// `true` requests the deletion of its machine.
pub const TRIGGER_DELETION_ANNOTATION: &str = "node.machine.sapcloud.io/trigger-deletion-by-mcm";
/// Annotation on a MachineDeployment and its sets: when cluster-autoscaler changed the replicas last.
pub const LAST_SCALE_ANNOTATION: &str = "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time";
/// Annotation on a Machine: when cluster-autoscaler chose it.
pub const MARKED_ANNOTATION: &str = "machine.sapcloud.io/marked-for-deletion-time";
/// The priority of a machine that was chosen for the next scale-down.
pub const CHOSEN_PRIORITY: &str = "1";
/// Annotation on a Node or Machine that asks for its preservation (`now`, `when-failed`) or refuses it (`false`).
pub const PRESERVE_ANNOTATION: &str = "node.machine.sapcloud.io/preserve";
/// Annotation of kubectl that is never copied.
pub const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotation on a Node: cluster-autoscaler does not remove it.
pub const SCALE_DOWN_DISABLED_ANNOTATION: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// Annotation on a Node: this controller set its [`SCALE_DOWN_DISABLED_ANNOTATION`].
pub const SCALE_DOWN_DISABLED_BY_US_ANNOTATION: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm";
/// Annotation on a Node: the node template that was synchronised to it last, as JSON.
pub const LAST_APPLIED_TEMPLATE_ANNOTATION: &str = "node.machine.sapcloud.io/last-applied-anno-labels-taints";
/// Annotation on a Node: the virtual capacity that was synchronised to it last, as JSON.
pub const LAST_APPLIED_CAPACITY_ANNOTATION: &str = "node.machine.sapcloud.io/last-applied-virtual-capacity";
/// Taint with which a Node may register; removed when the Machine is Running.
pub const INSTANCE_NOT_READY_TAINT: &str = "node.machine.sapcloud.io/instance-not-ready";
/// Annotation on a Machine: the provider spec that its VM has, as JSON.
pub const LAST_APPLIED_PROVIDER_SPEC_ANNOTATION: &str = "last-applied-providerspec";
/// Annotation on a Machine: a hash of the provider spec that is being applied.
pub const INFLIGHT_PROVIDER_SPEC_ANNOTATION: &str = "inflight-providerspec-hash";
/// Label on a Machine, exactly `True`: a drain outside a deletion is forced.
pub const FORCE_DRAIN_LABEL: &str = "force-drain";
/// The former name of [`PRESERVE_ANNOTATION`]: `true` means `when-failed`.
pub const PRESERVE_WHEN_FAILED_ANNOTATION: &str = "node.machine.sapcloud.io/preserve-when-failed";
/// Annotation on a Machine: its [`PRESERVE_ANNOTATION`] came from the Node, with this value.
pub const LAST_APPLIED_PRESERVE_ANNOTATION: &str = "node.machine.sapcloud.io/last-applied-node-preserve-value";
/// Annotation on a Machine: the uid of the Node that [`LAST_APPLIED_PRESERVE_ANNOTATION`] came from.
pub const LAST_APPLIED_PRESERVE_UID_ANNOTATION: &str = "node.machine.sapcloud.io/last-applied-node-preserve-uid";
/// Annotation on a Machine: an invalid value of [`PRESERVE_ANNOTATION`] that an event has already reported.
pub const IGNORED_PRESERVE_ANNOTATION: &str = "node.machine.sapcloud.io/ignored-preserve-value";
/// Annotation on the Node of a preserved machine: its previous [`SCALE_DOWN_DISABLED_ANNOTATION`]; empty: it had none.
pub const SCALE_DOWN_DISABLED_BEFORE_ANNOTATION: &str =
    "node.machine.sapcloud.io/scale-down-disabled-before-preservation";
/// Annotation on the Node of a machine that is updated in place: whether it was cordoned before its drain, `true` or
/// `false`. An earlier cordon belongs to a user and is kept.
pub const CORDONED_BEFORE_UPDATE_ANNOTATION: &str = "node.machine.sapcloud.io/cordoned-before-update";
/// Taint on the Node of a preserved failed machine: keeps new pods away.
pub const PRESERVED_TAINT: &str = "node.machine.sapcloud.io/preserved";
/// Annotation on a Machine: the set that released it soon after its creation, because it no longer had the selected
/// labels, and when, as `SET~TIME`. For a while it counts against that set's limit.
pub const RELEASED_BY_ANNOTATION: &str = "machine.sapcloud.io/released-by";
/// Type of the Node condition that reports a preservation.
pub const PRESERVED_CONDITION: &str = "Preserved";

/// Type of the Machine condition with the result of a health check.
pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
/// Type of the Machine condition with which a health check requests a replacement, and the owner reports its progress.
pub const OWNER_REMEDIATED: &str = "OwnerRemediated";
/// Type of the Machine condition that reports a remediation request to another controller.
pub const EXTERNALLY_REMEDIATED: &str = "ExternallyRemediated";
/// The conditions of a Machine that are not copied from its Node.
pub const RESERVED_CONDITIONS: [&str; 3] = [HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED, EXTERNALLY_REMEDIATED];
/// Annotation on a Machine, unless `false`: health checks ignore it.
pub const SKIP_REMEDIATION_ANNOTATION: &str = "machine.sapcloud.io/skip-remediation";
/// Annotation on a Machine or MachineHealthCheck, unless `false`: it is not checked.
pub const PAUSED_ANNOTATION: &str = "machine.sapcloud.io/paused";
/// Annotation on a Machine, unless `false`: it is unhealthy at once.
pub const REMEDIATE_MACHINE_ANNOTATION: &str = "machine.sapcloud.io/remediate-machine";
/// Cluster API's names of [`SKIP_REMEDIATION_ANNOTATION`], [`PAUSED_ANNOTATION`] and [`REMEDIATE_MACHINE_ANNOTATION`].
pub const CAPI_SKIP_REMEDIATION_ANNOTATION: &str = "cluster.x-k8s.io/skip-remediation";
/// See [`CAPI_SKIP_REMEDIATION_ANNOTATION`].
pub const CAPI_PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// See [`CAPI_SKIP_REMEDIATION_ANNOTATION`].
pub const CAPI_REMEDIATE_MACHINE_ANNOTATION: &str = "cluster.x-k8s.io/remediate-machine";
/// Annotation on a MachineDeployment: the number or percentage of its machines that are replaced at the same time because
/// a health check requested it.
pub const REMEDIATION_MAX_IN_FLIGHT_ANNOTATION: &str = "machine.sapcloud.io/remediation-max-in-flight";
/// Annotation on a remediation request: the template that it was created from.
pub const CLONED_FROM_NAME_ANNOTATION: &str = "machine.sapcloud.io/cloned-from-name";
/// Annotation on a remediation request: kind, version and group of its template.
pub const CLONED_FROM_KIND_ANNOTATION: &str = "machine.sapcloud.io/cloned-from-groupkind";
/// Annotation on a remediation request: the health check that created it.
pub const HEALTH_CHECK_ANNOTATION: &str = "machine.sapcloud.io/machine-health-check";
