//! The defects that there are, by name and by their entry of the regression corpus.

use std::fmt;

macro_rules! defects {
    ($($(#[doc = $about:literal])+ $name:ident = $id:literal,)+) => {
        /// A planted defect. At most one is active in a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Defect {
            $($(#[doc = $about])+ $name,)+
        }

        impl Defect {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its entry of the regression corpus, with a letter for a variant: how a command line names it.
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id),+
                }
            }

            /// What it is called: `CreatesWithoutAsking`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name)),+
                }
            }
        }
    };
}

defects! {
    /// Orphans are collected on first sight and on the cache's word alone.
    OrphansCollectedOnFirstSightFromCache = "R01",
    /// As [`Self::OrphansCollectedOnFirstSightFromCache`], and before the Machines are listed.
    OrphansCollectedBeforeMachinesAreListed = "R01/b",
    /// Orphans are collected on first sight, however young the process is.
    OrphansCollectedByYoungProcess = "R02",
    /// Of the machines without a VM's record only those that were never tried keep the VMs of their name.
    OrphansKeptOnlyForUntriedMachines = "R03",
    /// A process leads by itself, whoever else does.
    LeadsWithoutLease = "R03/b",
    /// A machine without a provider id has no VM: CreateMachine is called without asking the cloud.
    CreatesWithoutAsking = "R04",
    /// Leadership is looked at when a pass begins, not at each write, and a process that lost it ends a moment later.
    LeadershipCheckedOncePerPass = "R04/b",
    /// A machine without a provider id has no VM: its deletion skips the VM.
    DeletesOnlyRecordedVm = "R05",
    /// As [`Self::CreatesWithoutAsking`], after a crash between the cloud's answer and the write of the provider id.
    CreatesWithoutAskingAfterCrash = "R05/b",
    /// A provider id whose write fails is forgotten.
    UnwrittenProviderIdForgotten = "R06",
    /// The cloud is believed at once that it has no VM, also of a machine whose VM is known.
    NotFoundBelievedAtOnce = "R07",
    /// That the cloud knows several VMs of a machine starts no collection.
    DuplicateVmsStartNoCollection = "R07/b",
    /// An initialization that failed counts as done.
    FailedInitializationCountsAsDone = "R08",
    /// A creation that failed is repeated without asking what it left behind.
    RepeatsCreationWithoutAsking = "R09",
    /// A creation for which there was no room is never repeated.
    ExhaustedCreationNeverRepeated = "R09/b",
    /// Creation and deletion of one machine do not exclude each other.
    CreationAndDeletionAtOnce = "R10",
    /// Nobody collects orphans.
    OrphansNeverCollected = "R12",
    /// A machine whose VM is not found needs no DeleteMachine.
    MissingVmNeverDeleted = "R13",
    /// A creation that is repeated is another one for the cloud, and nothing is found of the first.
    RepeatedCreationIsAnother = "R13/b",
    /// A VM that has ended hides those that its machine got later.
    EndedVmHidesLaterOnes = "R14",
    /// Secrets are read once in the life of a process.
    SecretsReadOnce = "R15",
    /// Orphans are collected when the process starts, and not later.
    OrphansCollectedAtStartOnly = "R15/b",
    /// Whether a machine has a VM is told by the label that names its node.
    VmKnownByNodeLabel = "R16",
    /// Collection of orphans goes on while the controller is frozen.
    OrphansCollectedWhileFrozen = "R17",
    /// Collection of orphans waits neither for the API servers nor for what the nodes' one has.
    OrphansCollectedWithoutApiServers = "R17/b",
    /// Nobody waits for siblings that are being replaced.
    SiblingsNotAwaited = "R18",
    /// Of the siblings only those hold a machine back that are Failed.
    OnlyFailedSiblingsHoldBack = "R19",
    /// A sibling that is being deleted does not hold a machine back.
    TerminatingSiblingsDoNotHoldBack = "R19/b",
    /// A machine whose sibling was replaced meanwhile has no time left to come back.
    NoTimeToComeBackAfterSibling = "R19/c",
    /// A machine whose node does not answer goes before one that never joined.
    UnansweringNodeGoesFirst = "R20",
    /// While a rollout is under way no health timeout ends.
    NoHealthTimeoutInRollout = "R21",
    /// A set is frozen and thawed by label and condition together alone.
    FreezeByLabelAndConditionOnly = "R22",
    /// What a deployment says of its freeze is not compared with its sets.
    DeploymentFreezeNotCompared = "R22/b",
    /// A frozen set is not looked at, and never thawed.
    FrozenSetNotReconciled = "R23",
    /// A frozen set is thawed by a person alone.
    FrozenSetThawedByHandOnly = "R23/b",
    /// A drain keeps a worker of those for deletions until it is over.
    DrainKeepsDeletionWorker = "R26",
    /// A drain keeps a worker of all until it is over.
    DrainKeepsWorker = "R26/b",
    /// A drain ends by the number of its evictions alone.
    DrainEndsByAttemptsOnly = "R27",
    /// A forced deletion evicts, and waits for budgets as every other.
    ForcedDeletionEvicts = "R28",
    /// A node that is long dead is drained as every other.
    DeadNodeDrainedAsOthers = "R28/b",
    /// The time of a drain counts from when the machine entered the phase before.
    DrainTimeoutFromPhaseBefore = "R29",
    /// After its first error a drain is forced.
    DrainForcedAfterFirstError = "R29/b",
    /// An eviction that was refused is asked for again at once.
    RefusedEvictionRepeatedAtOnce = "R30",
    /// A pod that ends already is evicted again.
    TerminatingPodEvictedAgain = "R30/b",
    /// A budget that refuses an eviction is taken for one that can never be met.
    BudgetRefusalTakenAsPermanent = "R31",
    /// A machine without a node fails to drain it.
    MissingNodeFailsDrain = "R32",
    /// A listener that a failed drain left behind fills up, and then nobody drains what has volumes.
    DrainListenerFillsUp = "R33",
    /// A deletion whose node does not answer leaves its volumes attached.
    VolumesLeftAttached = "R34",
    /// A deletion waits until no volume is attached, however long.
    DetachmentAwaitedForever = "R34/b",
    /// The creation timeout counts from the last change of the phase.
    CreationTimeoutFromPhaseChange = "R35",
    /// The health timeout is looked at in passes alone that have nothing to write.
    HealthTimeoutInIdlePassOnly = "R36",
    /// A bootstrap token lives as long as the flag says, whatever the machine's own creation timeout.
    TokenLivesAsLongAsFlag = "R37",
    /// A bootstrap token that is there is used again whenever it runs out.
    ExpiredTokenUsedAgain = "R37/b",
    /// What came of a creation is written over the copy from before it, and dropped when that is old.
    CreationWrittenOverOldCopy = "R38",
    /// The creation timeout is looked at when a creation is repeated, and not when it is over.
    CreationTimeoutAtRetryOnly = "R38/b",
    /// A machine whose creation failed at first is looked at again after the long retry period alone.
    FailedCreationSeenAfterLongRetryOnly = "R39",
    /// Machines that are being deleted count and rank, and what was named goes by rank alone.
    TerminatingMachinesCountAndRank = "R41",
    /// Machines that were named are looked at when there are too many alone.
    NamedMachinesAtSurplusOnly = "R42",
    /// A priority that came with the list of named machines stays when the list goes.
    PriorityOutlivesList = "R43",
    /// Each repetition of a scale-down by cluster-autoscaler lowers the number again.
    ScaleDownRepeatedLowersAgain = "R43/b",
    /// Among machines of a set the oldest goes, in whatever phase.
    OldestMachineGoesFirst = "R44/b",
    /// A named machine is deleted before the number is lowered.
    NamedMachineDeletedBeforeScaleDown = "R45",
    /// Machines that are being deleted count and rank last.
    TerminatingMachinesRankLast = "R46",
    /// A set makes machines by its own number, whatever its deployment wants.
    SetSizedByItself = "R46/b",
    /// What a set made counts when the watch shows it.
    CreatedMachinesCountWhenWatched = "R47",
    /// A set is named by chance, and one that was made counts when the watch shows it.
    SetNamedByChance = "R48",
    /// What a set let go does not count against its limit.
    ReleasedMachinesDoNotCount = "R49",
    /// Where there is nothing to distribute among sets no size is noted for any.
    NoSizeWithoutDistribution = "R50",
    /// More replicas are shared among old sets and the newest.
    GrowthSharedWithOldSets = "R51",
    /// A set notes the size of its deployment together with a change of its own alone.
    SizeNotedWithOwnChangeOnly = "R52",
    /// Machines that were ordered away count as available as long as they are there.
    DeletedMachinesCountAsAvailable = "R53",
    /// A machine that is being deleted takes up no room.
    TerminatingMachinesTakeNoRoom = "R54",
    /// Machines are made on the word of a cached owner.
    CachedOwnerTrusted = "R55",
    /// Nodes of a set that is the newest again keep the taint of an old one.
    OldSetTaintStays = "R56",
    /// The annotation that keeps cluster-autoscaler away has a value that it does not read.
    AutoscalerAnnotationMisspelt = "R57",
    /// A machine is Terminating before its deletion is ordered.
    TerminatingBeforeDeletion = "R58",
    /// A machine changes its set on its node's word, whatever its own phase.
    SetChangedOnNodeWordAlone = "R59",
    /// New machines count as available as soon as they boot.
    BootingMachinesCountAsAvailable = "R60",
    /// A creation that failed is tried again without a wait.
    FailedCreationRepeatedAtOnce = "R60/b",
    /// Nobody keeps cluster-autoscaler away from a replacement whose predecessor still drains.
    AutoscalerReturnsWhileDraining = "R61",
    /// A deletion knows the machine's node by the machine's label alone.
    NodeKnownByLabelOnly = "R62",
    /// A deletion that finds its label gone passes over what it stands for.
    MissingLabelPassesOver = "R63",
    /// Every node gets the finalizer, whoever made it.
    EveryNodeGetsFinalizer = "R63/b",
    /// A machine is Pending without the name of its node.
    PendingWithoutNodeName = "R64",
    /// A node of the machine's name is the machine's, whatever VM it runs on.
    NodeOfOtherVmTaken = "R65",
    /// A node of the VM's name is an older one, whatever VM it runs on.
    NodeOfVmNameIsOlder = "R65/b",
    /// The node of a VM that is gone need not be deleted.
    NodeOfMissingVmKept = "R66",
    /// What no machine of this process names is nobody's, and a mark stays.
    ForeignNodeMarkStays = "R67",
    /// A node is older than the machine that names it, so it is nobody's.
    OlderNodeIsUnclaimed = "R67/b",
    /// A node that names no VM is that of a machine which names none.
    NodeWithoutVmMatchesNone = "R68",
    /// A finalizer that was added counts as an error, and a key with many of them is dropped.
    AddedFinalizerIsError = "R69",
    /// A class that changes wakes none of its machines.
    ClassChangeWakesNoMachine = "R70",
    /// A write that fails is tried again at once.
    FailedWriteRepeatedAtOnce = "R71",
    /// A write that meets a conflict is tried again at once, however often.
    ConflictRepeatedAtOnce = "R71/b",
    /// A status is written at every pass, and an error is repeated at each.
    StatusWrittenEveryPass = "R72",
    /// A machine that is deleted wakes its class at each pass, and the class its machines.
    DeletionWakesItsClass = "R72/b",
    /// A deletion whose class is not usable says nothing, and nothing wakes it.
    UnusableClassSilencesDeletion = "R73",
    /// A machine whose node is not there is looked at no further.
    MissingNodeStopsHealthCheck = "R74",
    /// Nodes of machines that run are made schedulable at every pass.
    RunningNodesUncordonedEveryPass = "R75",
    /// A set keeps failed machines with an expiry alone.
    FailedMachinesKeptWithExpiryOnly = "R76",
    /// A set keeps no failed machine whose Node it does not find.
    FailedMachinesKeptWithNodeOnly = "R76/b",
    /// The first write of a preservation brings back the machine as it was before it had a VM, and nobody asks for one.
    PreservationRestoresOldCopy = "R77",
    /// Preservation writes the annotations of every machine at every pass.
    PreservationRewritesAnnotations = "R78",
    /// Only deployments that roll keep machines.
    OnlyRollingDeploymentsPreserve = "R79",
    /// Machines are kept automatically in the midst of a rollout.
    AutomaticPreservationInRollout = "R80",
    /// A lowered maximum releases those that were kept first.
    LoweredMaximumReleasesOldest = "R81",
    /// Machines that are kept count as failed, and as missing.
    PreservedCountAsMissing = "R82",
    /// A node that was emptied once for a preservation is not emptied again.
    SecondPreservationNotDrained = "A08",
    /// A creation that fails drops the expiry of a preservation.
    FailedCreationDropsExpiry = "A09",
    /// What a machine's Node asks for is not known when the machine fails.
    NodeRequestUnknownAtFailure = "A20",
    /// Nothing wakes a machine that fails and whose Node asks for its preservation.
    NodeRequestDoesNotWake = "A21",
    /// Nothing wakes a machine at its expiry.
    ExpiryDoesNotWake = "A22",
    /// A machine that no longer matches is written, and stays its set's; other owners of it are lost.
    UnmatchedMachineNotReleased = "Q04",
    /// A changed number is not carried out where several sets have machines, unless they roll.
    SizeIgnoredWithSeveralSets = "Q06",
    /// The surge counts machines that are there, and not those that are ordered.
    SurgeIgnoresOrderedMachines = "Q07",
    /// An old set of an update in place never grows again.
    OldSetOfUpdateInPlaceNeverGrows = "Q08",
    /// The finalizer of a deployment is written over those of others.
    DeploymentFinalizersOverwritten = "Q11",
    /// A deployment without a surge ends the look for too many machines.
    NoSurgeEndsOvershootCheck = "Q16",
    /// A set that could not be worked on fifteen times is left until something happens to it.
    SetDroppedAfterFifteenFailures = "Q28",
    /// A set that could not be sized counts as sized.
    UnsizedSetCountsAsSized = "Q29",
    /// A set whose selector names nothing takes every machine that nobody has.
    EmptySelectorTakesAll = "Q30",
    /// An outage of an API server that is over counts as begun when another one comes.
    PastOutageCountsAsBegun = "A01",
    /// A drain that may evict nothing asks no pod with volumes to go.
    BlockedDrainSkipsPodsWithVolumes = "A02",
    /// A drain whose time is up is done with the pods that have volumes.
    ForcedDrainSkipsPodsWithVolumes = "A02/b",
    /// The stage of a deletion is the last one that its text speaks of, whoever wrote the text.
    DeletionStageFromForeignText = "A07",
    /// A machine that is Failed without a VM is created again.
    FailedMachineCreatedAgain = "A10",
    /// A machine whose update in place failed holds itself back.
    FailedUpdateHoldsItselfBack = "A12",
    /// An attachment that names no volume ends every look at its node's pods.
    AttachmentWithoutVolumeBlinds = "A13",
    /// A machine that a list lacks is believed to be there until its removal is told.
    UnlistedMachineBelievedPresent = "A14",
    /// The id of a bootstrap token is drawn from three bytes of the machine's name.
    TokenIdFromMachineName = "A15",
}

impl Defect {
    /// The defect of that entry or that name, or the one that `create-without-asking` stands for.
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
    fn every_defect_is_found_by_its_entry_and_by_its_name() {
        for defect in Defect::ALL {
            assert_eq!(Defect::of(defect.id()), Some(*defect));
            assert_eq!(Defect::of(defect.name()), Some(*defect));
        }
        assert_eq!(Defect::of("create-without-asking"), Some(Defect::CreatesWithoutAsking));
        assert_eq!(Defect::of("R99"), None);
    }
}
