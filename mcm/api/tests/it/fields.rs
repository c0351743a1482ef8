//! Every field of the machine API that a user, a controller or an autoscaler may write, one per
//! line: path and type. `[]` denotes the items of a list; a capitalized type is one of [`SHARED`].

/// Each kind with its fields.
pub const KINDS: [(&str, &str); 5] = [
    ("Machine", "spec: MachineSpec\nstatus: MachineStatus"),
    (
        "MachineClass",
        "
        nodeTemplate.capacity: quantities
        nodeTemplate.virtualCapacity: quantities
        nodeTemplate.instanceType: string
        nodeTemplate.region: string
        nodeTemplate.zone: string
        nodeTemplate.architecture: string
        credentialsSecretRef.name: string
        credentialsSecretRef.namespace: string
        providerSpec: anything
        provider: string
        secretRef.name: string
        secretRef.namespace: string",
    ),
    (
        "MachineSet",
        "
        spec.replicas: int
        spec.selector: LabelSelector
        spec.machineClass: ClassSpec
        spec.template: MachineTemplateSpec
        spec.minReadySeconds: int
        spec.autoPreserveFailedMax: int
        spec.autoPreserveFailedMachineMax: int
        status.replicas: int
        status.fullyLabeledReplicas: int
        status.readyReplicas: int
        status.availableReplicas: int
        status.preservedFailedReplicas: int
        status.autoPreserveFailedMachineCount: int
        status.observedGeneration: int
        status.machineSetCondition[].type: string
        status.machineSetCondition[].status: string
        status.machineSetCondition[].lastTransitionTime: time
        status.machineSetCondition[].reason: string
        status.machineSetCondition[].message: string
        status.lastOperation: LastOperation
        status.failedMachines[]: MachineSummary
        status.preservations[]: PreservationEntry
        status.observedAutoPreserveFailedMax: int",
    ),
    (
        "MachineDeployment",
        "
        spec.replicas: int
        spec.selector: LabelSelector
        spec.template: MachineTemplateSpec
        spec.strategy.type: string
        spec.strategy.rollingUpdate.maxUnavailable: number or text
        spec.strategy.rollingUpdate.maxSurge: number or text
        spec.strategy.inPlaceUpdate.maxUnavailable: number or text
        spec.strategy.inPlaceUpdate.maxSurge: number or text
        spec.strategy.inPlaceUpdate.orchestrationType: string
        spec.minReadySeconds: int
        spec.revisionHistoryLimit: int
        spec.paused: bool
        spec.rollbackTo.revision: int
        spec.progressDeadlineSeconds: int
        spec.remediation.maxInFlight: number or text
        spec.autoPreserveFailedMax: int
        spec.autoPreserveFailedMachineMax: int
        status.observedGeneration: int
        status.replicas: int
        status.updatedReplicas: int
        status.readyReplicas: int
        status.availableReplicas: int
        status.preservedFailedReplicas: int
        status.unavailableReplicas: int
        status.conditions[].type: string
        status.conditions[].status: string
        status.conditions[].lastUpdateTime: time
        status.conditions[].lastTransitionTime: time
        status.conditions[].reason: string
        status.conditions[].message: string
        status.collisionCount: int
        status.failedMachines[]: MachineSummary
        status.preservations[]: PreservationEntry
        status.observedAutoPreserveFailedMax: int
        status.rolledOut: string",
    ),
    (
        "MachineHealthCheck",
        "
        spec.clusterName: string
        spec.selector: LabelSelector
        spec.unhealthyConditions[].type: string
        spec.unhealthyConditions[].status: string
        spec.unhealthyConditions[].timeout: duration
        spec.unhealthyMachineConditions[].type: string
        spec.unhealthyMachineConditions[].status: string
        spec.unhealthyMachineConditions[].timeout: duration
        spec.nodeStartupTimeout: duration
        spec.maxUnhealthy: number or text
        spec.unhealthyRange: string
        spec.remediationTemplate: TemplateReference
        spec.escalatingRemediations[].remediationTemplate: TemplateReference
        spec.escalatingRemediations[].order: int
        spec.escalatingRemediations[].timeout: duration
        spec.maxInFlight: number or text
        spec.stormCooldown: duration
        spec.healthyDelay: duration
        spec.checks.nodeStartupTimeoutSeconds: int
        spec.checks.unhealthyNodeConditions[].type: string
        spec.checks.unhealthyNodeConditions[].status: string
        spec.checks.unhealthyNodeConditions[].timeoutSeconds: int
        spec.checks.unhealthyMachineConditions[].type: string
        spec.checks.unhealthyMachineConditions[].status: string
        spec.checks.unhealthyMachineConditions[].timeoutSeconds: int
        spec.remediation.triggerIf.unhealthyLessThanOrEqualTo: number or text
        spec.remediation.triggerIf.unhealthyInRange: string
        spec.remediation.templateRef: TemplateReference
        status.expectedMachines: int
        status.currentHealthy: int
        status.remediationsAllowed: int
        status.targets[]: string
        status.unhealthy[].machine: string
        status.unhealthy[].reason: string
        status.unhealthy[].message: string
        status.unhealthy[].since: time
        status.unhealthy[].nextCheck: time
        status.remediations[].machine: string
        status.remediations[].uid: string
        status.remediations[].apiVersion: string
        status.remediations[].kind: string
        status.remediations[].template: string
        status.remediations[].order: int
        status.remediations[].since: time
        status.tooManySince: time
        status.cooldownUntil: time
        status.observedGeneration: int
        status.conditions[].type: string
        status.conditions[].status: string
        status.conditions[].observedGeneration: int
        status.conditions[].lastTransitionTime: time
        status.conditions[].reason: string
        status.conditions[].message: string",
    ),
];

