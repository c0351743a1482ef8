//! Defects that are planted on purpose: each brings back how a controller once failed, to show that a scenario finds it.
//!
//! What lives here: their names, and which behaviour each restores. What must not: the behaviour itself, which stands
//! where the rule is that it breaks. Nothing of this is in a build without the feature `mutants`.

use std::fmt;

/// A planted defect. At most one is active in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// Orphans are collected on first sight and on the cache's word alone.
    R01,
    /// As [`Self::R01`], and before the Machines are listed.
    R01b,
    /// Orphans are collected on first sight, however young the process is.
    R02,
    /// Of the machines without a VM's record only those that were never tried keep the VMs of their name.
    R03,
    /// A process leads by itself, whoever else does.
    R03b,
    /// A machine without a provider id has no VM: CreateMachine is called without asking the cloud.
    R04,
    /// Leadership is looked at when a pass begins, not at each write, and a process that lost it ends a moment later.
    R04b,
    /// A machine without a provider id has no VM: its deletion skips the VM.
    R05,
    /// As [`Self::R04`], after a crash between the cloud's answer and the write of the provider id.
    R05b,
    /// A provider id whose write fails is forgotten.
    R06,
    /// The cloud is believed at once that it has no VM, also of a machine whose VM is known.
    R07,
    /// That the cloud knows several VMs of a machine starts no collection.
    R07b,
    /// An initialization that failed counts as done.
    R08,
    /// A creation that failed is repeated without asking what it left behind.
    R09,
    /// A creation for which there was no room is never repeated.
    R09b,
    /// Creation and deletion of one machine do not exclude each other.
    R10,
    /// Nobody collects orphans.
    R12,
    /// A machine whose VM is not found needs no DeleteMachine.
    R13,
    /// A creation that is repeated is another one for the cloud, and nothing is found of the first.
    R13b,
    /// A VM that has ended hides those that its machine got later.
    R14,
    /// Secrets are read once in the life of a process.
    R15,
    /// Orphans are collected when the process starts, and not later.
    R15b,
    /// Whether a machine has a VM is told by the label that names its node.
    R16,
    /// Collection of orphans goes on while the controller is frozen.
    R17,
    /// Collection of orphans waits neither for the API servers nor for what the nodes' one has.
    R17b,
    /// Nobody waits for siblings that are being replaced.
    R18,
    /// Of the siblings only those hold a machine back that are Failed.
    R19,
    /// A sibling that is being deleted does not hold a machine back.
    R19b,
    /// A machine whose sibling was replaced meanwhile has no time left to come back.
    R19c,
    /// A machine whose node does not answer goes before one that never joined.
    R20,
    /// While a rollout is under way no health timeout ends.
    R21,
    /// A set is frozen and thawed by label and condition together alone.
    R22,
    /// What a deployment says of its freeze is not compared with its sets.
    R22b,
    /// A frozen set is not looked at, and never thawed.
    R23,
    /// A frozen set is thawed by a person alone.
    R23b,
    /// A drain keeps a worker of those for deletions until it is over.
    R26,
    /// A drain keeps a worker of all until it is over.
    R26b,
    /// A drain ends by the number of its evictions alone.
    R27,
    /// A forced deletion evicts, and waits for budgets as every other.
    R28,
    /// A node that is long dead is drained as every other.
    R28b,
    /// The time of a drain counts from when the machine entered the phase before.
    R29,
    /// After its first error a drain is forced.
    R29b,
    /// An eviction that was refused is asked for again at once.
    R30,
    /// A pod that ends already is evicted again.
    R30b,
    /// A budget that refuses an eviction is taken for one that can never be met.
    R31,
    /// A machine without a node fails to drain it.
    R32,
    /// A listener that a failed drain left behind fills up, and then nobody drains what has volumes.
    R33,
    /// A deletion whose node does not answer leaves its volumes attached.
    R34,
    /// A deletion waits until no volume is attached, however long.
    R34b,
    /// The creation timeout counts from the last change of the phase.
    R35,
    /// The health timeout is looked at in passes alone that have nothing to write.
    R36,
    /// A bootstrap token lives as long as the flag says, whatever the machine's own creation timeout.
    R37,
    /// A bootstrap token that is there is used again whenever it runs out.
    R37b,
    /// What came of a creation is written over the copy from before it, and dropped when that is old.
    R38,
    /// The creation timeout is looked at when a creation is repeated, and not when it is over.
    R38b,
    /// A machine whose creation failed at first is looked at again after the long retry period alone.
    R39,
    /// Machines that are being deleted count and rank, and what was named goes by rank alone.
    R41,
    /// Machines that were named are looked at when there are too many alone.
    R42,
    /// A priority that came with the list of named machines stays when the list goes.
    R43,
    /// Each repetition of a scale-down by cluster-autoscaler lowers the number again.
    R43b,
    /// Among machines of a set the oldest goes, in whatever phase.
    R44b,
    /// A named machine is deleted before the number is lowered.
    R45,
    /// Machines that are being deleted count and rank last.
    R46,
    /// A set makes machines by its own number, whatever its deployment wants.
    R46b,
    /// What a set made counts when the watch shows it.
    R47,
    /// A set is named by chance, and one that was made counts when the watch shows it.
    R48,
    /// What a set let go does not count against its limit.
    R49,
    /// Where there is nothing to distribute among sets no size is noted for any.
    R50,
    /// More replicas are shared among old sets and the newest.
    R51,
    /// A set notes the size of its deployment together with a change of its own alone.
    R52,
    /// Machines that were ordered away count as available as long as they are there.
    R53,
    /// A machine that is being deleted takes up no room.
    R54,
    /// Machines are made on the word of a cached owner.
    R55,
    /// Nodes of a set that is the newest again keep the taint of an old one.
    R56,
    /// The annotation that keeps cluster-autoscaler away has a value that it does not read.
    R57,
    /// A machine is Terminating before its deletion is ordered.
    R58,
    /// A machine changes its set on its node's word, whatever its own phase.
    R59,
    /// New machines count as available as soon as they boot.
    R60,
    /// A creation that failed is tried again without a wait.
    R60b,
    /// Nobody keeps cluster-autoscaler away from a replacement whose predecessor still drains.
    R61,
    /// A deletion knows the machine's node by the machine's label alone.
    R62,
    /// A deletion that finds its label gone passes over what it stands for.
    R63,
    /// Every node gets the finalizer, whoever made it.
    R63b,
    /// A machine is Pending without the name of its node.
    R64,
    /// A node of the machine's name is the machine's, whatever VM it runs on.
    R65,
    /// A node of the VM's name is an older one, whatever VM it runs on.
    R65b,
    /// The node of a VM that is gone need not be deleted.
    R66,
    /// What no machine of this process names is nobody's, and a mark stays.
    R67,
    /// A node is older than the machine that names it, so it is nobody's.
    R67b,
    /// A node that names no VM is that of a machine which names none.
    R68,
    /// A finalizer that was added counts as an error, and a key with many of them is dropped.
    R69,
    /// A class that changes wakes none of its machines.
    R70,
    /// A write that fails is tried again at once.
    R71,
    /// A write that meets a conflict is tried again at once, however often.
    R71b,
    /// A status is written at every pass, and an error is repeated at each.
    R72,
    /// A machine that is deleted wakes its class at each pass, and the class its machines.
    R72b,
    /// A deletion whose class is not usable says nothing, and nothing wakes it.
    R73,
    /// A machine whose node is not there is looked at no further.
    R74,
    /// Nodes of machines that run are made schedulable at every pass.
    R75,
    /// A set keeps failed machines with an expiry alone.
    R76,
    /// A set keeps no failed machine whose Node it does not find.
    R76b,
    /// The first write of a preservation brings back the machine as it was before it had a VM, and nobody asks for one.
    R77,
    /// Preservation writes the annotations of every machine at every pass.
    R78,
    /// Only deployments that roll keep machines.
    R79,
    /// Machines are kept automatically in the midst of a rollout.
    R80,
    /// A lowered maximum releases those that were kept first.
    R81,
    /// Machines that are kept count as failed, and as missing.
    R82,
    /// A node that was emptied once for a preservation is not emptied again.
    A08,
    /// A creation that fails drops the expiry of a preservation.
    A09,
    /// What a machine's Node asks for is not known when the machine fails.
    A20,
    /// Nothing wakes a machine that fails and whose Node asks for its preservation.
    A21,
    /// Nothing wakes a machine at its expiry.
    A22,
    /// A machine that no longer matches is written, and stays its set's; other owners of it are lost.
    Q04,
    /// A changed number is not carried out where several sets have machines, unless they roll.
    Q06,
    /// The surge counts machines that are there, and not those that are ordered.
    Q07,
    /// An old set of an update in place never grows again.
    Q08,
    /// The finalizer of a deployment is written over those of others.
    Q11,
    /// A deployment without a surge ends the look for too many machines.
    Q16,
    /// A set that could not be worked on fifteen times is left until something happens to it.
    Q28,
    /// A set that could not be sized counts as sized.
    Q29,
    /// A set whose selector names nothing takes every machine that nobody has.
    Q30,
    /// An outage of an API server that is over counts as begun when another one comes.
    A01,
    /// A drain that may evict nothing asks no pod with volumes to go.
    A02,
    /// A drain whose time is up is done with the pods that have volumes.
    A02b,
    /// The stage of a deletion is the last one that its text speaks of, whoever wrote the text.
    A07,
    /// A machine that is Failed without a VM is created again.
    A10,
    /// A machine whose update in place failed holds itself back.
    A12,
    /// An attachment that names no volume ends every look at its node's pods.
    A13,
    /// A machine that a list lacks is believed to be there until its removal is told.
    A14,
    /// The id of a bootstrap token is drawn from three bytes of the machine's name.
    A15,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 130] = [
        Self::R01,
        Self::R01b,
        Self::R02,
        Self::R03,
        Self::R03b,
        Self::R04,
        Self::R04b,
        Self::R05,
        Self::R05b,
        Self::R06,
        Self::R07,
        Self::R07b,
        Self::R08,
        Self::R09,
        Self::R09b,
        Self::R10,
        Self::R12,
        Self::R13,
        Self::R13b,
        Self::R14,
        Self::R15,
        Self::R15b,
        Self::R16,
        Self::R17,
        Self::R17b,
        Self::R18,
        Self::R19,
        Self::R19b,
        Self::R19c,
        Self::R20,
        Self::R21,
        Self::R22,
        Self::R22b,
        Self::R23,
        Self::R23b,
        Self::R26,
        Self::R26b,
        Self::R27,
        Self::R28,
        Self::R28b,
        Self::R29,
        Self::R29b,
        Self::R30,
        Self::R30b,
        Self::R31,
        Self::R32,
        Self::R33,
        Self::R34,
        Self::R34b,
        Self::R35,
        Self::R36,
        Self::R37,
        Self::R37b,
        Self::R38,
        Self::R38b,
        Self::R39,
        Self::R41,
        Self::R42,
        Self::R43,
        Self::R43b,
        Self::R44b,
        Self::R45,
        Self::R46,
        Self::R46b,
        Self::R47,
        Self::R48,
        Self::R49,
        Self::R50,
        Self::R51,
        Self::R52,
        Self::R53,
        Self::R54,
        Self::R55,
        Self::R56,
        Self::R57,
        Self::R58,
        Self::R59,
        Self::R60,
        Self::R60b,
        Self::R61,
        Self::R62,
        Self::R63,
        Self::R63b,
        Self::R64,
        Self::R65,
        Self::R65b,
        Self::R66,
        Self::R67,
        Self::R67b,
        Self::R68,
        Self::R69,
        Self::R70,
        Self::R71,
        Self::R71b,
        Self::R72,
        Self::R72b,
        Self::R73,
        Self::R74,
        Self::R75,
        Self::R76,
        Self::R76b,
        Self::R77,
        Self::R78,
        Self::R79,
        Self::R80,
        Self::R81,
        Self::R82,
        Self::A08,
        Self::A09,
        Self::A20,
        Self::A21,
        Self::A22,
        Self::Q04,
        Self::Q06,
        Self::Q07,
        Self::Q08,
        Self::Q11,
        Self::Q16,
        Self::Q28,
        Self::Q29,
        Self::Q30,
        Self::A01,
        Self::A02,
        Self::A02b,
        Self::A07,
        Self::A10,
        Self::A12,
        Self::A13,
        Self::A14,
        Self::A15,
    ];

    /// The name of its switch: the entry of the regression corpus, and a letter for a variant.
    pub fn name(self) -> &'static str {
        match self {
            Self::R01 => "R01",
            Self::R01b => "R01/b",
            Self::R02 => "R02",
            Self::R03 => "R03",
            Self::R03b => "R03/b",
            Self::R04 => "R04",
            Self::R04b => "R04/b",
            Self::R05 => "R05",
            Self::R05b => "R05/b",
            Self::R06 => "R06",
            Self::R07 => "R07",
            Self::R07b => "R07/b",
            Self::R08 => "R08",
            Self::R09 => "R09",
            Self::R09b => "R09/b",
            Self::R10 => "R10",
            Self::R12 => "R12",
            Self::R13 => "R13",
            Self::R13b => "R13/b",
            Self::R14 => "R14",
            Self::R15 => "R15",
            Self::R15b => "R15/b",
            Self::R16 => "R16",
            Self::R17 => "R17",
            Self::R17b => "R17/b",
            Self::R18 => "R18",
            Self::R19 => "R19",
            Self::R19b => "R19/b",
            Self::R19c => "R19/c",
            Self::R20 => "R20",
            Self::R21 => "R21",
            Self::R22 => "R22",
            Self::R22b => "R22/b",
            Self::R23 => "R23",
            Self::R23b => "R23/b",
            Self::R26 => "R26",
            Self::R26b => "R26/b",
            Self::R27 => "R27",
            Self::R28 => "R28",
            Self::R28b => "R28/b",
            Self::R29 => "R29",
            Self::R29b => "R29/b",
            Self::R30 => "R30",
            Self::R30b => "R30/b",
            Self::R31 => "R31",
            Self::R32 => "R32",
            Self::R33 => "R33",
            Self::R34 => "R34",
            Self::R34b => "R34/b",
            Self::R35 => "R35",
            Self::R36 => "R36",
            Self::R37 => "R37",
            Self::R37b => "R37/b",
            Self::R38 => "R38",
            Self::R38b => "R38/b",
            Self::R39 => "R39",
            Self::R41 => "R41",
            Self::R42 => "R42",
            Self::R43 => "R43",
            Self::R43b => "R43/b",
            Self::R44b => "R44/b",
            Self::R45 => "R45",
            Self::R46 => "R46",
            Self::R46b => "R46/b",
            Self::R47 => "R47",
            Self::R48 => "R48",
            Self::R49 => "R49",
            Self::R50 => "R50",
            Self::R51 => "R51",
            Self::R52 => "R52",
            Self::R53 => "R53",
            Self::R54 => "R54",
            Self::R55 => "R55",
            Self::R56 => "R56",
            Self::R57 => "R57",
            Self::R58 => "R58",
            Self::R59 => "R59",
            Self::R60 => "R60",
            Self::R60b => "R60/b",
            Self::R61 => "R61",
            Self::R62 => "R62",
            Self::R63 => "R63",
            Self::R63b => "R63/b",
            Self::R64 => "R64",
            Self::R65 => "R65",
            Self::R65b => "R65/b",
            Self::R66 => "R66",
            Self::R67 => "R67",
            Self::R67b => "R67/b",
            Self::R68 => "R68",
            Self::R69 => "R69",
            Self::R70 => "R70",
            Self::R71 => "R71",
            Self::R71b => "R71/b",
            Self::R72 => "R72",
            Self::R72b => "R72/b",
            Self::R73 => "R73",
            Self::R74 => "R74",
            Self::R75 => "R75",
            Self::R76 => "R76",
            Self::R76b => "R76/b",
            Self::R77 => "R77",
            Self::R78 => "R78",
            Self::R79 => "R79",
            Self::R80 => "R80",
            Self::R81 => "R81",
            Self::R82 => "R82",
            Self::A08 => "A08",
            Self::A09 => "A09",
            Self::A20 => "A20",
            Self::A21 => "A21",
            Self::A22 => "A22",
            Self::Q04 => "Q04",
            Self::Q06 => "Q06",
            Self::Q07 => "Q07",
            Self::Q08 => "Q08",
            Self::Q11 => "Q11",
            Self::Q28 => "Q28",
            Self::Q29 => "Q29",
            Self::Q30 => "Q30",
            Self::Q16 => "Q16",
            Self::A01 => "A01",
            Self::A02 => "A02",
            Self::A02b => "A02/b",
            Self::A07 => "A07",
            Self::A10 => "A10",
            Self::A12 => "A12",
            Self::A13 => "A13",
            Self::A14 => "A14",
            Self::A15 => "A15",
        }
    }

    /// The mutant of that name; `create-without-asking` is another one of R04's.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "create-without-asking" => Some(Self::R04),
            name => Self::ALL.into_iter().find(|mutant| mutant.name() == name),
        }
    }

    /// Whether CreateMachine is called without asking first.
    pub(super) fn creates_without_asking(self) -> bool {
        matches!(self, Self::R04 | Self::R05b | Self::R09 | Self::R77)
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_is_found_by_its_name() {
        for mutant in Mutant::ALL {
            assert_eq!(Mutant::of(mutant.name()), Some(mutant));
        }
        assert_eq!(Mutant::of("create-without-asking"), Some(Mutant::R04));
        assert_eq!(Mutant::of("R99"), None);
    }
}
