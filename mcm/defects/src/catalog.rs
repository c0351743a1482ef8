//! The catalog of defects, with their entries of the regression corpus.

use std::fmt;

macro_rules! defects {
    ($($(#[doc = $about:literal])+ $name:ident = $id:literal,)+) => {
        /// A planted defect. At most one is active in a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Defect {
            $($(#[doc = $about])+ $name,)+
        }

        impl Defect {
            /// All defects.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The entry of the regression corpus, with a letter for a variant; used on command lines.
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id),+
                }
            }

            /// The name of the variant, such as `CreatesWithoutAsking`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name)),+
                }
            }
        }
    };
}

defects! {
    /// Orphans are collected after one observation, based on the cache alone.
    OrphansCollectedOnFirstSightFromCache = "R01",
    /// As [`Self::OrphansCollectedOnFirstSightFromCache`], and before the Machines are listed.
    OrphansCollectedBeforeMachinesAreListed = "R01/b",
    /// Orphans are collected after one observation, also by a young process.
    OrphansCollectedByYoungProcess = "R02",
    /// Of the machines without a recorded VM, only those whose creation was never tried keep the VMs of their name.
    OrphansKeptOnlyForUntriedMachines = "R03",
    /// A process acts as leader without holding the Lease.
    LeadsWithoutLease = "R03/b",
    /// A machine without a provider id has no VM: CreateMachine is called without asking the cloud.
    CreatesWithoutAsking = "R04",
    /// Leadership is checked when a pass begins, not at each write, and a process that lost it exits with a delay.
    LeadershipCheckedOncePerPass = "R04/b",
    /// A machine without a provider id has no VM: its deletion skips the VM.
    DeletesOnlyRecordedVm = "R05",
    /// As [`Self::CreatesWithoutAsking`], after a crash between the cloud's answer and the write of the provider id.
    CreatesWithoutAskingAfterCrash = "R05/b",
    /// A provider ID whose write fails is lost.
    UnwrittenProviderIdForgotten = "R06",
    /// NotFound from the cloud is trusted at once, also for a machine with a recorded VM.
    NotFoundBelievedAtOnce = "R07",
    /// Several VMs of one machine in the cloud do not start a collection.
    DuplicateVmsStartNoCollection = "R07/b",
    /// An initialization that failed counts as done.
    FailedInitializationCountsAsDone = "R08",
    /// A failed creation is repeated without asking the cloud whether it left a VM.
    RepeatsCreationWithoutAsking = "R09",
    /// A creation that failed for lack of capacity is never repeated.
    ExhaustedCreationNeverRepeated = "R09/b",
    /// Creation and deletion of one machine do not exclude each other.
    CreationAndDeletionAtOnce = "R10",
    /// Orphans are never collected.
    OrphansNeverCollected = "R12",
    /// DeleteMachine is not called for a machine whose VM is not found.
    MissingVmNeverDeleted = "R13",
    /// A repeated creation has another identity in the cloud, so that the first VM is not found.
    RepeatedCreationIsAnother = "R13/b",
    /// A terminated VM hides later VMs of its machine.
    EndedVmHidesLaterOnes = "R14",
    /// Secrets are read once per process.
    SecretsReadOnce = "R15",
    /// Orphans are collected only when the process starts.
    OrphansCollectedAtStartOnly = "R15/b",
    /// A machine counts as having a VM if, and only if, it has the label `node`.
    VmKnownByNodeLabel = "R16",
    /// The collection of orphans continues while the controller is frozen.
    OrphansCollectedWhileFrozen = "R17",
    /// The collection of orphans waits neither for the API servers nor for the caches of the target cluster.
    OrphansCollectedWithoutApiServers = "R17/b",
    /// A machine does not wait for siblings that are being replaced.
    SiblingsNotAwaited = "R18",
    /// A machine waits only for siblings that are Failed.
    OnlyFailedSiblingsHoldBack = "R19",
    /// A machine does not wait for a sibling that is being deleted.
    TerminatingSiblingsDoNotHoldBack = "R19/b",
    /// A machine gets no extra time to recover after a sibling was replaced.
    NoTimeToComeBackAfterSibling = "R19/c",
    /// A machine whose node does not answer is deleted before one that never joined.
    UnansweringNodeGoesFirst = "R20",
    /// During a rollout, health timeouts have no effect.
    NoHealthTimeoutInRollout = "R21",
    /// A set counts as frozen only if it has both label and condition.
    FreezeByLabelAndConditionOnly = "R22",
    /// The freeze of a deployment is not compared with its sets.
    DeploymentFreezeNotCompared = "R22/b",
    /// A frozen set is not reconciled, and never unfrozen.
    FrozenSetNotReconciled = "R23",
    /// Only a user can unfreeze a set.
    FrozenSetThawedByHandOnly = "R23/b",
    /// A drain occupies a deletion worker until it ends.
    DrainKeepsDeletionWorker = "R26",
    /// A drain occupies a shared worker until it ends.
    DrainKeepsWorker = "R26/b",
    /// A drain is limited only by the number of its evictions.
    DrainEndsByAttemptsOnly = "R27",
    /// A forced deletion evicts pods and respects budgets.
    ForcedDeletionEvicts = "R28",
    /// A dead node is drained like a healthy one.
    DeadNodeDrainedAsOthers = "R28/b",
    /// The drain timeout counts from the previous phase change.
    DrainTimeoutFromPhaseBefore = "R29",
    /// A drain is forced after its first error.
    DrainForcedAfterFirstError = "R29/b",
    /// A refused eviction is repeated at once.
    RefusedEvictionRepeatedAtOnce = "R30",
    /// A terminating pod is evicted again.
    TerminatingPodEvictedAgain = "R30/b",
    /// A budget that refuses an eviction counts as misconfigured.
    BudgetRefusalTakenAsPermanent = "R31",
    /// The drain of a machine without a node fails.
    MissingNodeFailsDrain = "R32",
    /// The queue of a failed drain's leaked listener fills up and blocks all drains of pods with volumes.
    DrainListenerFillsUp = "R33",
    /// Volumes of a node that does not answer stay attached.
    VolumesLeftAttached = "R34",
    /// A deletion waits without limit until no volume is attached.
    DetachmentAwaitedForever = "R34/b",
    /// The creation timeout counts from the last phase change.
    CreationTimeoutFromPhaseChange = "R35",
    /// The health timeout is checked only in passes that have nothing to write.
    HealthTimeoutInIdlePassOnly = "R36",
    /// The lifetime of a bootstrap token is the flag's value, independent of the machine's creation timeout.
    TokenLivesAsLongAsFlag = "R37",
    /// An existing bootstrap token is reused even if it expires too early.
    ExpiredTokenUsedAgain = "R37/b",
    /// The result of a creation is written to the machine as read before it, and dropped on a conflict.
    CreationWrittenOverOldCopy = "R38",
    /// The creation timeout is checked only when a creation is repeated.
    CreationTimeoutAtRetryOnly = "R38/b",
    /// A machine whose creation failed once is reconciled only after the long retry period.
    FailedCreationSeenAfterLongRetryOnly = "R39",
    /// Machines that are being deleted count and rank, and named machines are deleted only by rank.
    TerminatingMachinesCountAndRank = "R41",
    /// Named machines are considered only if there is a surplus.
    NamedMachinesAtSurplusOnly = "R42",
    /// The priority of a named machine stays after the list is removed.
    PriorityOutlivesList = "R43",
    /// Each repetition of a scale-down by cluster-autoscaler reduces the replicas again.
    ScaleDownRepeatedLowersAgain = "R43/b",
    /// A set deletes its oldest machine, independent of the phase.
    OldestMachineGoesFirst = "R44/b",
    /// A named machine is deleted before the replicas are reduced.
    NamedMachineDeletedBeforeScaleDown = "R45",
    /// Machines that are being deleted count and rank last.
    TerminatingMachinesRankLast = "R46",
    /// A set creates machines up to its own replicas, independent of its deployment's.
    SetSizedByItself = "R46/b",
    /// A machine that a set created counts only once the watch shows it.
    CreatedMachinesCountWhenWatched = "R47",
    /// A set has a random name, and a new set counts only once the watch shows it.
    SetNamedByChance = "R48",
    /// Machines that a set released do not count against its limit.
    ReleasedMachinesDoNotCount = "R49",
    /// If there is nothing to distribute among the sets, all sizes become 0.
    NoSizeWithoutDistribution = "R50",
    /// Additional replicas are distributed among old sets and the newest.
    GrowthSharedWithOldSets = "R51",
    /// A set records the size of its deployment only together with a change of its own size.
    SizeNotedWithOwnChangeOnly = "R52",
    /// Surplus machines count as available until they are deleted.
    DeletedMachinesCountAsAvailable = "R53",
    /// Machines that are being deleted do not count against the surge.
    TerminatingMachinesTakeNoRoom = "R54",
    /// Machines are created without a live read of their owner.
    CachedOwnerTrusted = "R55",
    /// Nodes of a set that is the newest again keep the taint of an old one.
    OldSetTaintStays = "R56",
    /// The annotation that disables scale-down has a value that cluster-autoscaler ignores.
    AutoscalerAnnotationMisspelt = "R57",
    /// A machine becomes Terminating before its deletion is requested.
    TerminatingBeforeDeletion = "R58",
    /// A machine changes its set based on its node alone, independent of its phase.
    SetChangedOnNodeWordAlone = "R59",
    /// Machines count as available while they boot.
    BootingMachinesCountAsAvailable = "R60",
    /// A failed creation is repeated at once.
    FailedCreationRepeatedAtOnce = "R60/b",
    /// Scale-down is not disabled for a replacement while its predecessor is drained.
    AutoscalerReturnsWhileDraining = "R61",
    /// A deletion finds the machine's node only by the machine's label.
    NodeKnownByLabelOnly = "R62",
    /// A deletion skips the stages of the node if the machine's label was removed.
    MissingLabelPassesOver = "R63",
    /// Every node gets the finalizer, also one without a machine.
    EveryNodeGetsFinalizer = "R63/b",
    /// A machine is Pending without the name of its node.
    PendingWithoutNodeName = "R64",
    /// A node with the machine's node name counts as the machine's, whatever VM it runs on.
    NodeOfOtherVmTaken = "R65",
    /// A node with the VM's node name counts as older, whatever VM it runs on.
    NodeOfVmNameIsOlder = "R65/b",
    /// The node of a missing VM is not deleted.
    NodeOfMissingVmKept = "R66",
    /// A node that no machine of this process names counts as not managed, and its mark is never removed.
    ForeignNodeMarkStays = "R67",
    /// A node that is older than the machine that names it counts as not managed.
    OlderNodeIsUnclaimed = "R67/b",
    /// A node without a provider ID matches a machine without one.
    NodeWithoutVmMatchesNone = "R68",
    /// The addition of a finalizer counts as an error, and a key with many errors is dropped.
    AddedFinalizerIsError = "R69",
    /// A change of a class does not wake its machines.
    ClassChangeWakesNoMachine = "R70",
    /// A failed write is repeated at once.
    FailedWriteRepeatedAtOnce = "R71",
    /// A write with a conflict is repeated at once, without backoff.
    ConflictRepeatedAtOnce = "R71/b",
    /// Every pass writes the status, and repeats a failed call.
    StatusWrittenEveryPass = "R72",
    /// Each pass of a machine's deletion wakes its class, and the class wakes its machines.
    DeletionWakesItsClass = "R72/b",
    /// A deletion with an unusable class reports nothing, and a change of the class does not wake it.
    UnusableClassSilencesDeletion = "R73",
    /// The health check ends if the machine's node does not exist.
    MissingNodeStopsHealthCheck = "R74",
    /// Every pass uncordons the nodes of Running machines.
    RunningNodesUncordonedEveryPass = "R75",
    /// A set keeps only failed machines that have an expiry.
    FailedMachinesKeptWithExpiryOnly = "R76",
    /// A set keeps only failed machines whose Node exists.
    FailedMachinesKeptWithNodeOnly = "R76/b",
    /// The first write of a preservation restores a copy of the machine without its VM, and the cloud is not asked for
    /// it.
    PreservationRestoresOldCopy = "R77",
    /// Preservation writes the annotations of every machine at every pass.
    PreservationRewritesAnnotations = "R78",
    /// Only deployments with the strategy RollingUpdate preserve machines.
    OnlyRollingDeploymentsPreserve = "R79",
    /// Machines are preserved automatically during a rollout.
    AutomaticPreservationInRollout = "R80",
    /// A lowered maximum releases the machines that were preserved first.
    LoweredMaximumReleasesOldest = "R81",
    /// Preserved machines count as failed and as missing.
    PreservedCountAsMissing = "R82",
    /// A request that exists ends the pass of a health check: other machines get none.
    SecondMachineStarves = "R83",
    /// With a template, a machine that recovers without a request keeps its failed condition.
    HealthyKeepsFalse = "R84",
    /// A machine that is being remediated counts as healthy while its node looks healthy.
    RemediatedCountAsHealthy = "R85",
    /// Remediation begins at once when the circuit breaker closes.
    CooldownIgnored = "R86",
    /// Health checks mark machines that are being deleted.
    DyingMachinesAreMarked = "R87",
    /// The node of a machine that was remediated is drained although it does not answer.
    UnreachableNodeDrained = "R88",
    /// The Node of a machine that had not joined when its deletion began is not deleted.
    LateNodeStays = "R89",
    /// A condition whose timeout runs counts as healthy.
    RunningTimeoutCountsAsHealthy = "R90",
    /// The first condition that matches ends the evaluation of a node.
    FirstMatchHidesRest = "R91",
    /// Two checks remediate one machine.
    ChecksRemediateTogether = "R92",
    /// A node that has not reported a condition yet is unhealthy.
    MissingConditionIsBad = "R93",
    /// A machine that boots counts as one whose Node was deleted.
    NewbornCountsAsDeleted = "R93/b",
    /// After the controller has requested the deletion of a remediation request, it does not check that it is gone.
    FinalizerHidesEnd = "R94",
    /// Remediation requests of machines that are not selected any more stay.
    OrphanRequestStays = "R95",
    /// A remediation request that is gone when it is to be deleted ends the health check for a while.
    MissingRequestEndsPass = "R96",
    /// The status of a health check lists its machines in a changing order.
    StatusNeverRests = "R97",
    /// A limit that is no number means all machines.
    BadNumberMeansAll = "R98",
    /// A check that may not remediate has no timer.
    RestrictedChecksSleep = "R99",
    /// A machine of an old set is never remediated during a rollout, even if that is paused.
    OldSetIsStuck = "R100",
    /// An unhealthy machine waits for an update in place, which does not select it.
    UpdateInPlaceIsWaitedFor = "R100/in-place",
    /// Paused and skipped machines are remediated.
    PausedMachinesAreRemediated = "R101",
    /// The time of an outage counts as time in which a machine was unhealthy.
    OutageIsCharged = "R102",
    /// Machines that wait for their replacement count as being replaced.
    DeferredMachinesUseBudget = "R103",
    /// An annotation with the value `false` counts as set.
    FalseAnnotationCounts = "R104",
    /// Remediation requests are found only if they are of the kind of the current template.
    RequestsFoundByCurrentTemplate = "R105",
    /// The namespace of a template is ignored.
    TemplateNamespaceIgnored = "R106",
    /// A health check that cannot read its requests repeats that at once.
    UnreadableRequestsRepeatedAtOnce = "R107",
    /// A timeout of less than a second becomes zero.
    ShortTimeoutBecomesZero = "R109",
    /// No machine is remediated during a rollout, which waits for it.
    RemediationWaitsForRollout = "R110",
    /// A node that was drained for a preservation is not drained for another one.
    SecondPreservationNotDrained = "A08",
    /// A creation that fails drops the expiry of a preservation.
    FailedCreationDropsExpiry = "A09",
    /// The request on a machine's Node is ignored when the machine fails.
    NodeRequestUnknownAtFailure = "A20",
    /// A failed machine with a request on its Node is not woken.
    NodeRequestDoesNotWake = "A21",
    /// A machine is not woken at its expiry.
    ExpiryDoesNotWake = "A22",
    /// A machine that no longer matches is written but not released, and loses its other owners.
    UnmatchedMachineNotReleased = "Q04",
    /// A changed number of replicas is ignored if several sets have machines, unless the strategy is RollingUpdate.
    SizeIgnoredWithSeveralSets = "Q06",
    /// The surge counts existing machines, not those that are still to be created.
    SurgeIgnoresOrderedMachines = "Q07",
    /// An old set of an in-place update never grows again.
    OldSetOfUpdateInPlaceNeverGrows = "Q08",
    /// The finalizer of a deployment overwrites other finalizers.
    DeploymentFinalizersOverwritten = "Q11",
    /// A deployment without a surge ends the overshoot check.
    NoSurgeEndsOvershootCheck = "Q16",
    /// A set whose reconciliation failed fifteen times is dropped until its next event.
    SetDroppedAfterFifteenFailures = "Q28",
    /// A set whose resize failed counts as resized.
    UnsizedSetCountsAsSized = "Q29",
    /// A set with an empty selector adopts every orphan machine.
    EmptySelectorTakesAll = "Q30",
    /// A new outage of an API server counts from the start of an earlier one.
    PastOutageCountsAsBegun = "A01",
    /// A drain with zero eviction retries skips pods with volumes.
    BlockedDrainSkipsPodsWithVolumes = "A02",
    /// A drain skips pods with volumes once its timeout has passed.
    ForcedDrainSkipsPodsWithVolumes = "A02/b",
    /// The stage of a deletion is the last one that occurs anywhere in its text, also in a provider's message.
    DeletionStageFromForeignText = "A07",
    /// A Failed machine without a VM is created again.
    FailedMachineCreatedAgain = "A10",
    /// A machine whose in-place update failed waits for itself.
    FailedUpdateHoldsItselfBack = "A12",
    /// An attachment without a volume name breaks every drain of its node.
    AttachmentWithoutVolumeBlinds = "A13",
    /// A machine that is missing in a relist counts as present until a delete event.
    UnlistedMachineBelievedPresent = "A14",
    /// The id of a bootstrap token is derived from three bytes of the machine's name.
    TokenIdFromMachineName = "A15",
    /// All pods of a preserved machine whose node does not answer are deleted at once.
    UnansweredPodsForceDeleted = "A23",
    /// A forced drain deletes pods that must not run twice at once, before the VM is deleted.
    ForcedDrainRemovesUniquePods = "A23/b",
    /// A StopMachine that failed counts as a stopped VM.
    FailedStopCountsAsStopped = "A23/c",
    /// A forced drain detaches the volumes of pods that may run.
    VolumesDetachedFromRunningVm = "A24",
    /// The VM and the Node that a new machine names are its own, whatever the driver says.
    UnconfirmedVmBelieved = "A25",
    /// A deployment counts its surplus machines as a negative number of unavailable ones.
    UnavailableBelowZero = "A26",
    /// A change of another writer that the response to a write contains triggers nothing.
    ChangeInResponseTriggersNothing = "A27",
    /// A request to the owner of a machine stays when its health check is deleted.
    RequestOutlivesCheck = "A28",
    /// A machine that a health check wants replaced counts as available for a rollout until its phase changes.
    RequestedCountAsAvailable = "A29",
    /// A rollout removes no broken machine of the old revision while a new one that a health check wants replaced waits for it.
    RequestsCountAsMissing = "A30",
}

impl Defect {
    /// The defect with that entry or name; `create-without-asking` is an alias of [`Self::CreatesWithoutAsking`].
    pub fn of(text: &str) -> Option<Self> {
        if text == "create-without-asking" {
            return Some(Self::CreatesWithoutAsking);
        }
        let mut all = Self::ALL.iter().copied();
        all.find(|defect| [defect.id(), defect.name()].contains(&text))
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_is_found_by_entry_and_by_name() {
        for defect in Defect::ALL {
            assert_eq!(Defect::of(defect.id()), Some(*defect));
            assert_eq!(Defect::of(defect.name()), Some(*defect));
        }
        assert_eq!(Defect::of("create-without-asking"), Some(Defect::CreatesWithoutAsking));
        assert_eq!(Defect::of("R999"), None);
    }
}
