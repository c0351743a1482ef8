//! The dialects of preservation.

use std::fmt;

/// Which annotation values and phases of preservation apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// Phases have the sub-phase Preserved; a machine that recovers stays preserved until its expiry.
    #[default]
    V2,
    /// Phases are unchanged; an annotation on the Machine marks an automatic preservation; a machine that recovers
    /// stays preserved only if the request is `now`.
    Upstream,
    /// No machine is preserved, and existing preservations end.
    Off,
}

impl Dialect {
    /// The value of the command-line flag.
    pub fn name(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::Upstream => "upstream",
            Self::Off => "off",
        }
    }

    /// Whether `Running:Preserved` and `Failed:Preserved` are phases.
    pub(crate) fn shows_sub_phase(self) -> bool {
        self == Self::V2
    }

    /// Whether an automatic preservation is written to the Machine as an annotation.
    pub(crate) fn marks_automatic(self) -> bool {
        self == Self::Upstream
    }

    /// Whether a machine that is not Failed stays preserved only by the request `now`.
    pub(crate) fn keeps_failed_only(self) -> bool {
        self == Self::Upstream
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_have_the_names_of_the_flag() {
        let names = [Dialect::V2, Dialect::Upstream, Dialect::Off].map(|dialect| dialect.to_string());
        assert_eq!(names, ["v2", "upstream", "off"]);
    }
}
