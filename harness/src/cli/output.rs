//! Writes the output of commands to standard output.

use std::fmt;
use std::io::Write as _;
use std::io::{self, ErrorKind};

use super::{Ended, Outcome, Stop};

/// Writes a line of a result to standard output: with `-q`, too. Ignores a closed pipe (`| head`), because the command
/// still has to clean up its world.
macro_rules! say {
    () => { $crate::cli::output::line(format_args!("")) };
    ($($text:tt)*) => { $crate::cli::output::line(format_args!($($text)*)) };
}

/// Writes a line that is only information, such as progress and passed runs: not with `-q`.
macro_rules! inform {
    ($($text:tt)*) => {
        if !::terminal::is_quiet() {
            $crate::cli::output::line(format_args!($($text)*));
        }
    };
}

/// Writes a line to standard error. Ignores a closed pipe (`2>&1 | head`): the command goes on.
macro_rules! complain {
    ($($text:tt)*) => { $crate::cli::output::error_line(format_args!($($text)*)) };
}

pub(super) use {complain, inform, say};

/// Implements [`say!`].
pub(super) fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Implements [`complain!`].
pub(super) fn error_line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Asks for an answer on standard error.
pub(super) fn prompt(text: fmt::Arguments<'_>) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_fmt(text).and_then(|()| stderr.flush());
}

/// Prints a text. A reader such as `head` may close the pipe early.
pub(super) fn print(text: &str) -> Ended {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Stop::Usage(format!("cannot print: {error}"))),
        _ => Ok(Outcome::Passed),
    }
}
