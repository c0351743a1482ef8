//! Planted defects: each reintroduces a known bug of a controller, to prove that a scenario detects it.
//!
//! The product evaluates `defect!(Name)` at the rule that a defect breaks. Without the feature `mutants` that is the
//! constant `false`. With the feature, it is true if [`plant`] planted that defect in the current thread; a simulated
//! world runs on one thread. Longer code of a defect is in a module `defects` beside the rule.

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

/// Whether one of these defects is planted in this thread: never in this build.
#[cfg(not(feature = "mutants"))]
#[macro_export]
macro_rules! defect {
    ($($name:ident)|+) => {
        const { $crate::never(stringify!($($name)|+)) }
    };
}

/// The condition of defects that cannot be planted. It depends on their names, so that lints do not report two conditions
/// as the same, and is evaluated at compile time, so that no program contains the names.
#[cfg(not(feature = "mutants"))]
pub const fn never(_: &str) -> bool {
    false
}
