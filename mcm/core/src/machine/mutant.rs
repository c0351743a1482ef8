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
    /// Orphans are collected on first sight, however young the process is.
    R02,
    /// Of the machines without a VM's record only those that were never tried keep the VMs of their name.
    R03,
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
    /// Creation and deletion of one machine do not exclude each other.
    R10,
    /// Collection of orphans goes on while the controller is frozen.
    R17,
    /// The health timeout is looked at in passes alone that have nothing to write.
    R36,
    /// A bootstrap token lives as long as the flag says, whatever the machine's own creation timeout.
    R37,
    /// A bootstrap token that is there is used again whenever it runs out.
    R37b,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::R01,
        Self::R02,
        Self::R03,
        Self::R04,
        Self::R04b,
        Self::R05,
        Self::R05b,
        Self::R06,
        Self::R10,
        Self::R17,
        Self::R36,
        Self::R37,
        Self::R37b,
    ];

    /// The name of its switch: the entry of the regression corpus, and a letter for a variant.
    pub fn name(self) -> &'static str {
        match self {
            Self::R01 => "R01",
            Self::R02 => "R02",
            Self::R03 => "R03",
            Self::R04 => "R04",
            Self::R04b => "R04/b",
            Self::R05 => "R05",
            Self::R05b => "R05/b",
            Self::R06 => "R06",
            Self::R10 => "R10",
            Self::R17 => "R17",
            Self::R36 => "R36",
            Self::R37 => "R37",
            Self::R37b => "R37/b",
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
        matches!(self, Self::R04 | Self::R05b)
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