/// Types that several kinds use.
pub const SHARED: [(&str, &str); 11] = [
    (
        "PreservationEntry",
        "uid: string\nname: string\nby: string\ncreated: time\nreleased: bool",
    ),
    (
        "MachineSpec",
        "
        class: ClassSpec
        providerID: string
        nodeTemplate: NodeTemplateSpec
        drainTimeout: duration
        healthTimeout: duration
        creationTimeout: duration
        inPlaceUpdateTimeout: duration
        machinePreserveTimeout: duration
        disableHealthTimeout: bool
        maxEvictRetries: int
        nodeConditions: string",
    ),
    (
        "MachineStatus",
        "
        addresses[].type: string
        addresses[].address: string
        conditions[].type: string
        conditions[].status: string
        conditions[].lastHeartbeatTime: time
        conditions[].lastTransitionTime: time
        conditions[].reason: string
        conditions[].message: string
        lastOperation: LastOperation
        currentStatus.phase: string
        currentStatus.timeoutActive: bool
        currentStatus.lastUpdateTime: time
        currentStatus.preserveExpiryTime: time
        lastKnownState: string
        preservation.by: string
        preservation.stage: string
        preservation.nodeUID: string
        preservation.since: time
        preservation.request: string
        preservation.reason: string",
    ),
    (
        "TemplateReference",
        "apiVersion: string\nkind: string\nname: string\nnamespace: string",
    ),
    ("ClassSpec", "apiGroup: string\nkind: string\nname: string"),
    (
        "NodeTemplateSpec",
        "
        metadata: Metadata
        spec.podCIDR: string
        spec.podCIDRs[]: string
        spec.providerID: string
        spec.unschedulable: bool
        spec.taints[].key: string
        spec.taints[].value: string
        spec.taints[].effect: string
        spec.taints[].timeAdded: time
        spec.configSource.configMap.kubeletConfigKey: string
        spec.configSource.configMap.name: string
        spec.configSource.configMap.namespace: string
        spec.configSource.configMap.resourceVersion: string
        spec.configSource.configMap.uid: string
        spec.externalID: string",
    ),
    ("MachineTemplateSpec", "metadata: Metadata\nspec: MachineSpec"),
    (
        "LabelSelector",
        "
        matchLabels: strings
        matchExpressions[].key: string
        matchExpressions[].operator: string
        matchExpressions[].values[]: string",
    ),
    (
        "LastOperation",
        "
        description: string
        errorCode: string
        lastUpdateTime: time
        state: string
        type: string",
    ),
    (
        "MachineSummary",
        "
        name: string
        providerID: string
        lastOperation: LastOperation
        ownerRef: string",
    ),
    (
        "Metadata",
        "
        name: string
        generateName: string
        namespace: string
        labels: strings
        annotations: strings
        finalizers[]: string",
    ),
];
