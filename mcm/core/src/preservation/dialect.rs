//! The dialects of preservation, as a small table.

use std::fmt;

/// Whose words and habits apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// Phases with the sub-phase Preserved; what recovers stays preserved until its expiry.
    #[default]
    V2,
    /// The phases stay as they are; an automatic preservation is an annotation on the Machine; of what recovers only
    /// that stays preserved which `now` asked for.
    Upstream,
    /// Nothing is preserved, and what is preserved ends.
    Off,
}

impl Dialect {
    /// The word on the command line.
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

    /// Whether only a request of `now` keeps a machine that is not Failed.
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
    fn dialects_are_called_as_on_the_command_line() {
        let names = [Dialect::V2, Dialect::Upstream, Dialect::Off].map(|dialect| dialect.to_string());
        assert_eq!(names, ["v2", "upstream", "off"]);
    }
}
