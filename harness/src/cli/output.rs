//! Writes the output of commands to standard output.

use std::fmt;
use std::io::Write as _;
use std::io::{self, ErrorKind};

use super::{Ended, Outcome, Stop};

/// Writes a line to standard output. Ignores a closed pipe (`| head`), because the command still has to clean up its
/// world.
macro_rules! say {
    () => { $crate::cli::output::line(format_args!("")) };
    ($($text:tt)*) => { $crate::cli::output::line(format_args!($($text)*)) };
}

pub(super) use say;

/// Implements [`say!`].
pub(super) fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Prints a text. A reader such as `head` may close the pipe early.
pub(super) fn print(text: &str) -> Ended {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Stop::Usage(format!("cannot print: {error}"))),
        _ => Ok(Outcome::Passed),
    }
}
