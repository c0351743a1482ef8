//! The lines that commands write to standard output.

use std::fmt;
use std::io::Write as _;
use std::io::{self, ErrorKind};

use super::{Ended, Outcome, Usage};

/// Writes a line to standard output. When nobody reads any more (`| head`), the command goes on without: it has a world
/// to tidy up.
macro_rules! say {
    () => { $crate::cli::output::line(format_args!("")) };
    ($($text:tt)*) => { $crate::cli::output::line(format_args!($($text)*)) };
}

pub(super) use say;

/// What [`say!`] does.
pub(super) fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Prints a text of which a reader such as `head` may take only the beginning.
pub(super) fn print(text: &str) -> Ended {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Usage(format!("cannot print: {error}"))),
        _ => Ok(Outcome::Passed),
    }
}
