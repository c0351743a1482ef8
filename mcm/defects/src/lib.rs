//! Defects that are planted on purpose: each brings back how a controller once failed, to show that a scenario finds it.
//!
//! The product asks `defect!(Name)` at the rule that a defect breaks. Without the feature `mutants` that is the constant
//! `false`. With it, it asks whether [`plant`] planted that defect in the current thread; a simulated world runs on one
//! thread. What takes more than a few lines stands in a module `defects` beside the rule.

mod catalog;
mod planted;

pub use catalog::Defect;
pub use planted::{Planted, is_planted, plant};

/// Whether defects can be planted in this build.
pub const CAN_BE_PLANTED: bool = cfg!(feature = "mutants");

/// Whether one of these defects is planted in this thread.
#[cfg(feature = "mutants")]
#[macro_export]
macro_rules! defect {
    ($($name:ident)|+) => {
        $crate::is_planted(&[$($crate::Defect::$name),+])
    };
}

/// Whether one of these defects is planted in this thread: never, in this build.
#[cfg(not(feature = "mutants"))]
#[macro_export]
macro_rules! defect {
    ($($name:ident)|+) => {
        false
    };
}
