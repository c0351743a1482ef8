//! The question whether a defect is planted, which nobody can do without the feature `mutants`.
//!
//! What must not live here: the defects, which stand where the rules are that they break.

/// Whether one of these mutants is the `mutant` of what is given; never, in a build without the feature.
macro_rules! planted {
    ($of:expr, $($mutant:ident)|+) => {{
        #[cfg(feature = "mutants")]
        {
            matches!($of.mutant, $(Some(crate::machine::Mutant::$mutant))|+)
        }
        #[cfg(not(feature = "mutants"))]
        {
            false
        }
    }};
}
