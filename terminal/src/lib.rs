//! Conventions of the command lines of this project: formats of lists, colors, and how much is printed.
//!
//! It knows no command: programs pass their rows and texts.

mod examples;
mod flags;
mod format;
mod table;

pub use examples::commands_without_examples;
pub use flags::{Color, OutputFlags, colors_on_stderr, failure, failure_on_stderr, is_quiet, is_verbose, parse};
pub use format::{Format, FormatError, OutputFormat, Row, render, structured};
pub use table::Column;
